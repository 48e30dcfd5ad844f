#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time and peak memory of compiling each family of families.py at n and 4 n, and the exponent between.

    measure.py KRAFLA [--n N] [--stage plan|cpu|vulkan|...] [--only NAME,...] [--limit SECONDS] [--md]

A stage is one of `krafla opt --stage` (parsed, optimized, plan, spirv), or `cpu` or `vulkan`: the module is compiled and
run once there on made-up arguments. The time of an empty module is taken off. NESTED families are measured at the depths
that --depth names. Exit code 1: an exponent over 1.25, or a time over the limit.
"""
import argparse
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from families import FAMILIES, NESTED


def measure(command, limit):
    """(seconds of processor time, peak megabytes, message): seconds is None where it failed or took too long."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limits)
    said = p.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(p.pid, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        return None, usage.ru_maxrss / 1024, f"signal {os.WTERMSIG(status)} after {seconds:.1f} s"
    if os.WEXITSTATUS(status) != 0:
        return None, usage.ru_maxrss / 1024, f"exit {os.WEXITSTATUS(status)}: {said.strip().splitlines()[0][-160:] if said.strip() else ''}"
    return seconds, usage.ru_maxrss / 1024, ""


def command(krafla, stage, path):
    if stage in ("cpu", "vulkan"):
        return [krafla, "run", path, "--random", "-d", stage, "--save", "/dev/null"]
    return [krafla, "opt", path, "--stage", stage, "-o", "/dev/null"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("--n", type=int, default=25000)
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--stage", default="plan")
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--md", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else list(FAMILIES)
    folder = pathlib.Path(tempfile.mkdtemp())
    path = folder / "m.hlo"
    path.write_text("HloModule m\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n")
    empty = min(measure(command(args.krafla, args.stage, str(path)), args.limit)[0] or 0 for _ in range(3))
    bad = 0
    if args.md:
        print("| family | n | s | 4 n | s | exponent | MB |\n|---|---|---|---|---|---|---|")
    for name in wanted:
        n = args.depth if name in NESTED else args.n
        rows, text = [], []
        for size in (n, 4 * n):
            path.write_text(FAMILIES[name](size))
            seconds, megabytes, said = measure(command(args.krafla, args.stage, str(path)), args.limit)
            rows.append((size, None if seconds is None else max(seconds - empty, 0.0), megabytes, said))
        (_, a, _, _), (_, b, peak, _) = rows
        exponent = math.log(max(b, 1e-4) / max(a, 0.01), 4) if a is not None and b is not None else None
        wrong = a is None or b is None or b > 10 or (b > 0.2 and exponent > 1.25)
        bad += wrong
        show = lambda r: f"{r[1]:.2f}" if r[1] is not None else r[3]
        power = "" if exponent is None else f"{exponent:.2f}"
        if args.md:
            print(f"| {name} | {n} | {show(rows[0])} | {4*n} | {show(rows[1])} | {power} | {peak:.0f} |", flush=True)
        else:
            print(f"{'!' if wrong else ' '} {name:28} {n:7} {show(rows[0]):>8}  {4*n:7} {show(rows[1]):>8}  {power:>5}  {peak:6.0f} MB", flush=True)
    path.unlink()
    folder.rmdir()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
