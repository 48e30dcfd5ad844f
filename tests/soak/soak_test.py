#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Some rounds of the soak on each device, and that it finds what is lost on purpose.

    soak_test.py SOAK MODELS
"""
import json
import subprocess
import sys

SOAK, MODELS = sys.argv[1:]
HOLDINGS = ("memory_kb", "descriptors", "mappings", "threads")
wrong = 0


def soak(*options):
    return subprocess.run([SOAK, MODELS, *options], capture_output=True, text=True, timeout=500)


def expect(what, out, code, grows=()):
    global wrong
    seen = None
    if code in (0, 1) and out.stdout:
        growth = json.loads(out.stdout)["growth"]
        seen = {name for name in HOLDINGS if growth[name]["grows"]}
    if out.returncode != code or (seen is not None and not set(grows) <= seen) or (code < 2 and seen is None):
        wrong += 1
        print(f"{what}: exit {out.returncode}, expected {code}; grows: {seen}, expected {grows}\n{out.stdout}{out.stderr}")


expect("cpu", soak("--rounds", "60", "--json"), 0)
out = soak("--rounds", "36", "--json", "-d", "vulkan:llvmpipe")
if out.returncode == 77:
    print("not looked at: lavapipe, which is not there")
else:
    expect("lavapipe", out, 0)
for lost in HOLDINGS:
    expect(f"--leak {lost}", soak("--rounds", "16", "--json", "--leak", lost), 1, [lost])
for usage in ((), ("--rounds", "0"), ("--rounds", "8", "--seconds", "8"), ("--rounds",), ("--leak", "time", "--rounds", "8"),
              ("--rounds", "8", "--what")):
    expect(f"usage {usage}", soak(*usage), 2)
expect("no such device", soak("--rounds", "8", "-d", "vulkan:no such device"), 77)
print(f"{wrong} wrong")
sys.exit(1 if wrong else 0)
