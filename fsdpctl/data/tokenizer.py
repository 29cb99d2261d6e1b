"""Text to token ids: bytes, or a tokenizer.json for the library `tokenizers`, which can also be trained here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fsdpctl.contract.formats.dataset import Dtype
from fsdpctl.errors import UsageError, install_hint

Ids = NDArray[Any]

END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")
"""Common names of the token that ends a document. A tokenizer that is trained here uses the first."""

MIN_BPE = 257
"""Minimum vocabulary: all bytes and the end token."""

MAX_BPE = 2**20
"""Maximum vocabulary, several times the largest in use: the library allocates memory for all of it, or aborts."""

PARTS_AT_ONCE = 16

PART_CHARS = 2**16
"""Characters per part of a long document, cut at line ends: the library needs a hundred bytes for each token."""


class Tokenizer(Protocol):
    vocab_size: int  # every id is smaller
    separator: int

    def encode(self, texts: Sequence[bytes]) -> list[Ids]:
        """Return the ids of each document, followed by the separator."""


def open_tokenizer(path: Path | None, end_token: str | None) -> Tokenizer:
    """Read a tokenizer.json; without a path, return the tokenizer whose ids are bytes."""
    return ByteTokenizer() if path is None else JsonTokenizer(path, end_token)


def dtype_of(vocab_size: int) -> Dtype:
    return "uint16" if vocab_size <= 2**16 else "uint32"


class ByteTokenizer:
    vocab_size = 256
    separator = 0  # NUL does not occur in text

    def encode(self, texts: Sequence[bytes]) -> list[Ids]:
        return [np.frombuffer(text + b"\0", dtype=np.uint8) for text in texts]


class JsonTokenizer:
    def __init__(self, path: Path, end_token: str | None) -> None:
        library = import_tokenizers("a tokenizer.json")
        try:
            self._tokenizer = library.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise UsageError(f"{path}: the library tokenizers cannot read this tokenizer.json: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # an end token written in the text does not end a document
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values()) + 1
        self.separator = find_separator(path, vocabulary, end_token)

    def encode(self, texts: Sequence[bytes]) -> list[Ids]:
        parts = [cut_text(text.decode()) for text in texts]
        ids = self._encode_parts([part for document in parts for part in document])
        end = np.array([self.separator], dtype=np.uint32)
        return [np.concatenate([*islice(ids, len(document)), end]) for document in parts]

    def _encode_parts(self, parts: Sequence[str]) -> Iterator[Ids]:
        """Encode a few parts at a time: faster than one by one, and the results of all would be large."""
        for start in range(0, len(parts), PARTS_AT_ONCE):
            batch = parts[start : start + PARTS_AT_ONCE]
            for encoding in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                yield np.array(encoding.ids, dtype=np.uint32)


def cut_text(text: str) -> list[str]:
    """Cut a long text into parts after line ends, else after spaces, else anywhere."""
    parts = []
    start = 0
    while len(text) - start > PART_CHARS:
        limit = start + PART_CHARS
        stop = text.rfind("\n", start, limit) + 1 or text.rfind(" ", start, limit) + 1 or limit
        parts.append(text[start:stop])
        start = stop
    return [*parts, text[start:]]


def train_bpe(texts: Iterable[bytes], vocab_size: int) -> str:
    """Train a byte-level BPE and return its tokenizer.json. The same texts give the same tokenizer."""
    library = import_tokenizers("--train-bpe")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_TOKENS[0]],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_parts(texts), trainer)
    return str(tokenizer.to_str())


def _parts(texts: Iterable[bytes]) -> Iterator[str]:
    for text in texts:
        yield from cut_text(text.decode())


def import_tokenizers(what: str) -> Any:
    """Return the library `tokenizers`. Raise UsageError that `what` needs it if it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise UsageError(
            f"{what} needs the extra tokenizers", hint=f"{install_hint('tokenizers')}; or use bytes"
        ) from None
    return tokenizers


def find_separator(path: Path, vocabulary: dict[str, int], end_token: str | None) -> int:
    """Return the id of the token that ends a document; without `end_token`, of the first usual one."""
    wanted = END_TOKENS if end_token is None else (end_token,)
    for token in wanted:
        if token in vocabulary:
            return vocabulary[token]
    raise UsageError(
        f"{path} has no token {' or '.join(wanted)} to end documents", hint="choose one that it has with --end-token"
    )
