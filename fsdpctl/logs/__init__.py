"""Many log files as one stream: follow, stamp, merge and collapse them, and find the rank that failed first.

Everything here returns the text as written; `cli.output.safe` escapes terminal sequences when it is printed.
"""
