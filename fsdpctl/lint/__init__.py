"""Advice about a job on a profile: valid settings that cost time, memory or a result. Pure; a rule is a row."""
