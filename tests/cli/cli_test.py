#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: exit codes, where output goes, what errors say."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MLP = ROOT / "tests/models/mlp-tiny"

ADD = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n"


def krafla(*args, **kwargs):
    return subprocess.run([KRAFLA, *map(str, args)], capture_output=True, text=True, timeout=120, **kwargs)


class CliTest(unittest.TestCase):
    def module(self, text):
        f = tempfile.NamedTemporaryFile("wb", suffix=".hlo", delete=False)
        f.write(text if isinstance(text, bytes) else text.encode())
        f.close()
        self.addCleanup(os.unlink, f.name)
        return f.name

    def test_version_and_help(self):
        self.assertEqual(krafla("--version").returncode, 0)
        out = krafla("--help")
        self.assertEqual(out.returncode, 0)
        for command in ("devices", "run", "check", "bench", "opt", "ops", "demo"):
            self.assertIn(command, out.stdout)

    def test_modules_that_check_themselves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "sums.mlir"
            path.write_text("""
func.func @right() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_eq_const %1, dense<[2.0, 4.0]> : tensor<2xf32>
  func.return
}
// -----
func.func @wrong() {
  %0 = stablehlo.constant dense<3> : tensor<i32>
  check.expect_eq_const %0, dense<4> : tensor<i32>
  func.return
}
""")
            for where in (path, folder):
                out = krafla("check", where, "-d", "cpu")
                self.assertEqual(out.returncode, 1, out.stderr)
                self.assertIn("sums.mlir#wrong", out.stdout)
                self.assertIn("got 3, expected 4", out.stdout)
                self.assertTrue(out.stdout.endswith("1 passed, 1 failed, 0 skipped\n"), out.stdout)

    def test_usage_errors_exit_2(self):
        self.assertEqual(krafla().returncode, 2)
        self.assertEqual(krafla("frobnicate").returncode, 2)
        self.assertEqual(krafla("run").returncode, 2)
        out = krafla("run", self.module(ADD), "-d", "cpu", "--random", "--disable", "nonsense")
        self.assertEqual(out.returncode, 2)
        self.assertIn("nonsense", out.stderr)
        self.assertEqual(krafla("run", self.module(ADD), "-d", "toaster", "--random").returncode, 2)

    def test_no_such_device_exits_4(self):
        self.assertEqual(krafla("run", self.module(ADD), "-d", "vulkan:97", "--random").returncode, 4)

    def test_run_prints_results(self):
        out = krafla("run", self.module(ADD), "-d", "cpu", "--input", "f32[4]=1 2 3 4")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("{2,4,6,8}", out.stdout)
        self.assertIn("1/1 instructions on cpu", out.stderr)

    def test_bad_modules_exit_3(self):
        text = (MLP / "module.hlo").read_text()
        bad = {
            "truncated": text[: len(text) // 2],
            "binary": bytes(range(256)) * 8,
            "empty": "",
            "huge": ADD.replace("f32[4]", "f32[4611686018427387904,16]"),
            "wrong type": ADD.replace("f32[4] add", "s32[4] add"),
            "unknown op": ADD.replace("add(", "sum("),
            "undefined": ADD.replace("(x, x)", "(x, y)"),
        }
        for name, module in bad.items():
            with self.subTest(name):
                out = krafla("run", self.module(module), "-d", "cpu", "--random")
                self.assertEqual(out.returncode, 3, out.stderr)
                self.assertTrue(out.stderr.startswith("krafla: "), out.stderr)
        out = krafla("run", self.module(bad["unknown op"]), "-d", "cpu", "--random")
        self.assertIn(":4:", out.stderr)
        self.assertIn("sum", out.stderr)

    def test_several_devices(self):
        gather = self.module("HloModule m\nENTRY main {\n  id = u32[] replica-id()\n  x = u32[1] reshape(id)\n"
                             "  ROOT r = u32[3] all-gather(x), replica_groups={}, dimensions={0}\n}\n")
        for device in ("cpu*3", "cpu", "cpu*2,cpu", "cpu*4"):
            out = krafla("run", gather, "-d", device, "--replicas", 3)
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertEqual(out.stdout.splitlines(), [f"device {d}: u32[3] {{0,1,2}}" for d in range(3)])
            self.assertIn("3 replicas", out.stderr)
        self.assertEqual(krafla("run", gather, "-d", "cpu*2", "--replicas", 3).returncode, 3)
        self.assertEqual(krafla("run", gather, "-d", "cpu*0", "--replicas", 3).returncode, 2)
        out = krafla("bench", ROOT / "tests/models/ring-attention-4-tiny", "-d", "cpu*4", "--iters", "3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(json.loads(out.stdout.splitlines()[0])["device"], "cpu*4")

    def test_missing_file_exits_3(self):
        self.assertEqual(krafla("run", "/nonexistent/module.hlo", "-d", "cpu").returncode, 3)

    def test_check(self):
        out = krafla("check", MLP, "-d", "cpu")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(out.stdout.strip().splitlines()[-1], "1 passed, 0 failed, 0 skipped")
        line = json.loads(krafla("check", MLP, "-d", "cpu", "--json").stdout.splitlines()[0])
        for key in ("case", "device", "status", "reason", "max_abs", "max_rel", "max_ulp", "placed_on_device",
                    "instructions", "compile_ms", "run_ms"):
            self.assertIn(key, line)

    def test_a_wrong_answer_exits_1(self):
        # The recorded answers of one network against another module of the same signature.
        with tempfile.TemporaryDirectory() as d:
            for f in MLP.iterdir():
                data = f.read_bytes()
                if f.name == "module.hlo":
                    data = data.replace(b"maximum(Arg_0.1", b"minimum(Arg_0.1")
                (pathlib.Path(d) / f.name).write_bytes(data)
            out = krafla("check", d, "-d", "cpu")
            self.assertEqual(out.returncode, 1, out.stdout)
            self.assertIn("1 failed", out.stdout)

    def test_bench_json(self):
        out = krafla("bench", MLP, "-d", "cpu", "--iters", "3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        line = json.loads(out.stdout.splitlines()[0])
        for key in ("case", "device", "compile_ms", "first_ms", "median_ms", "min_ms", "p90_ms", "peak_bytes", "kernels",
                    "launches"):
            self.assertIn(key, line)

    def test_opt(self):
        for stage in ("parsed", "optimized", "plan"):
            out = krafla("opt", MLP / "module.hlo", "--stage", stage)
            self.assertEqual(out.returncode, 0, out.stderr)
        out = krafla("opt", "--list-passes")
        self.assertIn("dce", out.stdout)
        self.assertEqual(krafla("opt", MLP / "module.hlo", "--passes", "nonsense").returncode, 3)

    def test_ops_document_is_fresh(self):
        self.assertEqual(krafla("ops", "--md").stdout, (ROOT / "docs/ops.md").read_text())

    def test_ops_on_a_device(self):
        out = krafla("ops", "-d", "cpu", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        ops = {line["hlo"]: line for line in map(json.loads, out.stdout.splitlines())}
        self.assertIn("bf16", ops["add"]["on_device"].split())
        self.assertNotIn("f32", ops["popcnt"]["on_device"].split())
        self.assertNotIn("device", ops["tuple"])  # no work of its own

    def test_demo(self):
        out = krafla("demo", "-d", "cpu")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("PASSED", out.stdout)


if __name__ == "__main__":
    unittest.main()
