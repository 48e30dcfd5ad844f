# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint's config.json says of the network, in one form for all families."""
from __future__ import annotations

import dataclasses
import math

import numpy as np

from fields import CONFIG, ROPE, CheckpointError, Values, shortened

# The families, by config.json's model_type. Gemma 3 with pictures holds the text model's configuration in text_config.
FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "smollm3", "granite",
            "olmo2", "gpt_oss", "gemma", "gemma2", "gemma3_text", "gpt2")
PICTURES = {"gemma3": "gemma3_text"}
# What config.json leaves out: the configuration classes of Hugging Face's transformers have these, where they are others
# than those of fields.py. The part of a model with pictures that is the text's has what differs from them alone.
GEMMA = {"head_dim": 256, "max_position_embeddings": 8192, "tie_word_embeddings": True}
DEFAULTS = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "num_key_value_heads": 8, "rope_theta": 1e6, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072},
    "qwen2": {"max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen2_moe": {"max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen3": {"head_dim": 128, "max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen3_moe": {"num_key_value_heads": 4, "max_position_embeddings": 32768, "sliding_window": 4096},
    "phi3": {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
    "smollm3": {"num_key_value_heads": 4, "max_position_embeddings": 32768, "rope_theta": 2e6, "tie_word_embeddings": True},
    "olmo2": {"rms_norm_eps": 1e-5},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "max_position_embeddings": 131072,
                "rope_theta": 150000.0, "rms_norm_eps": 1e-5, "rope_scaling": {
                    "rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}},
    "gemma": GEMMA,
    "gemma2": {**GEMMA, "num_key_value_heads": 4, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
               "final_logit_softcapping": 30.0},
    "gemma3_text": {**GEMMA, "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
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


def _yarn(rope: Values, plain: np.ndarray, base: float, size: int, positions: int) -> Rope:
    """https://arxiv.org/abs/2309.00071: high frequencies as they are, low ones divided by the factor, a ramp between."""
    factor = rope.get("factor")
    original = rope.get("original_max_position_embeddings", default=positions)
    if base <= 1:
        raise CheckpointError(f"{rope.where} is 'yarn' of the rope_theta {base}, which has to be above 1.")

    def turns(rotations: float) -> float:
        return size * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))
    low, high = turns(rope.get("beta_fast")), turns(rope.get("beta_slow"))
    if rope.get("truncate"):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)

    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
    one, all_of_it = rope.get("mscale"), rope.get("mscale_all_dim")
    computed = magnitude(one) / magnitude(all_of_it) if one and all_of_it else magnitude(1.0)
    return Rope(tuple(plain / factor * ramp + plain * (1 - ramp)), rope.get("attention_factor", default=computed))


def _llama3(rope: Values, plain: np.ndarray) -> Rope:
    """Llama 3.1: wavelengths beyond the original context are divided by the factor, those in between blended."""
    factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
    low, high = rope.get("low_freq_factor"), rope.get("high_freq_factor")
    if low >= high:
        raise CheckpointError(f"{rope.where} has the low_freq_factor {low}, which is not below {high}.")
    share = np.clip((original * plain / (2 * math.pi) - low) / (high - low), 0, 1)
    return Rope(tuple((1 - share) * plain / factor + share * plain))


def _longrope(rope: Values, plain: np.ndarray, positions: int) -> Rope:
    """https://arxiv.org/abs/2402.13753: a factor for each frequency, others for texts beyond the original context."""
    original = rope.get("original_max_position_embeddings")
    short, long = (np.asarray(rope.get(name), np.float64) for name in ("short_factor", "long_factor"))
    if short.shape != plain.shape or long.shape != plain.shape:
        raise CheckpointError(f"{rope.where} 'longrope' has {short.size} and {long.size} factors; there are {plain.size} "
                              "frequencies.")
    factor = rope.get("factor", default=positions / original)
    attention = rope.get("attention_factor")
    if attention is None and original == 1:
        raise CheckpointError(f"{rope.where} 'longrope' has an original context of 1, and no attention_factor.")
    if attention is None:
        attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Rope(tuple(plain / short), attention, tuple(plain / long), original)


def make_rope(rope: Values, base: float, size: int, positions: int) -> Rope:
    size = int(size * rope.get("partial_rotary_factor"))
    if size % 2 or not size:
        raise CheckpointError(f"Heads have {size} elements to turn; rotary embeddings need an even number.")
    plain = base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    kind = rope.get("rope_type", default=rope.get("type"))
    makers = {
        # Dynamic scaling begins where the positions end that the model was made for, which are those that a cache may have.
        "default": lambda: Rope(tuple(plain)), "dynamic": lambda: Rope(tuple(plain)),
        "linear": lambda: Rope(tuple(plain / rope.get("factor"))), "llama3": lambda: _llama3(rope, plain),
        "yarn": lambda: _yarn(rope, plain, base, size, positions), "longrope": lambda: _longrope(rope, plain, positions),
        "su": lambda: _longrope(rope, plain, positions), "factors": lambda: _by_factors(rope, plain)}
    if kind not in makers:
        raise CheckpointError(f"{rope.where} is of the kind '{kind}'; default, dynamic, linear, llama3, longrope and yarn are "
                              "supported.")
    out = makers[kind]()
    with np.errstate(over="ignore"):
        numbers = np.float32([*out.frequencies, *(out.long or ()), out.factor])
    if not np.isfinite(numbers).all():
        raise CheckpointError(f"{rope.where} '{kind}' of the rope_theta {base} has frequencies that are no numbers.")
    return out


def _by_factors(rope: Values, plain: np.ndarray) -> Rope:
    factors = np.asarray(rope.get("factors"), np.float64)
    if factors.shape != plain.shape:
        raise CheckpointError(f"{rope.where} has {factors.size} factors; there are {plain.size} frequencies.")
    return Rope(tuple(plain / factors))


def _ropes(config: Values, size: int, positions: int, family: str) -> dict[str, Rope]:
    """For layers with full attention and with a sliding window."""
    given = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    base = config.get("rope_theta")
    for name in ("partial_rotary_factor", "original_max_position_embeddings"):  # Phi 3 has them beside it
        if config.has(name):
            given.setdefault(name, config.get(name))
    rope = Values(given, ROPE, f"{config.where}'s rope scaling")
    if rope.has("full_attention") or rope.has("sliding_attention"):  # for each kind of layer, as transformers 5 writes it
        kinds = {kind: rope.object(kind, ROPE, rope.where) for kind in ("full_attention", "sliding_attention")}
        return {kind: make_rope(one, one.get("rope_theta", default=base), size, positions) for kind, one in kinds.items()}
    full = make_rope(rope, rope.get("rope_theta", default=base), size, positions)
    if family == "gemma3_text":
        local = make_rope(Values({}, ROPE, rope.where), config.get("rope_local_base_freq"), size, positions)
        return {"full_attention": full, "sliding_attention": local}
    return {"full_attention": full, "sliding_attention": full}


def _kinds(config: Values, count: int, family: str) -> list[str]:
    """Of each layer: which attention it has."""
    has_windows = family in WINDOWED and config.get("use_sliding_window", default=not family.startswith(("qwen", "smollm")))
    if not has_windows or not config.get("sliding_window"):
        return ["full_attention"] * count
    kinds = config.get("layer_types")
    if family == "gpt_oss" and kinds is None:
        kinds = ["full_attention" if i % 2 else "sliding_attention" for i in range(count)]
    if kinds is not None:
        if len(kinds) != count or any(k not in ("full_attention", "sliding_attention") for k in kinds):
            raise CheckpointError(f"{config.where}'s layer_types are {shortened(kinds)}; it needs {count} of 'full_attention' and "
                                  "'sliding_attention'.")
        return kinds
    if family == "gemma2":
        full = [i % 2 == 1 for i in range(count)]
    elif family == "gemma3_text":
        every = config.get("sliding_window_pattern")
        full = [(i + 1) % every == 0 for i in range(count)]
    elif family == "qwen2_moe":  # the first ones, and every second of these
        full = [i % 2 == 1 or i >= config.get("max_window_layers") for i in range(count)]
    elif family == "smollm3":
        full = _turns(config, count, family)
    elif family in ("qwen2", "qwen3"):
        full = [i < config.get("max_window_layers") for i in range(count)]
    else:
        full = [False] * count
    return ["full_attention" if f else "sliding_attention" for f in full]


def _turns(config: Values, count: int, family: str) -> list[bool]:
    """Of each layer: whether it has rotary embeddings."""
    if family != "smollm3":
        return [True] * count
    every = config.get("no_rope_layer_interval")
    given = config.get("no_rope_layers") or [(i + 1) % every != 0 for i in range(count)]  # 1: it has them
    if len(given) != count:
        raise CheckpointError(f"{config.where} has no_rope_layers of {len(given)} layers; there are {count}.")
    return [bool(g) for g in given]


def _experts(config: Values, count: int, family: str) -> list[Experts | None]:
    """Of each layer."""
    every, dense = 1, []
    if family == "mixtral":
        one = Experts(config.get("num_local_experts"), config.get("num_experts_per_tok"), config.get("intermediate_size"), True, 0)
    elif family == "gpt_oss":
        one = Experts(config.get("num_local_experts", "num_experts"), config.get("num_experts_per_tok"),
                      config.get("intermediate_size"), True, 0, True)
    elif family in ("qwen2_moe", "qwen3_moe"):
        shared = config.get("shared_expert_intermediate_size") if family == "qwen2_moe" else 0
        one = Experts(config.get("num_experts", "num_local_experts"), config.get("num_experts_per_tok"),
                      config.get("moe_intermediate_size"), config.get("norm_topk_prob"), shared)
        every, dense = config.get("decoder_sparse_step"), config.get("mlp_only_layers")
    else:
        return [None] * count
    if one.chosen > one.count:
        raise CheckpointError(f"{config.where} has {one.chosen} of {one.count} experts for a token.")
    return [one if i not in dense and (i + 1) % every == 0 else None for i in range(count)]


def _per_head(config: Values, width: int, heads: int) -> int:
    """What heads have by default."""
    if width % heads:
        raise CheckpointError(f"{config.where} has a width of {width}, which its {heads} heads do not divide, and no head_dim.")
    return width // heads


def _gpt2(config: Values) -> Config:
    width, heads = config.get("n_embd"), config.get("n_head")
    size = _per_head(config, width, heads)
    if config.get("scale_attn_by_inverse_layer_idx") or config.get("add_cross_attention"):
        raise CheckpointError(f"{config.where} asks for attention scaled by layers or across sequences, which is not supported.")
    return Config("gpt2", config.get("vocab_size"), width, config.get("n_inner") or 4 * width, heads, heads, size,
                  config.get("n_positions", "n_ctx"), (Layer(None, None),) * config.get("n_layer"),
                  activation_of(config, "activation_function"), False, "layer", config.get("layer_norm_epsilon"), 0.0,
                  size ** -0.5 if config.get("scale_attn_weights") else 1.0,
                  config.get("tie_word_embeddings", default=True), False, False)


def activation_of(config: Values, name: str) -> str:
    known = {"silu": "silu", "swish": "silu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
             "gelu_fast": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
    asked = config.get(name)
    if asked not in known:
        raise CheckpointError(f"{config.where} has the activation {shortened(asked)}; {', '.join(known)} are supported.")
    return known[asked]


def _family_of(config: dict, where: str) -> tuple[str, Values]:
    values = Values(config, CONFIG, where)
    family = values.get("model_type")
    if family in PICTURES:
        values = Values(values.get("text_config"), CONFIG, f"{where}, text_config")
        family = PICTURES[family]
    if family not in FAMILIES:
        named = ", ".join(values.get("architectures"))
        raise CheckpointError(f"{where} has model_type {shortened(family)}{f' ({named})' if named else ''}; "
                              f"{', '.join(FAMILIES)} and gemma3 are supported.")
    return family, Values({**DEFAULTS.get(family, {}), **values.given}, CONFIG, values.where)


def read_config(given: dict, where: str = "config.json") -> Config:
    """`where` is the file's name for errors."""
    family, config = _family_of(given, where)
    if family == "gpt2":
        return _gpt2(config)
    if config.get("use_bidirectional_attention"):
        raise CheckpointError(f"{config.where} has attention to what follows, as models of embeddings have; text is not generated so.")
    gemma = family.startswith("gemma")
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
    size = config.get("head_dim") or _per_head(config, width, heads)
    kv_heads = config.get("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise CheckpointError(f"{config.where} has {heads} heads for {kv_heads} of keys and values, which do not divide them.")
    positions, count = config.get("max_position_embeddings"), config.get("num_hidden_layers")
    ropes = _ropes(config, size, positions, family)
    kinds = _kinds(config, count, family)
    window = config.get("sliding_window") if "sliding_attention" in kinds else None
    layers = tuple(Layer(ropes[kind] if turns else None, window if kind == "sliding_attention" else None, experts)
                   for kind, turns, experts in zip(kinds, _turns(config, count, family),
                                                   _experts(config, count, family), strict=True))
    has_caps = family in ("gemma2", "gemma3_text")
    scale = config.get("query_pre_attn_scalar") ** -0.5 if has_caps else size ** -0.5
    plain = Config(family, config.get("vocab_size"), width, config.get("intermediate_size"), heads, kv_heads,
                   size, positions, layers, activation_of(config, "hidden_activation" if gemma else "hidden_act"), True, "rms",
                   config.get("rms_norm_eps"), 1.0 if gemma else 0.0, scale, config.get("tie_word_embeddings"),
                   family in ("qwen3", "qwen3_moe", "gemma3_text"), has_caps, math.sqrt(width) if gemma else 1.0,
                   config.get("attn_logit_softcapping") if family == "gemma2" else None,
                   config.get("final_logit_softcapping") if has_caps else None)
    if family == "granite":
        return dataclasses.replace(plain, embedding_scale=config.get("embedding_multiplier"),
                                   attention_scale=config.get("attention_multiplier"),
                                   residual_scale=config.get("residual_multiplier"), logit_divisor=config.get("logits_scaling"))
    if family == "olmo2":
        return dataclasses.replace(plain, has_pre_norms=False, has_post_norms=True, has_whole_norms=True)
    if family == "gpt_oss":
        return dataclasses.replace(plain, has_sinks=True, gate_limit=config.get("swiglu_limit"),
                                   gate_slope=config.get("swiglu_alpha"))
    return plain
