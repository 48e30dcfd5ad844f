# SPDX-License-Identifier: Apache-2.0
"""Reductions, and what is built of them."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, normal, uniform, values


def normalise(x, axes):
    return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)


def rms_normalise(x):
    return x * lax.rsqrt((x ** 2).mean(-1, keepdims=True) + 1e-6)


SUMS = {"sum": jnp.sum, "max": jnp.max, "mean": jnp.mean, "var": jnp.var, "argmax": jnp.argmax,
        "any": lambda x, axis: jnp.any(x > 3, axis),
        "prod": lambda x, axis: jnp.prod(x * 0.01 + 1, axis)}
AXES = {"0": 0, "1": 1, "2": 2, "01": (0, 1), "02": (0, 2), "12": (1, 2), "all": None}
for name, f in SUMS.items():
    for word, axis in AXES.items():
        if name == "argmax" and isinstance(axis, tuple):
            continue
        if name in ("any", "prod", "mean") and word in ("01", "12", "02"):
            continue
        case(f"reduce/{name} {word} of 96x128x80", lambda x, f=f, axis=axis: f(x, axis=axis), normal(96, 128, 80),
             tolerance=1e-3)
for dtype in ("bf16", "f16", "s32", "u8", "f64", "s8", "c64"):
    for axis in (0, 1):
        case(f"reduce/sum {axis} of 1024x1024 {dtype}", lambda x, axis=axis: x.sum(axis, dtype=x.dtype),
             values(dtype, 1024, 1024), tolerance=0.05 if dtype in ("bf16", "f16") else None)
    if dtype != "c64":
        case(f"reduce/max 1 of 1024x1024 {dtype}", lambda x: x.max(1), values(dtype, 1024, 1024))
        case(f"reduce/argmax 1 of 1024x1024 {dtype}", lambda x: x.argmax(1), values(dtype, 1024, 1024))
case("reduce/all of booleans", lambda x: x.all(1), values("pred", 1024, 1024))
case("reduce/count of booleans", lambda x: x.sum(), values("pred", 1024, 1024))
case("reduce/sum of 1 million", jnp.sum, normal(1000000), tolerance=1e-3)
case("reduce/sum of 100000x3 axis 1", lambda x: x.sum(1), normal(100000, 3))
case("reduce/sum of 100000x3 axis 0", lambda x: x.sum(0), normal(100000, 3), tolerance=1e-3)
case("reduce/sum of 3x100000 axis 0", lambda x: x.sum(0), normal(3, 100000))
case("reduce/sum of 16 axes", lambda x: x.sum((0, 2, 4)), normal(8, 16, 8, 16, 8))
case("reduce/min and max at once", lambda x: (x.min(1), x.max(1)), normal(1024, 1024))
case("reduce/argmin of 4096x16", lambda x: x.argmin(1), normal(4096, 16))
case("reduce/argmax of 256x4096 axis 0", lambda x: x.argmax(0), normal(256, 4096))
case("reduce/norm of rows", lambda x: jnp.linalg.norm(x, axis=1), normal(1024, 512))
case("reduce/l1 norm of all", lambda x: jnp.abs(x).sum(), normal(1024, 512))
case("reduce/norm over a tree of 50", lambda *x: jnp.sqrt(sum((v ** 2).sum() for v in x)), *[normal(64, 64)] * 50)
case("reduce/bitwise or", lambda x: lax.reduce(x, jnp.uint32(0), lax.bitwise_or, (1,)), values("u32", 1024, 512))
case("reduce/own combiner of two",
     lambda x, y: lax.reduce((x, y), (jnp.float32(0), jnp.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)),
     uniform(512, 512), uniform(512, 512, low=0.99, high=1.01))
for rows, n in ((1024, 1024), (16384, 32), (8, 32000)):
    x = normal(rows, n)
    case(f"reduce/softmax {rows}x{n}", lambda x: jax.nn.softmax(x, -1), x)
    case(f"reduce/log_softmax {rows}x{n}", lambda x: jax.nn.log_softmax(x, -1), x)
    case(f"reduce/logsumexp {rows}x{n}", lambda x: jax.nn.logsumexp(x, -1), x)
    case(f"reduce/layernorm {rows}x{n}",
         lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), x)
case("reduce/softmax axis 0", lambda x: jax.nn.softmax(x, 0), normal(1024, 512))
case("reduce/softmax axis 1 of rank 4", lambda x: jax.nn.softmax(x, 1), normal(4, 32, 64, 64))
case("reduce/softmax bf16", lambda x: jax.nn.softmax(x, -1), normal(1024, 1024, dtype="bf16"))
case("reduce/softmax f16", lambda x: jax.nn.softmax(x, -1), normal(1024, 1024, dtype="f16"))
case("reduce/softmax masked", lambda x: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((256, 256), bool)), x, -1e9), -1),
     normal(16, 256, 256))
case("reduce/softmax gradient", lambda x, g: jax.vjp(lambda x: jax.nn.softmax(x, -1), x)[1](g), normal(1024, 512),
     normal(1024, 512))
case("reduce/layernorm gradient",
     jax.grad(lambda x, s: ((normalise(x, -1) * s) ** 3).sum(), (0, 1)),
     normal(1024, 512), normal(512), tolerance=1e-2)
case("reduce/rmsnorm bf16",
     lambda x, s: rms_normalise(x.astype(jnp.float32)).astype(jnp.bfloat16) * s,
     normal(1024, 1024, dtype="bf16"), normal(1024, dtype="bf16"))
case("reduce/batchnorm nhwc", lambda x: (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5),
     normal(8, 32, 32, 64), tolerance=1e-3)
case("reduce/batchnorm nchw",
     lambda x: (x - x.mean((0, 2, 3), keepdims=True)) * lax.rsqrt(x.var((0, 2, 3), keepdims=True) + 1e-5),
     normal(8, 64, 32, 32), tolerance=1e-3)
case("reduce/batchnorm nhwc gradient",
     jax.grad(lambda x, s: (((x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * s) ** 3).sum(), (0, 1)),
     normal(8, 32, 32, 64), normal(64), tolerance=1e-2)
case("reduce/groupnorm nhwc",
     lambda x: normalise(x.reshape(8, 1024, 8, 8), (1, 3)),
     normal(8, 32, 32, 64), tolerance=1e-3)
case("reduce/cross-entropy gradient", jax.grad(lambda x, y: -(jax.nn.log_softmax(x) * y).sum(-1).mean()),
     normal(512, 1000), uniform(512, 1000), tolerance=1e-2)
case("reduce/std of columns", lambda x: x.std(0), normal(1024, 1024), tolerance=1e-3)
case("reduce/covariance", lambda x: jnp.cov(x, rowvar=False), normal(2000, 64), tolerance=1e-3)
case("reduce/mean of 8 elements", jnp.mean, normal(8))
case("reduce/nanmean", lambda x: jnp.nanmean(x, 1), normal(1024, 512), tolerance=1e-3)
case("reduce/allclose", lambda x, y: jnp.allclose(x, y), normal(1000, 500), normal(1000, 500))
