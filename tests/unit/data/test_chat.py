"""Conversations to ids and masks, beside transformers' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from fsdpctl.contract.formats.dataset import FORMAT, MASKED_FORMAT, Index
from fsdpctl.data.conversation import encode_conversation
from fsdpctl.data.prepare import PrepareRequest, prepare
from fsdpctl.data.prepared import find_damage
from fsdpctl.data.recipe import Recipe
from fsdpctl.data.tokenizer import train_bpe
from fsdpctl.errors import UsageError

pytestmark = pytest.mark.slow  # imports transformers

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
)
ONLY_LAST = "{% for m in messages %}{% if loop.last %}{{ m.content }}{% else %}-{% endif %}{% endfor %}"


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


CONVERSATIONS = [
    [
        message("system", "Answer in one word."),
        message("user", f"What is {number} plus {number}?"),
        message("assistant", f" {2 * number}."),
        message("user", "And über 中文?\n"),
        message("assistant", "Yes"),
    ]
    for number in range(40)
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tokenizer as a model's directory has it."""
    made = tmp_path_factory.mktemp("model") / "some model"
    made.mkdir()
    texts = (one["content"].encode() for conversation in CONVERSATIONS for one in conversation)
    tokenizer = tokenizers.Tokenizer.from_str(train_bpe(texts, 320))
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(made / "tokenizer.json"))
    (made / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": CHATML}))
    return made


def prepared(out: Path, source: Path, directory: Path, workers: int = 1) -> Index:
    request = PrepareRequest(
        [source], out, directory / "tokenizer.json", Recipe(val_fraction=0.2), workers, is_chat=True
    )
    return prepare(request, lambda what, done, total: None)


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def documents(out: Path, index: Index) -> list[tuple[list[int], list[int]]]:
    """Return ids and mask of each document, in the order of their ids."""
    found = []
    for shard in index.train + index.val:
        ids, mask = np.fromfile(out / shard.tokens_file, "<u2"), np.fromfile(out / f"{shard.name}.mask", "u1")
        assert (shard.targets, len(mask)) == (mask.sum(), len(ids))
        ends = np.fromfile(out / shard.ends_file, "<u8")[:-1].astype(np.int64)
        found += [(a.tolist(), b.tolist()) for a, b in zip(np.split(ids, ends), np.split(mask, ends), strict=True)]
    return sorted(found)


def test_ids_are_those_of_transformers_and_answers_are_trained(directory: Path, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    source = written(tmp_path / "chats.jsonl", [{"messages": one, "id": 7} for one in CONVERSATIONS])
    index = prepared(tmp_path / "out", source, directory, workers=2)
    assert (index.format, find_damage(tmp_path / "out", index, lambda done: None)) == (MASKED_FORMAT, [])
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path / "out")  # what it was made with is beside it
    found = documents(tmp_path / "out", index)
    wanted = [[*theirs.apply_chat_template(one, return_dict=False), index.separator] for one in CONVERSATIONS]
    assert [ids for ids, _ in found] == sorted(wanted)
    answers = {theirs.decode([token for token, target in zip(ids, mask, strict=True) if target]) for ids, mask in found}
    assert answers == {f" {2 * number}.<|im_end|>\nYes<|im_end|>\n" for number in range(40)}


def test_a_template_that_marks_answers_and_all_layouts_give_the_same(directory: Path, tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pairs = [one[1:3] for one in CONVERSATIONS]
    by_layout = {
        "messages.jsonl": [{"messages": one} for one in pairs],
        "pairs.jsonl": [{"prompt": ask["content"], "completion": say["content"]} for ask, say in pairs],
        "lists.jsonl": [{"prompt": [ask], "completion": [say]} for ask, say in pairs],
        "share.jsonl": [
            {"conversations": [{"from": "human", "value": a["content"]}, {"from": "gpt", "value": b["content"]}]}
            for a, b in pairs
        ],
    }
    sources = [written(tmp_path / name, records) for name, records in by_layout.items()]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(by_layout["messages.jsonl"]), tmp_path / "chats.parquet")
    made = [prepared(tmp_path / f"{path.name}.out", path, directory) for path in [*sources, tmp_path / "chats.parquet"]]
    assert len({index.fingerprint for index in made}) == 1
    marked = tmp_path / "marked"
    marked.mkdir()
    (marked / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes())
    (marked / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    (marked / "chat_template.jinja").write_text(MARKED)
    assert prepared(tmp_path / "marked.out", sources[0], marked).fingerprint == made[0].fingerprint
    with pytest.raises(UsageError, match="prepared with other options: the chat template is another one"):
        prepared(tmp_path / "marked.out", sources[0], directory)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"text": "x"}, "no conversation: expected 'messages', 'conversations', or 'prompt' with 'completion'"),
        ({"messages": "x"}, "'messages' is 'x', expected a list of messages"),
        ({"messages": ["x"]}, "message 1 is 'x', expected an object with 'role' and 'content'"),
        ({"messages": [message("user", "a")]}, "no message with the role 'assistant'"),
        ({"messages": [{"content": "a"}]}, "message 1 has no 'role'"),
        ({"messages": [{"role": "user", "content": 7}]}, "message 1: 'content' is 7, expected text"),
        (
            {"messages": [message("user", "\ud800"), message("assistant", "a")]},
            "a message contains half of a surrogate",
        ),
        ({"prompt": 7, "completion": "a"}, "7 is neither text nor a list of messages"),
    ],
)
def test_what_is_no_conversation_is_named_with_its_line(
    record: dict[str, Any], problem: str, directory: Path, tmp_path: Path
) -> None:
    source = written(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0]}, record])
    with pytest.raises(UsageError) as caught:
        prepared(tmp_path / "out", source, directory)
    assert f"{source}:2: {problem}" in str(caught.value)


