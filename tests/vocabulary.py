"""Words that docs, docstrings, comments, messages and test names do not use, with the words to use instead.

Only real retired usage is listed: "stand-in", "stands for", "aside from", "line ending" and the like are good words.
Searched are Markdown files without their inline code, and of Python files the strings, comments and names of tests.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

RETIRED = {
    r"lies?|lying": "is stored, is located",
    r"tells?|told": "reports, logs, asks",
    r"(?<![\w\"'-])aside(?!\s+from\b)": "temporary, moved away",
    r"stands?(?!-|\s+for\b|\s+in\s+for\b)": "is up, exists, is",
    r"in\s+((its|their|his|NCCL's|Slurm's)\s+)?(own\s+)?words": "as text",
    r"(nobody|somebody)('s)?": "no process, another command, the user",
    r"shall": "must, will",
    r"of\s+ours": "of fsdpctl",
    r"(took|takes?|taking)\s+offence": "refuses",
    r"after\s+the\s+deed": "afterwards",
    r"whoever": "the process that",
    r"pulses?": "rank progress, heartbeat",
    r"meets?|meetings?": "join, connect, rendezvous",
    r"councils?": "control group",
    r"scribes?": "writer",
    r"parcels?": "payload",
    r"shel(f|ves)": "store",
    r"(leaves?|left|leaving)\s+((a|the|its)\s+)?notes?|the\s+notes?": "control file",
    r"wish(es|ed)?": "request",
    r"sights?": "last heartbeat",
    r"silence(?!\s+(the|a|all|this|warnings?|loggers?)\b)": "no answer, no heartbeat",
    r"(an|the|its|their|each|every)\s+endings?(?!\s+(the|a|all|its|of)\b)": "exit status, end",
    r"pace": "speed, stragglers",
    r"elsewise": "otherwise",
    r"(its|his|their|no|'s)\s+last\s+words?|without\s+a\s+word": "exit record",
    r"says|(is|was|are|were|unless)\s+said": "reports, prints, contains",
    r"mend(s|ed|ing)?": "fix, repair",
    r"lack(s|ed)": "does not have",
    r"(go|goes|going|went|gone)\s+on(?!\s+(the|a|an|each|every|its)\b)": "continues",
    r"(the|these|of|in)\s+papers": "docs",
}
_PATTERNS = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), better) for pattern, better in RETIRED.items()]
_KEPT = (tokenize.COMMENT, tokenize.STRING, tokenize.NL, tokenize.NEWLINE, getattr(tokenize, "FSTRING_MIDDLE", -1))
_BLANK = "\0"
"""Instead of code: no phrase continues across it."""


def find_retired(root: Path, name: str, skipped: Collection[str] = ()) -> list[str]:
    """Return `file:line: found -> better` for each retired word in a file, or in all files below a folder.

    `skipped` are files and folders.
    """
    top = root / name
    files = sorted(top.rglob("*")) if top.is_dir() else [top]
    return [
        f"{file.relative_to(root).as_posix()}:{finding}"
        for file in files
        if not any(file.is_relative_to(root / path) for path in skipped)
        for finding in _findings(_prose(file))
    ]


def _findings(text: str) -> Iterator[str]:
    found = [
        (match.start(), match.group(), better) for pattern, better in _PATTERNS for match in pattern.finditer(text)
    ]
    for start, words, better in sorted(found):
        yield f"{text.count(chr(10), 0, start) + 1}: {' '.join(words.split())} -> {better}"


def _prose(path: Path) -> str:
    """Return the text of a file with everything that is not prose blanked; other kinds of files have none."""
    if path.suffix == ".md":
        return re.sub(r"(?<!`)`[^`]+`(?!`)", _blank_match, path.read_text(encoding="utf-8"))
    if path.suffix == ".py":
        return _python_prose(path.read_text(encoding="utf-8"))
    return path.read_text(encoding="utf-8") if path.suffix in (".yaml", ".sh") else ""


def _python_prose(source: str) -> str:
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    text = list(source)
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.ENDMARKER:
            break
        first, last = starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        text[first:last] = _token_prose(token, before).ljust(last - first, _BLANK)
        before = token.string
    return "".join(text)


def _token_prose(token: tokenize.TokenInfo, before: str) -> str:
    """Return a token's prose, as long as the token or shorter. Names of tests are prose, too."""
    if token.type == tokenize.COMMENT:
        return token.string.replace("#", " ")
    if token.type == tokenize.STRING and "f" in token.string.partition("'")[0].partition('"')[0].lower():
        return re.sub(r"\{[^{}]*\}", _blank_match, token.string)
    if token.type in _KEPT:
        return token.string
    if before == "def" and token.string.startswith("test_"):
        return token.string.replace("_", " ")
    return "" if token.string.strip() else token.string


def _blank_match(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", _BLANK, match.group())
