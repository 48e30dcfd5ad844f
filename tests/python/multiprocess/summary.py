#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summary.py WHAT SUITE PROCESSES FOLDER: a row of what a suite of JAX's multi-process tests gave, over all processes: a
test has failed where it failed in one of them. The names of those that failed follow."""
import pathlib
import re
import sys


def main():
    what, suite, processes, folder = sys.argv[1:]
    ran, bad, skipped, crashed = 0, set(), 0, 0
    for r in range(int(processes)):
        log = pathlib.Path(folder, f"jax_{r}_stderr.log")
        text = log.read_text(errors="replace") if log.exists() else ""
        total = re.search(r"Ran (\d+) tests? in", text)
        if not total:
            crashed += 1
            continue
        ran = max(ran, int(total.group(1)))
        bad |= set(re.findall(r"^(?:ERROR|FAIL): (\S+)", text, re.M))
        skipped = max(skipped, *map(int, re.findall(r"skipped=(\d+)", text) or [0]), 0)
    print(f"| {what} | {suite} | {processes} | {ran - len(bad) - skipped} | {len(bad)} | {skipped} | {crashed or ''} |",
          flush=True)
    for name in sorted(bad):
        print(f"    {name}", flush=True)


if __name__ == "__main__":
    main()
