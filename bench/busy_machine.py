#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network every 16 ms beside processes that keep all processors busy, as in a game or on a shared runner.

    bench/busy_machine.py KRAFLA MODEL [--threads N] [--seconds 60]

Prints latencies and processor time a frame: on the idle machine and beside as many busy processes as there are
processors, for one thread, for `--threads`, and for a bare loop that computes as long as the network on one thread. What
the loop takes beside the others is the system's sharing of processors: no program of that much work gets more.

`--check` fails where, beside the others, the median is more than twice the idle one, the 99th percentile is more than
twice the idle median and more than the loop's, or a frame takes more than 1.2 times the processor time of one thread.
"""
import argparse
import json
import os
import subprocess
import sys
import time

EVERY_MS = 16


def network(arguments, threads):
    command = [arguments.krafla, "bench", arguments.model, "-d", "cpu", "--json", "--threads", str(threads),
               "--iters", str(arguments.seconds * 1000 // EVERY_MS), "--every", str(EVERY_MS)]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return json.loads(out.stdout.splitlines()[0])


def loop(arguments, work_ms):
    times = []
    for _ in range(arguments.seconds * 1000 // EVERY_MS):
        start, until = time.perf_counter(), time.thread_time() + work_ms / 1e3
        while time.thread_time() < until:
            pass
        times.append((time.perf_counter() - start) * 1e3)
        time.sleep(max(0.0, EVERY_MS - times[-1]) / 1e3)
    times.sort()
    return {"median_ms": times[len(times) // 2], "p90_ms": times[len(times) * 90 // 100],
            "p99_ms": times[len(times) * 99 // 100], "cpu_ms": work_ms}


def judge(idle, loaded, bare, one):
    if loaded["median_ms"] > 2 * idle["median_ms"]:
        sys.exit("the median beside busy processes is more than twice the idle one")
    if loaded["p99_ms"] > max(2 * idle["median_ms"], bare["p99_ms"]):
        sys.exit("the 99th percentile beside busy processes is more than twice the idle median, and more than a bare loop's")
    if loaded["cpu_ms"] > 1.2 * one["cpu_ms"]:
        sys.exit("a frame takes more than 1.2 times the processor time of one thread")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("model")
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=processors)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f}, {processors} processors")
    print(f"{'':32} {'median ms':>10} {'p90 ms':>10} {'p99 ms':>10} {'cpu ms':>10}")
    seen = {}
    for busy in (0, processors):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            for threads in sorted({1, arguments.threads}) + ["loop"]:
                alone = seen.get((False, 1))
                line = loop(arguments, alone["cpu_ms"]) if threads == "loop" else network(arguments, threads)
                seen[busy > 0, threads] = line
                name = "a loop" if threads == "loop" else f"{threads} thread{'s' if threads > 1 else ''}"
                print(f"{name + f', {busy} busy processes':32} {line['median_ms']:10.2f} {line['p90_ms']:10.2f} "
                      f"{line['p99_ms']:10.2f} {line['cpu_ms']:10.2f}", flush=True)
        finally:
            for other in others:
                other.kill()
    if arguments.check:
        judge(seen[False, arguments.threads], seen[True, arguments.threads], seen[True, "loop"], seen[True, 1])


if __name__ == "__main__":
    main()
