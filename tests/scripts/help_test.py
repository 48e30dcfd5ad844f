# SPDX-License-Identifier: Apache-2.0
"""Every script of the project says what it is for: its leading comment, whole and nothing else."""
import pathlib
import subprocess
import unittest

SCRIPTS = sorted((pathlib.Path(__file__).resolve().parent.parent.parent / "scripts").glob("*.sh"))
# demo.sh's arguments, --help too, are those of `krafla demo`; gpu_report.sh prints its help without other programs.
OTHERWISE = {"demo.sh", "gpu_report.sh"}
NO_HELP = {"jax_clients.sh", "jax_tests.sh"}  # These say the same where they are called without an argument.


class Help(unittest.TestCase):
    def test_is_the_leading_comment(self):
        self.assertGreater(len(SCRIPTS), 10)
        for script in SCRIPTS:
            if script.name in OTHERWISE:
                continue
            with self.subTest(script.name):
                lines = script.read_text().splitlines()[2:]
                comment = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
                arguments = [] if script.name in NO_HELP else ["--help"]
                done = subprocess.run([script, *arguments], capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.stdout.splitlines(), [line.removeprefix("#").removeprefix(" ") for line in comment])


if __name__ == "__main__":
    unittest.main()
