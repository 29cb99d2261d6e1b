"""A run amid faults: what each of them costs, seen from outside and in the run's ledger.

`place.py` has the hosts, `faults.py` what is done to them, `observer.py` watches metrics.jsonl and nothing else, and
`compare.py` puts its numbers beside the ledger's.
"""
