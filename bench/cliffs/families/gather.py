# SPDX-License-Identifier: Apache-2.0
"""Gathers: rows, scalars, windows; dynamic slices."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, declare, integers, normal, uniform, values


def gather(name, function, *arrays, **options):
    case(f"gather/{name}", function, *arrays, **options)


I = integers(20000, high=20000)
for dtype in ("f32", "bf16", "f64", "s8"):
    gather(f"rows of 128 {dtype}", lambda x, i: x[i], values(dtype, 20000, 128), I)
for width in (1, 3, 16, 1024):
    count = 20000 if width < 1024 else 2000
    gather(f"rows of {width}", lambda x, i: x[i], normal(count, width), integers(count, high=count))
gather("columns 128", lambda x, i: x[:, i], normal(1024, 512), integers(128, high=512))
gather("middle axis", lambda x, i: x[:, i], normal(64, 256, 64), integers(128, high=256))
gather("embedding 4x512 of 32000x256", lambda x, i: x[i], normal(32000, 256), integers(4, 512, high=32000))
gather("embedding 1 of 32000x256", lambda x, i: x[i], normal(32000, 256), integers(1, high=32000))
for mode in ("clip", "fill", "wrap"):
    gather(f"take rows {mode}", lambda x, i, mode=mode: jnp.take(x, i, axis=0, mode=mode), normal(20000, 64), I)
    gather(f"take scalars {mode}", lambda x, i, mode=mode: jnp.take(x, i, mode=mode), normal(200000),
           integers(100000, high=200000))
gather("take rows promise_in_bounds", lambda x, i: x.at[i].get(mode="promise_in_bounds"), normal(20000, 64), I)
for dtype in ("bf16", "s32", "u8", "f64"):
    gather(f"scalars {dtype}", lambda x, i: x[i], values(dtype, 200000), integers(100000, high=200000))
gather("scalars of 256 (a table)", lambda x, i: x[i], normal(256), integers(1000, 200, high=256))
gather("table by u8", lambda x, i: x[i], normal(256), integers(500, 400, high=256, dtype="u8"))
for n in (3, 4):
    gather(f"palette of {n} bytes", lambda x, i: x[i], integers(256, n, high=256, dtype="u8"),
           integers(256, 256, high=256, dtype="u8"))
gather("scalars of a matrix", lambda x, i, j: x[i, j], normal(1000, 1000), integers(100000, high=1000),
       integers(100000, high=1000))
gather("scalars of rank 3", lambda x, i, j, k: x[i, j, k], normal(100, 100, 100), *[integers(100000, high=100)] * 3)
gather("diagonal", lambda x: jnp.diagonal(x), normal(1000, 1000))
gather("batched diagonal", lambda x: jnp.diagonal(x, axis1=1, axis2=2), normal(1000, 16, 16))
for axis in (0, 1):
    gather(f"take_along_axis {axis}", lambda x, i, axis=axis: jnp.take_along_axis(x, i, axis), normal(2000, 128),
           integers(2000, 128, high=128))
gather("take_along_axis 1 one column", lambda x, i: jnp.take_along_axis(x, i, 1), normal(4096, 1000),
       integers(4096, 1, high=1000))
gather("take_along_axis of rank 3", lambda x, i: jnp.take_along_axis(x, i, 1), normal(16, 128, 64),
       integers(16, 128, 64, high=128))
gather("batched rows (beam search)", jax.vmap(lambda x, i: x[i]), normal(32, 64, 256), integers(32, 64, high=64))
gather("batched scalars", jax.vmap(lambda x, i: x[i]), normal(512, 1000), integers(512, 200, high=1000))
gather("windows 1d of 64", jax.vmap(lambda i, x: lax.dynamic_slice(x, (i,), (64,)), (0, None)),
       integers(2000, high=99000), normal(100000))
gather("windows 8x8", jax.vmap(lambda i, x: lax.dynamic_slice(x, (i[0], i[1]), (8, 8)), (0, None)),
       integers(1000, 2, high=500), normal(512, 512))
gather("a crop of each image", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i[0], i[1], 0), (56, 56, 3))),
       normal(16, 64, 64, 3), integers(16, 2, high=8))
gather("frames 400 every 160", lambda x: x[jnp.arange(400)[None] + 160 * jnp.arange(98)[:, None]], normal(16000))
gather("rows where few are wanted", lambda x, i: x[i], normal(50000, 128), integers(16, high=50000))
gather("reverse permutation", lambda x: x[::-1][jnp.arange(1000)[::-1]], normal(1000, 256))
gather("pages of a cache", lambda x, i: x[i], normal(512, 16, 8, 64), integers(8, 16, high=512))
gather("neighbours then sum", lambda x, i: x[i].sum(1), normal(10000, 32), integers(10000, 8, high=10000))
gather("edges: difference of ends", lambda x, i, j: x[i] - x[j], normal(10000, 3), integers(50000, high=10000),
       integers(50000, high=10000))
gather("boolean mask by where", lambda x: x[jnp.where(x > 0, size=10000)[0]], normal(50000))
gather("nonzero with size", lambda x: jnp.nonzero(x > 0, size=60000)[0], normal(100000))
gather("complex scalars", lambda x, i: x[i], values("c64", 100000), integers(50000, high=100000))
gather("loss of labels", lambda x, y: -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean(),
       normal(2048, 1000), integers(2048, high=1000))
gather("jnp.interp", jnp.interp, uniform(100000), uniform(1000), normal(1000))
gather("jnp.select of 4", lambda x: jnp.select([x < -1, x < 0, x < 1], [x, x * 2, x * 3], 0), normal(500000))
gather("jnp.choose", lambda i, x: jnp.choose(i, x, mode="clip"), integers(100000, high=4), normal(4, 100000))


@declare("gather/polynomial by table of coefficients", uniform(200000), normal(64, 3))
def _(x, c):
    i = (x * 63).astype(jnp.int32)
    return c[i, 0] + x * (c[i, 1] + x * c[i, 2])


@declare("gather/bilinear sample of a texture", normal(256, 256), uniform(2, 100000))
def _(texture, u):
    i, f = (u * 254).astype(jnp.int32), (u * 254) % 1
    return texture[i[0], i[1]] * (1 - f[0]) + texture[i[0] + 1, i[1]] * f[0]


for n in (1, 64):
    gather(f"dynamic slice {n} rows of 2048x512", lambda x, i, n=n: lax.dynamic_slice(x, (i[0], 0), (n, 512)),
           normal(2048, 512), integers(1, high=1000))
gather("dynamic slice of columns", lambda x, i: lax.dynamic_slice(x, (0, i[0]), (2048, 64)), normal(2048, 512),
       integers(1, high=100))
gather("dynamic slice of half", lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (512, 512)), normal(1024, 1024),
       integers(2, high=100))
