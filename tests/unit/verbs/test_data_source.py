"""`trainer.data.source` at submit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.dataset import BYTES, FORMAT, Index, Shard
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job
from fsdpctl.verbs.data_source import resolve_data


def job(source: Path | str) -> JobSpec:
    return load_job("llm-tiny", [f"trainer.data.source={source}"])


def put_index(directory: Path, *, vocab_size: int = 256, train: int = 1000, val: int = 1000) -> None:
    directory.mkdir()
    shards = [(Shard(f"{split}-00000", tokens, 1, "", "", 1),) for split, tokens in (("train", train), ("val", val))]
    for file in (file for (shard,) in shards for file in shard.files("uint16")):
        (directory / file.name).write_bytes(bytes(file.num_bytes))
    write_json(
        directory / "index.json", Index(FORMAT, "a test", BYTES, 0, "", "uint16", vocab_size, shards[0], shards[1], 0.0)
    )


def source_of(spec: JobSpec) -> str:
    assert spec.trainer is not None
    return spec.trainer.data.source


def test_builtin_needs_no_directory(tmp_path: Path) -> None:
    spec = load_job("llm-tiny")
    assert resolve_data(spec, tmp_path, is_here=True) is spec


def test_a_relative_path_means_the_submitting_directory(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_index(tmp_path / "data")
    assert source_of(resolve_data(job("data"), tmp_path, is_here=True)) == str(tmp_path / "data")
    assert source_of(resolve_data(job(tmp_path / "data"), Path("/"), is_here=True)) == str(tmp_path / "data")
    put_index(home / "data")
    assert source_of(resolve_data(job("~/data"), tmp_path, is_here=True)) == str(home / "data")


def test_a_directory_without_data_is_refused_if_it_is_visible(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^trainer\.data\.source: /.*missing holds no prepared data: it has no index"):
        resolve_data(job("missing"), tmp_path, is_here=True)
    assert source_of(resolve_data(job("/lustre/missing"), tmp_path, is_here=False)) == "/lustre/missing"
    with pytest.raises(UsageError, match="holds no prepared data"):
        resolve_data(job(tmp_path), tmp_path, is_here=False)


def test_data_that_does_not_fit_the_model_is_refused(tmp_path: Path) -> None:
    put_index(tmp_path / "wide", vocab_size=300)
    with pytest.raises(UsageError, match=r"vocab_size is 256, but .*wide has 300 token ids") as caught:
        resolve_data(job("wide"), tmp_path, is_here=True)
    assert caught.value.hint == "--set trainer.model.vocab_size=384"
    put_index(tmp_path / "short", val=256)
    with pytest.raises(UsageError, match=r"validation split has 256 tokens, but one sequence takes .* = 257"):
        resolve_data(job("short"), tmp_path, is_here=True)


def test_attention_within_documents_needs_more_than_one(tmp_path: Path) -> None:
    put_index(tmp_path / "one")
    spec = load_job("llm-tiny", ["trainer.data.source=one", "trainer.data.attention=document"])
    with pytest.raises(
        IncompatibleError, match=r"document needs data of several documents, and .*one is one"
    ) as caught:
        resolve_data(spec, tmp_path, is_here=True)
    [problem] = caught.value.problems
    assert problem.keys == ("trainer.data.attention", "trainer.data.source")


def test_a_file_that_is_cut_or_missing_is_found_before_anything_starts(tmp_path: Path) -> None:
    put_index(tmp_path / "data")
    os.truncate(tmp_path / "data/val-00000.bin", 10)
    with pytest.raises(UsageError, match=r"source: .*/val-00000\.bin has 10 bytes, its index lists 2,000") as caught:
        resolve_data(job("data"), tmp_path, is_here=True)
    assert caught.value.hint is not None and caught.value.hint.startswith("prepare it again")
    (tmp_path / "data/train-00000.mask").unlink()
    with pytest.raises(UsageError, match=r"train-00000\.mask: No such file"):
        resolve_data(job("data"), tmp_path, is_here=False)


def test_a_url_stays_as_it_is(tmp_path: Path) -> None:
    put_index(tmp_path / "data")
    url = (tmp_path / "data").as_uri()
    assert source_of(resolve_data(job(url), Path("/"), is_here=True)) == url
    put_index(tmp_path / "wide", vocab_size=300)
    with pytest.raises(UsageError, match=r"vocab_size is 256, but file:///.*/wide has 300 token ids"):
        resolve_data(job((tmp_path / "wide").as_uri()), tmp_path, is_here=False)
    with pytest.raises(UsageError, match=r"^trainer\.data\.source: file:///.*none/index\.json: there is no such file"):
        resolve_data(job("file:///none"), tmp_path, is_here=True)
    assert source_of(resolve_data(job("file:///none"), tmp_path, is_here=False)) == "file:///none"
