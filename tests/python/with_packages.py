# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program in an interpreter that has what it needs, or ends with 77 and the reason where there is none.

  with_packages.py --needs jax,flax -- program.py arguments
"""
import pathlib
import subprocess
import sys

import interpreter

separator = sys.argv.index("--")
program = sys.argv[separator + 1:]
python = interpreter.with_modules(sys.argv[2].split(","), pathlib.Path(program[0]).name)
sys.exit(subprocess.run([python, *program], check=False).returncode)
