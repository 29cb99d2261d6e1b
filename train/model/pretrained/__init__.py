"""The weights that a run starts from, in any form that torch or transformers write."""
