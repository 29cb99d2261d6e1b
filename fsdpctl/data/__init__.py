"""Text to prepared data: `fsdpctl data`. Needs numpy, which the extra `data` brings; nothing of the trainer, no torch.

`inputs` finds files and cuts them into pieces, `formats` reads their documents, `tokenizers` turns these into ids,
`piece` makes the shards of one piece, `workers` does so in many processes, `prepare` is the whole.
`stored` lists and checks what is there.
"""
