"""The node agent: one per node and attempt, from the node check to the last sweep."""
