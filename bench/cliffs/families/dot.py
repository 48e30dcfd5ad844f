# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""
import jax.numpy as jnp
from jax import lax

from cases import case, declare, normal, values

MATMUL = jnp.matmul
for n in (64, 127, 256, 384):
    case(f"dot/{n}x{n}x{n} f32", MATMUL, normal(n, n), normal(n, n))
for dtype in ("bf16", "f16", "f64", "c64", "s32", "s8"):
    n = 256
    case(f"dot/{n}x{n}x{n} {dtype}", MATMUL, values(dtype, n, n), values(dtype, n, n),
         tolerance=0.05 if dtype in ("bf16", "f16") else None)
    case(f"dot/vector {dtype} 512x512", MATMUL, values(dtype, 512, 512), values(dtype, 512),
         tolerance=0.05 if dtype in ("bf16", "f16") else None)
case("dot/256x256x256 s8 to s32", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
     values("s8", 256, 256), values("s8", 256, 256))
case("dot/256x256x256 u8 by s8 to s32", lambda x, y: lax.dot(x.astype(jnp.int32), y.astype(jnp.int32)),
     values("u8", 256, 256), values("s8", 256, 256))
case("dot/256x256x256 bf16 to f32", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32),
     values("bf16", 256, 256), values("bf16", 256, 256), tolerance=0.01)
case("dot/16x512x512 weights s8 scaled", lambda x, w, s: (x @ w.astype(jnp.float32)) * s, normal(16, 512),
     values("s8", 512, 512), normal(512), tolerance=1e-3)
case("dot/1x1024x1024 weights s8 scaled", lambda x, w, s: (x @ w.astype(jnp.float32)) * s, normal(1, 1024),
     values("s8", 1024, 1024), normal(1024), tolerance=1e-3)
case("dot/1x1024x1024 weights bf16", lambda x, w: lax.dot(x, w, preferred_element_type=jnp.float32),
     normal(1, 1024, dtype="bf16"), normal(1024, 1024, dtype="bf16"), tolerance=0.01)
for word, f in {"tn": lambda x, y: x.T @ y, "nt": lambda x, y: x @ y.T, "tt": lambda x, y: x.T @ y.T}.items():
    case(f"dot/{word} 256", f, normal(256, 256), normal(256, 256))
    case(f"dot/{word} 256 bf16", f, normal(256, 256, dtype="bf16"), normal(256, 256, dtype="bf16"), tolerance=0.05)
case("dot/tt 128x257x67", lambda x, y: x.T @ y.T, normal(257, 128), normal(67, 257))
for m, k, n in ((1, 1024, 1024), (1024, 1024, 1), (4, 1024, 1024), (16, 512, 2048),
                (2048, 16, 2048), (16, 100000, 16), (100000, 3, 3), (100000, 16, 16), (2048, 512, 8),
                (33, 65, 129), (1, 100000, 1), (8, 8, 8), (2, 2, 2), (1000, 1, 1000)):
    case(f"dot/{m}x{k}x{n}", MATMUL, normal(m, k), normal(k, n), tolerance=1e-3)
case("dot/inner product of 1 million", jnp.dot, normal(1000000), normal(1000000), tolerance=1e-2)
for batch, n in ((20000, 2), (10000, 3), (10000, 4), (2000, 8), (500, 16), (100, 32), (32, 64)):
    case(f"dot/batch {batch} of {n}x{n}x{n}", MATMUL, normal(batch, n, n), normal(batch, n, n))
case("dot/batch 2000 of 8x8x8 f64", MATMUL, normal(2000, 8, 8, dtype="f64"), normal(2000, 8, 8, dtype="f64"))
case("dot/batch 1000 of 8x8x8 c64", MATMUL, normal(1000, 8, 8, dtype="c64"), normal(1000, 8, 8, dtype="c64"))
case("dot/batch 500 of 16x16x16 bf16", MATMUL, normal(500, 16, 16, dtype="bf16"), normal(500, 16, 16, dtype="bf16"),
     tolerance=0.05)
case("dot/batch 1000 of 6x6 by vectors", lambda a, x: jnp.einsum("bij,bj->bi", a, x), normal(1000, 6, 6),
     normal(1000, 6))
case("dot/batch 64 of 128x64 by vectors", lambda a, x: jnp.einsum("bij,bj->bi", a, x), normal(64, 128, 64),
     normal(64, 64))
case("dot/batched inner products", lambda x, y: (x * y).sum(-1), normal(10000, 64), normal(10000, 64))
case("dot/batched inner products by einsum", lambda x, y: jnp.einsum("bi,bi->b", x, y), normal(10000, 64),
     normal(10000, 64))
