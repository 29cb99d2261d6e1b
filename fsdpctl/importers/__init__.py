"""Read the configurations and scripts of other launchers and trainers as a job: text in, a value out.

Nothing is executed and no other file is opened. A kind is one file here, one with its keys in `keys/`, and one row in
`table.py`.
"""
