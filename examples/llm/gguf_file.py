# SPDX-License-Identifier: Apache-2.0
"""GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) as checkpoints with Hugging Face's names.

F32, F16, BF16, Q4_0, Q8_0, Q4_K and Q6_K are read; Q4_0 and Q8_0 stay as they are until someone asks for numbers.
"""
from __future__ import annotations

import functools
import json
import math
import pathlib
import struct

import ml_dtypes
import numpy as np

from checkpoint import Blocks, Checkpoint, CheckpointError

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
MOST = 1 << 28  # elements of an array and bytes of a text in the header, beyond which a file is not believed


class _Reader:
    def __init__(self, path: pathlib.Path):
        self.path, self.at = path, 0
        self.data = np.memmap(path, mode="r") if path.stat().st_size else np.zeros(0, np.uint8)

    def bytes(self, count: int) -> bytes:
        if not 0 <= count <= min(MOST, self.data.size - self.at):
            raise CheckpointError(f"{self.path} ends at byte {self.data.size}, within {count} bytes of its header at "
                                  f"{self.at}.")
        self.at += count
        return self.data[self.at - count:self.at].tobytes()

    def scalar(self, kind: int):
        if kind not in SCALARS:
            raise CheckpointError(f"{self.path} has a value of the unknown type {kind} at byte {self.at}.")
        return struct.unpack(SCALARS[kind], self.bytes(struct.calcsize(SCALARS[kind])))[0]

    def text(self) -> str:
        return self.bytes(self.scalar(10)).decode("utf-8", errors="replace")

    def value(self, kind: int):
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.scalar(kind)
        of, count = self.scalar(4), self.scalar(10)
        if of == STRING:
            return [self.text() for _ in range(count)]
        if of not in SCALARS:
            raise CheckpointError(f"{self.path} has an array of the unsupported type {of} at byte {self.at}.")
        return np.frombuffer(self.bytes(count * struct.calcsize(SCALARS[of])), np.dtype(SCALARS[of])).tolist()


def _f16(block: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(block).view(np.float16).astype(np.float32)


def _q8_0(raw: np.ndarray, shape) -> Blocks:
    """Blocks of 32: a scale (f16), 32 integers."""
    rows, columns = shape
    block = raw.reshape(rows, columns // 32, 34)
    values = np.ascontiguousarray(block[:, :, 2:]).view(np.int8).reshape(rows, columns)
    return Blocks(values, _f16(block[:, :, :2])[..., 0], 8)


def _q4_0(raw: np.ndarray, shape) -> Blocks:
    """Blocks of 32: a scale (f16), 16 bytes; byte i has value i in its low nibble and i + 16 in the high one, plus 8."""
    rows, columns = shape
    block = raw.reshape(rows, columns // 32, 18)
    nibbles = np.concatenate([block[:, :, 2:] & 15, block[:, :, 2:] >> 4], -1)
    return Blocks((nibbles.astype(np.int8) - 8).reshape(rows, columns), _f16(block[:, :, :2])[..., 0], 4)


def _q4_k(raw: np.ndarray, shape) -> np.ndarray:
    """Blocks of 256: scales of the scales and of the minima (f16), eight of each in 6 bits (12 bytes), 128 bytes; 32
    bytes have one group of 32 in their low nibbles and the next in the high ones. scale * q - minimum."""
    block = raw.reshape(-1, 144)
    d, least = _f16(block[:, 0:2]), _f16(block[:, 2:4])
    packed = block[:, 4:16]
    low, middle, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], 1) * d
    minima = np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], 1) * least
    quads = block[:, 16:].reshape(-1, 4, 1, 32)
    q = np.concatenate([quads & 15, quads >> 4], 2).reshape(-1, 8, 32).astype(np.float32)
    return (q * scales[:, :, None] - minima[:, :, None]).reshape(shape)


