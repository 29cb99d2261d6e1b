"""What a run did, as one page: facts, notes on them, and writers for HTML, Markdown and text.

facts        the facts of a run as values; `read.py` and `steps.py` read them
notes        facts -> advice; pure
sections     facts -> the parts of the page, one row each; pure
html markdown plain    sections -> a page; pure
short        facts -> the few lines that `submit -f` and `status` have; pure
"""
