"""The files that users write: cluster profiles and job specs."""
