# SPDX-License-Identifier: Apache-2.0
"""Loops and conditionals: many turns of little work."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, declare, integers, normal, uniform

for turns in (10, 100, 1000, 10000, 100000):
    case(f"loop/fori {turns} turns, 4 elements",
         lambda x, t=turns: lax.fori_loop(0, t, lambda i, x: jnp.sin(x) * 1.01, x), normal(4), tolerance=1e-2)
for turns in (100, 10000):
    case(f"loop/scan {turns} turns, a scalar", lambda x, y, t=turns: lax.scan(lambda c, y: (c * 0.9 + y, c), x, y),
         normal(), normal(turns))
    case(f"loop/while {turns} turns, a scalar",
         lambda n, x: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.9 + jnp.cos(c[1])),
                                     (jnp.int32(0), x)),
         integers(low=turns, high=turns + 1), normal())
case("loop/fori 1000 turns, 256 elements", lambda x: lax.fori_loop(0, 1000, lambda i, x: x * 0.999 + 0.001 * i, x),
     normal(256), tolerance=1e-3)
case("loop/fori 100 turns, 100000 elements", lambda x: lax.fori_loop(0, 100, lambda i, x: x * 0.999 + 0.001, x),
     normal(100000))
case("loop/fori 1000 turns, 6 things carried",
     lambda x: lax.fori_loop(0, 1000, lambda i, c: (c[1], c[2], c[3], c[4], c[5], c[0] * 0.99), (x,) * 6), normal(16))
case("loop/fori 1000 turns, 50 things carried",
     lambda *x: lax.fori_loop(0, 1000, lambda i, c: [v * 0.999 for v in c], list(x)), *[normal(8)] * 50)
case("loop/fori 1000 turns, 8x8 product", lambda x, w: lax.fori_loop(0, 1000, lambda i, x: jnp.tanh(x @ w), x),
     normal(8, 8), uniform(8, 8, low=-0.4, high=0.4))
case("loop/fori 1000 turns, 64x64 by vector",
     lambda x, w: lax.fori_loop(0, 1000, lambda i, x: jnp.tanh(w @ x) * 0.5, x), normal(64),
     uniform(64, 64, low=-0.1, high=0.1))
case("loop/scan 100 turns, 128x128 product",
     lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, 100), normal(8, 128),
     uniform(128, 128, low=-0.15, high=0.15), tolerance=1e-2)
case("loop/scan 100 turns, 128x128 product, gradient",
     jax.grad(lambda w, x: (lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, 100)[0] ** 2).sum()),
     uniform(128, 128, low=-0.1, high=0.1), normal(8, 128), tolerance=1e-2)
case("loop/scan gradient 1000 turns, 16 elements",
     jax.grad(lambda a, x: (lax.scan(lambda c, x: (jnp.tanh(c * a + x), c), jnp.zeros(16), x)[1] ** 2).sum()),
     normal(16), normal(1000, 16), tolerance=1e-2)
case("loop/scan unrolled 8, 1000 turns", lambda x: lax.scan(lambda c, x: (c * 0.9 + x, c), jnp.zeros(4), x, unroll=8),
     normal(1000, 4))
case("loop/scan writes rows of 256", lambda x: lax.scan(lambda c, x: (c + x, c * 2), jnp.zeros(256), x),
     normal(1000, 256))
case("loop/scan reverse", lambda x: lax.scan(lambda c, x: (c * 0.9 + x, c), jnp.zeros(16), x, reverse=True),
     normal(1000, 16))
case("loop/lax.map of 200", lambda x: lax.map(lambda r: (jnp.sort(r)[::4]).sum(), x), normal(200, 64))
case("loop/lax.map in batches of 50", lambda x: lax.map(jax.nn.softmax, x, batch_size=50), normal(400, 64))
case("loop/nested 100 by 100",
     lambda x: lax.fori_loop(0, 100, lambda i, x: lax.fori_loop(0, 100, lambda j, x: x * 0.9999 + 0.001 * j, x), x),
     normal(4), tolerance=1e-3)
case("loop/while with a sum as condition",
     lambda x: lax.while_loop(lambda x: (x * x).sum() > 1, lambda x: x * 0.99, x), normal(256))
case("loop/newton iteration",
     lambda a: lax.while_loop(lambda c: jnp.abs(c * c - a).max() > 1e-5, lambda c: 0.5 * (c + a / c), a),
     uniform(1000, low=1, high=2))
case("loop/vmapped while",
     jax.vmap(lambda y: lax.while_loop(lambda c: c[1] < c[0], lambda c: (c[0], c[1] * 1.1 + 0.1), (y, 0.0))[1]),
     uniform(1000, high=100))


@declare("loop/collatz of 1000", integers(1000, low=1, high=5000))
@jax.vmap
def _(n):
    def step(c):
        n, count = c
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1
    return lax.while_loop(lambda c: c[0] > 1, step, (n, 0))[1]


# Points on the border of the set part by rounding.
@declare("loop/mandelbrot 128x128, 50 turns", normal(128, 128, dtype="c64"), view=lambda r: [])
def _(c):
    def step(i, state):
        z, count = state
        near = jnp.abs(z) < 2
        return jnp.where(near, z * z + c, z), count + near
    return lax.fori_loop(0, 50, step, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[1]


case("loop/dynamic update of a row in 1000 turns",
     lambda x: lax.fori_loop(1, 1000, lambda i, x: x.at[i].set(x[i - 1] * 0.99 + x[i]), x), normal(1000, 64))
case("loop/dynamic update of a scalar in 10000 turns",
     lambda x: lax.fori_loop(1, 10000, lambda i, x: x.at[i].set(x[i - 1] * 0.9 + x[i]), x), normal(10000))
case("loop/dynamic slices in 1000 turns",
     lambda x, i: lax.scan(lambda c, i: (c + lax.dynamic_slice(x, (i,), (64,)), None), jnp.zeros(64), i)[0],
     normal(50000), integers(1000, high=49000))


@declare("loop/edit distance 200x200", integers(200, high=4), integers(200, high=4))
def _(a, b):
    def step(row, x):
        up = jnp.concatenate([row[:1] + 1, jnp.minimum(row[1:] + 1, row[:-1] + (x != b))])
        row = lax.associative_scan(jnp.minimum, up - jnp.arange(201)) + jnp.arange(201)
        return row, row
    return lax.scan(step, jnp.arange(201), a)[0][-1]


case("loop/cond in 1000 turns",
     lambda x: lax.fori_loop(0, 1000, lambda i, x: lax.cond(x.sum() > 0, lambda x: x - 0.1, lambda x: x + 0.1, x), x),
     normal(64), tolerance=1e-2)
case("loop/switch of 4 in 1000 turns",
     lambda x: lax.fori_loop(
         0, 1000, lambda i, x: lax.switch(i % 4, [lambda x: x + 1, lambda x: x * 0.5, jnp.negative, jnp.sin], x), x),
     normal(64), tolerance=1e-2)
case("loop/scalar arithmetic (linear congruence), 10000 turns",
     lambda s: lax.fori_loop(0, 10000, lambda i, s: s * jnp.uint32(1664525) + jnp.uint32(1013904223), s),
     integers(high=2**31, dtype="u32"))
case("loop/fori 1000 turns with sort of 64",
     lambda x: lax.fori_loop(0, 1000, lambda i, x: jnp.sort(x * 1.0001)[::-1], x), normal(64), tolerance=1e-2)


@declare("loop/bisection of 1000", uniform(1000, high=5))
def _(y):
    def step(i, c):
        low, high = c
        middle = (low + high) / 2
        below = middle**3 + middle < y
        return jnp.where(below, middle, low), jnp.where(below, high, middle)
    return lax.fori_loop(0, 30, step, (jnp.zeros_like(y), y + 1))


case("loop/gradient descent 200 turns",
     lambda a, b: lax.fori_loop(0, 200, lambda i, x: x - 0.01 * a.T @ (a @ x - b) / 100, jnp.zeros(20)),
     normal(100, 20), normal(100))
case("loop/conjugate gradient", lambda a, b: jax.scipy.sparse.linalg.cg(lambda x: a @ x, b, maxiter=50)[0],
     normal(64, 64), normal(64), view=lambda r: [])


@declare("loop/elo ratings of 500 games", *[integers(500, high=100)] * 2, integers(500, high=2))
def _(a, b, won):
    def step(r, game):
        i, j, w = game
        d = 32 * (w - 1 / (1 + 10 ** ((r[j] - r[i]) / 400)))
        return r.at[i].add(d).at[j].add(-d), None
    return lax.scan(step, jnp.full(100, 1500.0), (a, b, won))[0]


@declare("loop/adpcm encode 2000 samples", integers(2000, low=-3000, high=3000))
def _(x):
    sizes = jnp.array([int(7 * 1.1**n) for n in range(89)], jnp.int32)
    moves = jnp.array([-1, -1, -1, -1, 2, 4, 6, 8], jnp.int32)

    def step(state, x):
        value, index = state
        size, sign = sizes[index], x < value
        code = jnp.minimum(jnp.abs(x - value) * 4 // size, 7)
        d = (2 * code + 1) * size // 8
        value = jnp.clip(jnp.where(sign, value - d, value + d), -32768, 32767)
        return (value, jnp.clip(index + moves[code], 0, 88)), code + 8 * sign
    return lax.scan(step, (jnp.int32(0), jnp.int32(0)), x)[1]


case("cond/one", lambda p, x: lax.cond(p[0] > 0, lambda x: x * 2, lambda x: x + 1, x), integers(1, high=2),
     normal(1000))
case("cond/one, large arrays", lambda p, x: lax.cond(p[0] > 0, lambda x: x * 2, lambda x: x, x), integers(1, high=2),
     normal(1000000))
case("cond/switch of 8", lambda p, x: lax.switch(p[0], [(lambda n: lambda x: x * n + n)(n) for n in range(8)], x),
     integers(1, high=8), normal(1000))


@declare("cond/20 in a row", integers(20, high=2), normal(256))
def _(p, x):
    for n in range(20):
        x = lax.cond(p[n] > 0, lambda x: x * 1.1, lambda x: x - 1, x)
    return x


case("cond/vmapped (a select)", jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x)), integers(1000, high=2),
     normal(1000, 64))
case("cond/skips an expensive branch", lambda p, x: lax.cond(p[0] > 9, lambda x: x @ x @ x, lambda x: x, x),
     integers(1, high=2), normal(512, 512))
