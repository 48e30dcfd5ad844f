#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""krafla doctor --bundle: what is in it, what is not, and modules that fail."""
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import zipfile

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

MODULE = """HloModule m
ENTRY main {
  x = f32[64] parameter(0)
  e = f32[64] exponential(x), metadata={op_name="f" source_file="/home/alice.b/work/f.py" source_line=3}
  ROOT r = f32[64] add(e, x)
}
"""


def has_vulkan():
    listed = subprocess.run([KRAFLA, "devices"], capture_output=True, text=True, timeout=120, check=False)
    return "vulkan:" in listed.stdout


class BundleTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name) / "secrethome"
        self.home.mkdir()
        self.module = self.home / "m.hlo"
        self.module.write_text(MODULE)

    def bundle(self, *args, code=0, **env):
        path = self.home / "b.zip"
        env = {**os.environ, "HOME": str(self.home), "KRAFLA_CACHE_DIR": str(self.home / "cache"), **env}
        out = subprocess.run([KRAFLA, "doctor", "--bundle", str(path), *map(str, args)], capture_output=True, text=True,
                             timeout=300, check=False, env=env)
        self.assertEqual(out.returncode, code, out.stderr)
        if code != 0:
            return out
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
            return {name: archive.read(name) for name in archive.namelist()}

    def test_what_is_in_it(self):
        files = self.bundle(self.module, "-d", "cpu", "--disable", "fusion")
        for name in ("README.txt", "doctor.txt", "doctor.jsonl", "options.json", "module.hlo", "arguments.txt",
                     "optimized.hlo", "plan.txt", "log.txt"):
            self.assertIn(name, files)
        self.assertEqual(json.loads(files["options.json"])["disabled"], ["fusion"])
        self.assertIn(b"exponential", files["module.hlo"])
        self.assertIn(b"f32[64]", files["arguments.txt"])
        self.assertIn(b"kernel k0", files["plan.txt"])
        self.assertIn(b"ran once", files["log.txt"])
        self.assertNotIn("arguments.npz", files)
        for line in files["doctor.jsonl"].decode().splitlines():
            json.loads(line)
        self.assertIn(b"krafla", files["doctor.txt"])

    def test_kernels_of_a_vulkan_device(self):
        if not has_vulkan():
            self.skipTest("no Vulkan device")
        files = self.bundle(self.module, "-d", "vulkan")
        self.assertEqual(files["spirv/000.0.spv"][:4], b"\x03\x02\x23\x07")
        self.assertEqual(json.loads(files["spirv/kernels.json"])["kernels"][0]["file"], "000.0.spv")
        if shutil.which("spirv-dis"):
            self.assertIn(b"OpEntryPoint", files["spirv/000.0.spv.txt"])
        else:
            self.assertIn(b"no disassembly", files["log.txt"])

    def test_nothing_private(self):
        files = self.bundle(self.module, "-d", "cpu", KRAFLA_TEST_WORD=str(self.home / "x"))
        host = socket.gethostname()
        for name, data in files.items():
            for secret in (b"secrethome", b"alice"):
                self.assertNotIn(secret, data, name)
            if len(host) > 3 and host != "localhost":
                self.assertNotIn(host.encode(), data, name)
        self.assertIn(b"KRAFLA_TEST_WORD=~/x", files["doctor.txt"])
        self.assertIn(b"~/work/f.py", files["module.hlo"])

    def test_arguments_where_they_are_asked_for(self):
        files = self.bundle(ROOT / "tests/models/mlp-tiny", "-d", "cpu", "--with-arguments")
        with zipfile.ZipFile(io.BytesIO(files["arguments.npz"])) as arrays, \
                zipfile.ZipFile(ROOT / "tests/models/mlp-tiny/inputs.npz") as recorded:
            self.assertEqual(len(arrays.namelist()), len(recorded.namelist()))

    def test_without_a_module(self):
        files = self.bundle()
        self.assertIn("doctor.txt", files)
        self.assertNotIn("module.hlo", files)

    def test_a_program_that_fails_is_bundled_with_its_failure(self):
        self.module.write_text(MODULE.replace("add(e, x)", 'custom-call(e), custom_call_target="krafla.none"'))
        files = self.bundle(self.module, "-d", "cpu")
        self.assertIn(b"krafla.none", files["log.txt"])
        self.assertIn(b"failed: ", files["log.txt"])

    def test_errors(self):
        self.assertIn("/nonexistent.hlo", self.bundle("/nonexistent.hlo", "-d", "cpu", code=3).stderr)
        out = subprocess.run([KRAFLA, "doctor", "--bundle", "/proc/nope.zip"], capture_output=True, text=True,
                             timeout=120, check=False)
        self.assertEqual(out.returncode, 3)
        self.assertIn("cannot be written", out.stderr)
        out = subprocess.run([KRAFLA, "doctor", str(self.module)], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(out.returncode, 2)
        out = subprocess.run([KRAFLA, "doctor", "-d", "cpu"], capture_output=True, text=True, timeout=120, check=False,
                             env={k: v for k, v in os.environ.items() if k != "KRAFLA_DEVICE"})
        self.assertEqual(out.returncode, 2, out.stdout)
        self.assertIn("--bundle", out.stderr)


if __name__ == "__main__":
    unittest.main()
