# SPDX-License-Identifier: Apache-2.0
"""Programs over dimensions that the number of devices does not divide. JAX takes no such arguments and results, but
constraints within."""
import jax
import jax.numpy as jnp
from jax import lax

from operations import conv, cross_entropy
from programs import I32, add, cut, grid, line, of

WHOLE, ROWS, COLUMNS = line(), line("x"), line(None, "x")


def perceptron(x, w, v):
    return jax.nn.gelu(x @ cut(w, COLUMNS)) @ cut(v, ROWS)


def gradients_of_perceptron(x, w, v):
    return jax.grad(lambda w, v: (perceptron(x, w, v) ** 2).mean(), (0, 1))(w, v)


def language_model(words, table, head, labels):
    table, head = cut(table, ROWS), cut(head, COLUMNS)
    return cross_entropy(cut(table[words] @ head, COLUMNS), labels)


def normalised(x):
    x = cut(x, ROWS)
    y = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return jax.nn.softmax(y).mean(0)


def image(x, w):
    x = cut(x, COLUMNS)
    y = jax.nn.relu(conv(x, w))
    return conv(y, w, 2).sum((1, 2))


def attention(x, q, k, v, o):
    heads = lambda w: cut(jnp.einsum("bsd,dhe->bshe", x, w), line(None, None, "x"))
    scores = jnp.einsum("bshe,bthe->bhst", heads(q), heads(k))
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bshe,hed->bsd", jnp.einsum("bhst,bthe->bshe", jax.nn.softmax(scores), heads(v)), o)


def over_time(x, w):
    x = cut(x, ROWS)
    return lax.scan(lambda h, t: ((h := jnp.tanh(h @ w + t)), h), jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))[1].sum(0)


def wave(u):
    u = cut(u, ROWS)
    return u.at[1:-1].add(0.1 * (u[2:] + u[:-2] - 2 * u[1:-1])).sum(1)


def ranks(x):
    x = cut(x, COLUMNS)
    return jnp.sort(x, 0)[0].sum() + jnp.argmax(x, 1).sum() + jnp.cumsum(x, 0)[-1].mean()


def training(x, y, w, v):
    def loss(w, v):
        h = jnp.tanh(cut(x, grid("d")) @ w)
        h = cut(h, grid("d", "m"))
        return ((h @ v - y) ** 2).mean()
    return jax.tree.map(lambda p, g: p - 0.1 * g, (w, v), jax.grad(loss, (0, 1))(w, v))


def flattened(x, w):
    x = cut(x, ROWS)
    return (x.reshape(-1, x.shape[-1]) @ w).reshape(*x.shape[:2], -1).sum((0, 1))


add("uneven: perceptron", perceptron, (of(64, 128), of(128, 250), of(250, 64)), (WHOLE,) * 3, WHOLE)
add("uneven: perceptron, gradients", gradients_of_perceptron, (of(64, 128), of(128, 250), of(250, 64)), (WHOLE,) * 3,
    (WHOLE,) * 2)
add("uneven: language model", language_model, (of(32, dtype=I32), of(5027, 64), of(64, 5027), of(32, dtype=I32)),
    (WHOLE,) * 4, WHOLE)
add("uneven: batch", normalised, (of(27, 512),), (WHOLE,), WHOLE)
add("uneven: image", image, (of(2, 59, 32, 8), of(3, 3, 8, 8)), (WHOLE,) * 2, WHOLE)
add("uneven: heads", attention, (of(2, 24, 96), *(of(96, 12, 8),) * 3, of(12, 8, 96)), (WHOLE,) * 5, WHOLE)
add("uneven: scan", over_time, (of(13, 9, 64), of(64, 64)), (WHOLE,) * 2, None)
add("uneven: wave", wave, (of(1001, 32),), (WHOLE,), None)
add("uneven: sort and maxima", ranks, (of(64, 99),), (WHOLE,), WHOLE)
add("uneven: train over a mesh", training, (of(27, 64), of(27, 16), of(64, 90), of(90, 16)), (WHOLE,) * 4, (WHOLE,) * 2)
add("uneven: flattened batch", flattened, (of(11, 24, 64), of(64, 32)), (WHOLE,) * 2, WHOLE)
