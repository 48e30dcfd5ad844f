# SPDX-License-Identifier: Apache-2.0
"""Steps of networks and of simulations: several operations each, cut as people cut them."""
import jax
import jax.numpy as jnp
from jax import lax

from operations import conv
from programs import I32, add, grid, line, of

WIDTH, HEADS, HIDDEN, WORDS, BATCH, LENGTH = 256, 8, 1024, 8192, 8, 64
X, LAST, WHOLE = line("x"), line(None, "x"), line()


def norm(x):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def rotated(x):
    angles = jnp.arange(x.shape[1])[:, None] * jnp.exp(-jnp.arange(x.shape[-1] // 2) / 8.)[None]
    c, s = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def heads(x):
    return x.reshape(x.shape[0], -1, HEADS, WIDTH // HEADS)


def feed_forward(x, p):
    h = norm(x)
    return x + (jax.nn.silu(h @ p["g"]) * (h @ p["u"])) @ p["d"]


def attention(q, k, v, mask):
    scores = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8, -1e9)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return out.reshape(*out.shape[:2], -1)


def block(x, p):
    h = norm(x)
    q, k, v = rotated(heads(h @ p["q"])), rotated(heads(h @ p["k"])), heads(h @ p["v"])
    x = x + attention(q, k, v, jnp.tril(jnp.ones((x.shape[1],) * 2, bool))) @ p["o"]
    return feed_forward(x, p)


def loss(weights, words):
    x, _ = lax.scan(lambda x, p: (block(x, p), None), weights["e"][words], weights["l"])
    logits = jax.nn.log_softmax((norm(x) @ weights["h"])[:, :-1])
    return -jnp.take_along_axis(logits, words[:, 1:, None], -1).mean()


def train(weights, words):
    value, gradient = jax.value_and_grad(loss)(weights, words)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, weights, gradient)


def decode(weights, word, keys, values, at):
    def layer(x, state):
        p, k, v = state
        h = norm(x)
        k = lax.dynamic_update_slice(k, heads(h @ p["k"]), (0, at, 0, 0))
        v = lax.dynamic_update_slice(v, heads(h @ p["v"]), (0, at, 0, 0))
        x = x + attention(heads(h @ p["q"]), k, v, jnp.arange(k.shape[1]) <= at) @ p["o"]
        return feed_forward(x, p), (k, v)

    x, (keys, values) = lax.scan(layer, weights["e"][word][:, None], (weights["l"], keys, values))
    return jnp.argmax((norm(x) @ weights["h"])[:, 0], -1), keys, values


def transformer():
    square, wide = of(2, WIDTH, WIDTH), of(2, WIDTH, HIDDEN)
    weights = {"e": of(WORDS, WIDTH), "h": of(WIDTH, WORDS),
               "l": {**{n: square for n in "qkvo"}, "g": wide, "u": wide, "d": of(2, HIDDEN, WIDTH)}}
    columns, rows = grid(None, None, "m"), grid(None, "m")
    units = {"e": grid("m"), "h": grid(None, "m"), "l": {**{n: columns for n in "qkvgu"}, "o": rows, "d": rows}}
    both, turned = grid(None, "d", "m"), grid(None, "m", "d")
    mesh = {"e": grid("d", "m"), "h": grid("d", "m"), "l": {**{n: both for n in "qkvgu"}, "o": turned, "d": turned}}
    row = {"e": X, "h": X, "l": {n: LAST for n in "qkvogud"}}
    whole = jax.tree.map(lambda _: grid(), units)
    words = of(BATCH, LENGTH, dtype=I32)
    add("train, batch cut", train, (weights, words), (whole, grid(("d", "m"))), (grid(), whole))
    add("train, units cut", train, (weights, words), (units, grid("d")), (grid(), units))
    add("train, mesh", train, (weights, words), (mesh, grid("d")), (grid(), mesh))
    add("train, weights cut", train, (weights, words), (row, X), (WHOLE, row))
    add("loss, units cut", loss, (weights, words), (units, grid("d")), grid())
    cache, word, at = of(2, BATCH, 512, HEADS, WIDTH // HEADS), of(BATCH, dtype=I32), of(dtype=I32)
    by_head, by_place = grid(None, "d", None, "m"), grid(None, None, "m")
    add("token, units cut", decode, (weights, word, cache, cache, at), (units, grid("d"), by_head, by_head, grid()),
        (grid("d"), by_head, by_head))
    add("token, cache cut", decode, (weights, word, cache, cache, at), (whole, grid(), by_place, by_place, grid()),
        (grid(), by_place, by_place))


def nucleus(logits):
    ordered = jnp.sort(logits, -1)[:, ::-1]
    below = jnp.cumsum(jax.nn.softmax(ordered), -1) < 0.9
    least = jnp.min(jnp.where(below, ordered, jnp.inf), -1, keepdims=True)
    return jnp.where(logits < least, -1e9, logits)


def experts(x, gate, w1, w2):
    _, chosen = lax.top_k(jax.nn.softmax(x @ gate), 2)
    one = jax.nn.one_hot(chosen, 8, dtype=I32)
    place = jnp.cumsum(one.reshape(-1, 8), 0).reshape(one.shape) * one - 1
    sent = (jax.nn.one_hot(place, 64) * (one[..., None] > 0)).sum(1)
    h = jax.nn.relu(jnp.einsum("ecd,edf->ecf", jnp.einsum("tec,td->ecd", sent, x), w1))
    return jnp.einsum("tec,ecd->td", sent, jnp.einsum("ecf,efd->ecd", h, w2))


def sampling():
    logits = of(BATCH, WORDS)
    add("sample", lambda x, key: jax.random.categorical(jax.random.wrap_key_data(key), x),
        (logits, of(2, dtype=jnp.uint32)), (LAST, WHOLE), WHOLE)
    add("nucleus", nucleus, (logits,), (LAST,), LAST)
    add("experts with places", experts, (of(256, 128), of(128, 8), of(8, 128, 256), of(8, 256, 128)),
        (X, WHOLE, X, X), X)


def wave(u, v):
    for _ in range(3):
        v = v + 0.1 * (sum(jnp.roll(u, by, axis) for by in (1, -1) for axis in (0, 1)) - 4 * u)
        u = u + 0.1 * v
    return u, v


def lattice(f):
    steps = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    f = jnp.stack([jnp.roll(f[i], by, (0, 1)) for i, by in enumerate(steps)])
    return f + 0.5 * (f.sum(0)[None] / 9 - f)


def fourier_layer(x, w):
    low = jnp.fft.rfft2(x, axes=(1, 2))[:, :16, :16]
    return jnp.fft.irfft2(jnp.einsum("bhwi,hwio->bhwo", low, w), s=(64, 64), axes=(1, 2))


def means(x, centres):
    nearest = jnp.argmin(((x[:, None] - centres[None]) ** 2).sum(-1), 1)
    return jax.ops.segment_sum(x, nearest, 16) / (1 + jax.ops.segment_sum(jnp.ones(len(x)), nearest, 16)[:, None])


def variation(u):
    return ((u[1:, :] - u[:-1, :]) ** 2).sum() + ((u[:, 1:] - u[:, :-1]) ** 2).sum()


def chain(key, x):
    def step(c, k):
        return c + 0.1 * jax.random.normal(k, ()), c
    return lax.scan(step, x, jax.random.split(jax.random.wrap_key_data(key), 16))[1]


def simulations():
    mesh = grid("d", "m")
    add("wave equation", wave, (of(256, 256),) * 2, (mesh,) * 2, (mesh,) * 2)
    add("lattice gas", lattice, (of(9, 256, 256),), (grid(None, "d", "m"),), grid(None, "d", "m"))
    add("total variation", variation, (of(256, 256),), (mesh,), grid())
    add("Fourier layer", fourier_layer, (of(8, 64, 64, 16), of(16, 16, 16, 16, dtype=jnp.complex64)), (LAST, WHOLE),
        LAST)
    add("k-means", means, (of(8192, 32), of(16, 32)), (X, WHOLE), WHOLE)
    add("graph", lambda h, s, d, w: jax.nn.relu(jax.ops.segment_sum((h @ w)[s], d, 4096)),
        (of(4096, 64), of(16384, dtype=I32), of(16384, dtype=I32), of(64, 64)), (X, X, X, WHOLE), X)
    add("Monte Carlo chains", jax.vmap(chain), (of(64, 2, dtype=jnp.uint32), of(64)), (X, X), X)
    add("Newton's method", lambda x: lax.while_loop(lambda c: jnp.max(jnp.abs(c * c - 1 - x * x)) > 1e-3,
                                                    lambda c: 0.5 * (c + (1 + x * x) / c), x * 0 + 1.), (of(4096),),
        (X,), X)
    add("branches", lambda x, p: lax.cond(p[0] > 0, lambda x: jnp.sin(x) @ x.T, lambda x: x @ x.T, x),
        (of(256, 64), of(1)), (X, WHOLE), X)
    add("counts", lambda i: jnp.bincount(i, length=1024), (of(65536, dtype=I32),), (X,), X)


def unet(x, w1, w2, w3):
    a = jax.nn.relu(conv(x, w1))
    b = jax.nn.relu(conv(a, w2, 2))
    return conv(jnp.concatenate([a, jnp.repeat(jnp.repeat(b, 2, 1), 2, 2)], -1), w3)


def group_norm(x):
    y = x.reshape(4, 64, 64, 4, 4)
    y = (y - y.mean((1, 2, 4), keepdims=True)) / jnp.sqrt(y.var((1, 2, 4), keepdims=True) + 1e-5)
    return y.reshape(x.shape)


def pictures():
    x, kernels = of(4, 64, 64, 8), (of(3, 3, 8, 16), of(3, 3, 16, 16), of(3, 3, 32, 8))
    add("U-net, rows cut", unet, (x, *kernels), (LAST, WHOLE, WHOLE, WHOLE), LAST)
    add("U-net, gradients", jax.grad(lambda *a: (unet(*a) ** 2).sum(), (0, 1, 2, 3)), (x, *kernels),
        (LAST, WHOLE, WHOLE, WHOLE), (LAST, WHOLE, WHOLE, WHOLE))
    add("group norm", group_norm, (of(4, 64, 64, 16),), (LAST,), LAST)
    add("windows shifted", lambda x: jnp.roll(x, (4, 4), (1, 2)).reshape(4, 8, 8, 8, 8, 16).transpose(0, 1, 3, 2, 4, 5),
        (of(4, 64, 64, 16),), (LAST,))


def recurrence(l, r):
    return l[0] * r[0], l[1] * r[0] + r[1]


def pipeline(state, w, inputs):
    def turn(c, x):
        return jnp.roll(jnp.tanh(jnp.einsum("sbd,sde->sbe", c.at[0].set(x), w)), 1, 0), c[-1]
    return lax.scan(turn, state, inputs)


def adam(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.1 * m / (jnp.sqrt(v * v) + 1e-3), m, v


def sequences():
    pair = (of(2, 1024, 64),) * 2
    add("causal convolution", lambda x, w: sum(jnp.pad(x, ((0, 0), (3 - i, 0), (0, 0)))[:, :1024] * w[i]
                                               for i in range(4)), (pair[0], of(4, 64)), (LAST, WHOLE), LAST)
    channels = line(None, None, "x")
    add("state space, time cut", lambda a, b: lax.associative_scan(recurrence, (a, b), axis=1)[1], pair, (LAST,) * 2,
        LAST)
    add("state space, channels cut", lambda a, b: lax.associative_scan(recurrence, (a, b), axis=1)[1], pair,
        (channels,) * 2, channels)
    add("attention, queries cut", lambda q, k, v: attention(q, k, v, True), (of(2, 512, 4, 64),) * 3, (LAST,) * 3, LAST)
    add("low rank", lambda x, w, a, b: x @ w + (x @ a) @ b, (of(64, 512), of(512, 1024), of(512, 8), of(8, 1024)),
        (WHOLE, LAST, WHOLE, LAST), LAST)
    add("optimizer's state cut", adam, (of(1024, 256),) * 4, (WHOLE, WHOLE, X, X), (WHOLE, X, X))
    add("gradients of four batches", lambda w, x: lax.scan(
        lambda a, b: (a + jax.grad(lambda w: jnp.tanh(b @ w).mean())(w), None), jnp.zeros((128, 128)), x)[0],
        (of(128, 128), of(4, 64, 128)), (WHOLE, LAST), WHOLE)
    add("pipeline", pipeline, (of(8, 16, 64), of(8, 64, 64), of(12, 16, 64)), (X, X, WHOLE))


for some in (transformer, sampling, simulations, pictures, sequences):
    some()
