"""Text files: one document per file, or documents between lines that equal `split_on`."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.data.compression import is_compressed
from fsdpctl.data.lines import LineReader
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import MAX_DOCUMENT, Document, Span, byte_spans, whole
from fsdpctl.errors import UsageError

TOO_LONG = f"a document longer than {MAX_DOCUMENT >> 20} MiB"
HINT = "--split-on LINE divides text files into documents, '' at blank lines"


def spans(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    if is_compressed(file.path):
        return whole(file)
    if recipe.split_on is not None:
        return byte_spans(file, target)
    if file.size > MAX_DOCUMENT:
        raise UsageError(f"{file.path} is one document of {file.size >> 20} MiB: {TOO_LONG}", hint=HINT)
    return whole(file)


def read(span: Span, recipe: Recipe) -> Iterator[Document]:
    """Yield the documents whose dividing line begins in the span; the first document of a file has none."""
    divider = None if recipe.split_on is None else recipe.split_on.strip().encode()
    lines = LineReader(span.path, span.start)
    inside = span.start == 0
    parts: list[bytes] = []
    num_bytes = 0
    for begin, line in lines:
        if divider is None or line.strip() != divider:
            if inside:
                parts.append(line)
                num_bytes += len(line)
                if num_bytes > MAX_DOCUMENT:
                    lines.fail(f"{TOO_LONG} ends here or later; {HINT}")
            continue
        if parts:
            text = _join(parts, lines, lines.number - 1)
            parts, num_bytes = [], 0  # before the yield: the lines take more memory than the text
            yield Document(text, lines.position)
        if span.stop is not None and begin >= span.stop:
            return
        inside = True
    if parts:
        text = _join(parts, lines, lines.number)
        del parts
        yield Document(text, span.num_bytes)


def _join(parts: list[bytes], lines: LineReader, last_line: int) -> bytes:
    text = b"".join(parts)
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = last_line - len(parts) + 1 + text.count(b"\n", 0, error.start)
        lines.fail(f"byte 0x{text[error.start]:02x} is not UTF-8 text", line)
    return text
