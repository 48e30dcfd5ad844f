# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, chains of them, conversions between types."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import DTYPES, case, declare, integers, normal, uniform, values

N = 300000
UNARY = {
    "exp": jnp.exp, "exp2": jnp.exp2, "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "sin": jnp.sin,
    "cos": jnp.cos, "tan": jnp.tan, "tanh": jnp.tanh, "asin": jnp.arcsin, "acos": jnp.arccos, "atan": jnp.arctan,
    "sinh": jnp.sinh, "asinh": jnp.arcsinh, "acosh": lambda x: jnp.arccosh(x + 1), "atanh": jnp.arctanh,
    "erf": lax.erf, "erfc": lax.erfc,
    "erf_inv": lax.erf_inv, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "cbrt": jnp.cbrt, "sigmoid": jax.nn.sigmoid,
    "lgamma": lax.lgamma, "digamma": lax.digamma, "floor": jnp.floor, "round": jnp.round, "sign": jnp.sign,
}
for name, f in UNARY.items():
    case(f"math/{name} f32", f, uniform(N, low=0.05, high=0.95))
for name in ("exp", "log", "sin", "tanh", "erf", "sqrt", "log1p", "atan", "lgamma", "cbrt"):
    case(f"math/{name} f64", UNARY[name], uniform(N // 3, low=0.05, high=0.95, dtype="f64"))
for name in ("exp", "log", "tanh", "sin", "erf"):
    for dtype in ("bf16", "f16"):
        case(f"math/{name} {dtype}", UNARY[name], uniform(N, low=0.05, high=0.95, dtype=dtype))
for dtype in ("c64", "c128"):
    for name in ("exp", "log", "sin", "tanh", "sqrt"):
        case(f"math/{name} {dtype}", UNARY[name], values(dtype, N // 6))
case("math/sin of large arguments", jnp.sin, uniform(N, low=-1e5, high=1e5))
P = uniform(N, low=0.1, high=4.0)
case("math/pow f32", jnp.power, P, P)
case("math/pow f64", jnp.power, uniform(N // 4, low=0.1, high=4, dtype="f64"),
     uniform(N // 4, low=0.1, high=4, dtype="f64"))
case("math/integer_pow 3", lambda x: x**3, P)
case("math/pow 2.5", lambda x: x**2.5, P)
case("math/atan2", jnp.arctan2, normal(N), normal(N))
case("math/hypot", jnp.hypot, normal(N), normal(N))
case("math/rem f32", jnp.remainder, normal(N), P, tolerance=1e-2)
case("math/rem s32", lax.rem, values("s32", N), integers(N, low=1, high=50))
case("math/div s32", lax.div, values("s32", N), integers(N, low=1, high=50))
case("math/floor_divide s32", lambda x, y: x // y, values("s32", N), integers(N, low=1, high=50))
case("math/floor_divide f32", lambda x, y: x // y, normal(N), P)
case("math/mod s32 by 10", lambda x: x % 10, values("s32", N))
case("math/div u8", lambda x: x // 3, values("u8", 1000000))
case("math/pow s32", lambda x: x**5, values("s32", N))
case("math/popcount and clz", lambda x: lax.population_count(x) + lax.clz(x), values("u32", N))
case("math/shifts and xor", lambda x: (x << 3) ^ (x >> 5) | (x & 7), values("u32", 1000000))
case("math/nextafter", jnp.nextafter, normal(N), normal(N))
case("math/betainc", lambda x: jax.scipy.special.betainc(2.0, 0.5, x), uniform(20000, low=0.05, high=0.95),
     tolerance=1e-2)
case("math/gammainc", lambda x: jax.scipy.special.gammainc(2.0, x), uniform(20000, low=0.1, high=4), tolerance=1e-2)
case("math/zeta", lambda x: jax.scipy.special.zeta(x + 2, 1.0), uniform(20000), tolerance=1e-3)
case("math/bessel i0e i1e", lambda x: jax.scipy.special.i0e(x) + jax.scipy.special.i1e(x), uniform(N, high=10))
case("math/ndtri", jax.scipy.special.ndtri, uniform(N, low=0.01, high=0.99), tolerance=1e-3)
case("math/spherical harmonics by hand",
     lambda x, y, z: jnp.stack([x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y], -1), normal(50000), normal(50000),
     normal(50000))


def many(x, y, count):
    for n in range(count // 2):
        x = x * 0.999 + y * 0.001
        y = jnp.sin(x) if n % 50 == 0 else y - x * 0.001
    return x, y


CHAIN = lambda x, y: (x * y + x - y) * x + jnp.abs(y) - jnp.minimum(x, y)
M = 1000000
for dtype in ("f32", "bf16", "f16", "f64", "s32", "s8", "u8", "s16", "s64", "c64", "u32"):
    f = CHAIN if dtype != "c64" else (lambda x, y: (x * y + x - y) * x)
    case(f"elementwise/chain {dtype}", f, values(dtype, M), values(dtype, M),
         tolerance=0.1 if dtype in ("bf16", "f16") else None)
    case(f"elementwise/add {dtype}", jnp.add, values(dtype, M), values(dtype, M))
case("elementwise/divide f32", jnp.divide, normal(M), normal(M))
case("elementwise/divide f64", jnp.divide, normal(N, dtype="f64"), normal(N, dtype="f64"))
case("elementwise/divide c64", jnp.divide, values("c64", N), values("c64", N), tolerance=1e-3)
case("elementwise/complex of parts", lax.complex, normal(M), normal(M))
case("elementwise/abs c64", jnp.abs, values("c64", N))
case("elementwise/angle c64", jnp.angle, values("c64", N))
case("elementwise/conj times c64", lambda x, y: (jnp.conj(x) * y).real, values("c64", N), values("c64", N))
case("elementwise/rotate by exp(i x)", lambda x: jnp.exp(1j * x), normal(N))
case("elementwise/where", lambda x, y: jnp.where(x > y, x, y * 2), normal(M), normal(M))
case("elementwise/clip", lambda x: jnp.clip(x, -1, 1), normal(M))
case("elementwise/compare", lambda x, y: x < y, normal(M), normal(M))
case("elementwise/compare u8", lambda x, y: x == y, values("u8", M), values("u8", M))
case("elementwise/logic of comparisons", lambda x: (x > -1) & (x < 1) | jnp.isnan(x), normal(M))
case("elementwise/and of booleans", jnp.logical_and, values("pred", M), values("pred", M))
case("elementwise/isfinite", jnp.isfinite, normal(M))
case("elementwise/nan_to_num", jnp.nan_to_num, normal(M))
case("elementwise/row by matrix", lambda x, v: x * v, normal(1024, 1024), normal(1024))
case("elementwise/column by matrix", lambda x, v: x * v[:, None], normal(1024, 1024), normal(1024))
case("elementwise/row and column", lambda a, b: a[:, None] * b + a[:, None] - b, normal(1024), normal(1024))
case("elementwise/bias of channels nchw", lambda x, b: jax.nn.relu(x + b[:, None, None]), normal(8, 64, 32, 32),
     normal(64))
case("elementwise/scale by a scalar argument", lambda x, s: x * s, normal(M), normal())
case("elementwise/30 results", lambda x: [x * n for n in range(30)], normal(30000))
case("elementwise/60 arguments", lambda *x: sum(x), *[normal(10000)] * 60)
case("elementwise/500 steps of 10000", lambda x, y: many(x, y, 500), normal(10000), normal(10000), tolerance=1e-2)
case("elementwise/500 steps of 4", lambda x, y: many(x, y, 500), normal(4), normal(4), tolerance=1e-2)
case("elementwise/1 of 4", lambda x: x + 1, normal(4))
case("elementwise/100 small arguments and results", lambda *x: [v + 1 for v in x], *[normal(4)] * 100)
case("elementwise/polynomial of degree 30", lambda x, c: jnp.polyval(c, x), uniform(100000), normal(31), tolerance=1e-3)
for name in ("relu", "gelu", "silu", "softplus", "elu", "selu", "mish", "hard_swish", "leaky_relu", "log_sigmoid"):
    case(f"activation/{name} f32", getattr(jax.nn, name), normal(N))
for name in ("relu", "gelu", "silu"):
    case(f"activation/{name} bf16", getattr(jax.nn, name), normal(N, dtype="bf16"), tolerance=0.05)
    case(f"activation/{name} gradient", jax.grad(lambda x, f=getattr(jax.nn, name): (f(x) ** 2).sum()), normal(N))
case("activation/gelu exact", lambda x: jax.nn.gelu(x, approximate=False), normal(N))
case("activation/swiglu bf16", lambda x, y: jax.nn.silu(x) * y, normal(512, 1024, dtype="bf16"),
     normal(512, 1024, dtype="bf16"), tolerance=0.05)
case("activation/glu", lambda x: jax.nn.glu(x), normal(512, 1024))


CASTS = ("f32", "bf16", "f16", "f64", "s32", "u8", "s8", "s64", "pred")
for source in CASTS:
    for target in CASTS:
        if source == target:
            continue
        # Numbers that the target holds: what becomes of others is nobody's promise.
        array = values("pred", M) if source == "pred" else integers(M, high=100, dtype=source)
        case(f"cast/{source} to {target}", lambda x, t=DTYPES[target]: x.astype(t), array, x64=target in ("f64", "s64"))
case("cast/f32 to f8e4m3fn", lambda x: x.astype(jnp.float8_e4m3fn), normal(M))
case("cast/f8e4m3fn to f32", lambda x: x.astype(jnp.float32), normal(M, dtype="f8e4m3fn"))
case("cast/f32 to c64", lambda x: x.astype(jnp.complex64), normal(M))
case("cast/round to bf16 and back", lambda x: lax.reduce_precision(x, 8, 7), normal(M))


@declare("cast/quantise to s8 by row", normal(1024, 1024), view=lambda r: [r[1]])
def _(x):
    scale = jnp.abs(x).max(1, keepdims=True) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8), scale


case("cast/dequantise s8 by row", lambda q, s: q.astype(jnp.float32) * s, values("s8", 1024, 1024), uniform(1024, 1))
case("cast/dequantise s8 to bf16 by group",
     lambda q, s: (q.reshape(1024, 32, 32).astype(jnp.bfloat16) * s[..., None]).reshape(1024, 1024),
     values("s8", 1024, 1024), uniform(1024, 32, dtype="bf16"))
case("cast/dequantise 4 bits by group",
     lambda q, s: ((jnp.stack([q & 15, q >> 4], -1).reshape(1024, 32, 32).astype(jnp.float32) - 8)
                   * s[..., None]).reshape(1024, 1024),
     integers(1024, 512, high=256, dtype="u8"), uniform(1024, 32))
case("cast/unpack bits to f32", lambda x: ((x[:, None] >> jnp.arange(8, dtype=jnp.uint8)) & 1).astype(jnp.float32),
     integers(100000, high=256, dtype="u8"))
case("cast/fake quantise", lambda x: jnp.clip(jnp.round(x * 16), -128, 127) / 16, normal(M))
