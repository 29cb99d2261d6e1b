"""Hook of mkdocs: Chinese text that the site's search finds from any word on.

The search splits text at spaces and finds the beginnings of words. Chinese has no spaces, so each section gets fields
that are not displayed: for each of its characters a word of that character and the following ones. Each word ends in a
mark, without which the search would take a query apart into shorter words and drop its last one.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority

FIELDS = {"title": "chinese_title", "text": "chinese_text"}
"""Field of a section -> field of its Chinese words, as mkdocs.yml lists them."""
MAX_LENGTH = 8
"""Characters of a query that can be found without a space between them."""
_RUN = re.compile(r"[\u3400-\u9fff]+")


@event_priority(50)  # before the search writes its index
def on_post_build(config: MkDocsConfig) -> None:
    for section in config.plugins["material/search"].search_index.entries:
        section |= words_of(section)


def words_of(section: dict[str, Any]) -> dict[str, str]:
    """Return the additional fields of a section, none where it has no Chinese text."""
    fields = {}
    for field, words_field in FIELDS.items():
        runs = _RUN.findall(section[field])
        if words := dict.fromkeys(f"{run[at : at + MAX_LENGTH]}_" for run in runs for at in range(len(run))):
            fields[words_field] = " ".join(words)
    return fields
