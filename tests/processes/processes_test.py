#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs over several processes: same answers as in one, and an end with a name when one of them dies, stops, or is
not like the others.

    processes_test.py KRAFLA [--times N] [--device SELECTOR] [--transport NAME]... [PART]...

--times: how often each process is killed and stopped (1). PART: models, corpus, ends, refusals; default: all.
Exit 77 where this system has no such processes."""
import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 4  # seconds that ranks wait for each other where one does not come

ENDLESS = """HloModule endless, replica_count=%d
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
more { s = (s32[], f32[%d]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(2000000000)
  ROOT r = pred[] compare(i, n), direction=LT }
turn { s = (s32[], f32[%d]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) x = f32[%d] get-tuple-element(s), index=1
  y = f32[%d] all-reduce(x), replica_groups={}, to_apply=sum half = f32[] constant(0.25)
  h = f32[%d] broadcast(half), dimensions={} z = f32[%d] multiply(y, h) ROOT t = (s32[], f32[%d]) tuple(j, z) }
ENTRY e { x = f32[%d] parameter(0) zero = s32[] constant(0) s = (s32[], f32[%d]) tuple(zero, x)
  w = (s32[], f32[%d]) while(s), condition=more, body=turn ROOT r = f32[%d] get-tuple-element(w), index=1 }
"""
SUM = """HloModule sum%s, replica_count=%d
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[%d] parameter(0) ROOT y = f32[%d] all-reduce(x), replica_groups={}, to_apply=sum }
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ranks:
    """N processes of krafla."""

    def __init__(self, krafla, n, words, sizes=None):
        self.port = free_port()
        self.processes = []
        for r in range(n):
            own = [krafla, *words(r), "--coordinator", f"localhost:{self.port}", "--world-size",
                   str(sizes[r] if sizes else n), "--rank", str(r)]
            self.processes.append(subprocess.Popen(own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))

    def ends(self, which=None, limit=60):
        """What each has said, and its exit code."""
        out = {}
        for r, p in enumerate(self.processes):
            if which is not None and r not in which:
                continue
            try:
                text, _ = p.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"rank {r} has not ended within {limit} s")
            out[r] = (p.returncode, text)
        return out

    def kill(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def shared_files():
    return sorted(os.listdir("/dev/shm"))


def recorded(krafla, folders, device, transports):
    for transport in transports:
        for n in (2, 4):
            ranks = Ranks(krafla, n, lambda r: ["check", *folders, "-d", device, "--transport", transport])
            for r, (code, text) in ranks.ends(limit=600).items():
                check(code == 0, f"{transport}, rank {r} of {n}:\n{text}")
                print(f"{transport}, rank {r} of {n}: {text.splitlines()[-1]}")


def ends(krafla, device, transports, times, folder):
    """One of four is killed, or stopped, in the middle of a step."""
    program = folder / "endless.hlo"
    program.write_text(ENDLESS % ((4,) + (60000,) * 11))
    for transport in transports:
        for how in (signal.SIGKILL, signal.SIGSTOP):
            for turn in range(times):
                victim = turn % 4
                ranks = Ranks(krafla, 4, lambda r: ["run", str(program), "-d", device, "--random", "--transport",
                                                    transport, "--time-limit", str(LIMIT)])
                # The limit is of waits between devices and of the run: the run is stopped by the signal long before.
                time.sleep(1.0)
                check(all(p.poll() is None for p in ranks.processes), "a rank ended by itself")
                ranks.processes[victim].send_signal(how)
                began = time.monotonic()
                others = [r for r in range(4) if r != victim]
                said = ranks.ends(others, limit=3 * LIMIT)
                took = time.monotonic() - began
                ranks.kill()
                for r, (code, text) in said.items():
                    check(code == 4, f"rank {r} ended with {code}:\n{text}")
                    check(re.search(rf"rank {victim} on host \S+ \(process \d+\)", text),
                          f"rank {r} does not name rank {victim}:\n{text}")
                check(took < 2 * LIMIT + 1, f"the others took {took:.1f} s")
                if turn == 0:
                    print(f"{transport}, {how.name}: the others ended after {took:.1f} s: {said[others[0]][1].splitlines()[-2]}")
            print(f"{transport}, {how.name}: {times} of {times}")


def refusals(krafla, device, folder):
    def text_of(n, words, sizes=None):
        said = Ranks(krafla, n, words, sizes).ends()
        check(all(code != 0 for code, _ in said.values()), f"not refused: {said}")
        return said

    one, other = folder / "one.hlo", folder / "other.hlo"
    one.write_text(SUM % ("1", 2, 8, 8))
    other.write_text((SUM % ("2", 2, 8, 8)).replace("add(a, b)", "maximum(a, b)"))
    run = ["-d", device, "--random", "--time-limit", "5"]
    for r, (_, text) in text_of(2, lambda r: ["run", str([one, other][r]), *run]).items():
        check("runs another program than" in text, text)
        print(f"other program, rank {r}: {text.splitlines()[1]}")
    for _, text in text_of(2, lambda r: ["run", str(one), *run], sizes=[2, 3]).values():
        check("was started for 3 processes, rank 0 for 2" in text, text)
    for r, (_, text) in text_of(2, lambda r: ["run", str(one), *run], sizes=[3, 3]).items():
        check("rank 2 has not come" in text, text)
    print(f"too few, rank {r}: {text.splitlines()[-1]}")
    for _, text in text_of(2, lambda r: ["run", str(one), *run, "--transport", ["shared", "sockets"][r]]).values():
        check("for the transport" in text, text)
    # Whoever speaks something else at the coordinator's port hinders nobody, and waits for nobody.
    ranks = Ranks(krafla, 2, lambda r: ["run", str(one), *run])
    for _ in range(20):
        try:
            with socket.create_connection(("localhost", ranks.port), timeout=1) as s:
                s.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
                break
        except OSError:
            time.sleep(0.05)
    for r, (code, text) in ranks.ends().items():
        check(code == 0, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("krafla")
    parser.add_argument("part", nargs="*")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--transport", action="append")
    options = parser.parse_args()
    parts = options.part or ["models", "corpus", "ends", "refusals"]
    if not sys.platform.startswith("linux"):
        print("krafla has no programs over several processes on this system")
        return 77
    transports = options.transport or ["shared", "sockets"]
    before = shared_files()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if "models" in parts:
            names = ["collectives-8-tiny", "ring-attention-4-tiny", "tp-attention-2x4-tiny", "tp-mlp-auto-8-tiny"]
            recorded(options.krafla, [str(ROOT / "models" / n) for n in names], options.device, transports)
        if "corpus" in parts and (corpus := os.environ.get("KRAFLA_CORPUS")):
            wanted = re.compile("all_gather|all_reduce|all_to_all|collective_|reduce_scatter|send_recv|ragged_")
            folders = [str(f) for f in sorted((pathlib.Path(corpus) / "ops").iterdir()) if wanted.search(f.name)]
            recorded(options.krafla, folders, options.device, transports)
        elif "corpus" in parts:
            print("the corpus is left out: KRAFLA_CORPUS is not set")
        if "ends" in parts:
            ends(options.krafla, options.device, transports, options.times, folder)
        if "refusals" in parts:
            refusals(options.krafla, options.device, folder)
    check(shared_files() == before, f"left in /dev/shm: {set(shared_files()) - set(before)}")
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
