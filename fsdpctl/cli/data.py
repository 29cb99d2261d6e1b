"""`fsdpctl data`: prepare, list, show and check training data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json
from fsdpctl.cli.out_path import file_only
from fsdpctl.cli.output import log, print_data, print_json, print_table
from fsdpctl.cli.spec_files import plural
from fsdpctl.errors import RunFailed, UsageError, install_hint

if TYPE_CHECKING:
    from fsdpctl.cli.shapes.data import ListedData
    from fsdpctl.contract.formats.dataset import Index, Shard
    from fsdpctl.data.prepared import ListedDataset
    from fsdpctl.data.recipe import Recipe

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Prepare training data, list and check it.")


@app.command()
def prepare(
    inputs: Annotated[list[Path], typer.Argument(help="Text, .jsonl, .parquet, .arrow; also .gz, .zst; directories.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Directory to create, or its URL, like s3://bucket/corpus.")],
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", help="`bytes`, a tokenizer.json, or the directory of one.")
    ] = "bytes",
    is_chat: Annotated[
        bool, typer.Option("--chat", help="Conversations, by the tokenizer's chat template; only answers are trained.")
    ] = False,
    train_bpe: Annotated[
        int | None, typer.Option("--train-bpe", metavar="SIZE", help="Train a BPE of this vocabulary on the input.")
    ] = None,
    end_token: Annotated[
        str | None, typer.Option("--end-token", help="Token that ends a document; default: the usual ones.")
    ] = None,
    text_key: Annotated[str, typer.Option("--text-key", help="Key or column with the text.")] = "text",
    split_on: Annotated[
        str | None,
        typer.Option(
            "--split-on",
            metavar="LINE",
            help="Line between documents of a text file, '' for a blank one; default: none.",
        ),
    ] = None,
    val_fraction: Annotated[
        float, typer.Option("--val-fraction", help="Fraction of documents held out, chosen by hash.")
    ] = 0.02,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Number of processes; default: one per core.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn text into tokens. After an interruption, the same command continues where it stopped."""
    _require_numpy()
    from fsdpctl.cli.progress_bar import Bar
    from fsdpctl.contract.data_url import is_url
    from fsdpctl.data.prepare import PrepareRequest
    from fsdpctl.data.prepare import prepare as make
    from fsdpctl.data.publish import prepare_remote

    file_only(Path(out))
    recipe = _recipe(tokenizer, train_bpe, end_token, text_key, split_on, val_fraction)
    path = _find_tokenizer(tokenizer, is_chat)
    request = PrepareRequest(inputs, Path(out), path, recipe, workers or len(os.sched_getaffinity(0)), is_chat)
    try:
        with Bar() as bar:
            index = prepare_remote(request, out, bar) if is_url(out) else make(request, bar)
    except KeyboardInterrupt:
        log("interrupted; the same command continues where this one stopped")
        raise
    _print(out, index, as_json)
    if not as_json:
        source = shlex.quote(f"trainer.data.source={out}")
        log(f"hint: fsdpctl submit llm-tiny --set {source} --set trainer.model.vocab_size={index.model_vocab_size}")


def _find_tokenizer(given: str, is_chat: bool) -> Path | None:
    from fsdpctl.contract.formats.dataset import BYTES, TOKENIZER_NAME

    if given == BYTES:
        if is_chat:
            raise UsageError("--chat needs a tokenizer with a chat template: --tokenizer DIR of a Hugging Face model")
        return None
    path = Path(given)
    found = path / TOKENIZER_NAME if path.is_dir() else path
    if is_chat and not found.is_file():
        raise UsageError(
            f"tokenizer {found}: no such file", hint="--tokenizer DIR takes the directory of a Hugging Face model"
        )
    return found


def _recipe(
    tokenizer: str,
    train_bpe: int | None,
    end_token: str | None,
    text_key: str,
    split_on: str | None,
    val_fraction: float,
) -> Recipe:
    from fsdpctl.data.recipe import Recipe
    from fsdpctl.data.tokenizer import MAX_BPE, MIN_BPE

    if train_bpe is not None and tokenizer != "bytes":
        raise UsageError("--train-bpe makes a tokenizer and --tokenizer names one: give one of the two")
    if train_bpe is not None and train_bpe < MIN_BPE:
        raise UsageError(f"--train-bpe must be at least {MIN_BPE}, all bytes and an end token; got {train_bpe}")
    if train_bpe is not None and train_bpe > MAX_BPE:
        raise UsageError(f"--train-bpe must be at most {MAX_BPE:,}, got {train_bpe:,}")
    if end_token is not None and tokenizer == "bytes":
        raise UsageError("--end-token is for a tokenizer.json: bytes and --train-bpe have their own")
    if not 0 < val_fraction < 1:
        raise UsageError(f"--val-fraction must be between 0 and 1, got {val_fraction:g}")
    return Recipe(
        train_bpe=train_bpe, end_token=end_token, text_key=text_key, split_on=split_on, val_fraction=val_fraction
    )


