"""The bundled trainer: a Llama-style language model under FSDP2, resumable to the bit.

    python -m train --config FILE              one device
    torchrun ... -m train --config FILE        any number of ranks

`loop` holds the run from start to end; everything else is one part of it. Of fsdpctl only the contract is imported.

    configuration, environment, failures       config launch context errors
    ranks, device, mesh, sharding              parallel/ shards
    which tokens a step sees                   data/
    the model                                  model/
    what the compiler has made                 compile_cache/
    a step, and what is due between two        loop optim nonfinite evaluate preempt
    the state and its files                    checkpoint/
    metrics, log, profiles                     metrics/
"""
