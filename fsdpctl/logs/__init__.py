"""Many log files as one stream: follow, stamp, merge, fold, and say which rank failed first.

Everything here gives plain text; terminal escapes in it are made harmless where it is printed, by `cli.output.safe`.
"""