EINSUMS = {
    "bhqd,bhkd->bhqk": ((2, 8, 256, 64), (2, 8, 256, 64)), "bqhd,bkhd->bhqk": ((2, 256, 8, 64), (2, 256, 8, 64)),
    "bhqk,bkhd->bqhd": ((2, 8, 256, 256), (2, 256, 8, 64)), "btd,dhe->bthe": ((2, 128, 256), (256, 8, 32)),
    "bthe,hed->btd": ((2, 128, 8, 32), (8, 32, 256)), "ijk,jl->ilk": ((64, 64, 64), (64, 64)),
    "ijk,kjl->il": ((64, 32, 32), (32, 32, 64)), "ij,jk,kl->il": ((128, 128), (128, 128), (128, 128)),
    "bi,bj->bij": ((512, 32), (512, 64)), "bij,bik->jk": ((64, 64, 32), (64, 64, 48)), "ii->i": ((1000, 1000),),
    "ii->": ((1000, 1000),), "ij->ji": ((1000, 1000),), "ijk->k": ((64, 64, 64),),
    "abcd,dcef->abef": ((8, 8, 16, 16), (16, 16, 8, 8)), "nhwc,cd->nhwd": ((4, 28, 28, 64), (64, 64)),
    "nchw,cd->ndhw": ((4, 64, 28, 28), (64, 64)), "te,ted->td": ((512, 4), (512, 4, 128)),
    "gtd,gdf->gtf": ((8, 64, 128), (8, 128, 128)), "bi,ijk,bk->bj": ((32, 32), (32, 32, 32), (32, 32)),
    "bchw,bc->bhw": ((8, 64, 28, 28), (8, 64)),
}
for spec, shapes in EINSUMS.items():
    case(f"einsum/{spec}", lambda *x, s=spec: jnp.einsum(s, *x), *[normal(*s) for s in shapes], tolerance=1e-3)
case("einsum/bqhd,bkhd->bhqk bf16", lambda x, y: jnp.einsum("bqhd,bkhd->bhqk", x, y),
     normal(2, 256, 8, 64, dtype="bf16"), normal(2, 256, 8, 64, dtype="bf16"), tolerance=0.05)
case("dot/with bias and relu", lambda x, w, b: jnp.maximum(x @ w + b, 0), normal(256, 256), normal(256, 256),
     normal(256))
case("dot/gram of 2000x32", lambda x: x.T @ x, normal(2000, 32), tolerance=1e-3)
case("dot/distances 500 by 500 of 32", lambda x, y: ((x[:, None] - y) ** 2).sum(-1), normal(500, 32), normal(500, 32))
case("dot/distances by product", lambda x, y: (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T, normal(500, 32),
     normal(500, 32))
case("dot/outer products summed", lambda x, y: jnp.tensordot(x, y, ((0, 1), (0, 1))), normal(64, 32, 32),
     normal(64, 32, 48), tolerance=1e-3)
case("dot/integer 0-1 matrix by booleans", lambda x, y: (x.astype(jnp.int32) @ y.astype(jnp.int32)) > 0,
     values("pred", 256, 256), values("pred", 256, 256))
case("dot/precision highest 256", lambda x, y: jnp.matmul(x, y, precision="highest"), normal(256, 256),
     normal(256, 256))
case("dot/s64 128", MATMUL, values("s64", 128, 128), values("s64", 128, 128))
case("dot/u8 128", MATMUL, values("u8", 128, 128), values("u8", 128, 128))
case("dot/f8e4m3fn 128 to f32", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32),
     normal(128, 128, dtype="f8e4m3fn"), normal(128, 128, dtype="f8e4m3fn"), tolerance=0.01)
case("dot/convolve 1000 with 64", lambda x, y: jnp.convolve(x, y), normal(1000), normal(64))
case("dot/correlate 10000 with 32", lambda x, y: jnp.correlate(x, y, "same"), normal(10000), normal(32))
case("dot/cross products", jnp.cross, normal(50000, 3), normal(50000, 3))


@declare("dot/rotate points by quaternions", normal(20000, 4), normal(20000, 3))
def _(q, v):
    t = 2 * jnp.cross(q[:, 1:], v)
    return v + q[:, :1] * t + jnp.cross(q[:, 1:], t)


case("dot/low-rank adapter", lambda x, w, a, b: x @ w + (x @ a) @ b, normal(128, 256), normal(256, 256),
     normal(256, 8), normal(8, 256))