def test_templates_that_cannot_be_used_are_refused(directory: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "chats.jsonl", [{"messages": one} for one in CONVERSATIONS])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes())
    nothing = "{% for m in messages %}{{ m.content }}{% endfor %}{% generation %}{% endgeneration %}"
    templates = (
        (nothing, "nothing would be trained"),
        ([{"name": "tool", "template": CHATML}], "has no chat template"),
        (None, "has no chat template"),
        (ONLY_LAST, "the chat template changes earlier messages"),
        ("{{ raise_exception('roles must alternate') }}", "the chat template refuses .*: roles must alternate"),
        ("{% for", "the chat template refuses"),
    )
    for number, (template, problem) in enumerate(templates):
        (mine / "tokenizer_config.json").write_text(json.dumps({"chat_template": template} if template else {}))
        with pytest.raises(UsageError, match=problem):
            prepared(tmp_path / str(number), source, mine)
    text = tmp_path / "text.txt"
    text.write_text("not a conversation")
    with pytest.raises(UsageError, match="conversations are read from JSON lines, Parquet and Arrow"):
        prepared(tmp_path / "other", text, directory)


def test_the_default_one_of_named_templates_is_used(directory: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "chats.jsonl", [{"messages": one} for one in CONVERSATIONS])
    named = tmp_path / "named"
    named.mkdir()
    (named / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes())
    templates = [{"name": "tool", "template": ONLY_LAST}, {"name": "default", "template": CHATML}]
    (named / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": templates}))
    found = prepared(tmp_path / "a", source, named)
    assert found.fingerprint == prepared(tmp_path / "b", source, directory).fingerprint


def test_empty_columns_of_a_table_are_left_out() -> None:
    rows = [{"role": "user", "content": "a", "name": None}, {"role": "assistant", "content": "b", "name": None}]
    assert json.loads(encode_conversation({"messages": rows})) == [message("user", "a"), message("assistant", "b")]


def test_data_without_masks_keeps_its_format_and_fingerprint(tmp_path: Path) -> None:
    """Checkpoints store it: data that is prepared again must be the same."""
    (tmp_path / "text.txt").write_text("one\n\ntwo\n\nthree\n\nfour\n")
    request = PrepareRequest([tmp_path / "text.txt"], tmp_path / "out", None, Recipe(split_on="", val_fraction=0.5), 1)
    index = prepare(request, lambda what, done, total: None)
    assert (index.format, index.fingerprint) == (FORMAT, "d054def9287d5fc1dbf1ef92dbbae1fe")
