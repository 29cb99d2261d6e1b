"""Hook of mkdocs: what the search of the site finds, and in which order.

The search splits text and queries at the separator, finds what begins with any word of the query, and has titles first.
Four things follow. Small words are separators, too: `a` would find all words that begin with it. Headings without text
are left out. Pages that answer questions come before lists of keys and names. And Chinese, which has no spaces, gets
fields that are not displayed: for each character a word of that character and the following ones. Each of them ends in
a mark, without which the search would take a query apart into shorter words and drop its last one.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority

SMALL_WORDS = (
    "a an and any are as at be been but by can did do does for from had has have how i if in into is it its me my no"
    " not of on or our so than that the their them then there these they this to use used was we were what when where"
    " which who why will with would you your"
)
CHINESE_FIELDS = {"title": "chinese_title", "text": "chinese_text"}
"""Field of a section -> field of its Chinese words."""
MAX_LENGTH = 8
"""Characters of a Chinese query that can be found without a space between them."""
WEIGHTS = {
    "questions.html": 2.0,
    **dict.fromkeys(["failures.html", "jobs.html", "commands.html", "run-directory.html", "restarts.html"], 0.5),
    **dict.fromkeys(["lint.html", "python-api.html", "glossary.html", "comparison.html", "migrate"], 0.5),
    **dict.fromkeys(["index.html", "architecture.html", "measured.html", "performance.html", "json.html"], 0.2),
    **dict.fromkeys(["licences.html", "files/"], 0.2),
}
"""Start of a page's address -> its weight; 1 for all others."""
_PUNCTUATION = r"""[\s\-,:;!?=\[\]()"`/|\u3000-\u303f\uff01-\uff20]+|\.(?!\d)|&(?:lt|gt|amp);"""
_RUN = re.compile(r"[\u3400-\u9fff]+")


@event_priority(50)  # before the search reads its configuration
def on_config(config: MkDocsConfig) -> None:
    search = config.plugins["material/search"].config
    search.separator = separator()
    search.fields |= {name: {"boost": 10.0 if "title" in name else 1.0} for name in ("title", *CHINESE_FIELDS.values())}


@event_priority(50)  # before the search writes its index
def on_post_build(config: MkDocsConfig) -> None:
    index = config.plugins["material/search"].search_index
    index.entries = [section for section in index.entries if section["text"] or "#" not in section["location"]]
    for section in index.entries:
        section |= chinese_words(section)
        section["boost"] = weight(section["location"])


def separator() -> str:
    """Return a regular expression for what is between words, in JavaScript."""
    small = "|".join(f"[{word[0]}{word[0].upper()}]{word[1:]}" for word in SMALL_WORDS.split())
    return f"{_PUNCTUATION}|(?<![\\w.'-])(?:{small})(?![\\w.'-])"


def weight(location: str) -> float:
    return next((weight for start, weight in WEIGHTS.items() if location.startswith(start)), 1.0)


def chinese_words(section: dict[str, Any]) -> dict[str, str]:
    """Return the additional fields of a section, none where it has no Chinese text."""
    fields = {}
    for field, words_field in CHINESE_FIELDS.items():
        runs = _RUN.findall(section[field])
        if words := dict.fromkeys(f"{run[at : at + MAX_LENGTH]}_" for run in runs for at in range(len(run))):
            fields[words_field] = " ".join(words)
    return fields
