# SPDX-License-Identifier: Apache-2.0
"""Scatters: segment sums, .at[] updates, counts; dynamic update slices."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, declare, distinct, integers, normal, uniform, values


def scatter(name, function, *arrays, **options):
    case(f"scatter/{name}", function, *arrays, **options)


J = integers(100000, high=10000)
for what in ("sum", "max", "min", "prod"):
    f = getattr(jax.ops, "segment_" + what)
    scatter(f"segment_{what} scalars", lambda u, j, f=f: f(u, j, 10000), uniform(100000, low=0.5, high=1.5), J)
for dtype in ("s32", "bf16", "f64", "u8"):
    scatter(f"segment_sum scalars {dtype}", lambda u, j: jax.ops.segment_sum(u, j, 10000), values(dtype, 100000), J,
            tolerance=0.1 if dtype == "bf16" else None)
scatter("segment_sum scalars sorted",
        lambda u, j: jax.ops.segment_sum(u, jnp.sort(j), 10000, indices_are_sorted=True), normal(100000), J)
scatter("segment_sum scalars to 10", lambda u, j: jax.ops.segment_sum(u, j, 10), normal(100000),
        integers(100000, high=10))
for width in (3, 16, 128):
    scatter(f"segment_sum rows of {width}", lambda u, j: jax.ops.segment_sum(u, j, 2000), normal(20000, width),
            integers(20000, high=2000))
scatter("segment_max rows of 64", lambda u, j: jax.ops.segment_max(u, j, 2000), normal(20000, 64),
        integers(20000, high=2000))
for op in ("add", "set", "max", "mul"):
    update = (lambda op: lambda x, i, u: getattr(x.at[i], op)(u))(op)
    scatter(f".at[].{op} scalars", update, normal(100000), distinct(50000, 100000), normal(50000))
    scatter(f".at[].{op} rows of 64", update, normal(10000, 64), distinct(5000, 10000), normal(5000, 64))
    scatter(f".at[].{op} one row", update, normal(4096, 256), integers(1, high=4096), normal(1, 256))
scatter(".at[].set a number", lambda x, i: x.at[i].set(0.0), normal(200000), integers(20000, high=200000))
scatter(".at[].set scalars u8", lambda x, i, u: x.at[i].set(u), values("u8", 100000), distinct(50000, 100000),
        values("u8", 50000))
scatter(".at[].add unique hint", lambda x, i, u: x.at[i].add(u, unique_indices=True), normal(100000),
        distinct(50000, 100000), normal(50000))
scatter(".at[].add drop", lambda x, i, u: x.at[i].add(u, mode="drop"), normal(100000), integers(50000, high=120000),
        normal(50000))
scatter(".at[].apply", lambda x, i: x.at[i].apply(jnp.tanh), normal(100000), distinct(10000, 100000))
scatter(".at[i, j].add of a matrix", lambda x, i, j, u: x.at[i, j].add(u), normal(500, 500),
        integers(50000, high=500), integers(50000, high=500), normal(50000))
scatter(".at[i, j].set of a matrix", lambda x, i, u: x.at[i // 500, i % 500].set(u), normal(500, 500),
        distinct(50000, 250000), normal(50000))
scatter(".at[:, i].add columns", lambda x, i, u: x.at[:, i].add(u), normal(512, 256), integers(64, high=256),
        normal(512, 64))
scatter(".at[:, i].set columns", lambda x, i, u: x.at[:, i].set(u), normal(512, 256), distinct(64, 256),
        normal(512, 64))
scatter(".at[arange, labels].add", lambda x, y: x.at[jnp.arange(4096), y].add(-1.0), normal(4096, 1000),
        integers(4096, high=1000))
scatter("batched .at[].set", jax.vmap(lambda x, i, u: x.at[i].set(u)), normal(256, 1000), integers(256, 1, high=1000),
        normal(256, 1))
scatter("batched .at[].add scalars", jax.vmap(lambda x, i, u: x.at[i].add(u)), normal(128, 1000),
        integers(128, 500, high=1000), normal(128, 500))
scatter("batched segment_sum", jax.vmap(lambda u, i: jax.ops.segment_sum(u, i, 100)), normal(64, 1000),
        integers(64, 1000, high=100))
scatter("embedding gradient 4x512 of 32000x64", jax.grad(lambda x, i: (x[i] ** 2).sum()), normal(32000, 64),
        integers(4, 512, high=32000))
scatter("embedding gradient 20000 of 5000x128", jax.grad(lambda x, i: (x[i] ** 2).sum()), normal(5000, 128),
        integers(20000, high=5000))
scatter("take_along_axis gradient", jax.grad(lambda x, i: (jnp.take_along_axis(x, i, 1) ** 2).sum()),
        normal(2000, 64), integers(2000, 64, high=64))
scatter("gradient of scalars", jax.grad(lambda x, i: (x[i] ** 2).sum()), normal(10000), J)
scatter("gradient of windows",
        jax.grad(lambda x, i: (jax.vmap(lambda i: lax.dynamic_slice(x, (i,), (64,)))(i) ** 2).sum()), normal(50000),
        integers(1000, high=49000))
scatter("gradient of max over an axis", jax.grad(lambda x: (x.max(1) ** 2).sum()), normal(2000, 256))
scatter("gradient of sort", jax.grad(lambda x: (jnp.sort(x, 1) * jnp.arange(256)).sum()), normal(500, 256))
for length, high in ((10000, 10000), (256, 256), (10, 10)):
    scatter(f"bincount to {length}", lambda j, length=length: jnp.bincount(j, length=length),
            integers(100000, high=high))
scatter("bincount with weights", lambda j, w: jnp.bincount(j, weights=w, length=1000), integers(100000, high=1000),
        normal(100000))
scatter("histogram 100 bins", lambda x: jnp.histogram(x, bins=100)[0], normal(100000), tolerance=1e-2)
scatter("histogram of u8 image", lambda x: jnp.bincount(x.reshape(-1), length=256),
        integers(512, 512, high=256, dtype="u8"))
scatter("histogram2d", lambda x, y: jnp.histogram2d(x, y, bins=32)[0], normal(20000), normal(20000))
scatter("2d counts (confusion matrix)", lambda i, j: jnp.zeros((100, 100), jnp.int32).at[i, j].add(1),
        integers(50000, high=100), integers(50000, high=100))
scatter("one-hot by scatter", lambda i: jnp.zeros((4096, 256)).at[jnp.arange(4096), i].set(1.0),
        integers(4096, high=256))


@declare("scatter/windows 8x8 added (overlap add)", integers(1000, 2, high=500), normal(1000, 8, 8))
def _(i, u):
    rows, columns = i[:, 0, None, None] + jnp.arange(8)[:, None], i[:, 1, None, None] + jnp.arange(8)
    return jnp.zeros((512, 512)).at[rows, columns].add(u)


scatter("frames overlap add",
        lambda u: jnp.zeros(16000).at[jnp.arange(400)[None] + 160 * jnp.arange(97)[:, None]].add(u), normal(97, 400))
scatter("graph: messages to nodes", lambda x, i, j: jax.ops.segment_sum(x[i], j, 5000), normal(5000, 32),
        integers(30000, high=5000), integers(30000, high=5000))


@declare("scatter/graph: softmax over edges", normal(30000), integers(30000, high=5000))
def _(e, target):
    z = jnp.exp(e - jax.ops.segment_max(e, target, 5000)[target])
    return z / jax.ops.segment_sum(z, target, 5000)[target]


scatter("sparse matrix by vector (COO)", lambda v, i, j, x: jax.ops.segment_sum(v * x[j], i, 10000), normal(100000),
        J, J, normal(10000))


@declare("scatter/particles to a grid", uniform(2, 50000), normal(50000))
def _(p, mass):
    at = (p * 63).astype(jnp.int32)
    return jnp.zeros((64, 64)).at[at[0], at[1]].add(mass)


@declare("scatter/expert slots (mixture of experts)", normal(2048, 64), integers(2048, high=15))
def _(x, expert):
    rank = jnp.take_along_axis(jnp.cumsum(jax.nn.one_hot(expert, 16, dtype=jnp.int32), 0), expert[:, None], 1)[:, 0]
    return jnp.zeros((16 * 160, 64)).at[expert * 160 + rank].set(x, mode="drop")


scatter("dynamic update of a row", lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0], 0)), normal(1024, 512),
        normal(1, 512), integers(1, high=1000))
scatter("dynamic update of a column", lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i[0])), normal(1024, 512),
        normal(1024, 1), integers(1, high=500))
scatter("dynamic update of a block", lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0], i[0])), normal(1024, 1024),
        normal(256, 256), integers(1, high=500))
scatter("key-value cache update", lambda c, u, i: lax.dynamic_update_slice(c, u, (0, i[0], 0, 0)),
        normal(8, 512, 4, 64), normal(8, 1, 4, 64), integers(1, high=500))
scatter("key-value cache update, a place each", jax.vmap(lambda c, u, i: lax.dynamic_update_slice(c, u, (i, 0, 0))),
        normal(8, 512, 4, 64), normal(8, 1, 4, 64), integers(8, high=500))
