"""Arrow streams, as `datasets.Dataset.save_to_disk` writes them. A stream is read from its beginning."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.data.columns import encode_rows, find_columns, pyarrow_for
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Document, Span, whole


def spans(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    return whole(file)


def read(span: Span, recipe: Recipe) -> Iterator[Document]:
    first = 1
    with pyarrow_for(span.path) as pyarrow, pyarrow.OSFile(span.path) as file, pyarrow.ipc.open_stream(file) as stream:
        columns = find_columns(span.path, stream.schema, recipe)
        for batch in stream:
            for _number, document in encode_rows(span.path, first, batch.select(columns).to_pylist(), recipe):
                if document:
                    yield Document(document, file.tell())
            first += batch.num_rows
