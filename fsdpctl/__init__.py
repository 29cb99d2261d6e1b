"""fsdpctl: launch, watch, stop and resume multi-node PyTorch FSDP runs."""

__version__ = "0.1.0"
