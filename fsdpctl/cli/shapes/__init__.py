"""What each command prints with `--json`: one shape per command, from which docs/json.md is written.

A key is never removed or given another meaning within a version of fsdpctl; new ones may come. A value that is not
known or does not apply is null. Those that need more than the contract are where their command reads them. A module is
imported only by the command that prints it: so many dataclasses take a tenth of a command's time.
"""
