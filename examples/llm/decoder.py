# SPDX-License-Identifier: Apache-2.0
"""The network as plain JAX functions of a dictionary of weights (weights.py says which) and a list of caches.

A cache is [positions, heads of keys or values, head size]; there are two for each layer, keys and values. A program
takes and gives them, donated, so that a run writes its tokens' rows into the arrays that are there.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from config import Config, Experts, Layer

Weights = dict[str, jax.Array]
F32 = jnp.float32


def weight(p: Weights, name: str, dtype) -> tuple[jax.Array, jax.Array | None]:
    """The matrix [in, out] of a product in the activations' type, and what its columns are scaled by afterwards. Those of
    experts have one more dimension in front."""
    if name in p:
        return p[name].astype(dtype), None
    scale = p[name + ".scale"]
    if name + ".int8" in p:
        values = p[name + ".int8"]
        if scale.ndim == values.ndim - 1:
            return values.astype(dtype), scale
    else:
        if name + ".f4" in p:
            packed = p[name + ".f4"]
            halves = jnp.moveaxis(lax.bitcast_convert_type(packed, jnp.float4_e2m1fn).astype(dtype), -1, -2)
        else:
            packed = p[name + ".int4"]
            halves = jnp.stack([(packed & 15).astype(jnp.int8) - 8, (packed >> 4).astype(jnp.int8) - 8], -2)
        *first, pairs, columns = packed.shape
        values = halves.reshape(*first, 2 * pairs, columns)
    *first, rows, columns = values.shape
    count = scale.shape[-2]
    groups = values.astype(dtype).reshape(*first, count, rows // count, columns)
    if name + ".zero" in p:
        groups = groups - p[name + ".zero"].astype(dtype)[..., None, :]
    return (groups * scale.astype(dtype)[..., None, :]).reshape(values.shape), None


def product(p: Weights, name: str, x: jax.Array, out=None) -> jax.Array:
    """x @ w + bias, summed in float32."""
    w, scale = weight(p, name, x.dtype)
    out = out or x.dtype
    if scale is None and name + ".bias" not in p:
        return jnp.matmul(x, w, preferred_element_type=out)
    y = jnp.matmul(x, w, preferred_element_type=F32)
    if scale is not None:
        y = y * scale
    if name + ".bias" in p:
        y = y + p[name + ".bias"]
    return y.astype(out)


def has_blocks(p: Weights, name: str) -> bool:
    """Whether a table lies as a product's blocks do, [width, rows]."""
    return name not in p and p[name + ".scale"].ndim == 2


def rows(p: Weights, name: str, which: jax.Array, dtype) -> jax.Array:
    if name in p:
        return p[name][which].astype(dtype)
    if has_blocks(p, name):
        columns = {key: array[:, which] for key, array in p.items() if key.startswith(name + ".")}
        return weight(columns, name, F32)[0].T.astype(dtype)
    return (p[name + ".int8"][which].astype(F32) * p[name + ".scale"][which, None]).astype(dtype)


def norm(p: Weights, name: str, x: jax.Array, config: Config) -> jax.Array:
    wide = x.astype(F32)
    if config.norm == "layer":
        wide = wide - jnp.mean(wide, -1, keepdims=True)
    wide = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + config.norm_epsilon)
    scale = p[name] + config.norm_offset if config.norm_offset else p[name]
    wide = wide * scale
    return (wide + p[name + ".bias"] if name + ".bias" in p else wide).astype(x.dtype)


def rotate(x: jax.Array, turn: tuple[jax.Array, jax.Array]) -> jax.Array:
    """[tokens, heads, size]: as many of the first elements as there are coordinates of points, whose angles `turn` has,
    are turned: their halves are the two coordinates."""
    cos, sin = turn
    count = cos.shape[-1]
    wide = x.astype(F32)
    a, b = wide[..., :count], wide[..., count:2 * count]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, wide[..., 2 * count:]], -1).astype(x.dtype)


def scaled(x: jax.Array, factor: float) -> jax.Array:
    return x if factor == 1.0 else x * jnp.asarray(factor, x.dtype)


def capped(x: jax.Array, cap: float | None) -> jax.Array:
    return x if cap is None else cap * jnp.tanh(x / cap)


def softmax(scores: jax.Array, sinks: jax.Array | None) -> jax.Array:
    """Along the last dimension of [heads of keys, heads for each, tokens, positions]; `sinks` is one more score for each head,
    of which the share is lost."""
    if sinks is None:
        return jax.nn.softmax(scores, axis=-1)
    sinks = sinks.astype(F32).reshape(*scores.shape[:2], 1, 1)
    largest = jnp.maximum(jnp.max(scores, -1, keepdims=True), sinks)
    powers = jnp.exp(scores - largest)
    return powers / (jnp.sum(powers, -1, keepdims=True) + jnp.exp(sinks - largest))


