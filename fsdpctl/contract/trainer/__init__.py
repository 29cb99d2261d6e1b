"""The configuration of the bundled trainer, and what follows from it."""
