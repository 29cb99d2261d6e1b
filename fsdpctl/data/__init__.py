"""Text to prepared data: `fsdpctl data`. Needs numpy, from the extra `data`; nothing of the trainer, no torch.

`inputs` finds files and cuts them into pieces, `formats` reads their documents, `tokenizer` turns these into ids,
`piece` writes the shards of one piece, `workers` does so in many processes, `prepare` runs all of it.
`prepared` lists and verifies data sets.
"""
