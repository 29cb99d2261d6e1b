"""Slurm: what its site allows, how a job is sent, what its queue says."""
