"""What can be done to a run: one module per verb, no printing."""
