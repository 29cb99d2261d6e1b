"""Progress of a user's script that does not report it through `fsdpctl.report`: a process beside the agent of node 0.

__main__              the process: looks at all sources twice a second
step_report           one step with its values, and the sources by rank
trainer_server        takes what the Trainer of transformers posts
trainer_posts         what these posts mean
log_tail log_matcher  the new lines of rank 0's log, and what `progress_regex` finds in them
event_files tfevents  TensorBoard's files of rank 0
metrics_writer        one source to metrics.jsonl, each step once
"""
