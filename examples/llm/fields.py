# SPDX-License-Identifier: Apache-2.0
"""What is read of the JSON files of checkpoints and of exported folders, and of GGUF's metadata: each value's type, range
and default, in tables. Whatever such a file holds, it is read as a table says, or refused by a CheckpointError.

Nothing but Python's own modules: generate.py reads its folder with it.
"""
from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from typing import Any, Callable, Mapping


class CheckpointError(ValueError):
    """What is wrong with a checkpoint or an exported folder, or not supported of it, as a sentence."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """`take` gives the value as it is used, or None where it is not of this kind; `says` is what it has to be."""
    says: str
    take: Callable[[Any], Any]


def whole(low: int, high: int) -> Kind:
    """Also as 8192.0, which some writers make of it."""
    def take(value):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        is_it = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return value if is_it else None
    return Kind(f"a whole number from {low} to {high}", take)


def number(low: float, high: float) -> Kind:
    """What float32 holds: the networks compute with it. What is above 0 is so in float32 too."""
    def take(value):
        is_it = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        return float(value) if is_it else None
    return Kind("a number above 0" if low == LEAST else "a number" if low == -MOST else f"a number from {low:g} to {high:g}", take)


def list_of(kind: Kind, most: int = 1 << 20) -> Kind:
    def take(value):
        if not isinstance(value, list) or len(value) > most:
            return None
        out = [kind.take(v) for v in value]
        return None if any(v is None for v in out) else out
    return Kind(f"a list of which each is {kind.says}", take)


def either(*kinds: Kind) -> Kind:
    def take(value):
        return next((taken for taken in (kind.take(value) for kind in kinds) if taken is not None), None)
    return Kind(" or ".join(kind.says for kind in kinds), take)


def one_of(*values) -> Kind:
    return Kind(f"one of {', '.join(map(str, values))}", lambda value: value if isinstance(value, str) and value in values else None)


LEAST, MOST = 1.2e-38, 3.4e38  # of float32's normal numbers
TEXT = Kind("a text", lambda value: value if isinstance(value, str) else None)
FLAG = Kind("true or false", lambda value: value if isinstance(value, bool) else None)
OBJECT = Kind("an object", lambda value: value if isinstance(value, dict) else None)
ABOVE_0, NUMBER, SHARE = number(LEAST, MOST), number(-MOST, MOST), number(0, 1)
# No network has sizes near these; with all of them below, whatever is counted fits memory and 64 bits.
LAYERS, HEADS, WIDTH = whole(1, 1 << 12), whole(1, 1 << 16), whole(1, 1 << 24)
POSITIONS, TOKEN = whole(1, (1 << 31) - 1), whole(0, (1 << 31) - 1)
# Texts as they are, and as the objects that some files have of special tokens.
SPECIAL = either(TEXT, Kind("an object with a text 'content'", lambda value: (
    value["content"] if isinstance(value, dict) and isinstance(value.get("content"), str) else None)))
NAMES, PIECES = list_of(TEXT), list_of(TEXT, 1 << 24)
REQUIRED = object()


@dataclasses.dataclass(frozen=True)
class Field:
    """`default` is what stands for a value that is not there, or null; REQUIRED: there is none, so that it has to be there
    wherever the family needs it. A default of None leaves it to the reader, who computes it from others."""
    kind: Kind
    default: Any = REQUIRED


# config.json, by the configuration classes of Hugging Face's transformers. Families differ: config.py's DEFAULTS go first.
CONFIG = {
    "model_type": Field(TEXT), "architectures": Field(NAMES, []), "text_config": Field(OBJECT, {}),
    "quantization_config": Field(OBJECT, {}),
    "vocab_size": Field(whole(1, 1 << 28)), "hidden_size": Field(WIDTH), "intermediate_size": Field(WIDTH),
    "num_hidden_layers": Field(LAYERS), "num_attention_heads": Field(HEADS), "num_key_value_heads": Field(HEADS, None),
    "head_dim": Field(HEADS, None), "max_position_embeddings": Field(POSITIONS, 2048),
    "rms_norm_eps": Field(ABOVE_0, 1e-6), "hidden_act": Field(TEXT, "silu"), "hidden_activation": Field(TEXT, "gelu_pytorch_tanh"),
    "tie_word_embeddings": Field(FLAG, False), "use_bidirectional_attention": Field(FLAG, False),
    # Rotary embeddings.
    "rope_theta": Field(ABOVE_0, 10000.0), "rope_local_base_freq": Field(ABOVE_0, 10000.0),
    "rope_scaling": Field(OBJECT, None), "rope_parameters": Field(OBJECT, None),
    "partial_rotary_factor": Field(number(LEAST, 1), None), "original_max_position_embeddings": Field(POSITIONS, None),
    "no_rope_layers": Field(list_of(either(FLAG, whole(0, 1))), None), "no_rope_layer_interval": Field(LAYERS, 4),
    # Windows. Neither 0 nor null is one.
    "use_sliding_window": Field(FLAG, None), "sliding_window": Field(whole(0, (1 << 31) - 1), 0),
    "layer_types": Field(NAMES, None), "sliding_window_pattern": Field(LAYERS, 6), "max_window_layers": Field(TOKEN, 28),
    # Experts.
    "num_local_experts": Field(HEADS), "num_experts": Field(HEADS), "num_experts_per_tok": Field(HEADS),
    "moe_intermediate_size": Field(WIDTH), "shared_expert_intermediate_size": Field(WIDTH),
    "norm_topk_prob": Field(FLAG, False), "decoder_sparse_step": Field(LAYERS, 1), "mlp_only_layers": Field(list_of(TOKEN), []),
    # Factors and caps of some families.
    "query_pre_attn_scalar": Field(ABOVE_0, 256.0), "attn_logit_softcapping": Field(ABOVE_0, None),
    "final_logit_softcapping": Field(ABOVE_0, None), "embedding_multiplier": Field(NUMBER, 1.0),
    "attention_multiplier": Field(NUMBER, 1.0), "residual_multiplier": Field(NUMBER, 1.0), "logits_scaling": Field(ABOVE_0, 1.0),
    "swiglu_limit": Field(ABOVE_0, 7.0), "swiglu_alpha": Field(NUMBER, 1.702),
    # GPT-2's names.
    "n_embd": Field(WIDTH), "n_head": Field(HEADS), "n_layer": Field(LAYERS), "n_inner": Field(WIDTH, None),
    "n_positions": Field(POSITIONS), "n_ctx": Field(POSITIONS), "activation_function": Field(TEXT, "gelu_new"),
    "layer_norm_epsilon": Field(ABOVE_0, 1e-5), "scale_attn_weights": Field(FLAG, True),
    "scale_attn_by_inverse_layer_idx": Field(FLAG, False), "add_cross_attention": Field(FLAG, False),
    "eos_token_id": Field(either(TOKEN, list_of(TOKEN)), []),
}
# The object rope_scaling or rope_parameters of config.json, as transformers' modeling_rope_utils.py reads it.
ROPE = {
    "rope_type": Field(TEXT, None), "type": Field(TEXT, "default"), "rope_theta": Field(ABOVE_0, None),
    "partial_rotary_factor": Field(number(LEAST, 1), 1.0), "full_attention": Field(OBJECT, {}), "sliding_attention": Field(OBJECT, {}),
    "factor": Field(ABOVE_0), "original_max_position_embeddings": Field(POSITIONS), "attention_factor": Field(ABOVE_0, None),
    "low_freq_factor": Field(ABOVE_0), "high_freq_factor": Field(ABOVE_0),
    "beta_fast": Field(ABOVE_0, 32.0), "beta_slow": Field(ABOVE_0, 1.0), "truncate": Field(FLAG, True),
    "mscale": Field(number(0, MOST), 0.0), "mscale_all_dim": Field(number(0, MOST), 0.0),
    "short_factor": Field(list_of(ABOVE_0)), "long_factor": Field(list_of(ABOVE_0)),
    "factors": Field(list_of(ABOVE_0)),  # of a GGUF file: what each frequency is divided by
}
# The object quantization_config of config.json, by those who pack matrices so (quantised_tensors.py).
BITS = whole(1, 64)
QUANTISATION = {
    "quant_method": Field(TEXT), "bits": Field(BITS, None), "w_bit": Field(BITS, 4), "checkpoint_format": Field(TEXT, "gptq"),
    "version": Field(TEXT, "gemm"), "format": Field(TEXT, None), "config_groups": Field(OBJECT, {}), "weights": Field(OBJECT, {}),
    "num_bits": Field(BITS, None),
}
# Of a tensor in the header of a safetensors file (https://github.com/huggingface/safetensors).
LENGTH = whole(0, 1 << 60)
TENSOR = {"dtype": Field(TEXT), "shape": Field(list_of(LENGTH, 8)), "data_offsets": Field(list_of(LENGTH, 2))}
INDEX = {"weight_map": Field(OBJECT)}  # model.safetensors.index.json
TOKENIZER = {  # tokenizer_config.json
    "add_bos_token": Field(FLAG, True), "chat_template": Field(either(TEXT, list_of(OBJECT)), None),
    **{name: Field(SPECIAL, None) for name in ("bos_token", "eos_token", "unk_token", "pad_token")},
}
GENERATION = {"eos_token_id": CONFIG["eos_token_id"]}  # generation_config.json
# The metadata of GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); those of the second table follow
# the architecture's name.
GGUF = {
    "general.architecture": Field(TEXT), "general.alignment": Field(whole(1, 1 << 20), 32),
    "tokenizer.ggml.model": Field(TEXT), "tokenizer.ggml.pre": Field(TEXT, ""), "tokenizer.ggml.tokens": Field(PIECES, []),
    "tokenizer.ggml.token_type": Field(list_of(whole(0, 255), 1 << 24), []), "tokenizer.ggml.merges": Field(PIECES, []),
    "tokenizer.ggml.scores": Field(list_of(NUMBER, 1 << 24), []), "tokenizer.ggml.bos_token_id": Field(TOKEN, None),
    "tokenizer.ggml.eos_token_id": Field(TOKEN, None), "tokenizer.ggml.unknown_token_id": Field(TOKEN, None),
    "tokenizer.ggml.add_bos_token": Field(FLAG, None), "tokenizer.ggml.add_eos_token": Field(FLAG, False),
    "tokenizer.ggml.add_space_prefix": Field(FLAG, True),
    "tokenizer.ggml.remove_extra_whitespaces": Field(FLAG, False), "tokenizer.chat_template": Field(TEXT, None),
}
GGUF_NETWORK = {
    "vocab_size": Field(CONFIG["vocab_size"].kind, None), "embedding_length": Field(WIDTH), "block_count": Field(LAYERS),
    "context_length": Field(POSITIONS), "feed_forward_length": Field(WIDTH, None), "attention.head_count": Field(HEADS),
    "attention.head_count_kv": Field(HEADS, None), "attention.key_length": Field(HEADS, None),
    "attention.sliding_window": Field(TOKEN, None), "attention.layer_norm_epsilon": Field(ABOVE_0, None),
    "attention.layer_norm_rms_epsilon": Field(ABOVE_0, None), "attention.scale": Field(NUMBER, None),
    "rope.freq_base": Field(ABOVE_0, None), "rope.dimension_count": Field(HEADS, None), "rope.scaling.type": Field(TEXT, None),
    "rope.scaling.factor": Field(number(0, MOST), 0.0), "rope.scaling.original_context_length": Field(POSITIONS, None),
    "rope.scaling.attn_factor": Field(ABOVE_0, None), "attn_logit_softcapping": Field(ABOVE_0, None),
    "final_logit_softcapping": Field(ABOVE_0, None), "expert_count": Field(TOKEN, 0), "expert_used_count": Field(HEADS, None),
    "expert_feed_forward_length": Field(WIDTH, None), "expert_shared_feed_forward_length": Field(WIDTH, None),
    "embedding_scale": Field(NUMBER, 1.0), "residual_scale": Field(NUMBER, 1.0), "logit_scale": Field(ABOVE_0, 1.0),
}
# model.json of an exported folder, and the objects within it.
FLOATS = one_of("float32", "bfloat16", "float16")
FILE = Kind("a file's name without folders", lambda value: (
    value if isinstance(value, str) and value not in ("", ".", "..") and not set(value) & set("/\\\0") else None))
PAIR = Kind("a list of two texts", lambda value: NAMES.take(value) if isinstance(value, list) and len(value) == 2 else None)
MODEL = {
    "format": Field(TOKEN), "context": Field(POSITIONS), "vocabulary": CONFIG["vocab_size"], "weights": Field(OBJECT),
    "cache": Field(OBJECT), "programs": Field(OBJECT), "tokenizer": Field(OBJECT, None), "chat": Field(OBJECT, None),
    "stop": Field(list_of(TOKEN)),
}
MODEL_WEIGHTS = {"file": Field(FILE)}
MODEL_CACHE = {"type": Field(FLOATS), "shape": Field(list_of(POSITIONS, 8)), "count": Field(TOKEN)}
MODEL_PROGRAMS = {"prefill": Field(list_of(OBJECT)), "decode": Field(OBJECT), "sample": Field(OBJECT)}
MODEL_PROGRAM = {"length": Field(whole(1, (1 << 31) - 1)), "file": Field(FILE), "inputs": Field(NAMES), "outputs": Field(NAMES),
                 "donated": Field(NAMES)}
MODEL_TOKENIZER = {"kind": Field(one_of("tokenizers", "sentencepiece")), "file": Field(FILE), "prefix": Field(list_of(TOKEN)),
                   "special": Field(OBJECT)}
MODEL_CHAT = {"begin": Field(TEXT), "begin_alone": Field(TEXT), "ask": Field(TEXT), "user": Field(PAIR), "assistant": Field(PAIR),
              "system": Field(PAIR, None), "system_in": Field(one_of("first", "last"), None), "thought": Field(PAIR, None)}


class Values:
    """An object of a file. What is asked for is checked as the table says, and the rest may be anything."""

    def __init__(self, given: Mapping[str, Any], table: Mapping[str, Field], where: str):
        self.given, self.table, self.where = given, table, where

    def has(self, name: str) -> bool:
        return self.given.get(name) is not None

    def get(self, name: str, *others: str, default: Any = None) -> Any:
        """Of the first that is there; else `default`, if there is one, else the table's."""
        for one in (name, *others):
            value = self.given.get(one)
            if value is not None:
                field = self.table[one]
                taken = field.kind.take(value)
                if taken is None:
                    raise CheckpointError(f"{self.where} has {one} {shortened(value)}; it is {field.kind.says}.")
                return taken
        if default is None:
            default = self.table[name].default
        if default is REQUIRED:
            raise CheckpointError(f"{self.where} has no {' or '.join((name, *others))}.")
        return default

    def object(self, name: str, table: Mapping[str, Field], where: str = "") -> Values:
        return Values(self.get(name), table, where or f"{self.where}, {name}")


