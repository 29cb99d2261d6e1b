"""bench scaling: short runs of one job on several numbers of GPUs, compared."""
