#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""krafla explain: kernels and why they are apart, places, the arena, the story of one instruction."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# `e` is read by reductions over different dimensions; nothing follows a sort.
APART = """HloModule apart
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f32[8,64] parameter(0)
  e = f32[8,64] exponential(x), metadata={op_name="jit(f)/exp"}
  zero = f32[] constant(0)
  rows = f32[8] reduce(e, zero), dimensions={1}, to_apply=add
  columns = f32[64] reduce(e, zero), dimensions={0}, to_apply=add
  ordered = f32[64] sort(columns), dimensions={0}, to_apply=less
  twice = f32[64] add(ordered, ordered)
  ROOT out = (f32[8], f32[64]) tuple(rows, twice)
}
"""


def krafla(*args):
    return subprocess.run([KRAFLA, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)


def has_vulkan():
    return "vulkan:" in krafla("devices").stdout


class ExplainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.module = pathlib.Path(self.folder.name) / "apart.hlo"
        self.module.write_text(APART)

    def lines(self, *args):
        out = krafla("explain", *args, "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        return [json.loads(line) for line in out.stdout.splitlines()]

    def test_why_kernels_are_apart(self):
        for device in ["cpu"] + (["vulkan"] if has_vulkan() else []):
            lines = self.lines(self.module, "-d", device)
            kernels = {l["kernel"]: l for l in lines if "kernel" in l}
            apart = {(k, a["value"]): a["why"] for k, l in kernels.items() for a in l["apart"]}
            self.assertIn("2 kernels read it", apart["columns", "e"])
            self.assertIn("of the reader's family does not follow", apart["ordered", "columns"])
            self.assertIn("Only reductions", apart["twice", "ordered"])
            self.assertEqual(kernels["e"]["op_name"], "jit(f)/exp")
            self.assertEqual({l["place"] for l in kernels.values()}, {"cpu" if device == "cpu" else "device"})
            if device == "vulkan":
                self.assertTrue(kernels["columns"]["variant"].startswith("reduce"))
            self.assertEqual(lines[0]["launches"], sum(l["launches"] for l in kernels.values()))

    def test_the_arena(self):
        for model in ("mlp-tiny", "train-cnn-tiny", "gpt2-decode-bf16-tiny"):
            lines = self.lines(ROOT / "tests/models" / model, "-d", "cpu")
            live = [l["live_bytes"] for l in lines if "step" in l]
            self.assertEqual(max(live), lines[0]["peak_live_bytes"])
            self.assertEqual(live.index(max(live)) + 1, lines[0]["peak_step"])
            self.assertTrue(lines[0]["peak_values"])
        out = krafla("explain", self.module, "-d", "cpu", "--arena").stdout
        self.assertIn("####", out)
        self.assertIn("where it is most", out)

    def test_the_story_of_an_instruction(self):
        out = krafla("explain", self.module, "-d", "cpu", "--op", "columns").stdout
        for text in ("in the module: f32[64] reduce(e, zero)", "read by ordered, apart", "buffer of columns"):
            self.assertIn(text, out)
        lines = self.lines(ROOT / "tests/models/mlp-tiny", "-d", "cpu")
        name = next(l["kernel"] for l in lines if l.get("family") == "dot")
        self.assertEqual(krafla("explain", ROOT / "tests/models/mlp-tiny", "-d", "cpu", "--op", name).returncode, 0)

    def test_where_it_runs_and_why(self):
        self.module.write_text(APART.replace("sort(columns), dimensions={0}, to_apply=less", "custom-call(columns), custom_call_target=\"krafla.none\""))
        out = krafla("explain", self.module, "-d", "cpu")
        self.assertEqual(out.returncode, 3)
        self.assertIn("krafla.none", out.stderr)
        if has_vulkan():
            lines = self.lines(ROOT / "tests/models/nbody-f64-tiny", "-d", "vulkan", "--disable", "fp64")
            away = [l for l in lines if "kernel" in l and l["place"] != "device"]
            self.assertEqual(len(away) > 0, lines[0]["device_instructions"] < lines[0]["instructions"])
            self.assertTrue(all(l["reason"] for l in away))

    @unittest.skipUnless(has_vulkan(), "no Vulkan device")
    def test_which_kernel_a_loop_is(self):
        for name, variant, why in [("rows", "while.points", ""), ("reverse", "while.workgroup", "points: ")]:
            lines = self.lines(ROOT / "tests/regress" / f"point_loop_{name}.hlo", "-d", "vulkan")
            loop = next(l for l in lines if l.get("family") == "while")
            self.assertEqual(loop["variant"], variant)
            self.assertTrue(loop["variant_reason"].startswith(why) and bool(loop["variant_reason"]) == bool(why), loop)
        # Short rows are taken as one.
        lines = self.lines(ROOT / "tests/regress/flattened_pixels.hlo", "-d", "vulkan")
        variants = "+".join(l["variant"] for l in lines if "kernel" in l).split("+")
        self.assertEqual(set(variants), {"loop.vec4"})
        # What is no kernel says why.
        large = self.module.with_name("large.hlo")
        text = (ROOT / "tests/regress/point_loop_reverse.hlo").read_text()
        large.write_text(text.replace("f32[64]", "f32[4000000]"))
        loop = next(l for l in self.lines(large, "-d", "vulkan") if l.get("family") == "while")
        self.assertIn("No kernel does all turns", loop["reason"])
        self.assertIn("too much to do for one workgroup", loop["reason"])

    def test_programs_of_several_devices(self):
        self.lines(ROOT / "tests/models/collectives-8-tiny", "-d", "cpu")

    def test_errors(self):
        out = krafla("explain", self.module, "-d", "cpu", "--op", "colums")
        self.assertEqual(out.returncode, 3)
        self.assertIn("There is no instruction 'colums'", out.stderr)
        self.assertIn("'columns'", out.stderr)
        out = krafla("explain", "/nonexistent.hlo", "-d", "cpu")
        self.assertEqual(out.returncode, 3)
        self.assertTrue(out.stderr.startswith("krafla: "))
        self.assertEqual(krafla("explain", self.module, "-d", "toaster").returncode, 2)
        self.assertEqual(krafla("explain", self.module, "-d", "cpu", "--disable", "nonsense").returncode, 2)


if __name__ == "__main__":
    unittest.main()
