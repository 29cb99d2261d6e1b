"""Command lines and environments of what runs on a node. Pure, standard library only: copied to each node."""