def _q6_k(raw: np.ndarray, shape) -> np.ndarray:
    """Blocks of 256: 128 bytes of low nibbles, 64 of the upper two bits, 16 scales (int8), a scale of those (f16)."""
    block = raw.reshape(-1, 210)
    low = block[:, :128].reshape(-1, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], 2).reshape(-1, 2, 4, 32)
    high = block[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    q = (low | high << 4).astype(np.int8) - 32
    scales = np.ascontiguousarray(block[:, 192:208]).view(np.int8).astype(np.float32) * _f16(block[:, 208:210])
    return (q.reshape(-1, 16, 16) * scales[:, :, None]).astype(np.float32).reshape(shape)


def _plain(dtype):
    return lambda raw, shape: raw.view(dtype).reshape(shape)


# By GGML's number of the type: (name, values a block, bytes a block, reader).
TYPES = {0: ("F32", 1, 4, _plain(np.float32)), 1: ("F16", 1, 2, _plain(np.float16)),
         30: ("BF16", 1, 2, _plain(ml_dtypes.bfloat16)), 2: ("Q4_0", 32, 18, _q4_0), 8: ("Q8_0", 32, 34, _q8_0),
         12: ("Q4_K", 256, 144, _q4_k), 14: ("Q6_K", 256, 210, _q6_k)}
OTHERS = {3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 16: "IQ2_XXS", 17: "IQ2_XS",
          18: "IQ3_XXS", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 39: "MXFP4"}

# By general.architecture: (model_type, whether norms have had 1 added, whether heads' rows are interleaved for RoPE).
ARCHITECTURES = {"llama": ("llama", False, True), "mistral": ("mistral", False, True), "qwen2": ("qwen2", False, False),
                 "qwen3": ("qwen3", False, False), "gemma": ("gemma", True, False), "gemma2": ("gemma2", True, False),
                 "gemma3": ("gemma3_text", True, False), "gpt2": ("gpt2", False, False)}
LLAMA_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
               "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
               "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GEMMA2_NAMES = {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                "post_ffw_norm": "post_feedforward_layernorm"}
GPT2_NAMES = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
              "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
           "output.weight": "lm_head.weight"}
GPT2_OUTSIDE = {"token_embd.weight": "wte.weight", "position_embd.weight": "wpe.weight", "output_norm.weight": "ln_f.weight",
                "output_norm.bias": "ln_f.bias", "output.weight": "lm_head.weight"}


def _name_of(name: str, family: str) -> str | None:
    if name in (GPT2_OUTSIDE if family == "gpt2" else OUTSIDE):
        return (GPT2_OUTSIDE if family == "gpt2" else OUTSIDE)[name]
    if not name.startswith("blk."):
        return None
    _, layer, part, kind = (name.split(".") + ["", "", ""])[:4]
    if family == "gpt2":
        names = GPT2_NAMES
    elif family in ("gemma2", "gemma3_text"):
        names = {**LLAMA_NAMES, **GEMMA2_NAMES}
    else:
        names = LLAMA_NAMES
    if part not in names:
        return None
    return f"h.{layer}.{names[part]}.{kind}" if family == "gpt2" else f"model.layers.{layer}.{names[part]}.{kind}"


def _config(meta: dict, architecture: str, family: str, factors: list[float] | None) -> dict:
    """Hugging Face's configuration."""
    def of(key: str, default=None):
        return meta.get(f"{architecture}.{key}", default)
    vocabulary = len(meta.get("tokenizer.ggml.tokens", ())) or of("vocab_size")
    if family == "gpt2":
        return {"model_type": "gpt2", "vocab_size": vocabulary, "n_embd": of("embedding_length"),
                "n_layer": of("block_count"), "n_head": of("attention.head_count"), "n_positions": of("context_length"),
                "n_inner": of("feed_forward_length"), "layer_norm_epsilon": of("attention.layer_norm_epsilon"),
                "activation_function": "gelu_new"}
    heads = of("attention.head_count")
    rope = {}
    if of("rope.scaling.type") not in (None, "none") and of("rope.scaling.factor"):
        rope = {"rope_type": of("rope.scaling.type"), "factor": of("rope.scaling.factor"),
                "original_max_position_embeddings": of("rope.scaling.original_context_length")}
    if factors is not None:
        rope = {"rope_type": "factors", "factors": factors}
    config = {"model_type": family, "vocab_size": vocabulary, "hidden_size": of("embedding_length"),
              "num_hidden_layers": of("block_count"), "num_attention_heads": heads,
              "num_key_value_heads": of("attention.head_count_kv", heads), "intermediate_size": of("feed_forward_length"),
              "max_position_embeddings": of("context_length"), "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
              "rope_theta": of("rope.freq_base"), "rope_scaling": rope, "head_dim": of("attention.key_length"),
              "sliding_window": of("attention.sliding_window"), "hidden_act": "silu",
              "attn_logit_softcapping": of("attn_logit_softcapping"),
              "final_logit_softcapping": of("final_logit_softcapping")}
    if config["head_dim"] is None and family in ("llama", "mistral") and of("rope.dimension_count"):
        config["head_dim"] = of("rope.dimension_count")
    if family in ("gemma2", "gemma3_text"):
        # Not in the file; the 27B models are the only ones that do not scale by the head's size.
        large = {"gemma2": of("block_count") == 46, "gemma3_text": of("block_count") == 62}[family]
        config["query_pre_attn_scalar"] = config["hidden_size"] // heads if large else config["head_dim"] or 256
    return config


