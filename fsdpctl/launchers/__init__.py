"""How an attempt gets onto its nodes: one module per backend."""
