# SPDX-License-Identifier: Apache-2.0
"""GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) as checkpoints with Hugging Face's names.

Floats, and the quantised types of gguf_blocks.py, of which Q4_0 and Q8_0 stay as they are until someone asks for numbers.
"""
from __future__ import annotations

import functools
import json
import math
import pathlib
import struct
from typing import NamedTuple

import ml_dtypes
import numpy as np

from checkpoint import Blocks, Checkpoint
from fields import GGUF, GGUF_NETWORK, GENERATION, TOKENIZER, CheckpointError, Values, shortened
from gguf_blocks import OTHERS, TYPES

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
        if count > MOST:
            raise CheckpointError(f"{self.path} has an array of {count} elements at byte {self.at}.")
        if of == STRING:
            return [self.text() for _ in range(count)]
        if of not in SCALARS:
            raise CheckpointError(f"{self.path} has an array of the unsupported type {of} at byte {self.at}.")
        return np.frombuffer(self.bytes(count * struct.calcsize(SCALARS[of])), np.dtype(SCALARS[of])).tolist()


# By general.architecture: (model_type, whether norms have had 1 added, whether heads' rows are interleaved for RoPE).
ARCHITECTURES = {"llama": ("llama", False, True), "mistral": ("mistral", False, True), "qwen2": ("qwen2", False, False),
                 "qwen3": ("qwen3", False, False), "qwen2moe": ("qwen2_moe", False, False),
                 "qwen3moe": ("qwen3_moe", False, False), "gemma": ("gemma", True, False), "gemma2": ("gemma2", True, False),
                 "gemma3": ("gemma3_text", True, False), "phi3": ("phi3", False, False),
                 "gpt-oss": ("gpt_oss", False, False), "gpt2": ("gpt2", False, False), "smollm3": ("smollm3", False, True),
                 "granite": ("granite", False, True), "olmo2": ("olmo2", False, False)}
LLAMA_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
               "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
               "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
# Parts of all experts in one tensor, by what each expert's is called in mixtral and in the others.
EXPERT_NAMES = {"ffn_gate_exps": ("w1", "gate_proj"), "ffn_up_exps": ("w3", "up_proj"), "ffn_down_exps": ("w2", "down_proj")}
MIXTURE_NAMES = {"ffn_gate_inp": "mlp.gate", "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
                 "ffn_gate_shexp": "mlp.shared_expert.gate_proj", "ffn_up_shexp": "mlp.shared_expert.up_proj",
                 "ffn_down_shexp": "mlp.shared_expert.down_proj"}
