"""Conversations to token ids and masks, by a Hugging Face tokenizer and its chat template.

The template is rendered by transformers. A mask is 1 where the assistant's tokens are: by the template's own
`{% generation %}` blocks, or else by what each of its messages adds to the text before it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsdpctl.data.conversation import ASSISTANT
from fsdpctl.data.recipe import Recipe
from fsdpctl.data.tokenizer import Ids, Tokenizer, find_separator, open_tokenizer
from fsdpctl.errors import UsageError, install_hint

FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
"""Files of a tokenizer that decide the tokens of a conversation."""

Messages = list[dict[str, Any]]


class Masked(NamedTuple):
    """The ids of a document, and a byte for each: 1 if it is a target of the loss. Without a mask all are."""

    ids: Ids
    mask: NDArray[np.uint8] | None


class ChatTokenizer:
    """The tokenizer in a directory, with its chat template."""

    def __init__(self, directory: Path, end_token: str | None) -> None:
        transformers = _import_transformers()
        try:
            self._tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
        except Exception as error:  # the library raises nothing narrower
            raise UsageError(f"{directory}: transformers cannot read this tokenizer: {error}") from None
        template = self._tokenizer.chat_template
        if isinstance(template, dict):  # named ones
            template = self._tokenizer.chat_template = template.get("default")
        if not isinstance(template, str):
            raise UsageError(
                f"{directory} has no chat template, in tokenizer_config.json or chat_template.jinja",
                hint="--tokenizer DIR takes the directory of a model that was trained on conversations",
            )
        vocabulary = self._tokenizer.get_vocab()
        self.template: str = template
        self.vocab_size = max(vocabulary.values()) + 1
        self.separator = find_separator(directory, vocabulary, end_token or self._tokenizer.eos_token)

    def encode_masked(self, texts: Sequence[bytes]) -> list[Masked]:
        """Return ids and mask of each conversation, followed by the separator, which is no target."""
        return [self._encode(json.loads(text)) for text in texts]

    def _encode(self, messages: Messages) -> Masked:
        marks_own = "{% generation" in self.template or "{%- generation" in self.template
        ids, mask = self._encode_marked(messages) if marks_own else self._encode_by_prefix(messages)
        return Masked(np.array([*ids, self.separator], np.uint32), np.array([*mask, 0], np.uint8))

    def _encode_marked(self, messages: Messages) -> tuple[Sequence[int], Sequence[int]]:
        found = self._apply(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        return found["input_ids"], found["assistant_masks"]

    def _encode_by_prefix(self, messages: Messages) -> tuple[Sequence[int], NDArray[np.uint8]]:
        text = self._apply(messages, tokenize=False)
        found = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        begins = np.array([begin for begin, _end in found["offset_mapping"]])
        mask = np.zeros(len(begins), np.uint8)
        for start, stop in self._find_answers(messages, text):
            mask[(begins >= start) & (begins < stop)] = 1
        return found["input_ids"], mask

    def _find_answers(self, messages: Messages, text: str) -> list[tuple[int, int]]:
        """Return where the text of each of the assistant's messages begins and ends, the end of turn included."""
        spans = []
        for number in (number for number, message in enumerate(messages) if message["role"] == ASSISTANT):
            before = self._apply(messages[:number], tokenize=False, add_generation_prompt=True)
            after = self._apply(messages[: number + 1], tokenize=False)
            if not text.startswith(after) or not after.startswith(before):
                raise UsageError(
                    "the chat template changes earlier messages, so that it is not known which tokens are the"
                    f" assistant's in the conversation {_begin(messages)}",
                    hint="use a template with {% generation %} blocks",
                )
            spans.append((len(before), len(after)))
        return spans

    def _apply(self, messages: Messages, **options: Any) -> Any:
        try:
            return self._tokenizer.apply_chat_template(messages, **options)
        except Exception as error:  # whatever the template does
            raise UsageError(
                f"the chat template refuses the conversation {_begin(messages)}: {error}",
                hint="after a change of the template delete the directory OUT.partial",
            ) from None


def open_for(recipe: Recipe, path: Path | None) -> Tokenizer | ChatTokenizer:
    """Return the tokenizer of a recipe: a tokenizer.json, or the directory of one with a chat template."""
    if recipe.chat is not None and path is not None:
        return ChatTokenizer(path.parent, recipe.end_token)
    return open_tokenizer(path, recipe.end_token)


def encode(tokenizer: Tokenizer | ChatTokenizer, texts: Sequence[bytes]) -> list[Masked]:
    if isinstance(tokenizer, ChatTokenizer):
        return tokenizer.encode_masked(texts)
    return [Masked(ids, None) for ids in tokenizer.encode(texts)]


def _begin(messages: Messages) -> str:
    return f"{json.dumps(messages, ensure_ascii=False):.80}"


def _import_transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise UsageError("a chat template needs the extra chat", hint=install_hint("chat")) from None
    return transformers
