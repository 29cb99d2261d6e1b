"""The Slurm backend: partition limits, sbatch, squeue and sacct; `job/` runs inside the allocation."""
