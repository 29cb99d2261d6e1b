"""Preparing and reading tokens."""

from __future__ import annotations

import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fsdpctl.contract.formats.dataset import ShardWriter, split_of
from train.data import builtin_data
from train.data.batch import Batch, split_targets
from train.data.builtin_data import fingerprint_of, prepare_builtin, read_documents
from train.data.tokens import Tokens, entropy, open_dataset
from train.errors import ConfigError
from train.model.language_model import IGNORED


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a standard library of a few files."""
    root = tmp_path / "lib"
    for name in ("a.py", "pkg/b.py", "test/c.py", "site-packages/d.py", "pkg/e.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n" * 100)
    monkeypatch.setattr(builtin_data.sysconfig, "get_paths", lambda: {"stdlib": str(root)})
    monkeypatch.setattr(builtin_data, "split_of", lambda name, fraction: "val" if name == b"pkg/b.py" else "train")
    return root


def test_builtin_reads_sources_only_and_separates_documents(library: Path) -> None:
    assert list(read_documents(library)) == ["a.py", "pkg/b.py"]
    directory = prepare_builtin(os.environ, 0.02)
    for split, text in (("train", b"# a.py\n" * 100), ("val", b"# pkg/b.py\n" * 100)):
        assert np.fromfile(directory / f"{split}-00000.bin", "<u2").tolist() == list(text + b"\0")


def test_builtin_is_prepared_once_even_by_many_at_once(library: Path, home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: prepare_builtin(os.environ, 0.02), range(8)))
    [directory] = made
    assert os.listdir(home / "fsdpctl/data") == [directory.name]
    before = (directory / "index.json").stat()
    assert prepare_builtin(os.environ, 0.02) == directory
    assert (directory / "index.json").stat() == before


def test_the_fingerprint_knows_text_names_and_split(library: Path) -> None:
    documents = read_documents(library)
    changed = {**documents, "a.py": documents["a.py"][:-1] + b"!"}
    renamed = {name.replace("a", "z"): text for name, text in documents.items()}
    prints = [fingerprint_of(documents, 0.02), fingerprint_of(documents, 0.03)]
    prints += [fingerprint_of(changed, 0.02), fingerprint_of(renamed, 0.02)]
    assert len(set(prints)) == 4
    assert fingerprint_of(read_documents(library), 0.02) == prints[0]


def test_the_split_takes_about_its_fraction() -> None:
    held_out = sum(split_of(f"module_{i}.py".encode(), 0.1) == "val" for i in range(5_000))
    assert 400 < held_out < 600


def test_sequences_overlap_by_the_token_that_is_input_and_target(data_dir: Path) -> None:
    tokens = open_dataset(data_dir, seq_len=16, vocab_size=128).train
    on_disk = np.fromfile(data_dir / "train-00000.bin", "<u2")
    first, second = tokens.sequences(np.array([0, 1])).tolist()
    assert first == on_disk[:17].tolist()
    assert second == on_disk[16:33].tolist()
    [last] = tokens.sequences(np.array([tokens.num_sequences - 1])).tolist()
    assert len(last) == 17


def test_sequences_run_on_over_the_ends_of_shards(tmp_path: Path) -> None:
    shards = []
    for number, (begin, end) in enumerate([(0, 10), (10, 13), (13, 40)]):
        writer = ShardWriter(tmp_path, f"train-{number:05d}")
        writer.add(np.arange(begin, end, dtype="<u2").tobytes(), [end - begin])
        shards.append(writer.close())
    tokens = Tokens(tmp_path, [shard for shard in shards if shard], "uint16", seq_len=8)
    assert tokens.num_sequences == 4
    assert tokens.sequences(np.arange(4)).tolist() == [list(range(8 * i, 8 * i + 9)) for i in range(4)]


def test_masked_tokens_are_inputs_and_no_targets(tmp_path: Path) -> None:
    """Over the ends of shards, of which one has no mask."""
    shards = []
    for number, (begin, end) in enumerate([(0, 10), (10, 13), (13, 34)]):
        writer = ShardWriter(tmp_path, f"train-{number:05d}", is_masked=number != 1)
        tokens = np.arange(begin, end, dtype="<u2")
        writer.add(tokens.tobytes(), [end - begin], (tokens % 3 == 0).astype("u1").tobytes())
        shards.append(writer.close())
    tokens = Tokens(tmp_path, [shard for shard in shards if shard], "uint16", seq_len=11)
    inputs, targets = split_targets(Batch(tokens.sequences(np.arange(3)), None), ignore_token=30)
    assert inputs.flatten().tolist() == list(range(33))
    counted = {token for token in range(34) if token % 3 == 0 or 10 <= token < 13} - {0, 30}
    assert targets.flatten().tolist() == [token if token in counted else IGNORED for token in range(1, 34)]
    (tmp_path / "train-00002.mask").write_bytes(b"\1")
    with pytest.raises(ConfigError, match=r"train-00002\.mask holds 1 tokens, its index has 21"):
        Tokens(tmp_path, [shard for shard in shards if shard], "uint16", seq_len=11)


def test_data_that_does_not_fit_is_refused(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token ids reach 127, but the model's vocab_size is 100"):
        open_dataset(data_dir, seq_len=16, vocab_size=100)
    with pytest.raises(ConfigError, match=r"fewer than one sequence of 5000 \+ 1"):
        open_dataset(data_dir, seq_len=5000, vocab_size=128)
    with pytest.raises(ConfigError, match=r"index\.json: No such file"):
        open_dataset(tmp_path, seq_len=16, vocab_size=128)
    cut = Path(shutil.copytree(data_dir, tmp_path / "cut"))
    (cut / "train-00000.bin").write_bytes((data_dir / "train-00000.bin").read_bytes()[:-2])
    with pytest.raises(ConfigError, match="holds 1399 tokens, its index has 1400: prepare it again"):
        open_dataset(cut, seq_len=16, vocab_size=128)
    (cut / "train-00000.bin").write_bytes((data_dir / "train-00000.bin").read_bytes())
    (cut / "train-00000.ends").write_bytes((1399).to_bytes(8, "little"))
    with pytest.raises(ConfigError, match=r"train-00000\.ends ends at token 1399, its index has 1400"):
        open_dataset(cut, seq_len=16, vocab_size=128)


def test_entropy() -> None:
    assert entropy(np.array([5, 5, 0, 5, 5])) == pytest.approx(math.log(4))
    assert entropy(np.array([7, 0])) == 0


def test_ranks_with_different_data_and_data_without_limits_are_refused(
    data_dir: Path, config: dict[str, object]
) -> None:
    from fsdpctl.contract.codec import decode
    from fsdpctl.contract.trainer.trainer_config import TrainerConfig
    from train.data.source import open_source
    from train.parallel.rank_info import RankInfo

    class OneDiffers:
        rank, rank_info = 0, RankInfo()

        def gather(self, value: str) -> list[str]:
            return [value, "another"]

    with pytest.raises(ConfigError, match="fingerprint three-words-1, rank 1 has another"):
        open_source(decode(TrainerConfig, config), OneDiffers(), lambda: None)
    within = {**config, "data": {"source": str(data_dir), "attention": "document"}}
    with pytest.raises(ConfigError, match=r"data\.attention document: .* has one document, and so no limits"):
        open_source(decode(TrainerConfig, within), OneDiffers(), lambda: None)