def attention(config: Config, layer: Layer, q: jax.Array, k: jax.Array, v: jax.Array, at: jax.Array,
              sinks: jax.Array | None = None) -> jax.Array:
    """q is [tokens, heads, size], k and v are caches; token t is at position at[t]."""
    tokens, heads, size = q.shape
    positions, kv_heads, _ = k.shape
    grouped = q.reshape(tokens, kv_heads, heads // kv_heads, size)
    scores = jnp.einsum("tkgd,skd->kgts", grouped, k, preferred_element_type=F32) * config.attention_scale
    scores = capped(scores, config.attention_cap)
    back = at[:, None] - jnp.arange(positions, dtype=jnp.int32)[None, :]
    seen = back >= 0
    if layer.window is not None and layer.window < positions:
        seen &= back < layer.window
    shares = softmax(jnp.where(seen[None, None], scores, jnp.finfo(F32).min), sinks).astype(q.dtype)
    return jnp.einsum("kgts,skd->tkgd", shares, v).reshape(tokens, heads * size)


ACTIVATIONS = {"silu": jax.nn.silu, "relu": jax.nn.relu, "gelu_tanh": lambda a: jax.nn.gelu(a, approximate=True),
               "gelu": lambda a: jax.nn.gelu(a, approximate=False)}


def gated(gate_up: jax.Array, config: Config) -> jax.Array:
    gate, up = jnp.split(gate_up, 2, -1)
    if config.gate_limit is None:
        return ACTIVATIONS[config.activation](gate) * up
    gate, up = jnp.minimum(gate, config.gate_limit), jnp.clip(up, -config.gate_limit, config.gate_limit)
    return gate * jax.nn.sigmoid(gate * config.gate_slope) * (up + 1)


def inner(p: Weights, name: str, x: jax.Array, config: Config) -> jax.Array:
    """The feed-forward part."""
    if not config.is_gated:
        return product(p, name + "down", ACTIVATIONS[config.activation](product(p, name + "up", x)))
    return product(p, name + "down", gated(product(p, name + "gate_up", x), config))


def product_by_expert(p: Weights, name: str, x: jax.Array, expert: jax.Array, sizes: jax.Array) -> jax.Array:
    """Row r of x times the matrix of expert[r], summed in float32; the rows lie by expert, sizes[e] of each."""
    w, scale = weight(p, name, x.dtype)
    y = lax.ragged_dot(x, w, sizes, preferred_element_type=F32)
    if scale is not None:
        y = y * scale[expert]
    return y + p[name + ".bias"][expert] if name + ".bias" in p else y


def by_expert(which: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The order of rows in which `which` rises, and each row's place in it."""
    count = which.shape[0]
    if count > 64:
        order = jnp.argsort(which)
        return order, jnp.argsort(order)
    # All with all: a kernel less than sorts, and no loop.
    index = jnp.arange(count, dtype=jnp.int32)
    is_same, is_less = which[None] == which[:, None], which[None] < which[:, None]
    place = jnp.sum(is_less | is_same & (index[None] < index[:, None]), 1, dtype=jnp.int32)
    return jnp.sum(jnp.where(place[:, None] == index, index[:, None], 0), 0), place


def mixture(p: Weights, name: str, x: jax.Array, config: Config, experts: Experts) -> jax.Array:
    """The feed-forward parts of the experts that a router chooses for each token."""
    tokens, chosen = x.shape[0], experts.chosen
    logits = jnp.matmul(x.astype(F32), p[name + "router"].astype(F32))
    if experts.has_biases:
        logits = logits + p[name + "router.bias"]
    share, which = lax.top_k(jax.nn.softmax(logits, -1), chosen)
    if experts.shares_add_up:
        share = share / jnp.sum(share, -1, keepdims=True)
    # A row for each of a token's experts, by expert.
    order, place = by_expert(which.reshape(-1))
    expert, token = which.reshape(-1)[order], order // chosen
    sizes = jnp.sum(which.reshape(-1)[:, None] == jnp.arange(experts.count), 0, dtype=jnp.int32)
    gate_up = product_by_expert(p, name + "experts.gate_up", x[token], expert, sizes).astype(x.dtype)
    rows = product_by_expert(p, name + "experts.down", gated(gate_up, config), expert, sizes)
    y = jnp.sum(rows[place].reshape(tokens, chosen, config.width) * share[..., None], 1)
    if experts.shared:
        opened = jax.nn.sigmoid(jnp.matmul(x.astype(F32), p[name + "shared_gate"].astype(F32)))
        y = y + opened * inner(p, name + "shared.", x, config).astype(F32)
    return y.astype(x.dtype)


def block(p: Weights, name: str, x: jax.Array, config: Config, layer: Layer, turn, keys, values, position, at):
    tokens, size = x.shape[0], config.head_size
    qkv = product(p, name + "qkv", norm(p, name + "attention_norm", x, config) if config.has_pre_norms else x)
    q, k, v = jnp.split(qkv, [config.heads * size, (config.heads + config.kv_heads) * size], -1)
    if config.has_whole_norms:
        q, k = norm(p, name + "q_norm", q, config), norm(p, name + "k_norm", k, config)
    q, k, v = q.reshape(tokens, -1, size), k.reshape(tokens, -1, size), v.reshape(tokens, -1, size)
    if config.has_head_norms:
        q, k = norm(p, name + "q_norm", q, config), norm(p, name + "k_norm", k, config)
    if turn is not None:
        q, k = rotate(q, turn), rotate(k, turn)
    zero = jnp.int32(0)
    keys = lax.dynamic_update_slice(keys, k.astype(keys.dtype), (position, zero, zero))
    values = lax.dynamic_update_slice(values, v.astype(values.dtype), (position, zero, zero))
    y = attention(config, layer, q, keys.astype(q.dtype), values.astype(q.dtype), at, p.get(name + "sinks"))
    y = product(p, name + "out", y)
    if config.has_post_norms:
        y = norm(p, name + "attention_post_norm", y, config)
    x = x + scaled(y, config.residual_scale)
    y = norm(p, name + "inner_norm", x, config) if config.has_pre_norms else x
    y = inner(p, name, y, config) if layer.experts is None else mixture(p, name, y, config, layer.experts)
    if config.has_post_norms:
        y = norm(p, name + "inner_post_norm", y, config)
    return x + scaled(y, config.residual_scale), keys, values


def forward(config: Config, dtype, p: Weights, cache: list[jax.Array], tokens: jax.Array, position: jax.Array):
    """What the last block gives for tokens at `position` and after it, normed: [tokens, width]; and the caches."""
    at = position + jnp.arange(tokens.shape[0], dtype=jnp.int32)
    x = rows(p, "embedding", tokens, dtype)
    x = scaled(x, config.embedding_scale)
    if config.family == "gpt2":
        x = x + rows(p, "positions", at, dtype)
    turns: dict = {None: None}
    for rope in {layer.rope for layer in config.layers} - {None}:
        is_long = rope.long is not None and cache[0].shape[0] > rope.short_positions
        angles = at.astype(F32)[:, None] * np.asarray(rope.long if is_long else rope.frequencies, np.float32)
        turns[rope] = (jnp.cos(angles)[:, None] * rope.factor, jnp.sin(angles)[:, None] * rope.factor)
    cache = list(cache)
    for i, layer in enumerate(config.layers):
        x, cache[2 * i], cache[2 * i + 1] = block(p, f"layers.{i}.", x, config, layer, turns[layer.rope], cache[2 * i],
                                                  cache[2 * i + 1], position, at)
    return norm(p, "norm", x, config), cache


def logits_of(config: Config, p: Weights, x: jax.Array) -> jax.Array:
    """[tokens, vocabulary], float32."""
    if not config.is_tied or has_blocks(p, "embedding"):
        out = product(p, "embedding" if config.is_tied else "head", x, F32)
    else:
        table = p.get("embedding", p.get("embedding.int8"))
        out = lax.dot_general(x, table.astype(x.dtype), (((1,), (1,)), ((), ())), preferred_element_type=F32)
        if "embedding" not in p:
            out = out * p["embedding.scale"]
    if config.logit_divisor != 1.0:
        out = out / config.logit_divisor
    return capped(out, config.logit_cap)


def programs(config: Config, dtype):
    """(prefill, decode): the functions that are exported."""
    def finish(p, x, position):
        logits = logits_of(config, p, x)[0]
        return jnp.argmax(logits)[None].astype(jnp.int32), logits, position

    def prefill(weights, cache, tokens, count, position):
        """The first `count` of `tokens`; what lies beyond is written to the caches too, and overwritten by what comes.
        Gives the likeliest token after them, the logits, the next position and the caches."""
        x, cache = forward(config, dtype, weights, cache, tokens, position)
        last = lax.dynamic_slice(x, (count - 1, jnp.int32(0)), (1, config.width))
        return *finish(weights, last, position + count), cache

    def decode(weights, cache, token, position):
        x, cache = forward(config, dtype, weights, cache, token, position)
        return *finish(weights, x, position + 1), cache
    return prefill, decode
