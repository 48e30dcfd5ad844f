# SPDX-License-Identifier: Apache-2.0
"""GGUF files as llama.cpp's converter writes them: its names, its order of the rows of queries and keys, its norms."""
import math
import struct

import ml_dtypes
import numpy as np

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
LLAMA = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GEMMA = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
OLMO2 = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GRANITE = {"embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
           "attention_multiplier": "attention.scale", "logits_scaling": "logit_scale"}
PHI3 = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
GPT_OSS = {"post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp", "self_attn.sinks": "attn_sinks"}
GPT2 = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
# Of mixtures of experts; the experts' matrices are put one behind the other.
MIXTURE = {"block_sparse_moe.gate": "ffn_gate_inp", "mlp.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
           "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
           "mlp.shared_expert.down_proj": "ffn_down_shexp"}
EXPERTS = {"w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps", "gate_proj": "ffn_gate_exps",
           "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
ARCHITECTURES = {"gemma3_text": "gemma3", "mistral": "llama", "mixtral": "llama", "qwen2_moe": "qwen2moe",
                 "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss"}


def q8_0(w):
    out = bytearray()
    for block in w.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 127)
        values = np.rint(block / np.float32(scale) if scale else block * 0).astype(np.int8)
        out += scale.tobytes() + values.tobytes()
    return bytes(out)


def q4_0(w):
    out = bytearray()
    for block in w.reshape(-1, 32):
        scale = np.float16(block[np.abs(block).argmax()] / -8)
        inverse = np.float32(1) / np.float32(scale) if scale else np.float32(0)
        q = np.clip(np.floor(block * inverse + 8.5), 0, 15).astype(np.uint8)
        out += scale.tobytes() + (q[:16] | q[16:] << 4).tobytes()
    return bytes(out)


KINDS = {"F32": (0, lambda w: w.astype(np.float32).tobytes()), "F16": (1, lambda w: w.astype(np.float16).tobytes()),
         "BF16": (30, lambda w: w.astype(ml_dtypes.bfloat16).tobytes()), "Q8_0": (8, q8_0), "Q4_0": (2, q4_0)}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_of(value):
    """(type, bytes)"""
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, text(value)
    kind = value_of(value[0])[0]
    kind = I32 if kind == U32 else kind
    pack = {I32: lambda v: struct.pack("<i", v)}.get(kind, lambda v: value_of(v)[1])
    return ARRAY, struct.pack("<IQ", kind, len(value)) + b"".join(pack(v) for v in value)


def renamed(name, family):
    """llama.cpp's name of one of Hugging Face's."""
    outside = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
               "lm_head.weight": "output.weight", "transformer.wte.weight": "token_embd.weight",
               "transformer.wpe.weight": "position_embd.weight", "transformer.ln_f.weight": "output_norm.weight",
               "transformer.ln_f.bias": "output_norm.bias"}
    if name in outside:
        return outside[name]
    _, _, layer, part = name.split(".", 3)
    part, kind = (part, "weight") if part.endswith(".sinks") else part.rsplit(".", 1)
    more = {"gemma2": GEMMA, "gemma3_text": GEMMA, "phi3": PHI3, "gpt_oss": GPT_OSS, "olmo2": OLMO2}
    names = GPT2 if family == "gpt2" else LLAMA | more.get(family, MIXTURE)
    return f"blk.{layer}.{names[part]}.{kind}"


def gpt_oss_experts(layer, part, w):
    """[experts, in, out] to [experts, out, in], the rows of gate and up apart."""
    kind = "bias" if part.endswith("_bias") else "weight"
    w = w if kind == "bias" else w.swapaxes(1, 2)
    if part.startswith("down_proj"):
        return {f"blk.{layer}.ffn_down_exps.{kind}": w}
    return {f"blk.{layer}.ffn_gate_exps.{kind}": w[:, 0::2], f"blk.{layer}.ffn_up_exps.{kind}": w[:, 1::2]}


def rope_factors(config):
    """Metadata and tensors of longrope."""
    at, rope = config["model_type"], config.get("rope_scaling") or {}
    if rope.get("type") != "longrope":
        return {}, {}
    original = config["original_max_position_embeddings"]
    factor = config["max_position_embeddings"] / original
    return ({f"{at}.rope.scaling.original_context_length": original,
             f"{at}.rope.scaling.attn_factor": math.sqrt(1 + math.log(factor) / math.log(original))},
            {f"rope_factors_{kind}.weight": np.array(rope[f"{kind}_factor"], np.float32) for kind in ("long", "short")})


