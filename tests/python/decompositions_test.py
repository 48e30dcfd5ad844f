# SPDX-License-Identifier: Apache-2.0
"""jax.lax.linalg on krafla beside JAX's own CPU back end, for the types and shapes that JAX has, and those it has not."""
import functools
import os
import subprocess
import sys
import unittest

os.environ.setdefault("JAX_PLATFORMS", "vulkan,cpu")

import jax
import ml_dtypes
import numpy as np
from jax._src.lax import linalg

jax.config.update("jax_enable_x64", True)


def matrices(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    a = random.standard_normal(shape)
    return (a + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def on(platform, function, *arrays):
    device = jax.devices(platform)[0]
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*(jax.device_put(a, device) for a in arrays)))]


def tolerance(dtype):
    return 50 * float(ml_dtypes.finfo(dtype).eps)


def hermitian(a):
    return a + a.swapaxes(-1, -2).conj()


# Those whose results are determined up to rounding; for symmetric ones the operand is made so.
_FUNCTIONS = {
    "eigvals": lambda a: linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
    "schur": linalg.schur, "hessenberg": linalg.hessenberg,
    "tridiagonal": lambda a: linalg.tridiagonal(a)[1:],
    "pivoted qr": functools.partial(linalg.qr, pivoting=True),
    "pivoted thin qr": functools.partial(linalg.qr, pivoting=True, full_matrices=False),
}
_SYMMETRIC = {"tridiagonal"}
_OBLONG = {"pivoted qr", "pivoted thin qr"}


class DecompositionsTest(unittest.TestCase):
    def test_like_the_cpu_back_end(self):
        for name, function in _FUNCTIONS.items():
            shapes = [(5, 5), (2, 3, 3), (1, 1), (0, 4, 4)] + ([(3, 6), (2, 6, 3)] if name in _OBLONG else [])
            for dtype in (np.float32, np.float64, np.complex64, np.complex128):
                for shape in shapes:
                    with self.subTest(name=name, dtype=np.dtype(dtype).name, shape=shape):
                        a = matrices(shape, dtype)
                        a = hermitian(a) if name in _SYMMETRIC else a
                        for ours, theirs in zip(on("vulkan", function, a), on("cpu", function, a), strict=True):
                            self.assertEqual(ours.dtype, theirs.dtype)
                            if name == "eigvals":  # in what order is LAPACK's affair
                                ours, theirs = np.sort(ours, -1), np.sort(theirs, -1)
                            np.testing.assert_allclose(ours, theirs, rtol=tolerance(dtype), atol=4 * tolerance(dtype))

    def test_eigenvectors(self):
        for dtype in (np.float32, np.float64, np.complex64, np.complex128, np.float16, ml_dtypes.bfloat16):
            with self.subTest(dtype=np.dtype(dtype).name):
                a = matrices((2, 5, 5), dtype)
                w, left, right = on("vulkan", lambda a: linalg.eig(a), a)
                wide = np.complex128 if dtype in (np.float64, np.complex128) else np.complex64
                self.assertEqual([x.dtype for x in (w, left, right)], [wide] * 3)
                close = functools.partial(np.testing.assert_allclose, rtol=0, atol=4 * tolerance(wide))
                a = a.astype(wide)
                close(a @ right, right * w[:, None])
                close(left.swapaxes(-1, -2).conj() @ a, w[:, :, None] * left.swapaxes(-1, -2).conj())

    def test_narrow_types_are_the_wide_results_rounded(self):
        # JAX's own back ends refuse them.
        for name, function in _FUNCTIONS.items():
            for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
                with self.subTest(name=name, dtype=np.dtype(dtype).name):
                    a = matrices((2, 4, 4), dtype)
                    a = hermitian(a.astype(np.float32)).astype(dtype) if name in _SYMMETRIC else a
                    narrow, wide = on("vulkan", function, a), on("vulkan", function, a.astype(np.float32))
                    if name.startswith("pivoted"):  # q is made of rounded reflectors
                        narrow, wide = narrow[2:], wide[2:]
                    for ours, theirs in zip(narrow, wide, strict=True):
                        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))

    def test_columns_chosen_for_the_front_of_a_pivoted_qr(self):
        random = np.random.default_rng(0)
        for dtype in (np.float64, np.complex128):
            for shape in ((5, 5), (3, 6), (6, 3), (1, 4), (4, 1), (2, 4, 4)):
                for share in (0, 0.3, 0.6, 1):
                    a = matrices(shape, dtype)
                    chosen = (random.random(shape[:-2] + shape[-1:]) < share).astype(np.int32)
                    with self.subTest(dtype=np.dtype(dtype).name, shape=shape, chosen=chosen.tolist()):
                        for ours, theirs in zip(on("vulkan", linalg.geqp3, a, chosen), on("cpu", linalg.geqp3, a, chosen),
                                                strict=True):
                            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)

    def test_empty_matrices(self):
        # LAPACK writes to the terminal where it is given a leading dimension of zero.
        code = ("import jax, numpy as np\n"
                "from jax._src.lax import linalg\n"
                "e = np.zeros((2, 0, 0), np.float32)\n"
                "for f in (linalg.eig, linalg.schur):\n"
                "    jax.block_until_ready(f(e))\n"
                "a, order, taus = linalg.geqp3(np.zeros((2, 0, 3), np.float32), np.int32([[0, 0, 1], [0, 0, 0]]))\n"
                "print(a.shape, order.tolist(), taus.shape)")
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(out.stdout, "(2, 0, 3) [[3, 2, 1], [1, 2, 3]] (2, 0)\n", out.stderr)


if __name__ == "__main__":
    unittest.main()
