# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints with random weights, in the forms in which models of each family are published.

The same name gives the same numbers everywhere: `reference.py` loads these folders into the package transformers and
records what it computes, the test compares that with what the exported programs compute.
"""
import json
import zlib

import ml_dtypes
import numpy as np

VOCABULARY = 512
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": 64,
         "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
         "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}
GEMMA = {**LLAMA, "hidden_activation": "gelu_pytorch_tanh", "head_dim": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": True}
del GEMMA["hidden_act"]
PHI3 = {**LLAMA, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "pad_token_id": 2,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5],
                         "long_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 4.0]}}
MODELS = {
    "llama2": {**LLAMA, "num_key_value_heads": 4},
    "llama3": {**LLAMA, "rope_theta": 500000.0, "rope_scaling": LLAMA3_ROPE, "tie_word_embeddings": True, "head_dim": 32},
    "llama_biases": {**LLAMA, "attention_bias": True, "mlp_bias": True,
                     "rope_scaling": {"type": "linear", "factor": 2.0}},
    "mistral": {**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 8},
    "qwen2": {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1000000.0,
              "use_sliding_window": False, "sliding_window": 16, "max_window_layers": 1, "tie_word_embeddings": True},
    "qwen2_yarn": {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False,
                   "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
    "qwen3": {**LLAMA, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 32,
              "attention_bias": False, "use_sliding_window": False},
    "mixtral": {**LLAMA, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 4,
                "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2_moe": {**LLAMA, "model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "num_experts": 6,
                  "num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
                  "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [], "use_sliding_window": False,
                  "sliding_window": 16, "max_window_layers": 1},
    "qwen3_moe": {**LLAMA, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "head_dim": 32,
                  "num_hidden_layers": 3, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                  "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1], "attention_bias": False,
                  "use_sliding_window": False},
    "phi3": {**PHI3, "partial_rotary_factor": 0.75, "sliding_window": 16, "original_max_position_embeddings": 64},
    # All texts of the tests are beyond the original context.
    "phi3_long": {**PHI3, "max_position_embeddings": 64, "partial_rotary_factor": 0.75, "sliding_window": None,
                  "original_max_position_embeddings": 16},
    "phi3_mini": {**PHI3, "num_key_value_heads": 4, "rope_scaling": None, "sliding_window": 8},
    "smollm3": {**LLAMA, "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "num_hidden_layers": 4,
                "no_rope_layer_interval": 2, "no_rope_layers": [1, 0, 1, 0], "pad_token_id": 2, "use_sliding_window": False,
                "tie_word_embeddings": True},
    "granite": {**LLAMA, "model_type": "granite", "architectures": ["GraniteForCausalLM"], "embedding_multiplier": 12.0,
                "attention_multiplier": 0.3, "residual_multiplier": 0.22, "logits_scaling": 4.0, "pad_token_id": 2,
                "attention_bias": False, "mlp_bias": False},
    "olmo2": {**LLAMA, "model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "pad_token_id": 2,
              "attention_bias": False, "rope_theta": 500000.0},
    "gpt_oss": {**LLAMA, "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_local_experts": 4,
                "num_experts_per_tok": 2, "head_dim": 16, "sliding_window": 8, "attention_bias": True, "pad_token_id": 2,
                "layer_types": ["sliding_attention", "full_attention"], "swiglu_limit": 2.0, "rope_theta": 150000,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                                 "original_max_position_embeddings": 32}},
    "gemma": {**GEMMA, "model_type": "gemma", "architectures": ["GemmaForCausalLM"], "num_key_value_heads": 1},
    "gemma2": {**GEMMA, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "sliding_window": 8,
               "query_pre_attn_scalar": 24, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "gemma3": {**GEMMA, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "sliding_window": 8,
               "num_hidden_layers": 3, "sliding_window_pattern": 3, "query_pre_attn_scalar": 24, "rope_theta": 1000000.0,
               "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_embd": 64,
             "n_layer": 2, "n_head": 4, "n_positions": 128, "n_ctx": 128, "activation_function": "gelu_new",
             "layer_norm_epsilon": 1e-5, "bos_token_id": 0, "eos_token_id": 1},
}
PROMPT = [0, 17, 300, 45, 45, 210, 9, 131, 77, 256, 18, 3, 99, 281, 64, 5, 240, 111, 30, 12, 199, 8, 150]


def numbers(name, shape, scale, middle=0.0):
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    return (middle + scale * rng.standard_normal(shape)).astype(np.float32)


def is_mixture(c, layer):
    return c["model_type"] == "mixtral" or "num_experts" in c and layer not in c["mlp_only_layers"]


def llama_tensors(name, c):
    d, inner = c["hidden_size"], c["intermediate_size"]
    size = c.get("head_dim", d // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    gemma = c["model_type"].startswith("gemma")
    post = c["model_type"] in ("gemma2", "gemma3_text")
    out = {}

    def matrix(key, rows, columns, bias=False):
        out[key + ".weight"] = numbers(f"{name}/{key}", (rows, columns), columns ** -0.5)
        if bias:
            out[key + ".bias"] = numbers(f"{name}/{key}.bias", (rows,), 0.2)

    def norm(key, n):
        out[key + ".weight"] = numbers(f"{name}/{key}", (n,), 0.2, 0.0 if gemma else 1.0)
    out["model.embed_tokens.weight"] = numbers(f"{name}/embed", (c["vocab_size"], d),
                                               0.05 if c["tie_word_embeddings"] else 1.0)  # else a token repeats itself
    qkv = c["model_type"] in ("qwen2", "qwen2_moe") or c.get("attention_bias", False)
    phi3, olmo2 = c["model_type"] == "phi3", c["model_type"] == "olmo2"
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for part, rows in (("qkv_proj", q + 2 * kv),) if phi3 else (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
            matrix(f"{at}self_attn.{part}", rows, d, qkv)
        matrix(at + "self_attn.o_proj", d, q, c.get("attention_bias", False))
        if c["model_type"] == "mixtral":
            matrix(at + "block_sparse_moe.gate", c["num_local_experts"], d)
            for e in range(c["num_local_experts"]):
                for part, rows, columns in (("w1", inner, d), ("w3", inner, d), ("w2", d, inner)):
                    matrix(f"{at}block_sparse_moe.experts.{e}.{part}", rows, columns)
        elif c["model_type"] == "gpt_oss":
            count = c["num_local_experts"]
            matrix(at + "mlp.router", count, d, True)
            for part, columns, rows in (("gate_up_proj", d, 2 * inner), ("down_proj", inner, d)):
                key = f"{at}mlp.experts.{part}"
                out[key] = numbers(f"{name}/{key}", (count, columns, rows), 1.5 * columns ** -0.5)
                out[key + "_bias"] = numbers(f"{name}/{key}_bias", (count, rows), 0.2)
            out[at + "self_attn.sinks"] = numbers(f"{name}/{at}sinks", (c["num_attention_heads"],), 1.0)
        elif is_mixture(c, i):
            matrix(at + "mlp.gate", c["num_experts"], d)
            gated = [(f"experts.{e}.", c["moe_intermediate_size"]) for e in range(c["num_experts"])]
            if "shared_expert_intermediate_size" in c:
                gated.append(("shared_expert.", c["shared_expert_intermediate_size"]))
                matrix(at + "mlp.shared_expert_gate", 1, d)
            for which, width in gated:
                matrix(f"{at}mlp.{which}gate_proj", width, d)
                matrix(f"{at}mlp.{which}up_proj", width, d)
                matrix(f"{at}mlp.{which}down_proj", d, width)
        else:
            for part, rows in (("gate_up_proj", 2 * inner),) if phi3 else (("gate_proj", inner), ("up_proj", inner)):
                matrix(f"{at}mlp.{part}", rows, d, c.get("mlp_bias", False))
            matrix(at + "mlp.down_proj", d, inner, c.get("mlp_bias", False))
        if not olmo2:
            norm(at + "input_layernorm", d)
        norm(at + "post_attention_layernorm", d)
        if post:
            norm(at + "pre_feedforward_layernorm", d)
        if post or olmo2:
            norm(at + "post_feedforward_layernorm", d)
        if olmo2:
            norm(at + "self_attn.q_norm", q)
            norm(at + "self_attn.k_norm", kv)
        if c["model_type"] in ("qwen3", "qwen3_moe", "gemma3_text"):
            norm(at + "self_attn.q_norm", size)
            norm(at + "self_attn.k_norm", size)
    norm("model.norm", d)
    if not c["tie_word_embeddings"]:
        matrix("lm_head", c["vocab_size"], d)
    return out


def gpt2_tensors(name, c):
    d, inner, out = c["n_embd"], 4 * c["n_embd"], {}

    def affine(key, rows, columns):
        out[key + ".weight"] = numbers(f"{name}/{key}", (rows, columns), rows ** -0.5)
        out[key + ".bias"] = numbers(f"{name}/{key}.bias", (columns,), 0.2)

    def norm(key):
        out[key + ".weight"] = numbers(f"{name}/{key}", (d,), 0.2, 1.0)
        out[key + ".bias"] = numbers(f"{name}/{key}.bias", (d,), 0.2)
    out["transformer.wte.weight"] = numbers(f"{name}/wte", (c["vocab_size"], d), 0.05)
    out["transformer.wpe.weight"] = numbers(f"{name}/wpe", (c["n_positions"], d), 0.05)
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        affine(at + "attn.c_attn", d, 3 * d)
        affine(at + "attn.c_proj", d, d)
        affine(at + "mlp.c_fc", d, inner)
        affine(at + "mlp.c_proj", inner, d)
        norm(at + "ln_1")
        norm(at + "ln_2")
    norm("transformer.ln_f")
    return out


def tensors_of(name):
    config = MODELS[name]
    return gpt2_tensors(name, config) if config["model_type"] == "gpt2" else llama_tensors(name, config)


TYPES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(ml_dtypes.bfloat16): "BF16",
         np.dtype(np.int32): "I32", np.dtype(np.int64): "I64", np.dtype(np.uint8): "U8"}


def write_safetensors(path, arrays):
    header, at, parts = {"__metadata__": {"format": "pt"}}, 0, []
    for key, array in arrays.items():
        parts.append(array.tobytes())
        header[key] = {"dtype": TYPES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def write(name, folder, dtype=np.float32, shards=1, silent=()):
    """The checkpoint `name` in `folder`. Tokens that are `silent` have the logit 0, less than that of many others."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MODELS[name]))
    arrays = {k: a.astype(dtype) for k, a in tensors_of(name).items()}
    for token in silent:
        arrays["lm_head.weight"][token] = 0
    if shards == 1:
        write_safetensors(folder / "model.safetensors", arrays)
        return
    keys, index = list(arrays), {}
    for s in range(shards):
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(folder / file, {k: arrays[k] for k in keys[s::shards]})
        index |= dict.fromkeys(keys[s::shards], file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
