# SPDX-License-Identifier: Apache-2.0
"""The choice of a token, as a program of its own: logits stay on the device, and only the token comes back."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def _ordered(x: jax.Array) -> jax.Array:
    """float32 as uint32 in the same order."""
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    return jnp.where(bits >> 31 == 1, ~bits, bits | jnp.uint32(1 << 31))


def _largest(is_enough) -> jax.Array:
    """The largest uint32 of which is_enough is true, bit by bit; it is true of 0, and of no number above one that it is
    false of. Over a vocabulary this is thirty-two sums instead of a sort."""
    def bit(i, found):
        tried = found | (jnp.uint32(1 << 31) >> i)
        return jnp.where(is_enough(tried), tried, found)
    return lax.fori_loop(jnp.uint32(0), jnp.uint32(32), bit, jnp.uint32(0))


def sample(logits, position, seed, temperature, top_k, top_p):
    """A token of softmax(logits / temperature), of the top_k likeliest (0: all), and of the fewest likeliest that have
    top_p of the probability; which one depends on the seed and the position alone. Equally likely ones at the edge are
    all kept. A temperature of 0 gives the likeliest."""
    scaled = logits / jnp.maximum(temperature, 1e-6)
    order = _ordered(scaled)
    wanted = jnp.where(top_k > 0, jnp.minimum(top_k, logits.size), logits.size)
    kept = order >= _largest(lambda least: jnp.sum((order >= least).astype(jnp.int32)) >= wanted)
    shares = jnp.where(kept, jnp.exp(scaled - jnp.max(scaled)), 0)
    most = jnp.sum(shares)
    kept &= order >= _largest(lambda least: jnp.sum(jnp.where(order >= least, shares, 0)) >= jnp.minimum(top_p, 1) * most)
    # The largest of these with Gumbel's noise is a sample of their softmax.
    noise = jax.random.gumbel(jax.random.fold_in(jax.random.key(seed), position), logits.shape)
    noisy = jnp.where(kept, scaled + jnp.where(temperature > 0, noise, 0), -jnp.inf)
    return (jnp.argmax(noisy)[None].astype(jnp.int32),)
