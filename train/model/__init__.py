"""Model architectures.

An architecture is a folder here and one below `fsdpctl/contract/trainer/`, each with one row: in `table` here, in
`model_config` there. Generic code knows the base class only:

    language_model    the base class: what generic code may ask of a model
    recompute         the base class of a block: activation checkpointing
    table             which class is built for which configuration
    pretrained        starting from weights of transformers
    llama/            the architecture of the bundled jobs
"""
