# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program, or ends with 77 and the reason where the interpreter lacks what it needs.

  with_jax.py --needs jax,flax -- program.py arguments
"""
import os
import subprocess
import sys

separator = sys.argv.index("--")
needs = sys.argv[2].split(",")
python = os.environ.get("KRAFLA_PYTHON", sys.executable)
for module in needs:
    # In a process of its own: importing JAX here would start it here.
    found = subprocess.run([python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"],
                           check=False)
    if found.returncode != 0:
        print(f"SKIPPED: {python} has no module {module} (KRAFLA_PYTHON names another interpreter)")
        sys.exit(77)
sys.exit(subprocess.run([python, *sys.argv[separator + 1:]], check=False).returncode)