def shortened(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, lists in lists
        return "which cannot be written"
    return text if len(text) <= 80 else text[:77] + "..."


def parsed(text: bytes, what: str) -> dict:
    """The JSON object that `text` is; `what` is the file's name for errors."""
    def refuse(constant: str):
        raise ValueError(f"{constant} is no number of JSON's")
    try:
        out = json.loads(text.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{what} is no JSON: {error}.") from None
    if not isinstance(out, dict):
        raise CheckpointError(f"{what} is no JSON object.")
    return out


def read_json(path: pathlib.Path) -> dict:
    """{} where there is no such file."""
    try:
        with open(path, "rb") as file:
            return parsed(file.read(), str(path))
    except FileNotFoundError:
        return {}


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where a tensor of a safetensors file lies in what follows the header."""
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def safetensors_header(path: pathlib.Path, sizes: Mapping[str, int]) -> tuple[dict[str, Entry], int]:
    """Of the file's tensors, and where the first byte behind the header is. `sizes` are those of the types' elements."""
    if not path.is_file():
        raise CheckpointError(f"{path} is no file." if path.exists() else f"There is no file {path}.")
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, 100_000_000):
            raise CheckpointError(f"{path} is no safetensors file: its header has {length} bytes, the file {size}.")
        header = parsed(file.read(length), f"{path} is no safetensors file: its header")
    out, held = {}, size - 8 - length
    for name, given in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(given, dict):
            raise CheckpointError(f"{path}: the tensor {shortened(name)} is {shortened(given)}, and no object.")
        values = Values(given, TENSOR, f"{path}: the tensor {shortened(name)}")
        dtype, shape, offsets = (values.get(key) for key in TENSOR)
        if dtype not in sizes:
            raise CheckpointError(f"{path}: the tensor {shortened(name)} has the type {shortened(dtype)}, which is not supported "
                                  f"(those that are: {', '.join(sizes)}).")
        begin, end = offsets if len(offsets) == 2 else (-1, -1)
        # The second one is what numpy makes of shapes with a 0.
        if (not 0 <= begin <= end <= held or math.prod(shape) * sizes[dtype] != end - begin
                or math.prod(max(d, 1) for d in shape) >= 1 << 60):
            raise CheckpointError(f"{path}: the tensor {shortened(name)} of {shape} lies at bytes {shortened(offsets)} of {held}.")
        out[name] = Entry(dtype, tuple(shape), begin, end)
    return out, 8 + length
