"""Hosts that share no disk: what is sent to them, what is mirrored here, and who has which checkpoint."""
