"""How an attempt gets onto its nodes: a folder per backend."""
