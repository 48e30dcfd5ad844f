# SPDX-License-Identifier: Apache-2.0
"""jax.numpy.linalg and jax.scipy.linalg: decompositions, solvers, their gradients."""
import checks
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

rng = np.random.default_rng(0)
a = rng.normal(size=(2, 6, 6)).astype(np.float32)
b = rng.normal(size=(2, 6, 3)).astype(np.float32)
tall = rng.normal(size=(7, 4)).astype(np.float32)
spd = a @ a.transpose(0, 2, 1) + 3 * np.eye(6, dtype=np.float32)
LOOSE = {"rtol": 1e-3, "atol": 1e-3}


def rebuilt(what, got, want):
    checks.close(what, got, want, **LOOSE)


rebuilt("cholesky", jax.jit(jnp.linalg.cholesky)(spd), np.linalg.cholesky(spd))
rebuilt("solve", jax.jit(jnp.linalg.solve)(a, b), np.linalg.solve(a, b))
rebuilt("inv", jax.jit(jnp.linalg.inv)(spd), np.linalg.inv(spd))
rebuilt("det and slogdet", jax.jit(lambda m: (jnp.linalg.det(m), *jnp.linalg.slogdet(m)))(a),
        (np.linalg.det(a), *np.linalg.slogdet(a)))
q, r = jax.jit(jnp.linalg.qr)(tall)
rebuilt("qr", np.asarray(q) @ np.asarray(r), tall)
w, v = jax.jit(jnp.linalg.eigh)(spd)
rebuilt("eigh", (np.asarray(v) * np.asarray(w)[:, None]) @ np.asarray(v).transpose(0, 2, 1), spd)
u, s, vh = jax.jit(lambda m: jnp.linalg.svd(m, full_matrices=False))(tall)
rebuilt("svd", (np.asarray(u) * np.asarray(s)) @ np.asarray(vh), tall)
rebuilt("pinv, lstsq", jax.jit(lambda m, c: (jnp.linalg.pinv(m), jnp.linalg.lstsq(m, c)[0]))(tall, tall[:, 0]),
        (np.linalg.pinv(tall), np.linalg.lstsq(tall, tall[:, 0], rcond=None)[0]))
eigenvalues = np.asarray(jax.jit(jnp.linalg.eigvals)(a[0]))
rebuilt("eig", np.sort_complex(eigenvalues), np.sort_complex(np.linalg.eigvals(a[0])))
t, z = (np.asarray(m) for m in jax.jit(jsl.schur)(a[0]))
rebuilt("schur", z @ t @ z.T, a[0])
p, l, upper = (np.asarray(m) for m in jax.jit(jsl.lu)(tall))
rebuilt("lu", p @ l @ upper, tall)
rebuilt("expm", jax.jit(jsl.expm)(0.1 * a[0]), np.asarray(sum(
    np.linalg.matrix_power(0.1 * a[0].astype(np.float64), k) / float(np.prod(range(1, k + 1))) for k in range(25))))
rebuilt("triangular solve", jax.jit(lambda m, c: jsl.solve_triangular(m, c, lower=True))(np.tril(spd[0]), b[0]),
        np.linalg.solve(np.tril(spd[0]), b[0]))
rebuilt("norms", jax.jit(lambda m: [jnp.linalg.norm(m, o) for o in (None, 1, 2, jnp.inf)])(tall),
        [np.linalg.norm(tall, o) for o in (None, 1, 2, np.inf)])

logdet = jax.jit(jax.grad(lambda m: jnp.linalg.slogdet(m)[1]))
rebuilt("gradient of logdet", logdet(spd[0]), np.linalg.inv(spd[0]).T)
top = jax.jit(jax.grad(lambda m: jnp.linalg.eigvalsh(m)[-1]))(spd[0])
v0 = np.linalg.eigh(spd[0])[1][:, -1]
rebuilt("gradient of an eigenvalue", top, np.outer(v0, v0))
