"""Start an own script until its first step before it is submitted, and leave nothing of that.

rehearse  on this machine, or on one node of the cluster
modules   imports that the ranks would not have, found before any of them starts
signs     what ends one: the first sign of progress
failure   what a failed rehearsal shows
guard     a process that ends a rehearsal whose command was killed
end       end the run, and remove it from all machines
"""
