"""The compiler's cache of a run: saved with it, and the same one on every node of an attempt, or an empty one."""
