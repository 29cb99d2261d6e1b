"""Prepared data, and which sequences a step takes."""
