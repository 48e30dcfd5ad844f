# SPDX-License-Identifier: Apache-2.0
"""Finds an interpreter that has pypjrt, or leaves with the reason (exit code 77: skipped)."""
import importlib.util
import os
import sys

SKIPPED = 77


def ensure(checks):
    """Returns where pypjrt can be imported. `checks`: what the caller would have run, for the message."""
    if importlib.util.find_spec("pypjrt") is not None:
        return
    other = os.environ.get("KRAFLA_PYTHON")
    if other and os.environ.get("KRAFLA_PYTHON_TRIED") != other:
        os.environ["KRAFLA_PYTHON_TRIED"] = other
        os.execv(other, [other] + sys.argv)
    print(f"0 passed, 0 failed, 1 skipped: {checks}; {sys.executable} has no package pypjrt (pip install pypjrt, or name "
          "an interpreter that has it in KRAFLA_PYTHON)")
    sys.exit(SKIPPED)
