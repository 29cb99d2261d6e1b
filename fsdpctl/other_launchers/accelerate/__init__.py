"""The configuration of Accelerate, from its file and from the options of `accelerate launch`."""
