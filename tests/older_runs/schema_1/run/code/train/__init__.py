"""The bundled trainer: a Llama-style language model under FSDP2, resumable to the bit.

    python -m train --config FILE              one device
    torchrun ... -m train --config FILE        any number of ranks

`loop` holds the run from start to end; everything else is one part of it. Of fsdpctl only the contract is imported.

    what is wanted, and of which rank          config launch layout place errors
    which tokens a step sees                   source corpus tokens permute data
    the model, and how it lies over ranks      model recompute pretrained distributed parallelize
    a step, and what is due between two        loop optim guard evaluate preempt
    the state on its way to the disk           state saves saver staging storage checkpoint copies threads
    what is told of all this                   recorder metrics telemetry progress pace mark footprint profiling
"""
