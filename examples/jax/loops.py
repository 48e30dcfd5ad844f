# SPDX-License-Identifier: Apache-2.0
"""scan, while_loop, fori_loop, cond, switch, associative_scan and map, with gradients where they have some."""
import checks
import jax
import jax.numpy as jnp
import numpy as np

x = np.linspace(-1, 1, 40).astype(np.float32).reshape(10, 4)


@jax.jit
def recurrent(w, h, xs):
    def cell(h, x):
        h = jnp.tanh(h @ w + x)
        return h, jnp.sum(h)
    return jax.lax.scan(cell, h, xs)


w = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
h, sums = np.zeros(4, np.float32), []
for row in x:
    h = np.tanh(h @ w + row)
    sums.append(h.sum())
checks.close("scan", recurrent(w, np.zeros(4, np.float32), x), (h, np.array(sums)))
gradient = jax.jit(jax.grad(lambda w: recurrent(w, jnp.zeros(4), x)[1].sum()))
checks.close("gradient through scan", gradient(w), gradient(jax.device_put(w, checks.cpu())), rtol=1e-4)

collatz = jax.jit(lambda n: jax.lax.while_loop(
    lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1])
checks.same("while_loop", collatz(27), np.int32(111))
power = jax.jit(lambda a: jax.lax.fori_loop(0, 5, lambda i, acc: acc * a + i, jnp.float32(0)))
checks.close("fori_loop", power(2.0), np.float32(26.0))
absolute = jax.jit(lambda v: jax.lax.cond(v > 0, lambda: v, lambda: -v))
checks.close("cond", [absolute(3.0), absolute(-4.0)], [3.0, 4.0])
choose = jax.jit(lambda i, v: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], v))
checks.close("switch", [choose(i, 0.5) for i in range(3)], [np.sin(0.5), np.cos(0.5), np.exp(0.5)])
checks.close("switch under vmap", jax.jit(jax.vmap(choose))(np.arange(3), np.full(3, 0.5, np.float32)),
             np.array([np.sin(0.5), np.cos(0.5), np.exp(0.5)]))
checks.close("associative_scan", jax.jit(lambda v: jax.lax.associative_scan(jnp.multiply, v))(x[0] + 2),
             np.cumprod(x[0] + 2))
checks.close("cumsum and cummax", jax.jit(lambda v: (jnp.cumsum(v, 0), jax.lax.cummax(v, 1)))(x),
             (np.cumsum(x, 0), np.maximum.accumulate(x, 1)))
checks.close("map", jax.jit(lambda v: jax.lax.map(lambda r: r @ r, v))(x), np.einsum("ij,ij->i", x, x))
