"""`python -m fsdpctl`."""

from fsdpctl.cli.app import main

main()
