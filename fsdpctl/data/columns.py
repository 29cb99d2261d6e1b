"""What tables of documents have in common: the columns that are read, and rows to documents. Read with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fsdpctl.data.conversation import conversation_keys, encode_conversation
from fsdpctl.data.recipe import Recipe
from fsdpctl.data.spans import MAX_DOCUMENT
from fsdpctl.errors import UsageError, install_hint

_TEXT_TYPES = ("string", "large_string", "string_view")


def find_columns(path: str, schema: Any, recipe: Recipe) -> list[str]:
    """Return the columns to read. Raise UsageError if they are not there, or contain something else."""
    if recipe.chat is not None:
        try:
            return [*conversation_keys(schema.names)]
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from None
    key = recipe.text_key
    if key not in schema.names:
        raise UsageError(
            f"{path}: no column {key!r}; its columns are {', '.join(schema.names)}; choose one with --text-key"
        )
    if str(schema.field(key).type) not in _TEXT_TYPES:
        raise UsageError(f"{path}: column {key!r} has the type {schema.field(key).type}, expected string")
    return [key]


def encode_rows(path: str, first: int, rows: Sequence[dict[str, Any]], recipe: Recipe) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each row, counted from `first`, and its document. Raise UsageError with the row."""
    for number, row in enumerate(rows, first):
        try:
            yield number, _encode(row, recipe)
        except ValueError as error:
            raise UsageError(f"{path}: row {number}: {error}") from None


def _encode(row: dict[str, Any], recipe: Recipe) -> bytes:
    if recipe.chat is not None:
        document = encode_conversation(row)
    elif (text := row[recipe.text_key]) is None:
        raise ValueError(f"{recipe.text_key!r} is null, expected text")
    else:
        document = text.encode()
    if len(document) > MAX_DOCUMENT:
        raise ValueError(f"longer than {MAX_DOCUMENT >> 20} MiB")
    return document


@contextmanager
def pyarrow_for(path: str) -> Iterator[Any]:
    """Give pyarrow, and turn what it raises about this file into a UsageError."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet and Arrow input need the extra parquet", hint=install_hint("parquet")) from None
    try:
        yield pyarrow
    except (OSError, pyarrow.ArrowException) as error:
        raise UsageError(f"input {path}: {str(error).splitlines()[0]}") from None