def experts_together(tensors):
    """By llama.cpp's names where a tensor is an expert's, which are one array there; by Hugging Face's else."""
    out, stacks = {}, {}
    for name, w in tensors.items():
        if ".experts." not in name:
            out[name] = w
            continue
        layer, part = name.split(".")[2], name.split(".")[-2]
        if part == "experts":
            out |= gpt_oss_experts(layer, name.split(".")[-1], w)
            continue
        stacks.setdefault(f"blk.{layer}.{EXPERTS[part]}.weight", []).append(w)
    return out | {name: np.stack(parts) for name, parts in stacks.items()}


def interleaved(w, heads):
    """From halves of a head's rows to pairs."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def converted(name, w, config):
    family = config["model_type"]
    if family in ("llama", "mistral", "mixtral", "smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
        return interleaved(w, config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"])
    if family.startswith("gemma") and "norm" in name:
        return w + np.float32(1)
    if family == "gpt2" and ".c_" in name and w.ndim == 2:
        return w.T
    return w


def metadata(config):
    family = config["model_type"]
    at = ARCHITECTURES.get(family, family)
    out = {"general.architecture": at, "general.alignment": ALIGNMENT}
    if family == "gpt2":
        return at, out | {f"{at}.context_length": config["n_positions"], f"{at}.embedding_length": config["n_embd"],
                          f"{at}.block_count": config["n_layer"], f"{at}.attention.head_count": config["n_head"],
                          f"{at}.feed_forward_length": 4 * config["n_embd"],
                          f"{at}.attention.layer_norm_epsilon": config["layer_norm_epsilon"]}
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    out |= {f"{at}.context_length": config["max_position_embeddings"], f"{at}.embedding_length": config["hidden_size"],
            f"{at}.block_count": config["num_hidden_layers"], f"{at}.feed_forward_length": config["intermediate_size"],
            f"{at}.attention.head_count": config["num_attention_heads"],
            f"{at}.attention.head_count_kv": config["num_key_value_heads"], f"{at}.attention.key_length": size,
            f"{at}.attention.value_length": size, f"{at}.rope.dimension_count": size,
            f"{at}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], f"{at}.rope.freq_base": config["rope_theta"],
            f"{at}.vocab_size": config["vocab_size"]}
    count = config.get("num_experts", config.get("num_local_experts"))
    if count:
        out |= {f"{at}.expert_count": count, f"{at}.expert_used_count": config["num_experts_per_tok"]}
    for key, name in (("moe_intermediate_size", "expert"), ("shared_expert_intermediate_size", "expert_shared")):
        if config.get(key):
            out[f"{at}.{name}_feed_forward_length"] = config[key]
    if "partial_rotary_factor" in config:
        out[f"{at}.rope.dimension_count"] = int(size * config["partial_rotary_factor"])
    rope = config.get("rope_scaling") or {}
    if rope.get("rope_type") == "yarn":
        out |= {f"{at}.rope.scaling.type": "yarn", f"{at}.rope.scaling.factor": rope["factor"],
                f"{at}.rope.scaling.original_context_length": rope["original_max_position_embeddings"]}
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        out[f"{at}.attention.sliding_window"] = config["sliding_window"]
    for key, name in (("attn_logit_softcapping",) * 2, ("final_logit_softcapping",) * 2, *GRANITE.items()):
        if config.get(key):
            out[f"{at}.{name}"] = float(config[key])
    return at, out


def write(path, config, tensors, kind="F32", tokenizer=None, extra=None):
    """`kind` is the type of the matrices that a block fits; vectors are F32, as the converter leaves them."""
    _, meta = metadata(config)
    meta |= tokenizer or {}
    meta |= extra or {}
    rope, factors = rope_factors(config)
    meta |= rope
    tensors = experts_together(tensors) | factors
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta))
    for key, value in meta.items():
        number, data = value_of(value)
        header += text(key) + struct.pack("<I", number) + data
    data = b""
    for name, w in tensors.items():
        w = np.ascontiguousarray(converted(name, w, config))
        number, pack = KINDS[kind if w.ndim >= 2 and w.shape[-1] % 32 == 0 else "F32"]
        name = name if name.startswith(("blk.", "rope_factors")) else renamed(name, config["model_type"])
        header += text(name) + struct.pack("<I", w.ndim)
        header += b"".join(struct.pack("<Q", n) for n in reversed(w.shape)) + struct.pack("<IQ", number, len(data))
        data += pack(w)
        data += bytes(-len(data) % ALIGNMENT)
    path.write_bytes(header + bytes(-len(header) % ALIGNMENT) + data)
