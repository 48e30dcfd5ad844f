#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed, and what the packages hold: an installed krafla runs from its own folder.

    package_test.py BUILD
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()


def run(*words, **more):
    out = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300, **more)
    assert out.returncode == 0, (words, out.stdout, out.stderr)
    return out.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.scratch.name) / "prefix"
        for component in ("library", "tool", "sdk"):
            run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_the_command_finds_what_is_its_own(self):
        krafla = self.prefix / "bin/krafla"
        # Not where the build was: the folder that is compiled in is hidden by the one beside the program.
        with tempfile.TemporaryDirectory() as empty:
            environment = {k: v for k, v in os.environ.items() if k != "KRAFLA_DEMO_DIR"}
            self.assertIn("PASSED", run(krafla, "demo", "-d", "cpu", cwd=empty, env=environment))
            os.rename(self.prefix / "share/krafla/digits/labels.npz", self.prefix / "labels.npz")
            out = subprocess.run([krafla, "demo", "-d", "cpu"], capture_output=True, text=True, timeout=60, env=environment)
            os.rename(self.prefix / "labels.npz", self.prefix / "share/krafla/digits/labels.npz")
            self.assertEqual(out.returncode, 3)
            self.assertIn(str(self.prefix), out.stderr)

    def test_shells_and_man_find_theirs(self):
        for file, says in (("man/man1/krafla.1", ".TH KRAFLA 1"), ("bash-completion/completions/krafla", "complete -o"),
                           ("zsh/site-functions/_krafla", "#compdef krafla"),
                           ("fish/vendor_completions.d/krafla.fish", "complete -c krafla")):
            self.assertIn(says, (self.prefix / "share" / file).read_text())

    def test_licences(self):
        for folder in ("krafla", "libkrafla0", "libkrafla-dev"):
            about = self.prefix / "share/doc" / folder
            self.assertIn("Apache License", (about / "LICENSE").read_text())
            notices = (about / "NOTICES").read_text()
            sbom = json.loads((about / "krafla.spdx.json").read_text())
            self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
            names = {p["name"]: p for p in sbom["packages"]}
            self.assertIn("krafla", names)
            self.assertNotEqual(names["Highway"]["versionInfo"], "NOASSERTION")
            ids = {p["SPDXID"] for p in sbom["packages"]} | {"SPDXRef-DOCUMENT"}
            for relation in sbom["relationships"]:
                self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, ids)
            for name in names.keys() - {"krafla"}:
                self.assertIn(f"{name}: {names[name]['licenseDeclared']}", notices)
        # Whatever the command needs at run time is named.
        needed = run("ldd", self.prefix / "bin/krafla")
        for library, name in (("libdnnl", "oneDNN"), ("libhwy", "Highway"), ("libz.", "zlib")):
            self.assertEqual(library in needed, name in names, (library, needed))

    def test_pkg_config(self):
        if not shutil.which("pkg-config"):
            self.skipTest("no pkg-config here")
        found = next(self.prefix.rglob("krafla.pc"))
        env = {**os.environ, "PKG_CONFIG_PATH": str(found.parent)}
        flags = run("pkg-config", "--cflags", "--libs", "krafla", env=env).split()
        folders = [pathlib.Path(flag[2:]).resolve() for flag in flags if flag[:2] in ("-I", "-L")]
        self.assertTrue((folders[0] / "krafla").is_dir(), flags)
        self.assertTrue((folders[1] / "libkrafla.so").exists(), flags)
        version = run("pkg-config", "--modversion", "krafla", env=env).strip()
        self.assertEqual(run(self.prefix / "bin/krafla", "--version").strip(), "krafla " + version)

    def test_debian_packages(self):
        if not shutil.which("dpkg-deb") or not shutil.which("dpkg-shlibdeps"):
            self.skipTest("no tools of Debian here")
        with tempfile.TemporaryDirectory() as folder:
            run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B", folder)
            made = {p.name.split("_")[0]: p for p in pathlib.Path(folder).glob("*.deb")}
            self.assertEqual(set(made), {"krafla", "libkrafla0", "libkrafla-dev"})
            self.assertIn("libc6", run("dpkg-deb", "--field", made["libkrafla0"], "Depends"))
            self.assertIn("libkrafla0", run("dpkg-deb", "--field", made["krafla"], "Depends"))
            self.assertIn("usr/bin/krafla", run("dpkg-deb", "--contents", made["krafla"]))
            listed = run("dpkg-deb", "--contents", made["libkrafla-dev"])
            self.assertIn("libkrafla.so", listed)
            self.assertNotIn("usr/bin", listed)
            # Unpacked elsewhere it runs.
            for name in ("krafla", "libkrafla0"):
                run("dpkg-deb", "-x", made[name], pathlib.Path(folder) / "root")
            self.assertIn("krafla", run(pathlib.Path(folder) / "root/usr/bin/krafla", "--version"))


if __name__ == "__main__":
    unittest.main()
