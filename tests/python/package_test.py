# SPDX-License-Identifier: Apache-2.0
"""The Python package: what it registers with JAX, and that nothing goes wrong silently."""
import functools
import logging
import os
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("JAX_PLATFORMS", "vulkan,cpu")

logged = []


class Keep(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())


logging.getLogger("jax_plugins.krafla").addHandler(Keep())

import jax
import jax.numpy as jnp
import krafla
import numpy as np
from jax_plugins import krafla as plugin


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True,
                          timeout=300, check=False)


class PackageTest(unittest.TestCase):
    def test_every_part_fits_this_jax(self):
        self.assertEqual(jax.default_backend(), "vulkan")
        self.assertEqual(logged, [])

    def test_platform_is_not_called_experimental(self):
        out = run("import jax; jax.devices()")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertNotIn("experimental", out.stderr)

    def test_command(self):
        out = krafla.run("--version", capture_output=True, text=True, check=True)
        self.assertIn(krafla.__version__, out.stdout)

    def test_missing_library_is_named(self):
        out = run("import krafla\ntry: krafla.pjrt_library_path()\nexcept FileNotFoundError as e: print(e)",
                  KRAFLA_PJRT_LIBRARY="/nowhere/lib.so")
        self.assertIn("KRAFLA_PJRT_LIBRARY names /nowhere/lib.so", out.stdout)

    def test_error_of_a_callback_is_raised_by_the_call(self):
        def boom(x):
            raise ValueError("negative")

        f = jax.jit(lambda x: jax.pure_callback(boom, x, x))
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "negative"):
            f(jnp.float32(1))
        said = []
        g = jax.jit(lambda x: (jax.debug.callback(said.append, x), x + 1)[1])
        for n in range(3):
            g(jnp.float32(n))
            self.assertEqual(len(said), n + 1)  # nobody waited for the result

    def test_equal_elements_of_a_padded_pool(self):
        # The gradient of a max pool goes to the first of equal elements, as on JAX's CPU back end.
        x = np.maximum(np.random.RandomState(0).randn(2, 9, 9, 3), 0.5).astype(np.float32)

        def pool(x):
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                                         ((0, 0), (1, 1), (1, 1), (0, 0))).sum()

        ours = jax.jit(jax.grad(pool))(x)
        theirs = jax.jit(jax.grad(pool))(jax.device_put(x, jax.devices("cpu")[0]))
        np.testing.assert_array_equal(ours, theirs)

    def test_decompositions_export_with_symbolic_shapes(self):
        b, n = jax.export.symbolic_shape("b,n")
        x = np.random.RandomState(0).randn(3, 4, 4).astype(np.float32)
        for function in (jnp.linalg.inv, jnp.linalg.det, jnp.linalg.eigvals, lambda x: jnp.linalg.eigh(x)[0],
                         lambda x: jnp.linalg.svd(x, compute_uv=False), jnp.linalg.pinv):
            exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((b, n, n), jnp.float32))
            again = jax.export.deserialize(exported.serialize())
            np.testing.assert_array_equal(again.call(x), jax.jit(function)(x))
        # Python's min() of two symbols of which one is known to be at most the other, but perhaps equal, is an error.
        m, n = jax.export.symbolic_shape("m,n", constraints=("n <= m",))
        exported = jax.export.export(jax.jit(jnp.linalg.svd))(jax.ShapeDtypeStruct((m, n), jnp.float32))
        for theirs, ours in zip(exported.call(x[0, :, :3]), jnp.linalg.svd(x[0, :, :3])):
            np.testing.assert_array_equal(theirs, ours)

    def test_exports_for_the_cpu_with_open_sizes_and_without(self):
        # What JAX writes there for convert, scan, cumulative sums, top k and LAPACK, run by krafla alone.
        def positive(x):
            return x @ x.swapaxes(-1, -2) + 4 * jnp.eye(x.shape[-1], dtype=x.dtype)

        functions = {
            "convert": lambda x: (x > 0).astype(jnp.float32) + jnp.arange(x.shape[1]),
            "scan": lambda x: jax.lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(x.shape[1]), x)[1],
            "cumsum": lambda x: jnp.cumsum(x, 0),
            "top_k": lambda x: jax.lax.top_k(x, x.shape[1] - 1)[0],
            "one_hot": lambda x: jax.nn.one_hot(jnp.argmax(x, 1), x.shape[1]),
            "cholesky": lambda x: jnp.linalg.cholesky(positive(x)),
            "no cholesky": lambda x: jnp.linalg.cholesky(-positive(x)),
            "lu": lambda x: jax.scipy.linalg.lu(x)[2],
            "solve": lambda x: jnp.linalg.solve(positive(x), x),
            "qr": lambda x: jnp.linalg.qr(x)[1],
            "eigh": lambda x: jnp.linalg.eigh(positive(x))[0],
            "svd": lambda x: (lambda u, s, v: (u * s) @ v)(*jnp.linalg.svd(x, full_matrices=False)),
            "svdvals": lambda x: jnp.linalg.svd(x, compute_uv=False),
        }
        x = np.random.RandomState(0).randn(5, 5).astype(np.float32)
        n, = jax.export.symbolic_shape("n")
        cpu = jax.devices("cpu")[0]
        for name, function in functions.items():
            with self.subTest(name), jax.default_device(cpu):
                theirs = np.asarray(jax.jit(function)(x))
                for shape, given in (((n, n), {"shapes": {"0": x.shape}}), (x.shape, {})):
                    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(
                        jax.ShapeDtypeStruct(shape, x.dtype))
                    ours = np.asarray(krafla.load(exported.mlir_module_serialized, "cpu", **given)(x))
                    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)

    def test_decompositions_of_batches(self):
        # By krafla's kernels and, beyond 256, by NumPy; what is not finite stays in its matrix.
        random = np.random.RandomState(0)
        for n in (3, 40, 260):
            x = random.randn(3, n, n).astype(np.float32)
            x += x.swapaxes(1, 2)
            x[1, 0, 0] = np.nan
            good = x[[0, 2]]
            w, v = (np.asarray(r) for r in jax.jit(jnp.linalg.eigh)(x))
            u, s, vh = (np.asarray(r) for r in jax.jit(jnp.linalg.svd)(x))
            lu, _, rows = (np.asarray(r) for r in jax.jit(jax.lax.linalg.lu)(x))
            e = np.asarray(jax.jit(jnp.linalg.eigvals)(x)) if n < 100 else np.full((3, n), np.nan)
            for result in (w, v, u, s, vh, e):
                self.assertTrue(np.isnan(result[1]).all())
            near = functools.partial(np.testing.assert_allclose, rtol=0, atol=n * 1e-5)
            near(good @ v[[0, 2]], v[[0, 2]] * w[[0, 2], None, :])
            near((u * s[:, None, :] @ vh)[[0, 2]], good)
            near(((np.tril(lu, -1) + np.eye(n)) @ np.triu(lu))[[0, 2]], np.take_along_axis(x, rows[:, :, None], 1)[[0, 2]])
            if n < 100:
                near(np.sort(e[[0, 2]].real), w[[0, 2]])

    def test_clients_that_know_platforms_by_name(self):
        # As mjx has it: before the first use of a device, and after.
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "mujoco", "mjx", "_src")
            os.makedirs(package)
            for level in (package, os.path.dirname(package), os.path.join(folder, "mujoco")):
                open(os.path.join(level, "__init__.py"), "w").close()
            with open(os.path.join(package, "io.py"), "w") as f:
                f.write("class types:\n  class Impl: JAX = 'jax'\n"
                        "def _resolve_impl(device):\n"
                        "  if device.platform == 'cpu': return 'cpu'\n"
                        "  raise ValueError(device)\n")
            use = ("import jax, mujoco.mjx._src.io as io; devices = jax.devices()[0], jax.devices('cpu')[0]; "
                   "print(*(io._resolve_impl(d) for d in devices))")
            for code in (use, "import jax; jax.devices(); " + use):
                out = run(code, PYTHONPATH=os.environ.get("PYTHONPATH", "") + os.pathsep + folder)
                self.assertEqual(out.stdout.split(), ["jax", "cpu"], out.stderr)

    def test_distributed_with_one_process(self):
        out = run("import jax, socket, time\n"
                  "s = socket.socket(); s.bind(('127.0.0.1', 0)); port = s.getsockname()[1]; s.close()\n"
                  "jax.distributed.initialize(f'127.0.0.1:{port}', 1, 0)\n"
                  "print(jax.process_index(), jax.process_count(), jax.jit(lambda x: x + 1)(1))\n"
                  "time.sleep(2)\nprint('alive')")
        self.assertEqual(out.stdout.split(), ["0", "1", "2", "alive"], out.stderr)

    def test_too_old_jaxlib_is_refused_with_a_sentence(self):
        import jaxlib

        version = jaxlib.__version__
        try:
            jaxlib.__version__ = "0.4.30"
            with self.assertRaisesRegex(RuntimeError, "jaxlib 0.9.0 or newer .* jaxlib 0.4.30 is installed"):
                plugin._check_versions()
        finally:
            jaxlib.__version__ = version

    def test_device_option(self):
        code = ("import jax\njax.config.update('jax_pjrt_client_create_options', {'device': 'cpu*3'})\n"
                "print(len(jax.devices()))")
        out = run(code, KRAFLA_DEVICE="")
        self.assertEqual(out.stdout.strip(), "3", out.stderr)

    def test_wrong_device_is_an_error_that_names_it(self):
        out = run("import jax; jax.devices()", KRAFLA_DEVICE="vulkan:99")
        self.assertNotEqual(out.returncode, 0)
        self.assertIn("vulkan:99", out.stderr)

    def test_without_a_wish_a_device_that_fails_leaves_jax_its_cpu(self):
        out = run("import jax; print(jax.default_backend())", KRAFLA_DEVICE="vulkan:99", JAX_PLATFORMS="")
        self.assertEqual(out.stdout.strip(), "cpu", out.stderr)

    def test_donated_arguments_are_gone(self):
        x = jnp.arange(8.0)
        y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
        np.testing.assert_array_equal(y, np.arange(8.0) + 1)
        self.assertTrue(x.is_deleted())

    def test_persistent_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import jax, jax.numpy as jnp\n"
                    f"jax.config.update('jax_compilation_cache_dir', {folder!r})\n"
                    "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
                    "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
                    "jax.config.update('jax_explain_cache_misses', True)\n"
                    "print(jax.jit(lambda v: jnp.sin(v).sum())(jnp.arange(4.0)))")
            first, names = run(code), None
            names = sorted(os.listdir(folder))
            second = run(code)
            self.assertEqual(first.returncode, 0, first.stderr)
            self.assertTrue([n for n in names if n.endswith("-cache")], names)
            self.assertEqual(first.stdout, second.stdout, second.stderr)
            self.assertEqual([n for n in sorted(os.listdir(folder)) if n.endswith("-cache")],
                             [n for n in names if n.endswith("-cache")])

    def test_named_host_functions_survive_serialization(self):
        from jax.experimental import serialize_executable

        a = np.diag(np.arange(1, 5)).astype(np.float32)
        compiled = jax.jit(lambda m: jnp.linalg.eigh(m)[0]).lower(a).compile()
        loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled),
                                                           execution_devices=jax.devices()[:1])
        np.testing.assert_allclose(loaded(a), [1, 2, 3, 4], rtol=1e-6)

    def test_tridiagonal_eigenvectors(self):
        from jax.scipy.linalg import eigh_tridiagonal

        d, e = np.arange(1, 7).astype(np.float32), np.full(5, 0.5, np.float32)
        w, v = (np.asarray(x) for x in eigh_tridiagonal(d, e))
        np.testing.assert_allclose((np.diag(d) + np.diag(e, 1) + np.diag(e, -1)) @ v, v * w, atol=1e-5)

    def test_singular_tridiagonal_systems(self):
        import functools

        solve = jax.jit(functools.partial(jax.lax.linalg.tridiagonal_solve, perturb_singular=True))
        for n in (1, 2, 5):
            x = solve(np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32),
                      np.ones((n, 2), np.float32))
            self.assertEqual(x.shape, (n, 2))
            self.assertTrue(np.isfinite(x).all(), x)
            d = np.arange(2, 2 + n).astype(np.float32)
            b = np.ones((n, 1), np.float32)
            off = np.ones(n, np.float32)
            full = np.diag(d) + np.diag(off[1:], -1) + np.diag(off[1:], 1)
            np.testing.assert_allclose(solve(off, d, off, b), np.linalg.solve(full, b), rtol=1e-5)

    def test_matrices_with_nan_decompose_to_nan(self):
        a = np.array([np.eye(3), np.full((3, 3), np.nan)], np.float32)
        w, v = jax.jit(jnp.linalg.eigh)(a)
        np.testing.assert_allclose(w[0], np.ones(3), rtol=1e-6)
        self.assertTrue(np.isnan(w[1]).all() and np.isnan(v[1]).all())

    def test_ordered_callback_in_a_manual_region(self):
        # The region's token is StableHLO's among VHLO's types, with casts between.
        code = ("import jax, jax.numpy as jnp, numpy as np\n"
                "from jax.experimental import io_callback\n"
                "from jax.sharding import Mesh, PartitionSpec as P\n"
                "seen = []\n"
                "def f(x):\n"
                "    io_callback(lambda v: seen.append(v.sum()), None, x, ordered=True)\n"
                "    return x + 1\n"
                "mesh = Mesh(np.array(jax.devices()), 'i')\n"
                "g = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P('i'), out_specs=P('i')))\n"
                "print(g(jnp.arange(8.0)).tolist())\n"
                "jax.effects_barrier()\n"
                "print(sorted(float(v) for v in seen))")
        out = run(code, KRAFLA_DEVICE="cpu*4")
        self.assertEqual(out.stdout.splitlines(), [str([float(i) for i in range(1, 9)]), "[1.0, 5.0, 9.0, 13.0]"],
                         out.stderr)


if __name__ == "__main__":
    unittest.main()
