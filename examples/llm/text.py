# SPDX-License-Identifier: Apache-2.0
"""Texts to tokens and back, by the package `tokenizers` or `sentencepiece`, as model.json says."""
from __future__ import annotations

import pathlib
import re


class Tokens:
    """`prefix` is what every text begins with that is not a conversation."""

    def __init__(self, folder: pathlib.Path, description: dict):
        self.kind, self.prefix = description["kind"], list(description["prefix"])
        self.special: dict[str, int] = description["special"]
        file = str(folder / description["file"])
        if self.kind == "tokenizers":
            import tokenizers
            self.model = tokenizers.Tokenizer.from_file(file)
        elif self.kind == "sentencepiece":
            import sentencepiece
            self.model = sentencepiece.SentencePieceProcessor(model_file=file)
        else:
            raise ValueError(f"model.json has a tokenizer of the kind {self.kind!r}; tokenizers and sentencepiece are known.")

    def encode(self, text: str) -> list[int]:
        """Special tokens that the text spells out become themselves."""
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
