"""Checkpoints of a run, written beside training and verified before they are loaded.

The modules, in the order in which a save passes them:

    manager               when to save, the manifest, and the state that training starts from
    train_state           weights, optimizer state and loss scale as named tensors
    async_saver           one save at a time, in a thread, and its result at a later step
    staging               a copy of this rank's share, in host memory
    verified_checkpoints  checkpoints/: temporary name, digests, manifest, rename; then verify, load, prune
    removals              what is removed, in a thread beside training and saving
    dcp_io                tensors to files and back, through torch's distributed checkpoint
    threads               several files at once

`peer_copy` is used at the start only: it sends the newest checkpoint to nodes that do not have it.
"""
