"""The options of each launcher as keys of a job: a file for each launcher, and `read.py`, which chooses among them."""
