"""Runs of one job with several values of its keys, as one.

points    the runs of a sweep from the values on the command line; pure
record    `$FSDPCTL_HOME/sweeps/NAME/`: the runs of a sweep, and the result of each that has ended
plan      a launch for each run; whatever does not fit is refused before the first one
decide    which runs to start or to resume next; pure
array     start all of them as one job, where a scheduler can
run       start runs as others end, until all have ended
result    the table
"""
