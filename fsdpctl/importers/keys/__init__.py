"""The keys of each kind of configuration: a row for each, and those by which the kind is recognised."""
