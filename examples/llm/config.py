# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint's config.json says of the network, in one form for all families."""
from __future__ import annotations

import dataclasses
import math

import numpy as np

from checkpoint import CheckpointError

# The families, by config.json's model_type. Gemma 3 with pictures holds the text model's configuration in text_config.
FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "smollm3", "granite",
            "olmo2", "gpt_oss", "gemma", "gemma2", "gemma3_text", "gpt2")
PICTURES = {"gemma3": "gemma3_text"}
# What config.json leaves out: the configuration classes of Hugging Face's transformers have these, where they are others
# than those that read_config knows. The part of a model with pictures that is the text's has what differs from them alone.
DEFAULTS = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072},
    "mixtral": {"num_key_value_heads": 8, "rope_theta": 1e6, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072},
    "qwen2": {"max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen2_moe": {"max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen3": {"max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen3_moe": {"max_position_embeddings": 32768, "sliding_window": 4096},
    "phi3": {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
    "smollm3": {"num_key_value_heads": 4, "max_position_embeddings": 32768, "rope_theta": 2e6, "tie_word_embeddings": True},
    "olmo2": {"rms_norm_eps": 1e-5},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "max_position_embeddings": 131072,
                "rope_theta": 150000.0, "rms_norm_eps": 1e-5},
    "gemma2": {"num_key_value_heads": 4, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
               "final_logit_softcapping": 30.0},
    "gemma3_text": {"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                    "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 131072,
                    "rope_theta": 1e6, "sliding_window": 4096},
}
# Families of which the classes look at sliding_window; the others have the key in some files, and no windows.
WINDOWED = ("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "smollm3", "gemma2", "gemma3_text",
            "gpt_oss")


@dataclasses.dataclass(frozen=True)
class Rope:
    """Rotary position embeddings: the angles that a position turns by, and what cosine and sine are multiplied by. They
    turn the first elements of a head, two for a frequency."""
    frequencies: tuple[float, ...]
    factor: float = 1.0
    long: tuple[float, ...] | None = None  # the frequencies of caches of more than `short_positions`
    short_positions: int = 0


@dataclasses.dataclass(frozen=True)
class Experts:
    """Feed-forward parts of which a router gives each token some, with a share of each."""
    count: int
    chosen: int           # for a token
    inner: int            # width of each
    shares_add_up: bool   # the shares of those that are chosen are divided by their sum
    shared: int           # width of the one that every token has besides; 0: there is none
    has_biases: bool = False  # the router and the products


@dataclasses.dataclass(frozen=True)
class Layer:
    rope: Rope | None
    window: int | None  # how many positions back a token sees, itself included; None: all
    experts: Experts | None = None  # in place of the one feed-forward part


@dataclasses.dataclass(frozen=True)
class Config:
    family: str
    vocabulary: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    positions: int  # the most that the model was made for
    layers: tuple[Layer, ...]
    activation: str             # of the feed-forward part: "silu", "gelu_tanh", "gelu", "relu"
    is_gated: bool              # its inner values are multiplied by a second product
    norm: str                   # "rms", "layer"
    norm_epsilon: float
    norm_offset: float          # added to a norm's weights
    attention_scale: float
    is_tied: bool               # the head is the embedding
    has_head_norms: bool        # queries and keys are normed, head by head
    has_post_norms: bool        # what attention and the feed-forward part give is normed
    embedding_scale: float = 1.0
    attention_cap: float | None = None  # cap * tanh(score / cap)
    logit_cap: float | None = None
    has_pre_norms: bool = True          # what goes into attention and the feed-forward part is normed
    has_whole_norms: bool = False       # queries and keys are normed, all heads at once
    has_sinks: bool = False             # a softmax of scores has one more for each head, without a value
    residual_scale: float = 1.0         # of what attention and the feed-forward part give
    logit_divisor: float = 1.0
    # gate * sigmoid(slope * gate) * (1 + up), both within the limit, in place of act(gate) * up.
    gate_limit: float | None = None
    gate_slope: float = 1.702


def _get(config: dict, *names: str, default=None):
    """The first that is there and not null; an error where there is neither one nor a default."""
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if default is None:
        raise CheckpointError(f"config.json has no {' or '.join(names)}.")
    return default


def _positive(config: dict, *names: str, default=None) -> int:
    value = _get(config, *names, default=default)
    if not isinstance(value, int) or not 0 < value < 2**31:
        raise CheckpointError(f"config.json has {names[0]} {value!r}; it is a whole number above 0.")
    return value


def _number(config: dict, name: str, default: float | None = None) -> float:
    """Above 0."""
    value = _get(config, name, default=default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise CheckpointError(f"config.json has {name} {value!r}; it is a number above 0.")
    return float(value)


def _yarn(rope: dict, plain: np.ndarray, base: float, size: int, positions: int) -> Rope:
    """https://arxiv.org/abs/2309.00071: high frequencies as they are, low ones divided by the factor, a ramp between."""
    factor = _number(rope, "factor")
    original = rope.get("original_max_position_embeddings") or positions

    def turns(rotations: float) -> float:
        return size * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))
    low, high = turns(rope.get("beta_fast") or 32), turns(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)

    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
    attention = rope.get("attention_factor")
    if attention is None:
        both = rope.get("mscale") and rope.get("mscale_all_dim")
        attention = magnitude(rope["mscale"]) / magnitude(rope["mscale_all_dim"]) if both else magnitude(1.0)
    return Rope(tuple(plain / factor * ramp + plain * (1 - ramp)), float(attention))


def _llama3(rope: dict, plain: np.ndarray) -> Rope:
    """Llama 3.1: wavelengths beyond the original context are divided by the factor, those in between blended."""
    factor, original = _number(rope, "factor"), _number(rope, "original_max_position_embeddings")
    low, high = _number(rope, "low_freq_factor"), _number(rope, "high_freq_factor")
    if low >= high:
        raise CheckpointError(f"config.json's rope scaling has the low_freq_factor {low}, which is not below {high}.")
    share = np.clip((original * plain / (2 * math.pi) - low) / (high - low), 0, 1)
    return Rope(tuple((1 - share) * plain / factor + share * plain))


def _longrope(rope: dict, plain: np.ndarray, positions: int) -> Rope:
    """https://arxiv.org/abs/2402.13753: a factor for each frequency, others for texts beyond the original context."""
    original = int(rope["original_max_position_embeddings"])
    short, long = (np.asarray(rope[name], np.float64) for name in ("short_factor", "long_factor"))
    if short.shape != plain.shape or long.shape != plain.shape:
        raise CheckpointError(f"config.json's rope scaling 'longrope' has {short.size} and {long.size} factors; there are "
                              f"{plain.size} frequencies.")
    factor = float(rope.get("factor") or positions / original)
    attention = rope.get("attention_factor")
    if attention is None:
        attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Rope(tuple(plain / short), float(attention), tuple(plain / long), original)


def make_rope(rope: dict, base: float, size: int, positions: int) -> Rope:
    share = float(rope.get("partial_rotary_factor") or 1.0)
    if not 0 < share <= 1:
        raise CheckpointError(f"config.json has the partial_rotary_factor {share}; it is above 0 and at most 1.")
    size = int(size * share)
    if size % 2:
        raise CheckpointError(f"Heads have {size} elements to turn; rotary embeddings need an even number.")
    plain = base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    try:
        # Dynamic scaling begins where the positions end that the model was made for, which are those that a cache may have.
        if kind in ("default", "dynamic"):
            return Rope(tuple(plain))
        if kind == "linear":
            return Rope(tuple(plain / _number(rope, "factor")))
        if kind == "llama3":
            return _llama3(rope, plain)
        if kind == "yarn":
            return _yarn(rope, plain, base, size, positions)
        if kind in ("longrope", "su"):
            return _longrope(rope, plain, positions)
        if kind == "factors":  # of a GGUF file: what each frequency is divided by
            return Rope(tuple(plain / np.asarray(rope["factors"], np.float64)))
    except KeyError as error:
        raise CheckpointError(f"config.json's rope scaling '{kind}' has no {error.args[0]}.") from None
    raise CheckpointError(f"config.json has rope scaling '{kind}'; default, dynamic, linear, llama3, "
                          "longrope and yarn are supported.")


def _ropes(config: dict, size: int, positions: int, family: str) -> dict[str, Rope]:
    """For layers with full attention and with a sliding window."""
    given = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    base = _number(config, "rope_theta", 10000.0)
    for name in ("partial_rotary_factor", "original_max_position_embeddings"):  # Phi 3 has them beside it
        if config.get(name) is not None:
            given.setdefault(name, config[name])
    if "full_attention" in given or "sliding_attention" in given:  # for each kind of layer, as transformers 5 writes it
        out = {}
        for kind in ("full_attention", "sliding_attention"):
            one = given.get(kind) or {}
            out[kind] = make_rope(one, _number(one, "rope_theta", base), size, positions)
        return out
    full = make_rope(given, _number(given, "rope_theta", base), size, positions)
    if family == "gemma3_text":
        return {"full_attention": full,
                "sliding_attention": make_rope({}, _number(config, "rope_local_base_freq", 10000.0), size, positions)}
    return {"full_attention": full, "sliding_attention": full}


def _kinds(config: dict, count: int, family: str) -> list[str]:
    """Of each layer: which attention it has."""
    has_windows = family in WINDOWED and config.get("use_sliding_window", not family.startswith(("qwen", "smollm")))
    if not has_windows or not config.get("sliding_window"):
        return ["full_attention"] * count
    kinds = config.get("layer_types")
    if family == "gpt_oss" and kinds is None:
        kinds = ["full_attention" if i % 2 else "sliding_attention" for i in range(count)]
    if kinds is not None:
        if len(kinds) != count or any(k not in ("full_attention", "sliding_attention") for k in kinds):
            raise CheckpointError(f"config.json's layer_types are {kinds}; it needs {count} of 'full_attention' and "
                                  "'sliding_attention'.")
        return list(kinds)
    if family == "gemma2":
        full = [i % 2 == 1 for i in range(count)]
    elif family == "gemma3_text":
        every = config.get("sliding_window_pattern") or 6
        full = [(i + 1) % every == 0 for i in range(count)]
    elif family.startswith("qwen"):
        full = [i < config.get("max_window_layers", 28) for i in range(count)]
    else:
        full = [False] * count
    return ["full_attention" if f else "sliding_attention" for f in full]


def _turns(config: dict, count: int, family: str) -> list[bool]:
    """Of each layer: whether it has rotary embeddings."""
    if family != "smollm3":
        return [True] * count
    every = config.get("no_rope_layer_interval") or 4
    given = config.get("no_rope_layers") or [(i + 1) % every != 0 for i in range(count)]  # 1: it has them
    if len(given) != count:
        raise CheckpointError(f"config.json has no_rope_layers of {len(given)} layers; there are {count}.")
    return [bool(g) for g in given]


def _experts(config: dict, count: int, family: str) -> list[Experts | None]:
    """Of each layer."""
    if family == "mixtral":
        one = Experts(_positive(config, "num_local_experts", default=8), _positive(config, "num_experts_per_tok", default=2),
                      _positive(config, "intermediate_size"), True, 0)
        every, dense = 1, ()
    elif family == "gpt_oss":
        one = Experts(_positive(config, "num_local_experts", "num_experts"), _positive(config, "num_experts_per_tok"),
                      _positive(config, "intermediate_size"), True, 0, True)
        every, dense = 1, ()
    elif family in ("qwen2_moe", "qwen3_moe"):
        shared = _positive(config, "shared_expert_intermediate_size") if family == "qwen2_moe" else 0
        one = Experts(_positive(config, "num_experts", "num_local_experts"), _positive(config, "num_experts_per_tok"),
                      _positive(config, "moe_intermediate_size"), bool(config.get("norm_topk_prob", False)), shared)
        every, dense = _positive(config, "decoder_sparse_step", default=1), config.get("mlp_only_layers") or ()
    else:
        return [None] * count
    if one.chosen > one.count:
        raise CheckpointError(f"config.json has {one.chosen} of {one.count} experts for a token.")
    return [one if i not in dense and (i + 1) % every == 0 else None for i in range(count)]


def _gpt2(config: dict) -> Config:
    width, heads = _positive(config, "n_embd"), _positive(config, "n_head")
    if config.get("scale_attn_by_inverse_layer_idx") or config.get("add_cross_attention"):
        raise CheckpointError("config.json asks for attention scaled by layers or across sequences, which is not supported.")
    return Config("gpt2", _positive(config, "vocab_size"), width, config.get("n_inner") or 4 * width, heads, heads,
                  width // heads, _positive(config, "n_positions", "n_ctx"),
                  (Layer(None, None),) * _positive(config, "n_layer"), activation_of(config, "activation_function"), False,
                  "layer", float(_get(config, "layer_norm_epsilon", default=1e-5)), 0.0,
                  (width // heads) ** -0.5 if config.get("scale_attn_weights", True) else 1.0,
                  config.get("tie_word_embeddings", True), False, False)


def activation_of(config: dict, *names: str) -> str:
    name = _get(config, *names)
    known = {"silu": "silu", "swish": "silu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
             "gelu_fast": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
    if name not in known:
        raise CheckpointError(f"config.json has the activation '{name}'; {', '.join(known)} are supported.")
    return known[name]


def read_config(config: dict) -> Config:
    family = config.get("model_type")
    if family in PICTURES:
        family = PICTURES[family]
        config = {**config.get("text_config", {}), "model_type": family}
    if family not in FAMILIES:
        raise CheckpointError(f"config.json has model_type {family!r}; {', '.join(FAMILIES)} and gemma3 are supported.")
    if family == "gpt2":
        return _gpt2(config)
    config = {**DEFAULTS.get(family, {}), **config}
    gemma = family.startswith("gemma")
    width, heads = _positive(config, "hidden_size"), _positive(config, "num_attention_heads")
    size = _positive(config, "head_dim", default=256 if gemma else 128 if family == "qwen3" else width // heads)
    if config.get("head_dim") is None and not gemma and family != "qwen3" and width % heads:
        raise CheckpointError(f"config.json has a hidden_size of {width}, which its {heads} heads do not divide, and no head_dim.")
    kv_heads = _positive(config, "num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise CheckpointError(f"config.json has {heads} heads for {kv_heads} of keys and values, which do not divide them.")
    positions = _positive(config, "max_position_embeddings", default=8192 if gemma else 2048)
    count = _positive(config, "num_hidden_layers")
    ropes = _ropes(config, size, positions, family)
    kinds = _kinds(config, count, family)
    window = _positive(config, "sliding_window") if "sliding_attention" in kinds else None
    layers = tuple(Layer(ropes[kind] if turns else None, window if kind == "sliding_attention" else None, experts)
                   for kind, turns, experts in zip(kinds, _turns(config, count, family),
                                                   _experts(config, count, family), strict=True))
    scale = size ** -0.5
    if family in ("gemma2", "gemma3_text"):
        scale = _number(config, "query_pre_attn_scalar", 256) ** -0.5
    activation = "gelu_tanh" if gemma and not config.get("hidden_activation") else activation_of(
        config, "hidden_activation" if gemma else "hidden_act")
    plain = Config(family, _positive(config, "vocab_size"), width, _positive(config, "intermediate_size"), heads, kv_heads,
                  size, positions, layers, activation, True, "rms", _number(config, "rms_norm_eps", 1e-6),
                  1.0 if gemma else 0.0, scale, bool(config.get("tie_word_embeddings", gemma)),
                  family in ("qwen3", "qwen3_moe", "gemma3_text"), family in ("gemma2", "gemma3_text"),
                  math.sqrt(width) if gemma else 1.0,
                  config.get("attn_logit_softcapping") if family in ("gemma2", "gemma3_text") else None,
                  config.get("final_logit_softcapping") if family in ("gemma2", "gemma3_text") else None)
    if family == "granite":
        return dataclasses.replace(plain, embedding_scale=float(config.get("embedding_multiplier", 1.0)),
                                   attention_scale=float(config.get("attention_multiplier", 1.0)),
                                   residual_scale=float(config.get("residual_multiplier", 1.0)),
                                   logit_divisor=float(config.get("logits_scaling", 1.0)))
    if family == "olmo2":
        return dataclasses.replace(plain, has_pre_norms=False, has_post_norms=True, has_whole_norms=True)
    if family == "gpt_oss":
        return dataclasses.replace(plain, has_sinks=True, gate_limit=float(config.get("swiglu_limit", 7.0)),
                                   gate_slope=float(config.get("swiglu_alpha", 1.702)))
    return plain
