# SPDX-License-Identifier: Apache-2.0
"""A GGUF file's vocabulary as tokenizer.json, the form of the package `tokenizers`."""
from __future__ import annotations

from fields import CheckpointError, Values

NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
# The patterns by which published tokenizer.json files cut texts into words, with the digits that are one word.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
# Words of capitals and words of small letters: of GPT-4o, and without the endings of Mistral's Tekken.
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s|\p{{N}}%s"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# By tokenizer.ggml.pre: the pattern; None is GPT-2's, DIGITS the same behind single digits.
DIGITS = "digits"
LLAMA3, QWEN2 = WORDS % "{1,3}", WORDS % ""
TEKKEN, GPT_4O = CASED % ("", "", ""), CASED % (ENDINGS, ENDINGS, "{1,3}")
PATTERNS = {**dict.fromkeys(("", "gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "gigachat", "trillion", "a.x-4.0", "mellum",
                             "granite-docling")),
            **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), DIGITS),
            **dict.fromkeys(("llama-bpe", "llama-v3", "llama3", "falcon3", "pixtral", "lfm2", "dbrx", "smaug-bpe"), LLAMA3),
            **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez"), QWEN2),
            "tekken": TEKKEN, "gpt-4o": GPT_4O, "llama4": GPT_4O}
# Of which a word that is a token is one, whatever pairs would be merged first; all but GPT-4o's begin texts by default.
WHOLE_WORDS = ("llama-bpe", "llama-v3", "llama3", "falcon3", "pixtral", "lfm2", "tekken", "gpt-4o", "llama4")


def _byte_level(pre: str) -> dict:
    """How texts are cut into words before pairs are merged."""
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    pattern = PATTERNS[pre]
    if pattern is None:
        return {**last, "use_regex": True}
    if pattern == DIGITS:
        digits = {"type": "Digits", "individual_digits": True}
        return {"type": "Sequence", "pretokenizers": [digits, {**last, "use_regex": True}]}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, {**last, "use_regex": False}]}


def _merges_by_score(tokens: list[str], scores: list[float], kinds: list[int]) -> list[list[str]]:
    """Of a SentencePiece vocabulary: each way to make a piece of two others; the best piece comes first."""
    known = {t: i for i, t in enumerate(tokens) if kinds[i] in (NORMAL, USER)}
    found = []
    for token, i in known.items():
        for cut in range(1, len(token)):
            if token[:cut] in known and token[cut:] in known:
                found.append((-scores[i], i, known[token[:cut]], known[token[cut:]], [token[:cut], token[cut:]]))
    found.sort(key=lambda f: f[:4])
    return [f[4] for f in found]


def _is_known(meta: Values) -> bool:
    model, pre = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre")
    return model == "llama" or model == "gpt2" and pre in PATTERNS


def _check(meta: Values) -> None:
    """The numbers of tokens, and what there is beside each."""
    tokens, kinds, scores = (meta.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "scores"))
    ends = [meta.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")]
    if (len(kinds) not in (0, len(tokens)) or len(scores) not in (0, len(tokens))
            or any(i is not None and i >= len(tokens) for i in ends)):
        raise CheckpointError(f"{meta.where}: the vocabulary has {len(tokens)} tokens, {len(kinds)} kinds of tokens, {len(scores)} "
                              f"scores, and the ends {ends[0]} and {ends[1]}.")


def _pairs(meta: Values, body: dict, out: dict) -> None:
    """Pairs of bytes written as letters, as of GPT-2."""
    pre = meta.get("tokenizer.ggml.pre")
    body["merges"] = [m.split(" ", 1) for m in meta.get("tokenizer.ggml.merges")]
    if any(len(m) != 2 for m in body["merges"]):
        raise CheckpointError(f"{meta.where} has tokenizer.ggml.merges that are no pairs.")
    body["ignore_merges"] = pre in WHOLE_WORDS
    if PATTERNS[pre] == QWEN2:
        out["normalizer"] = {"type": "NFC"}
    out |= {"pre_tokenizer": _byte_level(pre), "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                                                           "use_regex": True}}


def _pieces(meta: Values, tokens: list[str], kinds: list[int], body: dict, out: dict) -> None:
    """SentencePiece's: spaces are marked, and what has no piece is bytes."""
    scores = meta.get("tokenizer.ggml.scores") or [0.0] * len(tokens)
    unknown = next((t for i, t in enumerate(tokens) if kinds[i] == UNKNOWN), None)
    body |= {"merges": _merges_by_score(tokens, scores, kinds), "byte_fallback": True, "fuse_unk": True, "unk_token": unknown}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    undo = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    steps = [undo, {"type": "ByteFallback"}, {"type": "Fuse"}]
    out["normalizer"] = space
    if meta.get("tokenizer.ggml.add_space_prefix"):
        out["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, space]}
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    out |= {"pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": steps}}


def tokenizer_of(meta: Values, has_other: bool) -> tuple[dict | None, dict, dict]:
    """tokenizer.json (None where the file has no vocabulary), tokenizer_config.json and generation_config.json. Of a kind
    that is not known the first is None too if there is another one, a tokenizer.json beside the file."""
    tokens = meta.get("tokenizer.ggml.tokens")
    if not tokens:
        return None, {}, {}
    _check(meta)
    kinds = meta.get("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    bos, eos = meta.get("tokenizer.ggml.bos_token_id"), meta.get("tokenizer.ggml.eos_token_id")
    added = [{"id": i, "content": t, "special": kinds[i] == CONTROL, "normalized": False, "single_word": False,
              "lstrip": False, "rstrip": False} for i, t in enumerate(tokens) if kinds[i] in (CONTROL, USER, UNKNOWN)]
    out: dict = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "post_processor": None}
    body = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {t: i for i, t in enumerate(tokens)}}
    model, pre = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre")
    if not _is_known(meta) and not has_other:
        raise CheckpointError(f"{meta.where} has the tokenizer '{model}' with words as of '{pre}', which is not known; put the "
                              "tokenizer.json of the model beside the file.")
    if model == "gpt2" and pre in PATTERNS:
        _pairs(meta, body, out)
    elif model == "llama":
        _pieces(meta, tokens, kinds, body, out)
    out["model"] = body
    begins = model == "llama" or pre in WHOLE_WORDS and PATTERNS[pre] != GPT_4O
    config: dict = {"add_bos_token": bos is not None and meta.get("tokenizer.ggml.add_bos_token", default=begins)}
    config |= {name: tokens[i] for name, i in (("bos_token", bos), ("eos_token", eos)) if i is not None}
    if config["add_bos_token"]:
        first = [{"SpecialToken": {"id": tokens[bos], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        out["post_processor"] = {"type": "TemplateProcessing", "single": first, "pair": first + [
            {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {
                tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}}}
    if meta.has("tokenizer.chat_template"):
        config["chat_template"] = meta.get("tokenizer.chat_template")
    return out if _is_known(meta) else None, config, {"eos_token_id": eos} if eos is not None else {}
