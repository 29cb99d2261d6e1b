"""Slurm's own commands and texts, as the node side meets them, too."""
