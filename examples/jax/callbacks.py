# SPDX-License-Identifier: Apache-2.0
"""Compiled programs that call Python: pure_callback, io_callback, jax.debug.print, checkify."""
import contextlib
import io

import checks
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify, io_callback

x = np.linspace(0, 1, 5).astype(np.float32)

host_sine = lambda v: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method="expand_dims")
checks.close("pure_callback", jax.jit(lambda v: 2 * host_sine(v))(x), 2 * np.sin(x))
checks.close("under vmap", jax.jit(jax.vmap(host_sine))(x), np.sin(x))

seen = []
@jax.jit
def steps(v):
    def body(i, v):
        io_callback(lambda i, s: seen.append((int(i), float(s))), None, i, v.sum(), ordered=True)
        return v * 2
    return jax.lax.fori_loop(0, 3, body, v)

steps(x).block_until_ready()
jax.effects_barrier()
checks.require("ordered io_callback in a loop", seen == [(0, 2.5), (1, 5.0), (2, 10.0)])

printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    jax.jit(lambda v: jax.debug.print("the sum is {s}", s=v.sum()))(x)
    jax.effects_barrier()
checks.require("jax.debug.print", printed.getvalue() == "the sum is 2.5\n")

@checkify.checkify
def root(v):
    checkify.check(jnp.all(v >= 0), "negative numbers have no root here")
    return jnp.sqrt(v)

error, _ = jax.jit(root)(x - 0.5)
checks.require("checkify", "negative numbers" in (error.get() or ""))

try:
    jax.jit(lambda v: jax.pure_callback(lambda _: 1 / 0, jax.ShapeDtypeStruct((), np.float32), v))(x).block_until_ready()
    checks.require("an error of the callback arrives", False)
except Exception as error:
    checks.require("an error of the callback arrives", "ZeroDivisionError" in str(error))
