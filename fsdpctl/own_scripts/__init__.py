"""What can be found out about a user's own script by reading it. Nothing of it is executed or imported."""
