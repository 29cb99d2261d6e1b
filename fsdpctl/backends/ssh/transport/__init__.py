"""Connections to hosts: ssh configuration, host keys, commands and their answers."""
