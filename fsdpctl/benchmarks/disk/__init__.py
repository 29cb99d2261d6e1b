"""Write and read files in the run root, from all nodes at once."""
