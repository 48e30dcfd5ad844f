# SPDX-License-Identifier: Apache-2.0
"""What scripts/test_summary.py makes of ctest's results: nothing that was skipped counts as passed."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/test_summary.py"
SKIPPED = '<skipped message="SKIP_RETURN_CODE=77"/>'
GTEST = """[ RUN      ] A.Passes
[       OK ] A.Passes (0 ms)
[ RUN      ] A.Skips
/a/b_test.cpp:7: Skipped
no Vulkan device

[  SKIPPED ] A.Skips (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.Skips
"""


def case(name, status, inner="", output=""):
    return f'<testcase name="{name}" status="{status}">{inner}<system-out>{output}</system-out></testcase>'


def summary(*cases):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write("<testsuite>" + "".join(cases) + "</testsuite>")
        file.flush()
        done = subprocess.run([sys.executable, PROGRAM, file.name], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


class Summary(unittest.TestCase):
    def test_skipped_is_not_passed(self):
        code, lines = summary(case("a", "run"), case("b", "notrun", SKIPPED, "SKIPPED: b: no module jax"))
        self.assertEqual(code, 0)
        self.assertEqual(lines, ["skipped: b: SKIPPED: b: no module jax", "1 passed, 0 failed, 1 skipped"])

    def test_failed_and_never_run(self):
        code, lines = summary(case("a", "fail", '<failure message=""/>', "x\n3 wrong\n"),
                              case("b", "notrun", '<skipped message="Unable to find executable"/>'))
        self.assertEqual(code, 1)
        self.assertEqual(lines[:3], ["output of a:", "    x", "    3 wrong"])
        self.assertEqual(lines[3:5], ["FAILED: a: 3 wrong", "FAILED: b: did not run (Unable to find executable)"])
        self.assertEqual(lines[-1], "0 passed, 2 failed, 0 skipped")

    def test_cases_within(self):
        code, lines = summary(case("a", "run", output=GTEST), case("b", "run", output="OK (skipped=2)"))
        self.assertEqual(code, 0)
        self.assertEqual(lines[0], "skipped within: a: A.Skips: no Vulkan device")
        self.assertEqual(lines[-1], "2 passed, 0 failed, 0 skipped (and 3 cases within those that passed)")

    def test_output_of_what_failed(self):
        passes, skips = "[ RUN      ] A.Passes\n[       OK ] A.Passes (0 ms)\n", GTEST[GTEST.index("[ RUN      ] A.Skips"):]
        fails = "[ RUN      ] A.Fails\n/a/b_test.cpp:9: Failure\n1 is not 2\n[  FAILED  ] A.Fails (0 ms)\n"
        hangs = "[ RUN      ] A.Hangs\n"
        code, lines = summary(case("a", "fail", output=passes + fails + skips + passes + hangs))
        self.assertEqual(code, 1)
        self.assertEqual([line.strip() for line in lines[1:-2]], (fails + hangs).splitlines())
        _, lines = summary(case("a", "fail", output="".join(f"line {i}\n" for i in range(500))))
        self.assertEqual(lines[1:3], ["    line 0", "    line 1"])
        self.assertIn("    (380 lines left out)", lines)
        self.assertEqual(lines[-3], "    line 499")

    def test_no_results(self):
        done = subprocess.run([sys.executable, PROGRAM, "/no/file"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no results could be read", done.stderr)


if __name__ == "__main__":
    unittest.main()
