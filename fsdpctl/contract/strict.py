"""What the parts of a trainer's configuration have in common."""

STRICT = {"extra": "forbid", "strict": True}
"""Read by pydantic when a job is loaded, by nobody else."""
