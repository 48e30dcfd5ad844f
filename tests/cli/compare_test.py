#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""krafla compare: equal and different sides, the first operation that differs, what makes a difference go away."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

KRAFLA = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# A chain with branches, so that cuts have several values. Only `turned` is a cosine.
CHAIN = """HloModule chain
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[8,16] parameter(0)
  y = f32[8,16] parameter(1)
  p = f32[8,16] add(x, y)
  q = f32[8,16] multiply(p, x)
  s = f32[8,16] subtract(q, y)
  turned = f32[8,16] cosine(s)
  u = f32[8,16] multiply(turned, p)
  v = f32[8,16] tanh(q)
  w = f32[8,16] add(u, v)
  zero = f32[] constant(0)
  rows = f32[8] reduce(w, zero), dimensions={1}, to_apply=add
  side = f32[8,16] exponential(v)
  ROOT out = (f32[8], f32[8,16]) tuple(rows, side)
}
"""

# A build of krafla with a fault: it takes the cosine for the sine, unless EXCEPT is among its options.
FAULTY = """#!{python}
import os, sys
if "{excepted}" not in sys.argv and sys.argv[1] == "run":
    text = open(sys.argv[2]).read()
    open(sys.argv[2], "w").write(text.replace(" cosine(", " sine("))
os.execv("{krafla}", ["{krafla}"] + sys.argv[1:])
"""

# A long sum, which the CPU and lavapipe add up in different orders.
SUM = """HloModule sum
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[64,5000] parameter(0)
  n = f32[64,5000] negate(x)
  zero = f32[] constant(0)
  total = f32[64] reduce(n, zero), dimensions={1}, to_apply=add
  ROOT out = f32[64] multiply(total, total)
}
"""


def krafla(*args):
    return subprocess.run([KRAFLA, *map(str, args)], capture_output=True, text=True, timeout=300, check=False)


def has_vulkan():
    return "vulkan:" in krafla("devices").stdout


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text)
        return path

    def faulty(self, excepted="nothing"):
        path = self.file("faulty", FAULTY.format(python=sys.executable, krafla=KRAFLA, excepted=excepted))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def compare(self, *args):
        out = krafla("compare", *args, "--json")
        self.assertIn(out.returncode, (0, 1), out.stderr)
        found = json.loads(out.stdout)
        self.assertEqual(out.returncode, 0 if found["equal"] and not found.get("wrong") else 1)
        return found

    def test_equal_sides(self):
        found = self.compare(self.file("m.hlo", CHAIN), "cpu", "cpu --threads 1", "--pairs", "3")
        self.assertTrue(found["equal"])
        self.assertGreater(found["ratio"], 0)
        self.assertNotIn("first", found)
        out = krafla("compare", ROOT / "tests/models/mlp-tiny", "cpu", "cpu", "--pairs", "0")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("equal, bit for bit", out.stdout)

    def test_the_first_operation_of_a_faulty_build(self):
        found = self.compare(self.file("m.hlo", CHAIN), "cpu", "cpu", "--binary", self.faulty(), "--pairs", "0")
        self.assertFalse(found["equal"])
        self.assertEqual(found["first"]["instruction"], "turned")
        self.assertTrue(found["first"]["alone"])
        self.assertGreater(found["first"]["max_abs"], 0.1)
        self.assertLessEqual(found["first"]["runs"], 6)

    def test_what_makes_the_difference_go_away(self):
        m = self.file("m.hlo", CHAIN)
        found = self.compare(m, "cpu", "cpu", "--binary", self.faulty("fusion"), "--pairs", "0", "--bisect")
        self.assertEqual(found["needed"], ["fusion"])
        self.assertEqual(found["without"]["fusion"], "goes away")
        self.assertEqual(found["without"]["loops"], "stays")
        out = krafla("compare", m, "cpu", "cpu", "--binary", self.faulty("fusion"), "--pairs", "0", "--bisect")
        self.assertIn("'cpu --disable fusion' --binary", out.stdout)

    def test_the_evaluator_as_judge(self):
        m = self.file("m.hlo", CHAIN)
        found = self.compare(m, "cpu", "cpu", "--binary", self.faulty(), "--pairs", "0", "--reference", "evaluator",
                             "--atol", "1e-4")
        self.assertEqual(found["wrong"], "B")
        self.assertEqual(found["first"]["instruction"], "turned")

    def test_two_devices_that_add_in_different_orders(self):
        if not has_vulkan():
            self.skipTest("no Vulkan device")
        m = self.file("sum.hlo", SUM)
        found = self.compare(m, "cpu", "vulkan", "--pairs", "0")
        self.assertFalse(found["equal"])
        self.assertEqual(found["first"]["instruction"], "total")
        self.assertLess(found["first"]["max_rel"], 1e-3)
        self.assertIn("reduce", found["first"]["kernel_b"])
        # A unit in the last place of a total, some 2,500, is 1.2 in its square: they may be a few apart.
        self.assertTrue(self.compare(m, "cpu", "vulkan", "--pairs", "0", "--atol", "6")["equal"])

    def test_a_compiled_model(self):
        if not has_vulkan():
            self.skipTest("no Vulkan device")
        m = self.file("sum.hlo", SUM)
        compiled = m.with_suffix(".krafla")
        self.assertEqual(krafla("compile", m, "-o", compiled).returncode, 0)
        done = krafla("compare", compiled, "cpu", "vulkan", "--pairs", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("compiled from", done.stdout)

    def test_builds_are_timed(self):
        found = self.compare(self.file("m.hlo", CHAIN), "cpu", "cpu", "--binary", KRAFLA, "--pairs", "2")
        self.assertTrue(found["equal"])
        self.assertGreater(found["ratio"], 0)

    def test_modules_without_arguments(self):
        m = self.file("m.hlo", "HloModule m\nENTRY main { ROOT i = s32[4] iota(), iota_dimension=0 }\n")
        self.assertTrue(self.compare(m, "cpu", "cpu", "--pairs", "1")["equal"])
        self.assertTrue(self.compare(m, "cpu", "cpu", "--pairs", "0", "--binary", KRAFLA)["equal"])

    def test_errors(self):
        m = self.file("m.hlo", CHAIN)
        for words, code in ((("cpu", "toaster"), 2), (("cpu", "cpu --disable nonsense"), 2), (("cpu", "cpu --nonsense"), 2)):
            out = krafla("compare", m, *words)
            self.assertEqual(out.returncode, code, (words, out.stderr))
            self.assertTrue(out.stderr.startswith("krafla: "), out.stderr)
        self.assertEqual(krafla("compare", "/nonexistent.hlo", "cpu", "cpu").returncode, 3)
        out = krafla("compare", m, "cpu", "cpu", "--binary", "/nonexistent/krafla")
        self.assertEqual(out.returncode, 3)
        self.assertIn("cannot be started", out.stderr)
        self.assertIn("while running 'cpu'", out.stderr)
        out = krafla("compare", ROOT / "tests/models/collectives-8-tiny", "cpu", "cpu")
        self.assertEqual(out.returncode, 3)
        self.assertIn("several devices", out.stderr)


if __name__ == "__main__":
    unittest.main()
