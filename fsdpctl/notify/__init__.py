"""Sends notices of a run, from a short-lived process of its own: a server that is dead or slow delays nothing.

    __main__    the process: reads the notice, sends it to each target, records what became of it
    deliver     all targets at once, each tried a few times
    channels    a target to the function that sends to it: webhook, mail, command
    secrets     values of variables and files, and texts without them
    text        a notice for people and for programs
    explain     why the run ended, from the installed fsdpctl
    check       what a target needs on this host

It imports `contract/` and the standard library: under Slurm it runs inside the job, from the copy in the run.
"""
