# SPDX-License-Identifier: Apache-2.0
"""Short programs as people write them: cells, attention, steps of training."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, declare, integers, key_data, normal, uniform


def small(*shape):
    """Weights."""
    return uniform(*shape, low=-0.1, high=0.1)


def lstm(x, w, u):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    return lax.scan(cell, (jnp.zeros((x.shape[1], u.shape[0])),) * 2, x)[1]


def gru(x, w, u):
    def cell(h, x):
        a, b = jnp.split(x @ w, [2 * h.shape[-1]], -1)
        ub, uc = jnp.split(u, [2 * h.shape[-1]], -1)
        r, z = jnp.split(jax.nn.sigmoid(a + h @ ub), 2, -1)
        h = (1 - z) * jnp.tanh(b + r * (h @ uc)) + z * h
        return h, h
    return lax.scan(cell, jnp.zeros((x.shape[1], u.shape[0])), x)[1]


for name, f, gates in (("lstm", lstm, 4), ("gru", gru, 3)):
    a = normal(50, 16, 64), small(64, gates * 64), small(64, gates * 64)
    case(f"program/{name} 50 turns", f, *a)
    case(f"program/{name} 50 turns, gradient", jax.grad(lambda x, w, u, f=f: (f(x, w, u) ** 2).sum(), (1, 2)), *a,
         tolerance=1e-2)


# Attention.
def causal(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


Q = normal(2, 256, 4, 64)
case("attention/full", lambda q, k, v: jax.nn.dot_product_attention(q, k, v), Q, Q, Q)
case("attention/causal", causal, Q, Q, Q)
case("attention/causal gradient", jax.grad(lambda q, k, v: (causal(q, k, v) ** 2).sum(), (0, 1, 2)), Q, Q, Q,
     tolerance=1e-2)
case("attention/causal bf16", causal, *[normal(2, 256, 4, 64, dtype="bf16")] * 3, tolerance=0.1)
case("attention/grouped queries", causal, normal(1, 256, 8, 64), normal(1, 256, 2, 64), normal(1, 256, 2, 64))
case("attention/window of 64",
     lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=64), Q, Q, Q)


@declare("attention/decode, 512 keys", normal(4, 8, 64), normal(4, 512, 8, 64), normal(4, 512, 8, 64),
         integers(1, low=100, high=500))
def _(q, k, v, length):
    scores = jnp.einsum("bhd,bthd->bht", q, k) / 8
    return jnp.einsum("bht,bthd->bhd", jax.nn.softmax(jnp.where(jnp.arange(512) < length[0], scores, -1e9)), v)


@declare("attention/decode, cache written and read", normal(4, 512, 128), normal(4, 128), small(128, 128),
         integers(1, high=500))
def _(cache, x, w, place):
    cache = lax.dynamic_update_slice(cache, x[:, None], (0, place[0], 0))
    return cache, jnp.einsum("bt,btd->bd", jax.nn.softmax(jnp.einsum("bd,btd->bt", x, cache)), cache) @ w


@declare("attention/decode loop of 64", normal(4, 128, 64), normal(4, 64), small(64, 64))
def _(cache, x, w):
    def step(carry, i):
        cache, x = carry
        cache = lax.dynamic_update_slice(cache, x[:, None], (0, i, 0))
        scores = jnp.where(jnp.arange(128) <= i, jnp.einsum("bd,btd->bt", x, cache), -1e9)
        x = jnp.tanh(jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), cache) @ w)
        return (cache, x), x
    return lax.scan(step, (cache, x), jnp.arange(64))[1]


@declare("attention/rotary embedding", Q)
def _(x):
    angle = jnp.arange(256)[:, None, None] / 10000 ** (jnp.arange(32) / 32)
    a, b = x[..., :32], x[..., 32:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)


case("attention/relative bias", lambda s, b: s + b[:, jnp.arange(256)[:, None] - jnp.arange(256) + 255],
     normal(2, 4, 256, 256), normal(4, 511))
case("attention/linear (kernel feature map)",
     lambda q, k, v: jnp.einsum("bqhd,bhde->bqhe", jax.nn.relu(q), jnp.einsum("bkhd,bkhe->bhde", jax.nn.relu(k), v)),
     Q, Q, Q)


# Layers and steps of training.
def block(x, w):
    z = x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    q, k, v = (jnp.einsum("btd,dhe->bthe", z, w[n]) for n in range(3))
    s = jnp.where(jnp.tril(jnp.ones((x.shape[1],) * 2, bool)), jnp.einsum("bthe,bshe->bhts", q, k) / 4, -1e9)
    x = x + jnp.einsum("bhts,bshe,hed->btd", jax.nn.softmax(s, -1), v, w[3])
    return x + jax.nn.gelu(x @ w[4]) @ w[5]


WEIGHTS = [small(64, 4, 16)] * 3 + [small(4, 16, 64), small(64, 256), small(256, 64)]
case("program/transformer block", lambda x, *w: block(x, w), normal(2, 64, 64), *WEIGHTS, tolerance=1e-3)
case("program/transformer block gradient", lambda x, *w: jax.grad(lambda w: (block(x, w) ** 2).mean())(w),
     normal(2, 64, 64), *WEIGHTS, tolerance=1e-2)


def mlp_step(x, y, *w):
    def loss(w):
        h = x
        for a in w[:-1]:
            h = jax.nn.relu(h @ a)
        return -(jax.nn.log_softmax(h @ w[-1]) * y).sum(-1).mean()
    return [a - 0.1 * g for a, g in zip(w, jax.grad(loss)(w))]


case("program/mlp training step", mlp_step, normal(64, 64), uniform(64, 10), small(64, 128), small(128, 128),
     small(128, 10), tolerance=1e-2)
case("program/mlp training step, tiny", mlp_step, normal(8, 4), uniform(8, 2), small(4, 16), small(16, 2),
     tolerance=1e-2)


def adam(n, *trees):
    p, g, m, v = (trees[i::4] for i in range(4))
    m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
    v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
    s = 1 - 0.9 ** (n[0] + 1.0), 1 - 0.999 ** (n[0] + 1.0)
    return [a - 1e-3 * (b / s[0]) / (jnp.sqrt(c / s[1]) + 1e-8) for a, b, c in zip(p, m, v)], m, v


case("program/adam step of 20 arrays", adam, integers(1, low=5, high=50), *[uniform(64, 128)] * 80)
case("program/adam step of 1 array", adam, integers(1, low=5, high=50), *[uniform(512, 512)] * 4)


def conv(x, w, stride):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x):
    return (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)


def cnn(x, w1, w2, w3):
    x = jax.nn.relu(batch_norm(conv(x, w1, 1)))
    x = jax.nn.relu(batch_norm(conv(x, w2, 2)))
    return x.mean((1, 2)) @ w3


CNN = normal(16, 16, 16, 3), small(3, 3, 3, 16), small(3, 3, 16, 32), small(32, 10)
case("program/cnn with strides and batchnorm", cnn, *CNN, tolerance=1e-3)
case("program/cnn with strides and batchnorm, gradient", lambda x, *w: jax.grad(lambda w: (cnn(x, *w) ** 2).sum())(w),
     *CNN, tolerance=1e-2)
case("program/u-net step down and up",
     lambda x, down, up: lax.conv_transpose(jax.nn.silu(conv(x, down, 2)), up, (2, 2), "SAME"),
     normal(4, 16, 16, 16), small(3, 3, 16, 32), small(3, 3, 32, 16))
case("program/mixture of experts, 4 of all",
     lambda x, g, w: jnp.einsum("te,ted->td", jax.nn.softmax(x @ g), jnp.einsum("td,edf->tef", x, w)),
     normal(128, 64), small(64, 4), small(4, 64, 64))


# Decoding.
@declare("program/beam search step", normal(8, 4), normal(8, 4, 1000))
def _(scores, logits):
    best, place = lax.top_k((scores[..., None] + jax.nn.log_softmax(logits)).reshape(8, -1), 4)
    return best, place // 1000, place % 1000


@declare("program/sample a token, top 40", key_data(), normal(4, 32000))
def _(words, logits):
    best, place = lax.top_k(logits, 40)
    drawn = jax.random.categorical(jax.random.wrap_key_data(words, impl="threefry2x32"), best)
    return jnp.take_along_axis(place, drawn[:, None], 1)


@declare("program/ctc-like forward 100x32", normal(100, 8, 32))
def _(x):
    def step(a, x):
        before = jnp.pad(a, ((0, 0), (1, 0)), constant_values=-1e9)[:, :-1]
        return jnp.logaddexp(a, before) + x, None
    return lax.scan(step, jnp.zeros((8, 32)), x)[0]


@declare("program/viterbi 200x32", normal(32, 32), normal(200, 32))
def _(transitions, x):
    def step(a, x):
        scores = a[:, None] + transitions
        return scores.max(0) + x, scores.argmax(0)
    return lax.scan(step, jnp.zeros(32), x)
