"""Ranks, devices, meshes, and how a model is sharded over them."""
