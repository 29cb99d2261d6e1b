"""Sends a run's metrics to W&B, MLflow or TensorBoard, from a process of its own beside the ranks of node 0.

`metrics.jsonl` has every step, from the bundled trainer or `fsdpctl.report`. The process follows that
file, so a service that is slow or unreachable costs a rank nothing, and what it missed is sent later, in this attempt
or the next. A tracker is one file here and one row in `table`:

    tracker                     what a tracker is, and what it gets to know of the run
    table                       which trackers there are
    wandb mlflow tensorboard    the trackers
    feed                        the rows of the run's files that were not sent yet
    send                        rows to a tracker, until the attempt has ended
"""