def _in_halves(array, heads: int):
    """Rows of each head from RoPE's pairs (0, 1), (2, 3), .. to halves, which Hugging Face has."""
    rows = array.shape[0]
    order = np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)
    return array[order]


def _tensor(reader: _Reader, begin: int, kind: int, shape: tuple[int, ...], heads: int, minus: float):
    _, _, _, read = TYPES[kind]
    _, per, size, _ = TYPES[kind]
    raw = reader.data[begin:begin + math.prod(shape) // per * size]
    out = read(raw, shape)
    if heads:
        out = _in_halves(out, heads)
    return out - np.float32(minus) if minus else out


def open_gguf(path: pathlib.Path) -> Checkpoint:
    reader = _Reader(path)
    if reader.bytes(4) != b"GGUF":
        raise CheckpointError(f"{path} is neither a folder nor a GGUF file.")
    version = reader.scalar(4)
    if version not in (2, 3):
        raise CheckpointError(f"{path} is GGUF of version {version}; 2 and 3 are read.")
    tensors, values = reader.scalar(10), reader.scalar(10)
    meta = {}
    for _ in range(values):
        key = reader.text()
        meta[key] = reader.value(reader.scalar(4))
    entries = []
    for _ in range(tensors):
        name = reader.text()
        dims = [reader.scalar(10) for _ in range(reader.scalar(4))]
        entries.append((name, tuple(reversed(dims)), reader.scalar(4), reader.scalar(10)))
    alignment = meta.get("general.alignment", 32)
    begin = -(-reader.at // alignment) * alignment
    architecture = meta.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise CheckpointError(f"{path} has the architecture {architecture!r}; {', '.join(ARCHITECTURES)} are supported.")
    family, has_offset, is_interleaved = ARCHITECTURES[architecture]

    out, factors = {}, None
    for name, shape, kind, offset in entries:
        if kind not in TYPES:
            raise CheckpointError(f"{path}: the tensor {name!r} has the type {OTHERS.get(kind, kind)}; "
                                  f"{', '.join(t[0] for t in TYPES.values())} are read.")
        _, per, size, _ = TYPES[kind]
        count = math.prod(shape)
        if (shape and shape[-1] % per) or begin + offset + count // per * size > reader.data.size:
            raise CheckpointError(f"{path}: the tensor {name!r} of {list(shape)} does not lie within the file.")
        if name == "rope_freqs.weight":
            factors = _tensor(reader, begin + offset, kind, shape, 0, 0).tolist()
        ours = _name_of(name, family)
        if ours is None:
            continue
        heads = 0
        if is_interleaved and ".self_attn.q_proj." in ours:
            heads = meta[f"{architecture}.attention.head_count"]
        elif is_interleaved and ".self_attn.k_proj." in ours:
            heads = meta.get(f"{architecture}.attention.head_count_kv", meta[f"{architecture}.attention.head_count"])
        minus = 1.0 if has_offset and "norm" in ours else 0.0
        read = functools.partial(_tensor, reader, begin + offset, kind, shape, heads, minus)
        if family == "gpt2" and len(shape) == 2 and ours.startswith("h."):  # [in, out] there
            read = functools.partial(_transposed, read)
        out[ours] = read
    config = _config(meta, architecture, family, factors)
    config["tie_word_embeddings"] = "lm_head.weight" not in out
    from gguf_tokenizer import tokenizer_of
    tokenizer, tokenizer_config, generation = tokenizer_of(meta)
    return Checkpoint(config, out, path.parent, json.dumps(tokenizer) if tokenizer else None, tokenizer_config, generation)


def _transposed(read):
    out = read()
    return (out.numbers() if isinstance(out, Blocks) else out).T
