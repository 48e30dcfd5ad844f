#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_report.sh: a carried folder makes its report without a PATH, and the JSON has all parts."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts/gpu_report.sh"


class GpuReportTest(unittest.TestCase):
    def test_report(self):
        if "vulkan:" not in subprocess.run([KRAFLA, "devices"], capture_output=True, text=True).stdout:
            self.skipTest("no Vulkan device")
        with tempfile.TemporaryDirectory() as folder:
            to = pathlib.Path(folder) / "carried here"
            made = subprocess.run([SCRIPT, "--make", to, "--krafla", KRAFLA], capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            keep = {k: v for k, v in os.environ.items() if k.startswith("VK_")}
            out = subprocess.run([to / "gpu_report.sh", "--quick"], env=keep | {"PATH": "/nonexistent"}, cwd="/",
                                 capture_output=True, text=True, timeout=480)
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertNotIn("command not found", out.stderr)
            report = json.loads((to / "out/report.json").read_text())
            page = (to / "out/report.html").read_text()
        self.assertEqual((report["failed_steps"], report["left_out_steps"]), (0, 0))
        rates = report["probe"][0]["rates"]
        for name in ("copy", "read", "write", "matrix_f32", "launch", "submit_and_wait"):
            self.assertGreater(rates[name]["value"], 0, name)
        self.assertEqual({m["status"] for m in report["models"] if "case" in m}, {"passed"})
        self.assertEqual({r["kind"] for r in report["sweeps"]["default"]},
                         {"gemm", "gemv", "convolution", "attention", "bandwidth", "transpose", "launches"})
        self.assertEqual([r["name"] for r in report["sweeps"]["default"]], [r["name"] for r in report["sweeps"]["tuned"]])
        for row in report["sweeps"]["default"]:
            self.assertGreater(row["lines"][0]["run_ms"], 0)
            self.assertIn("roof", row["lines"][1], row["name"])
        self.assertEqual(len(report["bench"]["default"]), len(report["bench"]["tuned"]))
        self.assertTrue(report["tuning"] and report["tuned_kernels"])
        self.assertIn('<script type="application/json" id="data">{"report":1', page)
        self.assertLess(report["seconds"], 480)

    def test_wrong_use(self):
        for args in (["--wrong"], ["--make"]):
            self.assertEqual(subprocess.run([SCRIPT, *args], capture_output=True).returncode, 2)
        out = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True)
        self.assertEqual(out.returncode, 0)
        self.assertIn("--make FOLDER", out.stdout)


if __name__ == "__main__":
    unittest.main()
