"""The ledger of a run: what each second of it was used for.

`read.py` takes the times from what its processes have recorded, `account.py` makes intervals of them.
"""
