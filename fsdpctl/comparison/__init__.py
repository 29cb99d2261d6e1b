"""What differs between two runs: configuration, code, versions, hosts, speed and loss."""
