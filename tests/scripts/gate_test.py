# SPDX-License-Identifier: Apache-2.0
"""scripts/gate.sh as a command: its stages are there, every preset with tests is one, and wrong usage runs nothing."""
import json
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GATE = ROOT / "scripts/gate.sh"


def gate(*arguments):
    return subprocess.run([GATE, *arguments], capture_output=True, text=True, check=False)


class Gate(unittest.TestCase):
    def stages(self):
        listed = gate("--list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return [line.split()[0] for line in listed.stdout.splitlines()]

    def test_every_stage_is_a_function(self):
        functions = re.findall(r"^stage_(\w+)\(\)", GATE.read_text(), re.M)
        self.assertEqual(sorted(functions), sorted(stage.replace("-", "_") for stage in self.stages()))

    def test_every_preset_with_tests_is_a_stage(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
        names = {p["name"] for p in presets if not p.get("hidden")} - {"coverage"}  # scripts/coverage.sh
        self.assertLessEqual(names, set(self.stages()))

    def test_unknown_stage(self):
        done = gate("layering", "no-such-stage")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no stage 'no-such-stage'", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_table_at_the_end(self):
        done = gate("layering")
        self.assertRegex(done.stdout, r"stage +result +minutes +note\nlayering +(passed|FAILED) +\d+\.\d")
        self.assertEqual(done.returncode, 0 if "passed" in done.stdout else 1)


if __name__ == "__main__":
    unittest.main()
