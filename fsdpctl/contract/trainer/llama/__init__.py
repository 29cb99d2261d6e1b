"""The Llama architecture, as far as it must be known without torch."""
