"""Stop and resume scripts of transformers, Lightning and Accelerate. Ranks import these modules, each where its
framework is installed; `node/agent/after_import.py` does it for scripts that have no line for it."""
