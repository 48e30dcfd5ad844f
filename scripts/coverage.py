#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines that were run, of those that could be, by room: from what a program built with --coverage left behind.

  coverage.py BUILD_FOLDER

A line counts once, however many programs, templates and headers it went into.
"""
import collections
import concurrent.futures
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTED = ("src", "tools", "plugins", "include")


def lines_of(notes):
    """{(file, line): whether it ran} of one object file, whose notes have counts beside them only where it ran."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["gcov-14", "--json-format", str(notes)], cwd=folder, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"gcov-14 {notes}: {done.stderr.strip()}")
        out = {}
        for result in pathlib.Path(folder).glob("*.gcov.json.gz"):
            data = json.loads(gzip.decompress(result.read_bytes()))
            for file in data["files"]:
                path = os.path.relpath(os.path.join(data["current_working_directory"], file["file"]), ROOT)
                if path.split("/")[0] in COUNTED:
                    for line in file["lines"]:
                        key = path, line["line_number"]
                        out[key] = out.get(key, False) or line["count"] > 0
        return out


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    notes = [p for p in build.rglob("*.gcno") if "/tests/" not in p.as_posix()]
    if not notes:
        print(f"coverage.py: {build} has no program built with --coverage", file=sys.stderr)
        return 2
    ran = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lines_of, notes):
            for key, value in found.items():
                ran[key] = ran.get(key, False) or value
    rooms = collections.defaultdict(lambda: [0, 0])
    for (path, _), value in ran.items():
        parts = path.split("/")
        room = "/".join(parts[:2]) if parts[0] == "src" else parts[0]
        for name in (room, "all"):
            rooms[name][0] += value
            rooms[name][1] += 1
    print(f"{'room':<24}{'lines':>8}{'run':>8}{'share':>9}")
    for name in sorted(rooms, key=lambda n: (n == "all", n)):
        hit, total = rooms[name]
        print(f"{name:<24}{total:>8}{hit:>8}{hit / total:>9.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
