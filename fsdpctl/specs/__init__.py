"""What a user writes: cluster profiles and job specs."""
