"""One run: what is recorded of its ranks and nodes, the roles that follow, and the diagnosis."""
