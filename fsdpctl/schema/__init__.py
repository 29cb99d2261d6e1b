"""Strict YAML to frozen models: types, source locations, problems."""
