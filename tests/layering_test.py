#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go one way: reads the #include lines of every source file and fails on one that no rule allows."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# room -> rooms that it may include (itself is understood)
ALLOWED = {
    "base": [],
    "numerics": ["base"],
    "ir": ["base", "numerics"],
    "hlo_io": ["base", "numerics", "ir"],
    "cpu_fallback/evaluator": ["base", "numerics", "ir"],
    "passes": ["base", "numerics", "ir", "cpu_fallback/evaluator"],
    "plan": ["base", "numerics", "ir"],
    "spirv_codegen": ["base", "numerics", "ir", "plan"],
    "cpu_fallback": ["base", "numerics", "ir", "plan", "cpu_fallback/evaluator"],
    "vk_runtime": ["base", "plan/device_profile.h"],
    "collectives": ["base", "ir"],
    "api": ["base", "ir", "hlo_io", "passes", "plan", "spirv_codegen", "vk_runtime", "cpu_fallback",
            "cpu_fallback/evaluator", "collectives"],
}
# words that only some rooms may include
ONLY = {"vulkan/": ["vk_runtime"], "volk": ["vk_runtime"], "vk_mem_alloc": ["vk_runtime"],
        "hwy/": ["cpu_fallback"], "asmjit": ["cpu_fallback"], "dnnl": ["cpu_fallback"], "zip.h": ["hlo_io"]}
MAX_LINES = 800


def room_of(path):
    best = ""
    for room in ALLOWED:
        if path.startswith(room + "/") and len(room) > len(best):
            best = room
    return best


def main():
    errors, files = [], 0
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        files += 1
        name = path.relative_to(ROOT / "src").as_posix()
        room = room_of(name)
        text = path.read_text()
        if text.count("\n") > MAX_LINES:
            errors.append(f"src/{name}: {text.count(chr(10))} lines, more than {MAX_LINES}")
        if not text.isascii():
            errors.append(f"src/{name}: holds characters beyond ASCII")
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
            if not m:
                continue
            target = m.group(1)
            for word, rooms in ONLY.items():
                if target.startswith(word) and room.split("/")[0] not in rooms:
                    errors.append(f"src/{name}:{number}: only {', '.join(rooms)} may include <{target}>")
            to = room_of(target)
            if line.strip().find('"') < 0 or not to or to == room:
                continue
            if not any(to == a or target == a for a in ALLOWED[room]):
                errors.append(f"src/{name}:{number}: {room} may not include {target}")
    # Plugins see what strangers see, and the API.
    for path in sorted((ROOT / "plugins").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        files += 1
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if text.count("\n") > MAX_LINES:
            errors.append(f"{name}: {text.count(chr(10))} lines, more than {MAX_LINES}")
        if not text.isascii():
            errors.append(f"{name}: holds characters beyond ASCII")
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if m and not m.group(1).startswith(("krafla/", "api/", "plugins/")):
                errors.append(f"{name}:{number}: plugins may not include {m.group(1)}")
    # What is installed knows nothing that is not: the standard library and its own kind.
    for path in sorted((ROOT / "include").rglob("*.h")):
        files += 1
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if not text.isascii():
            errors.append(f"{name}: holds characters beyond ASCII")
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
            if m and (m.group(1) == '"') != m.group(2).startswith("krafla/"):
                errors.append(f"{name}:{number}: a public header may not include {m.group(2)}")
            if m and m.group(1) == "<" and ("/" in m.group(2) or "." in m.group(2)):
                errors.append(f"{name}:{number}: a public header may not include <{m.group(2)}>")
    for e in errors:
        print(e)
    print(f"{files} files, {len(errors)} broken rules")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
