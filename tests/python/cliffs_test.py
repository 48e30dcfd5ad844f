# SPDX-License-Identifier: Apache-2.0
"""bench/cliffs as a tool: runs a few tiny cases, resumes, and reports what is wrong, fails, dies or hangs. Times nothing."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "bench/cliffs"
sys.path.insert(0, str(TOOL))
import report  # noqa: E402

TINY = r"elementwise/1 of 4$|dot/2x2x2$|sort/100 values|reduce/mean of 8|fft/8 points"
# What the two back ends do differently is told by the order of JAX's platforms in each process.
BAD = '''
import os, time
from cases import case, normal
ours = os.environ["JAX_PLATFORMS"] != "cpu"
def raises(x):
    raise ValueError("refused here")
case("bad/wrong", lambda x: x + ours, normal(4))
case("bad/raises", lambda x: raises(x) if ours else x, normal(4))
case("bad/dies", lambda x: os.abort() if ours else x, normal(4))
case("bad/hangs", lambda x: time.sleep(1000) if ours else x, normal(4))
case("bad/good", lambda x: x * 2, normal(4))
'''


def cliffs(*arguments):
    return subprocess.run([sys.executable, str(TOOL), "--budget", "1", *arguments], capture_output=True, text=True,
                          check=False)


class Cliffs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.lines = self.folder / "runs.jsonl"

    def records(self):
        return {r["case"]: r for r in map(json.loads, self.lines.read_text().splitlines())}

    def test_tiny_cases_and_resuming(self):
        done = cliffs("--filter", TINY, "--json", str(self.lines), "--write-baseline", str(self.folder / "baseline.json"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        records = self.records()
        self.assertEqual(len(records), 5, done.stdout)
        for r in records.values():
            self.assertNotIn("failed", r)
            self.assertNotIn("wrong", r)
            self.assertGreater(r["ratio"], 0)
        self.assertEqual(set(json.loads((self.folder / "baseline.json").read_text())), set(records))

        # As an interruption leaves the file: one case missing, one line cut short.
        lines = self.lines.read_text().splitlines(True)
        self.lines.write_text("".join(lines[:4]) + lines[4][:20])
        done = cliffs("--filter", TINY, "--json", str(self.lines), "--resume")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        written = self.lines.read_text().splitlines(True)
        self.assertEqual(written[:4], lines[:4])
        self.assertEqual(len(written), 6)
        self.assertIn("of 5 cases", done.stdout)
        done = cliffs("--from", str(self.lines), str(self.lines))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("of 5 cases", done.stdout)

    def test_what_goes_wrong_is_told_and_the_rest_goes_on(self):
        bad = self.folder / "bad.py"
        bad.write_text(BAD)
        baseline = self.folder / "baseline.json"
        baseline.write_text("{}")
        done = cliffs("--cases", str(bad), "--limit", "10", "--json", str(self.lines), "--baseline", str(baseline))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        records = self.records()
        self.assertIn("4 of 4 differ", records["bad/wrong"]["wrong"])
        self.assertIn("refused here", records["bad/raises"]["failed"]["krafla"])
        self.assertIn("ended with", records["bad/dies"]["failed"]["krafla"])
        self.assertIn("not done after 10 s", records["bad/hangs"]["failed"]["krafla"])
        self.assertIn("ratio", records["bad/good"])
        for name in ("wrong", "raises", "dies", "hangs"):
            self.assertIn(f"- bad/{name}", done.stdout)

    def test_usage(self):
        for arguments in (("--filter", "("), ("--filter", "no such case"), ("--family", "none"), ("--resume",),
                          ("--from", "/no/file"), ("--baseline", "/no/file"), ("--baseline", str(TOOL / "README.md")),
                          ("--filter", TINY, "--device", "none")):
            done = cliffs(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertTrue(done.stderr.startswith("cliffs: "), done.stderr)


class Baseline(unittest.TestCase):
    def test_regressions(self):
        def worse(stored, ratio):
            return bool(report.regressions([{"case": "a", "ratio": ratio}], {"a": stored}))
        self.assertTrue(worse(1.0, 1.6))
        self.assertFalse(worse(1.0, 1.4))
        self.assertFalse(worse(0.1, 0.9))  # nine times the stored one, and yet no slower than XLA
        self.assertTrue(worse(0.1, 1.1))
        self.assertFalse(report.regressions([{"case": "new", "ratio": 100}], {}))
        self.assertTrue(report.regressions([{"case": "a", "ratio": 1, "wrong": "4 of 4 differ"}], {"a": 1}))

    def test_least_of_several_runs(self):
        run = {"a": {"case": "a", "xla_ms": 2.0, "krafla_ms": 6.0, "ratio": 3.0}}
        again = {"a": {"case": "a", "xla_ms": 3.0, "krafla_ms": 3.0, "ratio": 1.0}, "b": {"case": "b", "failed": {}}}
        self.assertEqual(report.least([run, again])["a"], {"case": "a", "xla_ms": 2.0, "krafla_ms": 3.0, "ratio": 1.5})
        self.assertEqual(report.least([run, again])["b"], again["b"])


if __name__ == "__main__":
    unittest.main()
