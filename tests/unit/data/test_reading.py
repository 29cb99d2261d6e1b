"""Every format: the documents of a file are the same wherever it is cut, and every error names file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fsdpctl.data import text
from fsdpctl.data.formats import read_span, spans_of
from fsdpctl.data.inputs import find_inputs
from fsdpctl.data.recipe import Recipe
from fsdpctl.errors import UsageError

POEM = "roses are red\n\nviolets are blue\nsugar\n\n \n\nund so weiter \u00fc\n"
PARAGRAPHS = ["roses are red\n", "violets are blue\nsugar\n", "und so weiter \u00fc\n"]


def documents(path: Path, recipe: Recipe = Recipe(), target: int = 2**30) -> list[str]:  # noqa: B008 - frozen
    [file] = find_inputs([path])
    return [doc.text.decode() for span in spans_of(file, recipe, target) for doc in read_span(span, recipe)]


def fault(path: Path, recipe: Recipe = Recipe(), target: int = 2**30) -> str:  # noqa: B008 - frozen
    with pytest.raises(UsageError) as caught:
        documents(path, recipe, target)
    return caught.value.message


# --- text ------------------------------------------------------------------------------------------------------------


def test_a_text_file_is_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(POEM)
    assert documents(tmp_path / "a.txt") == [POEM]


@pytest.mark.parametrize("target", range(1, len(POEM) + 3))
def test_paragraphs_are_the_same_wherever_the_file_is_cut(tmp_path: Path, target: int) -> None:
    (tmp_path / "a.txt").write_text(POEM)
    assert documents(tmp_path / "a.txt", Recipe(split_on=""), target) == PARAGRAPHS


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["--", "a", "bb", "", "ccc --"]), max_size=12), st.integers(1, 40), st.booleans())
def test_any_text_is_the_same_wherever_it_is_cut(tmp_path: Path, lines: list[str], target: int, ends: bool) -> None:
    content = "\n".join(["x", *lines]) + "\n" * ends
    (tmp_path / "a.txt").write_text(content)
    recipe = Recipe(split_on="--")
    whole = documents(tmp_path / "a.txt", recipe)
    assert documents(tmp_path / "a.txt", recipe, target) == whole
    kept = [line for line in content.splitlines(keepends=True) if line.strip() != "--"]
    assert "".join(whole) == "".join(kept)


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n\ntwo\nthree \xff\n")
    assert fault(tmp_path / "a.txt") == f"{tmp_path}/a.txt:4: byte 0xff is not UTF-8 text"
    assert fault(tmp_path / "a.txt", Recipe(split_on=""), 3) == f"{tmp_path}/a.txt:4: byte 0xff is not UTF-8 text"


def test_a_too_large_document_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_DOCUMENT", 30)
    (tmp_path / "a.txt").write_text(POEM)
    assert "is one document of 0 MiB: a document longer than 32 MiB" in fault(tmp_path / "a.txt")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(POEM.encode()))
    assert "a.txt.gz:3: a document longer than 32 MiB" in fault(tmp_path / "a.txt.gz")
    assert len(documents(tmp_path / "a.txt", Recipe(split_on=""))) == 3


# --- JSON lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1, 2, 3, 7, 19, 20, 21, 1000])
def test_json_lines_are_the_same_wherever_the_file_is_cut(tmp_path: Path, target: int) -> None:
    lines = [json.dumps({"text": paragraph}, ensure_ascii=False) for paragraph in PARAGRAPHS]
    (tmp_path / "a.jsonl").write_text(f"{lines[0]}\n\n{lines[1]}\n" + '{"text": ""}\n' + lines[2])
    assert documents(tmp_path / "a.jsonl", target=target) == PARAGRAPHS


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"text": "x"', "not valid JSON: Expecting ',' delimiter at column 13"),
        (b'["x"]', "expected an object with the key 'text', got ['x']"),
        (b'{"body": "x"}', "no key 'text'; its keys are 'body'; choose one with --text-key"),
        (b'{"text": null}', "'text' is None, expected text"),
        (b'{"text": "\\ud800"}', "'text' contains '\\ud800', half of a surrogate pair, which UTF-8 cannot encode"),
        (b'{"text": "\xff"}', "byte 11 of the line, 0xff, is not UTF-8"),
        (b"[" * 200_000, "not valid JSON: maximum recursion depth exceeded"),
        (b'{"text": ' + b"1" * 5000 + b"}", "not valid JSON: Exceeds the limit (4300 digits)"),
    ],
)
@pytest.mark.parametrize("target", [10, 2**30])
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, problem: str, target: int) -> None:
    good = b'{"text": "fine"}\n'
    (tmp_path / "a.jsonl").write_bytes(good * 7 + line + b"\n" + good)
    assert fault(tmp_path / "a.jsonl", target=target).startswith(f"{tmp_path}/a.jsonl:8: {problem}")


# --- compressed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_compressed_files_give_the_same_documents_and_a_truncated_one_is_refused(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    lines = "".join(json.dumps({"text": f"{number} {number**9}"}) + "\n" for number in range(3000)).encode()
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(compress(lines[:50_000]) + compress(lines[50_000:]))  # as `cat a.gz b.gz` leaves it
    (tmp_path / "a.jsonl").write_bytes(lines)
    assert documents(path, target=1000) == documents(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes()[:-9])
    assert fault(path) == f"input {path}: Compressed file ended before the end-of-stream marker was reached"
    path.write_bytes(b"this was never compressed")
    assert fault(path).startswith(f"input {path}: ")


def test_a_broken_line_in_a_compressed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "fine"}\n' * 5 + b"{\n"))
    assert fault(tmp_path / "a.jsonl.gz").startswith(f"{tmp_path}/a.jsonl.gz:6: not valid JSON")


# --- Parquet ---------------------------------------------------------------------------------------------------------


def write_parquet(path: Path, values: list[object], key: str = "text") -> None:
    parquet.write_table(pa.table({key: values, "other": list(range(len(values)))}), path, row_group_size=10)


@pytest.mark.parametrize(("target", "num_spans"), [(1, 10), (1500, 4), (2**30, 1)])
def test_parquet_is_the_same_wherever_it_is_cut(tmp_path: Path, target: int, num_spans: int) -> None:
    texts = [f"text {number} \u00fc" for number in range(95)]
    write_parquet(tmp_path / "a.parquet", [*texts, ""])
    assert documents(tmp_path / "a.parquet", target=target) == texts
    [file] = find_inputs([tmp_path / "a.parquet"])
    spans = spans_of(file, Recipe(), target)
    assert len(spans) == num_spans
    assert abs(sum(span.num_bytes for span in spans) - file.size) <= len(spans)


def test_a_saved_dataset_of_hugging_face_is_its_arrow_files(tmp_path: Path) -> None:
    """As `DatasetDict.save_to_disk` writes it: streams, and files that describe them."""
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    (tmp_path / "train").mkdir()
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / "train" / name).write_text("{}")
    texts = [f"document {number}" for number in range(700)]
    table = pa.table({"text": [*texts, ""], "other": list(range(701))})
    path = tmp_path / "train" / "data-00000-of-00001.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=100)
    [file] = find_inputs([tmp_path])
    assert documents(Path(file.path)) == texts
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(UsageError, match=r"input .*\.arrow: "):
        documents(path)
    path.write_text("no stream")
    with pytest.raises(UsageError, match=r"input .*\.arrow: "):
        documents(path)


def test_errors_in_parquet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, ["x"] * 34 + [None, "y"])
    assert fault(path, target=1) == f"{path}: row 35: 'text' is null, expected text"
    write_parquet(path, ["x"], key="body")
    assert fault(path) == f"{path}: no column 'text'; its columns are body, other; choose one with --text-key"
    assert fault(path, Recipe(text_key="other")) == f"{path}: column 'other' has the type int64, expected string"
    path.write_bytes(b"PAR1 no more")
    assert fault(path).startswith(f"input {path}: ")
