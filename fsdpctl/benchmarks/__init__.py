"""Programs that come with fsdpctl and run in the ranks of a normal run: how fast a network and a disk are."""
