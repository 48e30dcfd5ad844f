# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: single matrices, and batches of small ones."""
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from cases import case, declare, matrices, normal

SIZES = ((4000, 2), (4000, 3), (2000, 4), (1000, 8), (200, 16), (32, 32), (4, 64), (1, 128), (1, 256))


def absolute(results):  # vectors are given up to their signs
    return [np.abs(r) for r in results]


for batch, n in SIZES:
    at = f"{batch}x{n}x{n}"
    square, definite, symmetric = (matrices(kind, batch, n, n) for kind in ("dominant", "definite", "symmetric"))
    vector = normal(batch, n, 1)
    case(f"linalg/lu {at}", jsl.lu_factor, square)
    case(f"linalg/solve {at}", jnp.linalg.solve, square, vector, tolerance=1e-3)
    case(f"linalg/inv {at}", jnp.linalg.inv, square, tolerance=1e-3)
    case(f"linalg/cholesky {at}", jnp.linalg.cholesky, definite, tolerance=1e-3)
    case(f"linalg/triangular_solve {at}", lambda a, b: jsl.solve_triangular(a, b, lower=True), square, vector,
         tolerance=1e-3)
    case(f"linalg/qr {at}", jnp.linalg.qr, square, tolerance=1e-3, view=absolute)
    if n in (2, 3, 4, 8, 32):
        case(f"linalg/det {at}", jnp.linalg.det, square, tolerance=1e-3)
    if n <= 128:
        case(f"linalg/eigh {at}", jnp.linalg.eigh, symmetric, tolerance=1e-2, view=lambda r: [r[0]])
    if n <= 64:
        case(f"linalg/svd {at}", lambda a: jnp.linalg.svd(a, full_matrices=False), normal(batch, n, n),
             tolerance=1e-2, view=lambda r: [r[1]])
for n in (512,):
    square, definite = matrices("dominant", n, n), matrices("definite", n, n)
    case(f"linalg/lu {n}x{n}", jsl.lu_factor, square)
    case(f"linalg/solve {n}x{n}", jnp.linalg.solve, square, normal(n, 4), tolerance=1e-3)
    case(f"linalg/inv {n}x{n}", jnp.linalg.inv, square, tolerance=1e-3)
    case(f"linalg/cholesky {n}x{n}", jnp.linalg.cholesky, definite, tolerance=1e-3)
    case(f"linalg/triangular_solve {n}x{n} of {n}", lambda a, b: jsl.solve_triangular(a, b, lower=True), square,
         normal(n, n), tolerance=1e-3)
case("linalg/qr 512x128", jnp.linalg.qr, normal(512, 128), tolerance=1e-3, view=absolute)
case("linalg/qr 2000x32", jnp.linalg.qr, normal(2000, 32), tolerance=1e-3, view=absolute)
case("linalg/svd 128x64", lambda a: jnp.linalg.svd(a, full_matrices=False), normal(128, 64), tolerance=1e-2,
     view=lambda r: [r[1]])
case("linalg/singular values 256x256", lambda a: jnp.linalg.svd(a, compute_uv=False), normal(256, 256), tolerance=1e-2)
case("linalg/eig 64x64", jnp.linalg.eigvals, normal(64, 64), tolerance=1e-2, view=lambda r: [np.sort(np.abs(r[0]))])
case("linalg/eig 200x8x8", jnp.linalg.eigvals, normal(200, 8, 8), tolerance=1e-2,
     view=lambda r: [np.sort(np.abs(r[0]).ravel())])
case("linalg/eigvalsh 500x6x6", jnp.linalg.eigvalsh, matrices("symmetric", 500, 6, 6), tolerance=1e-2)
case("linalg/slogdet 500x8x8", jnp.linalg.slogdet, matrices("dominant", 500, 8, 8), tolerance=1e-3)
case("linalg/pinv 32x16", jnp.linalg.pinv, normal(32, 16), tolerance=1e-2)
case("linalg/lstsq 200x10", lambda a, b: jnp.linalg.lstsq(a, b)[0], normal(200, 10), normal(200), tolerance=1e-2)
case("linalg/expm 16x16", jsl.expm, normal(16, 16), tolerance=1e-2)
case("linalg/matrix_power 64x64", lambda a: jnp.linalg.matrix_power(a / 16, 8), normal(64, 64), tolerance=1e-2)
case("linalg/cho_solve 1000x6x6", lambda a, b: jsl.cho_solve((jnp.linalg.cholesky(a), True), b),
     matrices("definite", 1000, 6, 6), normal(1000, 6, 1), tolerance=1e-3)
case("linalg/solve f64 1000x6x6", jnp.linalg.solve, matrices("dominant", 1000, 6, 6, dtype="f64"),
     normal(1000, 6, 1, dtype="f64"))
case("linalg/cholesky f64 128x128", jnp.linalg.cholesky, matrices("definite", 128, 128, dtype="f64"))
case("linalg/solve c64 200x8x8", jnp.linalg.solve, matrices("dominant", 200, 8, 8, dtype="c64"),
     normal(200, 8, 1, dtype="c64"), tolerance=1e-3)
case("linalg/solve gradient 500x6x6", jax.grad(lambda a, b: (jnp.linalg.solve(a, b) ** 2).sum()),
     matrices("dominant", 500, 6, 6), normal(500, 6, 1), tolerance=1e-2)
case("linalg/cholesky gradient 64x64", jax.grad(lambda a: (jnp.linalg.cholesky(a) ** 2).sum()),
     matrices("definite", 64, 64), tolerance=1e-2)
case("linalg/slogdet gradient 500x6x6", jax.grad(lambda a: jnp.linalg.slogdet(a)[1].sum()),
     matrices("dominant", 500, 6, 6), tolerance=1e-2)
case("linalg/eigh gradient 200x6x6", jax.grad(lambda a: jnp.linalg.eigh(a)[0].max(-1).sum()),
     matrices("symmetric", 200, 6, 6), tolerance=1e-2)


@declare("linalg/gaussian process (cholesky and solves) 200", normal(200, 3), normal(200), tolerance=1e-3)
def _(x, y):
    covariance = jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)) + jnp.eye(200)
    return jsl.cho_solve((jnp.linalg.cholesky(covariance), True), y)


@declare("linalg/kalman step 500x6", matrices("definite", 500, 6, 6), normal(500, 6, 6), normal(500, 3, 6), tolerance=1e-2)
def _(p, f, h):
    p = f @ p @ f.mT + jnp.eye(6)
    return p - p @ h.mT @ jnp.linalg.solve(h @ p @ h.mT + jnp.eye(3), h @ p)