def _require_numpy() -> None:
    from importlib.util import find_spec

    if find_spec("numpy") is None:
        raise UsageError("preparing data needs numpy", hint=install_hint("data"))


@app.command()
def ls(
    directory: Annotated[Path, typer.Argument(help="Directory to search.")] = Path(),
    as_json: Json = False,
) -> None:
    """List the prepared data in a directory."""
    from fsdpctl.data.prepared import list_datasets

    found = list_datasets(directory)
    if as_json:
        print_json([_as_shape(item) for item in found])
        return
    print_table(("DIRECTORY", "TRAIN TOKENS", "HELD OUT", "VOCAB", "SOURCE"), [_row(item) for item in found])


def _as_shape(item: ListedDataset) -> ListedData:
    from fsdpctl.cli.shapes.data import ListedData
    from fsdpctl.contract.codec import encode

    return ListedData(str(item.path), encode(item.index) if item.index else None, item.broken)


def _row(item: ListedDataset) -> list[str]:
    index = item.index
    if index is None:
        return [str(item.path), "-", "-", "-", item.broken or ""]
    counts = (index.train_tokens, index.val_tokens, index.vocab_size)
    return [str(item.path), *(f"{count:,}" for count in counts), index.source]


@app.command()
def show(
    directory: Annotated[str, typer.Argument(help="A prepared directory, or its URL.")],
    as_json: Json = False,
) -> None:
    """Show the contents of prepared data."""
    _print(directory, _open(directory), as_json)


def _open(directory: str) -> Index:
    from fsdpctl.contract.data_url import is_url
    from fsdpctl.data.prepared import open_index
    from fsdpctl.data.remote import open_remote_index

    return open_remote_index(directory) if is_url(directory) else open_index(Path(directory))


def _print(directory: str, index: Index, as_json: bool) -> None:
    if as_json:
        from fsdpctl.contract.codec import encode

        print_json({"path": directory, **encode(index)})
        return
    rows = [
        ("directory", directory),
        ("source", index.source),
        ("train", _describe(index.train)),
        ("held out", _describe(index.val)),
        ("tokenizer", f"{index.tokenizer[:16]}, {plural(index.vocab_size, 'id')}, {index.separator} ends a document"),
        ("entropy", f"{index.unigram_entropy:.4f} nats a token, by frequency alone"),
        ("fingerprint", index.fingerprint),
    ]
    print_data("\n".join(f"{key:<13}{value}" for key, value in rows))


def _describe(shards: Sequence[Shard]) -> str:
    tokens, documents = sum(shard.tokens for shard in shards), sum(shard.documents for shard in shards)
    targets = sum(shard.tokens if shard.targets is None else shard.targets for shard in shards)
    trained = f", {targets / max(tokens, 1):.1%} of the tokens trained" if targets < tokens else ""
    return f"{plural(tokens, 'token')} of {plural(documents, 'document')} in {plural(len(shards), 'shard')}{trained}"


@app.command()
def check(
    directories: Annotated[list[str], typer.Argument(help="Prepared directories, or their URLs.")],
    as_json: Json = False,
) -> None:
    """Read all prepared data and compare it with its digests; exit 1 if it differs."""
    from fsdpctl.cli.progress_bar import Bar
    from fsdpctl.cli.shapes.specs import Checked
    from fsdpctl.contract.byte_progress import Meter
    from fsdpctl.contract.data_url import is_url
    from fsdpctl.data.prepared import count_bytes, find_damage
    from fsdpctl.data.remote import find_remote_damage

    checked: list[Checked] = []
    for directory in directories:
        index = _open(directory)
        with Bar() as bar:
            meter = Meter(bar, f"checking {directory}", count_bytes(index))
            is_remote = is_url(directory)
            found = (
                find_remote_damage(directory, index, meter) if is_remote else find_damage(Path(directory), index, meter)
            )
        checked.append(Checked(directory, not found, tuple(found)))
        if not found and not as_json:
            print_data(f"{directory}: ok, {plural(index.train_tokens + index.val_tokens, 'token')}")
    if as_json:
        print_json(checked)
    if problems := [problem for one in checked for problem in one.problems]:
        raise RunFailed("\n".join(problems), hint="prepare it again, or copy it again from an undamaged one")
