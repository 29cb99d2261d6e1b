"""Parquet: a column of text, or of conversations. Read by row groups and batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fsdpctl.data.columns import encode_rows, find_columns, pyarrow_for
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Document, Span

BATCH_ROWS = 256


def spans(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    """Cut a file into spans of whole row groups of about `target` bytes."""
    with _open(file.path) as parquet:
        sizes = [parquet.metadata.row_group(i).total_byte_size for i in range(parquet.num_row_groups)]
    share = file.size / max(sum(sizes), 1)
    found: list[Span] = []
    start, num_bytes = 0, 0.0
    for stop, size in enumerate(sizes, start=1):
        num_bytes += size * share
        if num_bytes >= target or stop == len(sizes):
            found.append(Span(file.path, start, stop, round(num_bytes)))
            start, num_bytes = stop, 0.0
    return found


def read(span: Span, recipe: Recipe) -> Iterator[Document]:
    with _open(span.path) as parquet:
        columns = find_columns(span.path, parquet.schema_arrow, recipe)
        groups = range(span.start, span.stop if span.stop is not None else parquet.num_row_groups)
        before = sum(parquet.metadata.row_group(i).num_rows for i in range(span.start))
        total = sum(parquet.metadata.row_group(i).num_rows for i in groups)
        first = before + 1
        for batch in parquet.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=columns, use_threads=False):
            for number, document in encode_rows(span.path, first, batch.to_pylist(), recipe):
                if document:
                    yield Document(document, span.num_bytes * (number - before) // total)
            first += batch.num_rows


@contextmanager
def _open(path: str) -> Iterator[Any]:
    with pyarrow_for(path) as pyarrow, pyarrow.parquet.ParquetFile(path, buffer_size=2**20) as file:
        yield file
