"""Text to ids and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from fsdpctl.data import tokenizer as module
from fsdpctl.data.tokenizer import ByteTokenizer, JsonTokenizer, cut_text, dtype_of, open_tokenizer, train_bpe
from fsdpctl.errors import UsageError


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(train_bpe((text.encode() for text in texts), 300))
    return path


def test_bytes_are_their_own_ids() -> None:
    assert [ids.tolist() for ids in ByteTokenizer().encode([b"ab", "\u00fc".encode()])] == [[97, 98, 0], [195, 188, 0]]
    assert dtype_of(ByteTokenizer().vocab_size) == "uint16"


def test_documents_are_decoded_unchanged(trained: Path, texts: list[str]) -> None:
    mine = open_tokenizer(trained, None)
    library = tokenizers.Tokenizer.from_file(str(trained))
    assert (mine.vocab_size, mine.separator) == (300, 0)
    for text, ids in zip(texts, mine.encode([text.encode() for text in texts]), strict=True):
        assert ids[-1] == mine.separator
        assert mine.separator not in ids[:-1]  # though some documents spell it
        assert library.decode(ids[:-1].tolist()) == text
    assert any("<|endoftext|>" in text for text in texts)


def test_training_is_deterministic(trained: Path, texts: list[str]) -> None:
    assert train_bpe((text.encode() for text in texts), 300) == trained.read_text()


def test_truncation_and_padding_of_a_tokenizer_are_ignored(trained: Path, tmp_path: Path, texts: list[str]) -> None:
    tree = json.loads(trained.read_text())
    tree["truncation"] = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    tree["padding"] = {"strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": None}
    tree["padding"] |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    data = [text.encode() for text in texts]
    plain, odd = (
        JsonTokenizer(trained, None).encode(data),
        JsonTokenizer(tmp_path / "tokenizer.json", None).encode(data),
    )
    assert all(np.array_equal(a, b) for a, b in zip(plain, odd, strict=True))


def test_a_long_document_is_tokenized_in_parts(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"line {number} of many\n" for number in range(500)).encode()
    [whole] = JsonTokenizer(trained, None).encode([text])
    monkeypatch.setattr(module, "PART_CHARS", 200)
    assert len(cut_text(text.decode())) > 40
    [parts] = JsonTokenizer(trained, None).encode([text])
    assert np.array_equal(parts, whole)  # cut at line ends


@pytest.mark.parametrize("text", ["", "abc", "a\nb\n\nc" * 40, "word " * 50, "x" * 101])
def test_parts_join_to_the_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_CHARS", 10)
    parts = cut_text(text)
    assert "".join(parts) == text
    assert all(len(part) <= 10 for part in parts)


def test_a_missing_end_token_is_named(trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "tokenizer.json"
    other.write_text(trained.read_text().replace("<|endoftext|>", "[FIN]"))
    with pytest.raises(UsageError, match=r"has no token <\|endoftext\|> or .* to end documents"):
        open_tokenizer(other, None)
    with pytest.raises(UsageError, match="has no token END to end"):
        open_tokenizer(other, "END")
    assert open_tokenizer(other, "[FIN]").separator == 0


def test_an_unreadable_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    for name in ("tokenizer.json", "missing.json"):
        with pytest.raises(UsageError, match=rf"{name}: the library tokenizers cannot read this tokenizer.json"):
            open_tokenizer(tmp_path / name, None)


def test_large_vocabularies_need_four_bytes(trained: Path) -> None:
    tokenizer = JsonTokenizer(trained, None)
    tokenizer.vocab_size = 2**16
    assert dtype_of(tokenizer.vocab_size) == "uint16"
    tokenizer.vocab_size += 1
    assert dtype_of(tokenizer.vocab_size) == "uint32"
