# SPDX-License-Identifier: Apache-2.0
"""Texts to tokens and back, by the package `tokenizers` or `sentencepiece`, as model.json says."""
from __future__ import annotations

import importlib
import pathlib
import re

from fields import MODEL_TOKENIZER, TOKEN, CheckpointError, Values, shortened


def _package(name: str):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CheckpointError(f"The tokenizer needs Python's package {name}: {error}.") from None


def tokenizer_of(path: pathlib.Path):
    """The package `tokenizers` has one type of error for all that is wrong with a file: Exception."""
    tokenizers = _package("tokenizers")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:
        raise CheckpointError(f"{path} is no tokenizer that can be read: {error}.") from None


def byte_level_of(vocabulary: pathlib.Path, merges: pathlib.Path):
    """Of GPT-2's two files."""
    tokenizers = _package("tokenizers")
    try:
        return tokenizers.ByteLevelBPETokenizer(str(vocabulary), str(merges))
    except Exception as error:
        raise CheckpointError(f"{vocabulary} and {merges.name} are no tokenizer that can be read: {error}.") from None

def sentencepiece_of(path: pathlib.Path):
    sentencepiece = _package("sentencepiece")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path} is no model of SentencePiece's: {error}.") from None


class Tokens:
    """`prefix` is what every text begins with that is not a conversation."""

    def __init__(self, folder: pathlib.Path, description: dict):
        values = Values(description, MODEL_TOKENIZER, f"{folder / 'model.json'}, tokenizer")
        self.kind, self.prefix, self.special = values.get("kind"), values.get("prefix"), values.get("special")
        wrong = [name for name, token in self.special.items() if TOKEN.take(token) is None]
        if wrong:
            raise CheckpointError(f"{values.where} has the special token {shortened(wrong[0])} {shortened(self.special[wrong[0]])}.")
        self.model = (tokenizer_of if self.kind == "tokenizers" else sentencepiece_of)(folder / values.get("file"))

    def encode(self, text: str) -> list[int]:
        """Special tokens that the text spells out become themselves."""
        if any("\ud800" <= c <= "\udfff" for c in text):  # how Python holds bytes of arguments that are none
            raise CheckpointError("The text is no UTF-8.")
        if self.kind == "tokenizers":
            return self.model.encode(text, add_special_tokens=False).ids
        out = []
        names = sorted(self.special, key=len, reverse=True)
        for part in re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]:
            out += [self.special[part]] if part in self.special else self.model.encode(part) if part else []
        return out

    def decode(self, tokens: list[int]) -> str:
        if self.kind == "tokenizers":
            return self.model.decode(tokens, skip_special_tokens=True)
        hidden = set(self.special.values())
        return self.model.decode([t for t in tokens if t not in hidden])


class Stream:
    """Tokens as they come, text when it is whole: a character may be spread over several tokens, and a tokenizer may
    write a token in another way at the beginning of a text."""
    MOST = 16  # tokens that wait for the end of a character

    def __init__(self, tokens: Tokens, before: list[int]):
        self.tokens = tokens
        self.all = list(before[-8:])
        self.begin, self.end = 0, len(self.all)

    def add(self, token: int) -> str:
        self.all.append(token)
        return self._new(len(self.all) - self.end > self.MOST)

    def rest(self) -> str:
        return self._new(True)

    def _new(self, all_of_it: bool) -> str:
        told = self.tokens.decode(self.all[self.begin:self.end])
        now = self.tokens.decode(self.all[self.begin:])
        if len(now) <= len(told) or (now.endswith("\ufffd") and not all_of_it):
            return ""
        self.begin, self.end = self.end, len(self.all)
        return now[len(told):]
