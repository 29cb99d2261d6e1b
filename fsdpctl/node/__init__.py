"""What runs on each node. Standard library only: any Python 3.11 on a node can run it from the snapshot."""
