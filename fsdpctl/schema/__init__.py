"""Strict YAML to frozen models: types, places, problems."""
