"""Questions that the submitting side asks of a node, one process each, the answer as one line of JSON."""
