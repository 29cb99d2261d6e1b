"""One folder for each backend: how it starts, observes and ends the agents of a run."""
