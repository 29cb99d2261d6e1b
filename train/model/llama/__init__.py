"""The Llama architecture: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases."""
