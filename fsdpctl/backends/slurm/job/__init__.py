"""The part of the Slurm backend that runs inside an allocation: the supervisor, srun, scontrol."""