MIXTRAL_NAMES = {"ffn_gate_inp": "block_sparse_moe.gate"}
GEMMA2_NAMES = {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                "post_ffw_norm": "post_feedforward_layernorm"}
OLMO2_NAMES = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
PHI3_NAMES = {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
GPT_OSS_NAMES = {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"}
GPT2_NAMES = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
              "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
           "output.weight": "lm_head.weight"}
GPT2_OUTSIDE = {"token_embd.weight": "wte.weight", "position_embd.weight": "wpe.weight", "output_norm.weight": "ln_f.weight",
                "output_norm.bias": "ln_f.bias", "output.weight": "lm_head.weight"}


MIXTURES = ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss")


def _experts_of(name: str, family: str) -> str | None:
    """The names of the tensors that this one holds one after the other, with {} for the expert."""
    parts = name.split(".")
    if family not in MIXTURES or len(parts) != 4 or parts[0] != "blk" or parts[2] not in EXPERT_NAMES:
        return None
    mixtral, other = EXPERT_NAMES[parts[2]]
    if family == "gpt_oss":
        return f"model.layers.{parts[1]}.mlp.experts.{other}.{{}}"
    if family == "mixtral":
        return f"model.layers.{parts[1]}.block_sparse_moe.experts.{{}}.{mixtral}.{parts[3]}"
    return f"model.layers.{parts[1]}.mlp.experts.{{}}.{other}.{parts[3]}"


def _name_of(name: str, family: str) -> str | None:
    if name in (GPT2_OUTSIDE if family == "gpt2" else OUTSIDE):
        return (GPT2_OUTSIDE if family == "gpt2" else OUTSIDE)[name]
    if not name.startswith("blk."):
        return None
    _, layer, part, kind = (name.split(".") + ["", "", ""])[:4]
    if family == "gpt_oss" and part == "attn_sinks":
        return f"model.layers.{layer}.self_attn.sinks"
    if family == "gpt_oss" and part in EXPERT_NAMES:  # its biases
        return f"model.layers.{layer}.mlp.experts.{EXPERT_NAMES[part][1]}_bias"
    if family == "gpt2":
        names = GPT2_NAMES
    elif family in ("phi3", "gpt_oss"):
        names = {**LLAMA_NAMES, **(PHI3_NAMES if family == "phi3" else GPT_OSS_NAMES)}
    elif family in ("gemma2", "gemma3_text"):
        names = {**LLAMA_NAMES, **GEMMA2_NAMES}
    elif family == "olmo2":
        names = {**LLAMA_NAMES, **OLMO2_NAMES}
    elif family in MIXTURES:
        names = {**LLAMA_NAMES, **(MIXTRAL_NAMES if family == "mixtral" else MIXTURE_NAMES)}
    else:
        names = LLAMA_NAMES
    if part not in names:
        return None
    return f"h.{layer}.{names[part]}.{kind}" if family == "gpt2" else f"model.layers.{layer}.{names[part]}.{kind}"


def _config(meta: Values, network: Values, family: str, factors: dict[str, list[float]]) -> dict:
    """Hugging Face's configuration."""
    of = network.get
    vocabulary = len(meta.get("tokenizer.ggml.tokens")) or of("vocab_size")
    if family == "gpt2":
        return {"model_type": "gpt2", "vocab_size": vocabulary, "n_embd": of("embedding_length"),
                "n_layer": of("block_count"), "n_head": of("attention.head_count"), "n_positions": of("context_length"),
                "n_inner": of("feed_forward_length"), "layer_norm_epsilon": of("attention.layer_norm_epsilon"),
                "activation_function": "gelu_new"}
    heads = of("attention.head_count")
    size = of("attention.key_length") or max(of("embedding_length") // heads, 1)
    rope = {}
    if of("rope.scaling.type") not in (None, "none") and of("rope.scaling.factor"):
        rope = {"rope_type": of("rope.scaling.type"), "factor": of("rope.scaling.factor"),
                "original_max_position_embeddings": of("rope.scaling.original_context_length")}
    if "rope_freqs" in factors:
        rope = {"rope_type": "factors", "factors": factors["rope_freqs"]}
    elif "rope_factors_long" in factors:
        rope = {"rope_type": "longrope", "short_factor": factors.get("rope_factors_short"),
                "long_factor": factors["rope_factors_long"], "attention_factor": of("rope.scaling.attn_factor"),
                "original_max_position_embeddings": of("rope.scaling.original_context_length")}
    config = {"model_type": family, "vocab_size": vocabulary, "hidden_size": of("embedding_length"),
              "num_hidden_layers": of("block_count"), "num_attention_heads": heads,
              "num_key_value_heads": of("attention.head_count_kv", default=heads), "intermediate_size": of("feed_forward_length"),
              "max_position_embeddings": of("context_length"), "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
              "rope_theta": of("rope.freq_base"), "rope_scaling": rope, "head_dim": of("attention.key_length"),
              "sliding_window": of("attention.sliding_window"), "hidden_act": "silu",
              "attn_logit_softcapping": of("attn_logit_softcapping"),
              "final_logit_softcapping": of("final_logit_softcapping")}
    if family == "llama" and config["sliding_window"]:
        config["model_type"] = "mistral"  # of one architecture in these files
    if family in MIXTURES:
        config |= {"num_local_experts": of("expert_count"), "num_experts": of("expert_count"),
                   "num_experts_per_tok": of("expert_used_count"),
                   "moe_intermediate_size": of("expert_feed_forward_length"),
                   "shared_expert_intermediate_size": of("expert_shared_feed_forward_length"),
                   "norm_topk_prob": family != "qwen2_moe"}  # not in the file
    if family == "gpt_oss":
        config["intermediate_size"] = of("expert_feed_forward_length", default=config["intermediate_size"])
        rope["truncate"] = False  # not in the file
    if family == "olmo2" and config["sliding_window"]:
        raise CheckpointError("The file's olmo2 has sliding windows, as OLMo 3 does, which is not supported.")
    if family == "smollm3":
        config["no_rope_layer_interval"] = 4  # not in the file
    if family == "granite":
        config |= {"embedding_multiplier": of("embedding_scale"), "residual_multiplier": of("residual_scale"),
                   "attention_multiplier": of("attention.scale", default=size ** -0.5), "logits_scaling": of("logit_scale")}
    if family == "phi3" and of("rope.dimension_count"):
        config["partial_rotary_factor"] = of("rope.dimension_count") / size
    if config["head_dim"] is None and family in ("llama", "mistral", "mixtral") and of("rope.dimension_count"):
        config["head_dim"] = of("rope.dimension_count")
    if family in ("gemma2", "gemma3_text"):
        # Not in the file; the 27B models are the only ones that do not scale by the head's size.
        large = {"gemma2": of("block_count") == 46, "gemma3_text": of("block_count") == 62}[family]
        config["query_pre_attn_scalar"] = config["hidden_size"] // heads if large else config["head_dim"] or 256
    return config


def _in_halves(array, heads: int, name: str):
    """Rows of each head from RoPE's pairs (0, 1), (2, 3), .. to halves, which Hugging Face has."""
    rows = array.shape[0] if array.shape else 0
    if rows % (2 * heads):
        raise CheckpointError(f"The tensor {name!r} is {list(array.shape)}, which {heads} heads of an even size do not divide.")
    order = np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)
    return array[order]


def _tensor(reader: _Reader, begin: int, kind: int, shape: tuple[int, ...], heads: int, minus: float, name: str):
    _, per, size, read = TYPES[kind]
    raw = reader.data[begin:begin + math.prod(shape) // per * size]
    if len(shape) == 2 or per == 1:
        out = read(raw, shape)
    else:  # blocks that are no matrix
        out = read(raw, (math.prod(shape[:-1]), shape[-1]))
        out = (out.numbers() if isinstance(out, Blocks) else out).reshape(shape)
    if heads:
        out = _in_halves(out, heads, name)
    if not minus:
        return out
    return (out.numbers() if isinstance(out, Blocks) else out) - np.float32(minus)


class _Entry(NamedTuple):
    """A tensor of the file."""
    name: str
    shape: tuple[int, ...]
    kind: int
    begin: int

    def reader(self, reader: _Reader, heads: int = 0, minus: float = 0.0):
        return functools.partial(_tensor, reader, self.begin, self.kind, self.shape, heads, minus, self.name)

    def parts(self, reader: _Reader) -> list:
        """What reads each of the matrices that it holds one after the other."""
        _, per, size, _ = TYPES[self.kind]
        of_one = math.prod(self.shape[1:]) // per * size
        return [functools.partial(_tensor, reader, self.begin + e * of_one, self.kind, self.shape[1:], 0, 0.0, self.name)
                for e in range(self.shape[0])]


def _header(reader: _Reader) -> tuple[dict, list[_Entry]]:
    """The metadata, and the tensors."""
    path = reader.path
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
        name, rank = reader.text(), reader.scalar(4)
        if not 1 <= rank <= 4:
            raise CheckpointError(f"{path}: the tensor {shortened(name)} has {rank} dimensions; it is 1 to 4.")
        dims = [reader.scalar(10) for _ in range(rank)]
        entries.append(_Entry(name, tuple(reversed(dims)), reader.scalar(4), reader.scalar(10)))
    alignment = Values(meta, GGUF, str(path)).get("general.alignment")
    data = -(-reader.at // alignment) * alignment
    return meta, [e._replace(begin=data + e.begin) for e in entries]


def _check(reader: _Reader, entry: _Entry) -> None:
    if entry.kind not in TYPES:
        raise CheckpointError(f"{reader.path}: the tensor {shortened(entry.name)} has the type {OTHERS.get(entry.kind, entry.kind)}; "
                              f"{', '.join(t[0] for t in TYPES.values())} are read.")
    _, per, size, _ = TYPES[entry.kind]
    if entry.shape[-1] % per:
        raise CheckpointError(f"{reader.path}: the tensor {shortened(entry.name)} of {list(entry.shape)} has rows that are no blocks of "
                              f"{per}.")
    if not min(entry.shape) or entry.begin + math.prod(entry.shape) // per * size > reader.data.size:
        raise CheckpointError(f"{reader.path}: the tensor {shortened(entry.name)} of {list(entry.shape)} does not lie within the file.")


def open_gguf(path: pathlib.Path) -> Checkpoint:
    if not path.is_file():
        raise CheckpointError(f"{path} is neither a folder nor a file.")
    reader = _Reader(path)
    raw, entries = _header(reader)
    meta = Values(raw, GGUF, str(path))
    architecture = meta.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise CheckpointError(f"{path} has the architecture {shortened(architecture)}; {', '.join(ARCHITECTURES)} are supported.")
    network = Values({name: raw.get(f"{architecture}.{name}") for name in GGUF_NETWORK}, GGUF_NETWORK, f"{path}, {architecture}")
    family, has_offset, is_interleaved = ARCHITECTURES[architecture]
    if family == "llama" and network.get("expert_count"):
        family = "mixtral"
    heads = network.get("attention.head_count")
    heads_of = {"q_proj": heads, "k_proj": network.get("attention.head_count_kv", default=heads)} if is_interleaved else {}

    out, factors = {}, {}
    for entry in entries:
        _check(reader, entry)
        if entry.name in ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"):
            factors[entry.name.removesuffix(".weight")] = np.asarray(entry.reader(reader)(), np.float32).tolist()
        if (each := _experts_of(entry.name, family)) is not None and len(entry.shape) == 3:
            out |= {each.format(e): part for e, part in enumerate(entry.parts(reader))}
            continue
        ours = _name_of(entry.name, family)
        if ours is None:
            continue
        rows_of = next((n for part, n in heads_of.items() if f".self_attn.{part}." in ours), 0)
        read = entry.reader(reader, rows_of, 1.0 if has_offset and "norm" in ours else 0.0)
        if family == "gpt2" and len(entry.shape) == 2 and ours.startswith("h."):  # [in, out] there
            read = functools.partial(_transposed, read)
        out[ours] = read
    config = _config(meta, network, family, factors)
    config["tie_word_embeddings"] = "lm_head.weight" not in out
    from gguf_tokenizer import tokenizer_of
    tokenizer, tokenizer_config, generation = tokenizer_of(meta, (path.parent / "tokenizer.json").is_file())
    # All blocks have scales of f16, or of their own.
    types = [{"F32": np.dtype(np.float32), "BF16": np.dtype(ml_dtypes.bfloat16)}.get(TYPES[e.kind][0], np.dtype(np.float16))
             for e in entries]
    return Checkpoint(config, out, path.parent, types, json.dumps(tokenizer) if tokenizer else None,
                      Values(tokenizer_config, TOKENIZER, str(path)), Values(generation, GENERATION, str(path)), str(path))


def _transposed(read):
    out = read()
    return (out.numbers() if isinstance(out, Blocks) else out).T
