"""Hosts without a shared disk: send them files, mirror theirs here, and find checkpoints on them."""
