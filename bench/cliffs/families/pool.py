# SPDX-License-Identifier: Apache-2.0
"""Windows: max, min and average pools, and their gradients."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cases import case, values, DTYPES

X = (4, 56, 56, 32)


def lowest(dtype):
    return -np.inf if dtype[0] in "bf" else np.iinfo(DTYPES[dtype]).min


def pool(name, shape, window, stride, padding="SAME", kind="max", layout="nhwc", dtype="f32", gradient=False,
         dilation=1):
    rank = len(shape) - 2

    def place(v):
        return (1, *[v] * rank, 1) if layout == "nhwc" else (1, 1, *[v] * rank)

    shape = shape if layout == "nhwc" else (shape[0], shape[-1], *shape[1:-1])
    kinds = {"max": (lowest(dtype), lax.max), "min": (np.inf, lax.min), "avg": (0, lax.add)}
    start, op = kinds[kind]

    def f(x):
        y = lax.reduce_window(x, np.asarray(start, x.dtype)[()], op, place(window), place(stride), padding,
                              window_dilation=place(dilation))
        return y / window**rank if kind == "avg" else y

    function = jax.grad(lambda x: (f(x) ** 2).sum()) if gradient else f
    case(f"pool/{kind} {name}{' gradient' if gradient else ''}", function, values(dtype, *shape))


for kind in ("max", "avg"):
    for layout in ("nhwc", "nchw"):
        for window, stride in ((2, 2), (3, 1), (3, 2), (3, 3)):
            for gradient in (False, True):
                pool(f"{window}x{window} s{stride} {layout}", X, window, stride, kind=kind, layout=layout,
                     gradient=gradient)
    pool("2x2 s1 valid", X, 2, 1, "VALID", kind)
    pool("3x3 s2 valid", X, 3, 2, "VALID", kind, gradient=True)
    for gradient in (False, True):
        pool("2 s2 1d", (4, 4096, 32), 2, 2, kind=kind, gradient=gradient)
        pool("2x2x2 s2 3d", (1, 32, 32, 32, 16), 2, 2, kind=kind, gradient=gradient)
        pool("3x3 s2 bf16", X, 3, 2, kind=kind, dtype="bf16", gradient=gradient)
    pool("8x8 s8", X, 8, 8, kind=kind)
    pool("7x7 s1", (1, 28, 28, 32), 7, 1, kind=kind)
    pool("3x3 s1 dilation 2", X, 3, 1, kind=kind, dilation=2)
    pool("3x3 s2 f64", (2, 56, 56, 16), 3, 2, kind=kind, dtype="f64")
pool("3x3 s2 f16", X, 3, 2, dtype="f16")
pool("3x3 s2 s32", X, 3, 2, dtype="s32")
pool("3x3 s2 s8", X, 3, 2, dtype="s8")
pool("3x3 s2", X, 3, 2, kind="min")
pool("2x2 s1", X, 2, 1, kind="max", gradient=True)
pool("15x15 s1 one channel", (1, 256, 256, 1), 15, 1)
pool("15x15 s1 one channel", (1, 256, 256, 1), 15, 1, kind="avg")
case("pool/running sum of 64 in 100000", lambda x: lax.reduce_window(x, np.float32(0), lax.add, (64,), (1,), "VALID"),
     values("f32", 100000))
case("pool/running max of 64 in 100000",
     lambda x: lax.reduce_window(x, np.float32(-np.inf), lax.max, (64,), (1,), "VALID"), values("f32", 100000))


def deviations(x, size):
    mean = lambda x: lax.reduce_window(x, 0.0, lax.add, (1, size), (1, 1), "VALID") / size
    return jnp.sqrt(jnp.maximum(mean(x * x) - mean(x) ** 2, 0))


case("pool/running deviation of 20 in 64x500", lambda x: deviations(x, 20), values("f32", 64, 500), tolerance=1e-2)
case("pool/global average nhwc", lambda x: x.mean((1, 2)), values("f32", *X))
case("pool/global average nchw", lambda x: x.mean((2, 3)), values("f32", 4, 32, 56, 56))
