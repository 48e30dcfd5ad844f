#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""krafla tune: what is found is stored, used, listed, exported, imported, forgotten; what is damaged is said."""
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
# A setting that another one is told from by the size of its workgroups.
SETTING = '{"loop":{"local":32}}'
# More points than items of one workgroup, so that its size shows.
LOOP = "HloModule m\nENTRY main {\n  x = f32[4096] parameter(0)\n  ROOT r = f32[4096] negate(x)\n}\n"


class TuneTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"
        if "vulkan:" not in self.krafla("devices").stdout:
            self.skipTest("no Vulkan device")

    def krafla(self, *args, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("KRAFLA_TUNING", "KRAFLA_DEVICE")}
        env |= {"KRAFLA_CACHE_DIR": str(self.cache)} | more
        return subprocess.run([KRAFLA, *map(str, args)], capture_output=True, text=True, timeout=300, env=env)

    def stored_loop(self):
        """A module with one loop whose stored setting is SETTING, whatever was the fastest."""
        module = self.folder / "loop.hlo"
        module.write_text(LOOP)
        out = self.krafla("tune", module, "--export", self.folder / "tuned.json")
        self.assertEqual(out.returncode, 0, out.stderr)
        tuned = json.loads((self.folder / "tuned.json").read_text())
        self.assertEqual(len(tuned["kernels"]), 1)
        tuned["kernels"][0]["tuning"] = SETTING
        (self.folder / "tuned.json").write_text(json.dumps(tuned))
        out = self.krafla("tune", "--import", self.folder / "tuned.json")
        self.assertEqual(out.returncode, 0, out.stderr)
        return module

    def test_kernels_are_timed_once(self):
        first = self.krafla("tune", MLP, "--json")
        self.assertEqual(first.returncode, 0, first.stderr)
        line = json.loads(first.stdout)
        self.assertEqual(line["timed"], line["kernels"])
        self.assertGreater(line["candidates"], 0)
        self.assertEqual(line["wrong"], 0)
        again = json.loads(self.krafla("tune", MLP, "--json").stdout)
        self.assertEqual((again["known"], again["timed"]), (line["kernels"], 0))
        self.assertEqual(json.loads(self.krafla("tune", MLP, "--json", "--again").stdout)["timed"], line["kernels"])
        # Whatever was found, recorded results stay what they are.
        self.assertEqual(self.krafla("check", MLP, "-d", "vulkan").returncode, 0)

    def test_what_is_stored_is_used_and_told(self):
        module = self.stored_loop()
        out = self.krafla("run", module, "-d", "vulkan", "--random")
        self.assertIn(", 1 tuned", out.stderr)
        self.assertIn("local size 32x1x1; tuned " + SETTING, self.krafla("opt", module, "--stage", "spirv").stdout)
        plain = self.krafla("run", module, "-d", "vulkan", "--random", "--disable", "tuned")
        self.assertNotIn("tuned", plain.stderr)
        self.assertEqual(plain.stdout, out.stdout)
        # A tuning that is asked for goes before what was found.
        (self.folder / "asked.json").write_text('{"loop":{"local":128}}')
        asked = self.krafla("run", module, "-d", "vulkan", "--random", KRAFLA_TUNING=str(self.folder / "asked.json"))
        self.assertNotIn("1 tuned", asked.stderr)
        self.assertIn(SETTING, self.krafla("tune", "--list").stdout)
        self.assertEqual(self.krafla("tune", "--clear").returncode, 0)
        self.assertEqual(self.krafla("tune", "--list").stdout, "")

    def test_damaged_and_foreign_files(self):
        module = self.stored_loop()
        foreign = json.loads((self.folder / "tuned.json").read_text())
        foreign["driver_version"] += 1
        (self.folder / "foreign.json").write_text(json.dumps(foreign))
        out = self.krafla("tune", "--import", self.folder / "foreign.json")
        self.assertEqual(out.returncode, 3)
        self.assertIn("Run krafla tune here.", out.stderr)
        stored, = self.cache.glob("tuned-*.bin")
        stored.write_bytes(stored.read_bytes()[:-1])
        out = self.krafla("run", module, "-d", "vulkan", "--random")
        self.assertEqual(out.returncode, 0)
        self.assertIn("stored tuning is not used: The file", out.stderr)

    def test_budgets(self):
        out = self.krafla("tune", MLP, "--json", "--budget", "0")
        self.assertEqual(out.returncode, 0, out.stderr)
        line = json.loads(out.stdout)
        self.assertEqual((line["timed"], line["out_of_budget"]), (0, True))
        out = self.krafla("run", MLP / "module.hlo", "-d", "vulkan", "--random", "--tune", "first-run")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("kernels timed with", out.stderr)
        out = self.krafla("run", MLP / "module.hlo", "-d", "vulkan", "--random", "--tune", "first-run")
        self.assertNotIn("kernels timed with", out.stderr)

    def test_wrong_use(self):
        self.assertEqual(self.krafla("tune").returncode, 2)
        self.assertEqual(self.krafla("tune", MLP, "-d", "cpu").returncode, 2)
        self.assertEqual(self.krafla("tune", MLP, VK_DRIVER_FILES="/dev/null").returncode, 4)
        out = self.krafla("tune", MLP, KRAFLA_CACHE_DIR="/dev/full/cache")
        self.assertEqual(out.returncode, 3)
        self.assertIn("cannot be written", out.stderr)


if __name__ == "__main__":
    unittest.main()
