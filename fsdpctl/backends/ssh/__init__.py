"""The SSH backend: hosts without a scheduler, the connections to them, and the agents started over these."""
