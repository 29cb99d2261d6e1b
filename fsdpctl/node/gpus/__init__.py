"""The GPUs of this node: read from the driver's library by a process of its own, which the agent starts."""
