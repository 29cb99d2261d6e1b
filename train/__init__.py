"""The bundled trainer: a Llama-style language model under FSDP2, resumable to the bit.

    python -m train --config FILE              one device
    torchrun ... -m train --config FILE        any number of ranks

`loop` holds the run from start to end; everything else is one part of it. Of fsdpctl only the contract is imported.
"""
