#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small network every 16 ms beside processes that keep all processors busy, as in a game or on a shared runner.

    bench/busy_machine.py KRAFLA MODEL [--threads N] [--frames 200]

Prints latencies and processor time a frame: on the idle machine and beside as many busy processes as there are
processors, for one thread and for `--threads`. `--check` fails where the median beside them is more than twice the idle
one, or a frame takes more than 1.2 times the processor time that it takes on one thread.
"""
import argparse
import json
import os
import subprocess
import sys


def frames(arguments, threads):
    command = [arguments.krafla, "bench", arguments.model, "-d", "cpu", "--json", "--threads", str(threads),
               "--iters", str(arguments.frames), "--every", "16"]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return json.loads(out.stdout.splitlines()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} processors")
    print(f"{'':28} {'median ms':>10} {'p90 ms':>10} {'cpu ms':>10}")
    seen = {}
    for busy in (0, len(os.sched_getaffinity(0))):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            for threads in (1, arguments.threads):
                line = seen[busy > 0, threads] = frames(arguments, threads)
                name = f"{threads} threads, {busy} busy processes"
                print(f"{name:28} {line['median_ms']:10.2f} {line['p90_ms']:10.2f} {line['cpu_ms']:10.2f}")
        finally:
            for other in others:
                other.kill()
    if arguments.check:
        idle, loaded, one = seen[False, arguments.threads], seen[True, arguments.threads], seen[True, 1]
        if loaded["median_ms"] > 2 * idle["median_ms"]:
            sys.exit("the median beside busy processes is more than twice the idle one")
        if loaded["cpu_ms"] > 1.2 * one["cpu_ms"]:
            sys.exit("a frame takes more than 1.2 times the processor time of one thread")


if __name__ == "__main__":
    main()
