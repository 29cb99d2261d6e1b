"""What runs on each node. Standard library only: any Python 3.11 can run it from the snapshot."""
