# SPDX-License-Identifier: Apache-2.0
"""Sorts, top-k, scans, searches."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cases import ascending, case, declare, integers, normal, uniform, values

# Sorts.
for dtype in ("f32", "s32", "u8", "f64", "bf16", "u32", "s8", "f16"):
    case(f"sort/keys 100000 {dtype}", jnp.sort, values(dtype, 100000))
for axis in (0, 1):
    case(f"sort/keys 512x512 axis {axis}", lambda x, axis=axis: jnp.sort(x, axis), normal(512, 512))
    case(f"sort/argsort 512x512 axis {axis}", lambda x, axis=axis: jnp.argsort(x, axis), normal(512, 512))
    case(f"sort/keys 64x64x32 axis {axis}", lambda x, axis=axis: jnp.sort(x, axis), normal(64, 64, 32))
for width in (2, 8, 32):
    case(f"sort/many rows of {width}", lambda x: jnp.sort(x, -1), normal(100000 // width, width))
case("sort/argsort 100000", jnp.argsort, normal(100000))
case("sort/argsort descending", lambda x: jnp.argsort(x, descending=True), normal(100000))
case("sort/argsort s32", jnp.argsort, integers(100000, high=1000))
case("sort/argsort unstable s32", lambda x: jnp.argsort(x, stable=False), integers(100000, high=2**30),
     view=lambda r: [])
case("sort/key and value", lambda k, v: lax.sort((k, v), num_keys=1), normal(100000), normal(100000))
case("sort/key and 3 values", lambda *a: lax.sort(a, num_keys=1), normal(50000), *[normal(50000)] * 3)
case("sort/2 keys", lambda *a: lax.sort(a, num_keys=2), integers(50000, high=100), normal(50000),
     integers(50000, high=9))
case("sort/lexsort", lambda a, b: jnp.lexsort((a, b)), normal(50000), integers(50000, high=100))
case("sort/descending", lambda x: jnp.sort(x, descending=True), normal(100000))
case("sort/complex", jnp.sort, values("c64", 20000))
case("sort/already sorted", jnp.sort, ascending(100000))
case("sort/100 values", jnp.sort, normal(100))
case("sort/1000 values and their places", lambda x: (jnp.sort(x), jnp.argsort(x)), normal(1000))
case("sort/median of rows", lambda x: jnp.median(x, 1), normal(256, 512))
case("sort/quantiles", lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), normal(100000))
case("sort/unique with size", lambda x: jnp.unique(x, size=1000), integers(50000, high=1000))
case("sort/unique inverse and counts", lambda x: jnp.unique(x, return_inverse=True, return_counts=True, size=1000),
     integers(50000, high=1000))
case("sort/rank transform", lambda x: jnp.argsort(jnp.argsort(x)), normal(50000))
case("sort/partition", lambda x: jnp.partition(x, 100)[100], normal(50000))

# Top-k.
for rows, n, k in ((1, 50000, 1), (1, 50000, 50), (1, 50000, 1000), (64, 5000, 50),
                   (64, 50000, 5), (2048, 64, 2), (2048, 64, 8)):
    case(f"topk/{k} of {rows}x{n}", lambda x, k=k: lax.top_k(x, k), normal(rows, n))
case("topk/50 of 64x5000 bf16", lambda x: lax.top_k(x, 50)[0], normal(64, 5000, dtype="bf16"))
case("topk/50 of 64x5000 s32", lambda x: lax.top_k(x, 50), integers(64, 5000, high=2**30))
case("topk/along axis 0", lambda x: lax.top_k(x.T, 10), normal(1000, 200))
case("topk/approximate 50 of 1x50000", lambda x: lax.approx_max_k(x, 50), normal(1, 50000), view=lambda r: [])


# A threshold that rounds differently takes another word or two.
@declare("topk/nucleus sampling mask", normal(4, 32000), tolerance=1e-2,
         view=lambda r: [np.isfinite(r[0]).sum(1).astype(np.float32)])
def _(x):
    descending = jnp.sort(x, -1)[:, ::-1]
    count = (jnp.cumsum(jax.nn.softmax(descending), -1) < 0.9).sum(-1, keepdims=True)
    return jnp.where(x < jnp.take_along_axis(descending, count, -1), -jnp.inf, x)


# Scans.
for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    f = getattr(lax, name)
    a = uniform(512, 512, low=0.98, high=1.02)
    for axis in (0, 1):
        case(f"scan/{name} 512x512 axis {axis}", lambda x, f=f, axis=axis: f(x, axis), a)
    case(f"scan/{name} 512x512 axis 1 reverse", lambda x, f=f: f(x, 1, reverse=True), a)
for dtype in ("f32", "s32", "bf16", "f64"):
    case(f"scan/cumsum 100000 {dtype}", lambda x: jnp.cumsum(x, dtype=x.dtype), values(dtype, 100000),
         tolerance=0.5 if dtype == "bf16" else 1e-3)
case("scan/cumsum 8x128x64 axis 1", lambda x: jnp.cumsum(x, 1), normal(8, 128, 64), tolerance=1e-3)
case("scan/cumsum of booleans", lambda x: jnp.cumsum(x > 0), normal(100000))
case("scan/cumsum gradient", jax.grad(lambda x: (jnp.cumsum(x, 1) ** 2).sum()), normal(512, 256), tolerance=1e-3)
linear = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
decay = uniform(2048, 64, low=0.8, high=1.0)
case("scan/associative linear 2048x64", lambda a, x: lax.associative_scan(linear, (a, x)), decay, normal(2048, 64))
case("scan/associative linear reverse", lambda a, x: lax.associative_scan(linear, (a, x), reverse=True), decay,
     normal(2048, 64))
case("scan/associative linear axis 1", lambda a, x: lax.associative_scan(linear, (a, x), axis=1),
     uniform(64, 1024, low=0.8, high=1.0), normal(64, 1024))
case("scan/associative linear complex", lambda a, x: lax.associative_scan(linear, (a, x)),
     uniform(512, 64, low=0.5, high=0.9, dtype="c64"), values("c64", 512, 64))
case("scan/associative linear gradient",
     jax.grad(lambda a, x: (lax.associative_scan(linear, (a, x))[1] ** 2).sum(), (0, 1)), decay, normal(2048, 64))
case("scan/associative add 4096", lambda x: lax.associative_scan(jnp.add, x), normal(4096), tolerance=1e-3)
case("scan/associative max 1000x32", lambda x: lax.associative_scan(jnp.maximum, x), normal(1000, 32))
case("scan/associative matrices 256 of 4x4", lambda x: lax.associative_scan(jnp.matmul, x),
     uniform(256, 4, 4, low=0.0, high=0.5))
case("scan/selective state space 256x64x16", lambda a, x: lax.associative_scan(linear, (a, x), axis=1),
     uniform(2, 256, 64, 16, low=0.8, high=1.0), normal(2, 256, 64, 16))
case("scan/diff", lambda x: jnp.diff(x, axis=1), normal(1000, 1000))
case("scan/gradient by differences", jnp.gradient, normal(100000))

# Searches.
for method in ("scan", "scan_unrolled", "sort", "compare_all"):
    case(f"search/searchsorted {method}", lambda a, v, m=method: jnp.searchsorted(a, v, method=m), ascending(1000),
         uniform(20000))
case("search/searchsorted 100000 in 100000", jnp.searchsorted, ascending(100000), uniform(100000))
case("search/digitize", lambda x, b: jnp.digitize(x, b), uniform(100000), ascending(32))
case("search/isin", lambda x, y: jnp.isin(x, y), integers(20000, high=5000), integers(100, high=5000))
case("search/argwhere first above", lambda x: jnp.argmax(x > 0.99, 1), uniform(1000, 500))
