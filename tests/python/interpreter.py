# SPDX-License-Identifier: Apache-2.0
"""Which interpreter a test runs in that needs packages from outside."""
import os
import pathlib
import subprocess
import sys

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def candidates():
    """KRAFLA_PYTHON where it is set, else this interpreter; then those of scripts/python_environment.sh."""
    own = [ROOT / ".cache" / name / "bin/python" for name in ("jax", "onnx")]
    first = os.environ.get("KRAFLA_PYTHON")
    # A path of the user's is for what they want to be tested; ONNX is in an environment of its own.
    return [first, str(own[1])] if first else [sys.executable, *map(str, own)]


def lacks(python, modules):
    """The modules that `python` has not, without importing them: that would start JAX."""
    program = "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if u.find_spec(m) is None])"
    try:
        found = subprocess.run([python, "-c", program, *modules], capture_output=True, text=True, check=False)
    except OSError:
        return list(modules)
    return found.stdout.split() if found.returncode == 0 else list(modules)


def with_modules(modules, what):
    """The first interpreter that has all of `modules`; where none has, says that `what` is skipped, and why, and ends."""
    missing = {}
    for python in filter(os.path.exists, candidates()):
        missing[python] = lacks(python, modules)
        if not missing[python]:
            return python
    reasons = "; ".join(f"{python} has no module {', '.join(names)}" for python, names in missing.items())
    print(f"SKIPPED: {what}: {reasons} (scripts/python_environment.sh jax and onnx make environments that have all, "
          "and KRAFLA_PYTHON names another interpreter)")
    sys.exit(SKIPPED)
