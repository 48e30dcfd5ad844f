# SPDX-License-Identifier: Apache-2.0
"""jax.profiler.trace shows krafla's runs and their kernels."""
import os
import pathlib
import tempfile
import unittest

os.environ.setdefault("JAX_PLATFORMS", "vulkan,cpu")

import jax
import jax.numpy as jnp


@jax.jit
def model(x, w):
    return jax.nn.softmax(jnp.tanh(x @ w) @ w.T)


def plane_of(run):
    """Line name -> events, of krafla's plane in a trace of run()."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(path))
        planes = [plane for plane in data.planes if plane.name.startswith("/device:CUSTOM:krafla ")]
        assert len(planes) <= 1, [plane.name for plane in data.planes]
        # Events are read while their file is there.
        return {line.name: [(e.name, e.start_ns, e.duration_ns, dict(e.stats)) for e in line.events]
                for plane in planes for line in plane.lines}


class ProfilerTest(unittest.TestCase):
    def setUp(self):
        # Made before any trace begins: a run that waits in its queue until then belongs to the trace.
        self.x, self.w = jax.block_until_ready((jnp.ones((64, 128)), jnp.ones((128, 256))))

    def three_runs(self):
        for _ in range(3):
            model(self.x, self.w).block_until_ready()

    def test_runs_and_their_steps(self):
        self.three_runs()  # compiled before anybody traces
        lines = plane_of(self.three_runs)
        runs = [e for e in lines["XLA Modules"] if e[0] == "jit_model"]
        self.assertEqual(len(runs), 3)
        steps = [e for e in lines["XLA Ops"] if e[3]["hlo_module"] == "jit_model"]
        self.assertEqual(len(steps) % 3, 0)
        self.assertGreaterEqual(len(steps), 6)
        self.assertTrue(any("dot" in e[3].get("hlo_op", "") for e in steps), steps)
        for _, begin, duration, _ in steps:
            self.assertGreater(duration, 0)
            # Within one of the runs; the clocks of devices are told in the order of their steps.
            self.assertTrue(any(b <= begin <= b + d for _, b, d, _ in runs))

    def test_traces_are_apart(self):
        first = plane_of(self.three_runs)
        second = plane_of(lambda: model(self.x, self.w).block_until_ready())
        self.assertEqual(len(first["XLA Modules"]), 3)
        self.assertEqual(len(second["XLA Modules"]), 1)

    def test_nothing_is_kept_without_a_trace(self):
        self.assertEqual(plane_of(lambda: None), {})
        self.three_runs()
        self.assertEqual(plane_of(lambda: None), {})

    def test_results_stay_the_same(self):
        before = model(self.x, self.w)
        results = []
        plane_of(lambda: results.append(model(self.x, self.w)))
        self.assertTrue(bool((before == results[0]).all()))


if __name__ == "__main__":
    unittest.main()
