#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command says of itself: help, completion, the manual page, variables, --quiet, options that exclude others."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MLP = ROOT / "tests/models/mlp-tiny"


def krafla(*words, **more):
    return subprocess.run([KRAFLA, *map(str, words)], capture_output=True, text=True, timeout=120, **more)


def commands():
    listed = krafla("--help").stdout.split("Subcommands:")[1].split("\n\n")[0]
    return re.findall(r"^  (\w+)", listed, re.M)


class ShellTest(unittest.TestCase):
    def complete(self, *words):
        """What bash offers for the last word."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "krafla"
            script.write_text(krafla("completion", "bash").stdout)
            ask = (f"source {script}\nCOMP_WORDS=(krafla {' '.join(repr(w) for w in words)})\nCOMP_CWORD={len(words)}\n"
                   "_krafla\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
            out = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, timeout=30, cwd=ROOT)
        self.assertEqual((out.returncode, out.stderr), (0, ""))
        return out.stdout.split()

    def test_completion(self):
        self.assertEqual(set(self.complete("")), {*commands(), "help", "--help", "--version"})
        self.assertEqual(self.complete("ins"), ["inspect"])
        self.assertEqual(self.complete("run", "--sa"), ["--save"])
        self.assertEqual(self.complete("bench", "-q", "--mi"), ["--min-time"])
        self.assertEqual(set(self.complete("opt", "--stage", "")), {"parsed", "partitioned", "optimized", "plan", "spirv"})
        self.assertEqual(self.complete("run", "-d", "vul"), ["vulkan"])
        self.assertIn("coopmat", self.complete("run", "--disable", "coo"))
        self.assertIn("README.md", self.complete("run", "READ"))
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        for shell in ("zsh", "fish"):
            text = krafla("completion", shell).stdout
            for command in commands():
                self.assertIn(command, text)
            self.assertIn("random-range", text)
            if shutil.which(shell):
                with tempfile.NamedTemporaryFile("w", suffix="." + shell) as script:
                    script.write(text)
                    script.flush()
                    out = subprocess.run([shell, "-n", script.name], capture_output=True, text=True, timeout=30)
                    self.assertEqual((out.returncode, out.stderr), (0, ""))
        self.assertEqual(krafla("completion", "tcsh").returncode, 2)

    def test_manual_page(self):
        page = krafla("man").stdout
        self.assertTrue(page.startswith(".TH KRAFLA 1"))
        for command in commands():
            self.assertIn(f".SS krafla {command}\n", page)
        for says in ("\\-\\-random\\-range", "KRAFLA_CACHE_DIR", "out of memory"):
            self.assertIn(says, page)
        if shutil.which("groff"):
            out = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((out.returncode, out.stderr), (0, ""))

    def test_variables_have_one_source(self):
        table = krafla("environment", "--md").stdout
        document = (ROOT / "docs/environment.md").read_text()
        self.assertIn(table, document)
        help_text = krafla("--help").stdout
        lines = [json.loads(line) for line in krafla("environment", "--json", env={"KRAFLA_JIT": "0"}).stdout.splitlines()]
        self.assertEqual([line.get("value") for line in lines if line["variable"] == "KRAFLA_JIT"], ["0"])
        for line in lines:
            self.assertIn(line["variable"], document)
            if line["variable"].startswith("KRAFLA_"):
                self.assertIn(line["variable"], help_text)

    def test_quiet(self):
        for command in (("run", MLP), ("check", MLP), ("bench", MLP, "--iters", "1"), ("demo",)):
            loud, quiet = krafla(*command, "-d", "cpu"), krafla(*command, "-d", "cpu", "--quiet")
            self.assertEqual(quiet.returncode, 0, quiet.stderr)
            self.assertIn("krafla: ", loud.stderr)
            self.assertEqual(quiet.stderr, "")
        # Errors are no remarks.
        self.assertIn("cannot be opened", krafla("run", "/nonexistent", "-q").stderr)

    def test_what_excludes_what(self):
        for words in (("opt", MLP, "--list-passes"), ("opt", MLP, "--stage", "plan", "--emit", "proto"),
                      ("ops", "--md", "--json"), ("environment", "--md", "--json"),
                      ("bench", MLP, "--iters", "3", "--min-time", "2"), ("profile", MLP, "--no-roof", "--roof", "1", "2"),
                      ("check", MLP, "--form", "foo"), ("run", MLP, "--tune", "first-run", "-d", "cpu"),
                      ("bench", MLP, "--tune", "first-run", "-d", "cpu"), ("tune", MLP, "-d", "cpu*8"),
                      ("run", MLP, "-d", "cpu", "--enable", "coopmat", "--disable", "coopmat")):
            out = krafla(*words)
            self.assertEqual(out.returncode, 2, (words, out.stdout, out.stderr))
        # The module is no feature and no argument.
        self.assertEqual(krafla("run", "-d", "cpu", "--disable", "fusion", MLP).returncode, 0)

    def test_words_that_are_nearly_right(self):
        out = krafla("run", MLP, "--radnom")
        self.assertEqual(out.returncode, 2)
        self.assertIn("did you mean --random?", out.stderr)
        for words in ((), ("run",), ("run", "a", "b"), ("check", MLP, "--jobs", "0"), ("bench", MLP, "--iters", "x"),
                      ("devices", "extra"), ("--radnom",)):
            out = krafla(*words)
            self.assertEqual(out.returncode, 2, words)
            lines = out.stderr.splitlines()
            self.assertRegex(lines[0], r"^krafla: .*\.$")
            self.assertRegex(lines[-1], r"^  See krafla.* --help\.$")
        out = krafla("help", "rum")
        self.assertEqual(out.returncode, 2)
        self.assertIn("did you mean run?", out.stderr)

    def test_one_grammar_of_devices(self):
        for command in (("explain", MLP), ("inspect", MLP), ("ops",), ("demo",), ("opt", MLP, "--stage", "plan"),
                        ("profile", MLP, "--no-roof", "--runs", "1"), ("run", MLP), ("bench", MLP, "--iters", "1")):
            out = krafla(*command, "-d", "cpu*8")
            self.assertEqual(out.returncode, 0, (command, out.stderr))
        self.assertEqual(krafla("compare", MLP, "cpu*2", "cpu", "--pairs", "0").returncode, 0)

    def test_devices_that_are_none(self):
        for command in (("explain", MLP), ("inspect", MLP), ("ops",), ("demo",), ("opt", MLP, "--stage", "plan"), ("run", MLP),
                        ("profile", MLP), ("bench", MLP), ("check", MLP), ("doctor", "--bundle", "/dev/null/x.zip", MLP),
                        ("compare", MLP, "toaster", "cpu")):
            device = () if command[0] == "compare" else ("-d", "toaster")
            out = krafla(*command, *device)
            self.assertEqual(out.returncode, 2, (command, out.stderr))
            self.assertIn("Unknown device 'toaster'", out.stderr)
            if command[0] not in ("compare", "doctor"):
                self.assertEqual(krafla(*command, "-d", "vulkan:97").returncode, 4, command)

    def test_every_json_is_json(self):
        for command in (("run", MLP), ("check", MLP), ("bench", MLP, "--iters", "1"), ("profile", MLP, "--no-roof", "--runs", "1"),
                        ("explain", MLP), ("inspect", MLP), ("ops",), ("compare", MLP, "cpu", "cpu", "--pairs", "0"),
                        ("environment",), ("devices",)):
            device = () if command[0] in ("compare", "environment", "devices") else ("-d", "cpu")
            out = krafla(*command, *device, "--json")
            self.assertEqual(out.returncode, 0, out.stderr)
            lines = out.stdout.splitlines()
            self.assertTrue(lines)
            for line in lines:
                self.assertIsInstance(json.loads(line, parse_constant=lambda word: self.fail(word)), dict)


if __name__ == "__main__":
    unittest.main()
