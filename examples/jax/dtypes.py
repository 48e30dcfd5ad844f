# SPDX-License-Identifier: Apache-2.0
"""Float64 and int64 with x64, bfloat16, float16, float8, int8 and int4, complex numbers."""
import checks
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

x = np.linspace(0.1, 3, 50)
checks.close("float64", jax.jit(lambda v: jnp.exp(jnp.sin(v)) * jnp.log(v))(x), np.exp(np.sin(x)) * np.log(x),
             rtol=1e-14, atol=1e-14)
checks.require("its type", jax.jit(jnp.sqrt)(x).dtype == np.float64)
m = np.random.default_rng(0).normal(size=(20, 20))
checks.close("float64 matrices", jax.jit(lambda a: jnp.linalg.solve(a, a @ a))(m), m, rtol=1e-9, atol=1e-9)
big = np.arange(10, dtype=np.int64) * 2 ** 40
checks.same("int64", jax.jit(lambda v: v * 3 - (v >> 7))(big), big * 3 - (big >> 7))
checks.same("uint8 wraps", jax.jit(lambda v: v * 3 + 7)(np.arange(0, 256, dtype=np.uint8)),
            np.arange(0, 256, dtype=np.uint8) * np.uint8(3) + np.uint8(7))

h = jnp.asarray(x, jnp.bfloat16)
got = jax.jit(lambda v: v * v + 1)(h)
checks.require("bfloat16's type", got.dtype == jnp.bfloat16)
checks.close("bfloat16", got, x * x + 1, rtol=2e-2, atol=2e-2)
checks.close("bfloat16 matrices", jax.jit(jnp.matmul)(m.astype(jnp.bfloat16), m.astype(jnp.bfloat16)), m @ m,
             rtol=5e-2, atol=0.3)
checks.close("float16", jax.jit(jnp.tanh)(x.astype(np.float16)), np.tanh(x), rtol=2e-3, atol=2e-3)
f8 = jax.jit(lambda v: v.astype(jnp.float8_e4m3fn))(x)
checks.same("float8", np.asarray(f8).view(np.uint8), x.astype(jnp.float8_e4m3fn).view(np.uint8))

a = np.random.default_rng(1).integers(-128, 128, (16, 32), dtype=np.int8)
product = jax.jit(lambda p, q: jax.lax.dot(p, q, preferred_element_type=jnp.int32))(a, a.T)
checks.same("int8 matrices", product, a.astype(np.int32) @ a.T.astype(np.int32))
four = jax.jit(lambda v: (v.astype(jnp.int4) + jnp.int4(1)).astype(jnp.int8))(np.arange(-8, 7, dtype=np.int8))
checks.same("int4", four, np.arange(-7, 8, dtype=np.int8))

c = (m[0] + 1j * m[1]).astype(np.complex128)
checks.close("complex128", jax.jit(lambda v: jnp.exp(v) * jnp.conj(v) / jnp.abs(v))(c), np.exp(c) * np.conj(c) / np.abs(c),
             rtol=1e-12, atol=1e-12)
