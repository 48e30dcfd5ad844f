# SPDX-License-Identifier: Apache-2.0
"""Newton's method and conjugate gradients for many problems at once: vmap of a solver with a while loop inside."""
import checks
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
@jax.vmap
def kepler(mean_anomaly, eccentricity):
    """E with E - e sin E = M."""
    def unfinished(state):
        at, change, steps = state
        return (jnp.abs(change) > 1e-6) & (steps < 50)

    def newton(state):
        at, _, steps = state
        change = (at - eccentricity * jnp.sin(at) - mean_anomaly) / (1 - eccentricity * jnp.cos(at))
        return at - change, change, steps + 1

    return jax.lax.while_loop(unfinished, newton, (mean_anomaly, jnp.float32(1), 0))[0]


m, e = np.linspace(0, 3, 64).astype(np.float32), np.linspace(0, 0.9, 64).astype(np.float32)
solution = np.asarray(kepler(m, e), np.float64)
checks.close("Kepler's equation, 64 times", solution - e * np.sin(solution), m, atol=2e-6)

rng = np.random.default_rng(0)
a = rng.normal(size=(8, 16, 16)).astype(np.float32)
a = a @ a.transpose(0, 2, 1) + 4 * np.eye(16, dtype=np.float32)
b = rng.normal(size=(8, 16)).astype(np.float32)
solve = jax.jit(jax.vmap(lambda a, b: jax.scipy.sparse.linalg.cg(lambda x: a @ x, b, tol=1e-6)[0]))
checks.close("conjugate gradients, 8 times", solve(a, b), np.linalg.solve(a, b[..., None])[..., 0], atol=1e-4)
gradient = jax.jit(jax.grad(lambda b: jnp.sum(solve(a, b) ** 2)))(b)
inverse = np.linalg.inv(a.astype(np.float64))
want = np.einsum("nij,nj->ni", 2 * inverse @ inverse, b)
checks.close("their gradient by implicit differentiation", gradient, want, atol=1e-3)
