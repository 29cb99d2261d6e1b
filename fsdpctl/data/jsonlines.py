"""JSON lines: one object per line, with the text under a key, or a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fsdpctl.data.compression import is_compressed
from fsdpctl.data.conversation import LAYOUTS, encode_conversation
from fsdpctl.data.lines import LineReader
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Document, Span, byte_spans, whole


def spans(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    return whole(file) if is_compressed(file.path) else byte_spans(file, target)


def read(span: Span, recipe: Recipe) -> Iterator[Document]:
    lines = LineReader(span.path, span.start)
    for begin, line in lines:
        if span.stop is not None and begin >= span.stop:
            return
        if line.strip() and (text := _document(line, recipe, lines)):
            yield Document(text, lines.position)


def _document(line: bytes, recipe: Recipe, lines: LineReader) -> bytes:
    record = _parse(line, lines)
    if not isinstance(record, dict):
        wanted = LAYOUTS if recipe.chat is not None else f"the key {recipe.text_key!r}"
        lines.fail(f"expected an object with {wanted}, got {record!r:.40}")
    if recipe.chat is None:
        return _text(record, recipe.text_key, lines)
    try:
        return encode_conversation(record)
    except ValueError as error:
        lines.fail(str(error))


def _parse(line: bytes, lines: LineReader) -> Any:
    try:
        return json.loads(line.decode().rstrip())
    except UnicodeDecodeError as error:
        lines.fail(f"byte {error.start + 1} of the line, 0x{line[error.start]:02x}, is not UTF-8")
    except json.JSONDecodeError as error:
        lines.fail(f"not valid JSON: {error.msg} at column {error.pos + 1}")
    except (ValueError, RecursionError) as error:
        lines.fail(f"not valid JSON: {error}")


def _text(record: dict[str, Any], key: str, lines: LineReader) -> bytes:
    if key not in record:
        lines.fail(f"no key {key!r}; its keys are {', '.join(map(repr, record))[:200]}; choose one with --text-key")
    text = record[key]
    if not isinstance(text, str):
        lines.fail(f"{key!r} is {text!r:.40}, expected text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        lines.fail(f"{key!r} contains {text[error.start]!a}, half of a surrogate pair, which UTF-8 cannot encode")
