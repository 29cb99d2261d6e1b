"""Formats on disk: checkpoint manifests, prepared data, safetensors, Hugging Face configurations."""
