# SPDX-License-Identifier: Apache-2.0
"""A GGUF file's vocabulary as tokenizer.json, the form of the package `tokenizers`."""
from __future__ import annotations

from checkpoint import CheckpointError

NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")


def _byte_level(pre: str) -> dict | None:
    """How texts are cut into words before pairs are merged, by tokenizer.ggml.pre. None: not known."""
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    if pre in ("gpt-2", "gpt2", ""):
        return {**last, "use_regex": True}
    if pre == "smollm":
        digits = {"type": "Digits", "individual_digits": True}
        return {"type": "Sequence", "pretokenizers": [digits, {**last, "use_regex": True}]}
    if pre in ("llama-bpe", "llama-v3", "llama3"):
        digits = "{1,3}"
    elif pre == "qwen2":
        digits = ""
    else:
        return None
    split = {"type": "Split", "pattern": {"Regex": WORDS % digits}, "behavior": "Isolated", "invert": False}
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


def tokenizer_of(meta: dict) -> tuple[dict | None, dict, dict]:
    """tokenizer.json (None where the file has no vocabulary), tokenizer_config.json and generation_config.json."""
    tokens = meta.get("tokenizer.ggml.tokens")
    if not tokens:
        return None, {}, {}
    kinds = meta.get("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    model = meta.get("tokenizer.ggml.model")
    bos, eos = meta.get("tokenizer.ggml.bos_token_id"), meta.get("tokenizer.ggml.eos_token_id")
    if len(kinds) != len(tokens) or any(i is not None and not 0 <= i < len(tokens) for i in (bos, eos)):
        raise CheckpointError(f"The vocabulary has {len(tokens)} tokens, {len(kinds)} kinds of tokens, and the ends {bos} "
                              f"and {eos}.")
    vocab = {t: i for i, t in enumerate(tokens)}
    added = [{"id": i, "content": t, "special": kinds[i] == CONTROL, "normalized": False, "single_word": False,
              "lstrip": False, "rstrip": False} for i, t in enumerate(tokens) if kinds[i] in (CONTROL, USER, UNKNOWN)]
    out: dict = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "post_processor": None}
    body = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab}
    adds_bos = meta.get("tokenizer.ggml.add_bos_token", model == "llama")
    if model == "gpt2":
        cut = _byte_level(meta.get("tokenizer.ggml.pre", ""))
        if cut is None:
            raise CheckpointError(f"The file cuts words as '{meta.get('tokenizer.ggml.pre')}' does, which is not known; "
                                  "put the tokenizer.json of the model beside the file.")
        body["merges"] = [m.split(" ", 1) for m in meta.get("tokenizer.ggml.merges", ())]
        body["ignore_merges"] = meta.get("tokenizer.ggml.pre") in ("llama-bpe", "llama-v3", "llama3")
        if meta.get("tokenizer.ggml.pre") == "qwen2":
            out["normalizer"] = {"type": "NFC"}
        out |= {"pre_tokenizer": cut, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                                                  "use_regex": True}}
    elif model == "llama":
        scores = meta.get("tokenizer.ggml.scores") or [0.0] * len(tokens)
        unknown = next((t for i, t in enumerate(tokens) if kinds[i] == UNKNOWN), None)
        body |= {"merges": _merges_by_score(tokens, scores, kinds), "byte_fallback": True, "fuse_unk": True,
                 "unk_token": unknown}
        space = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        undo = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
        steps = [undo, {"type": "ByteFallback"}, {"type": "Fuse"}]
        if meta.get("tokenizer.ggml.add_space_prefix", True):
            out["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, space]}
            steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        else:
            out["normalizer"] = space
        out |= {"pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": steps}}
    else:
        raise CheckpointError(f"The file has the tokenizer '{model}'; gpt2 and llama are supported.")
    out["model"] = body
    config: dict = {"add_bos_token": bool(adds_bos and bos is not None)}
    if bos is not None:
        config["bos_token"] = tokens[bos]
    if eos is not None:
        config["eos_token"] = tokens[eos]
    if config["add_bos_token"]:
        first = [{"SpecialToken": {"id": tokens[bos], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        out["post_processor"] = {"type": "TemplateProcessing", "single": first, "pair": first + [
            {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {
                tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}}}
    if meta.get("tokenizer.chat_template"):
        config["chat_template"] = meta["tokenizer.chat_template"]
    return out, config, {"eos_token_id": eos} if eos is not None else {}
