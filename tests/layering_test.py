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
    "device": ["base"],
    "ir": ["base", "numerics"],
    "vk_runtime": ["base", "device"],
    "hlo_io": ["base", "numerics", "ir"],
    "xla_builder": ["base", "ir"],
    "evaluator": ["base", "numerics", "ir"],
    "plan": ["base", "numerics", "ir"],
    "collectives": ["base", "ir"],
    "recorded": ["base", "ir", "hlo_io"],
    "passes": ["base", "numerics", "ir", "evaluator"],
    "cpu_fallback": ["base", "numerics", "ir", "plan", "evaluator"],
    "spirv_codegen": ["base", "numerics", "device", "ir", "plan"],
    "api": ["base", "device", "ir", "hlo_io", "passes", "plan", "spirv_codegen", "vk_runtime", "cpu_fallback", "evaluator",
            "collectives", "xla_builder"],
}
# folder -> rooms that it may include
ABOVE = {
    "plugins": ["api"],
    "tools": ["api", "recorded", "base", "ir", "hlo_io", "passes", "plan", "spirv_codegen"],
    "examples": ["none"],
}
# Of every room's tests: programs are read and made simpler, and their answers judged.
IN_TESTS = ["base", "numerics", "device", "ir", "hlo_io", "recorded", "evaluator", "passes", "plan"]
# words that only some rooms may include
ONLY = {"vulkan/": ["vk_runtime"], "volk": ["vk_runtime"], "vk_mem_alloc": ["vk_runtime"],
        "hwy/": ["cpu_fallback"], "asmjit": ["cpu_fallback"], "dnnl": ["cpu_fallback"], "zip.h": ["recorded"]}
# Tables that include nothing: rows that every room may expand as it needs.
TABLES = ["ir/ops.def"]
# Words that only some files of src may use: what is decided by them is decided there (device/workarounds.cpp, tuning.cpp).
WORDS = {
    "driver_id": ["device/", "vk_runtime/device_snapshot.cpp"],
    "vendor_id": ["device/", "vk_runtime/device_snapshot.cpp", "vk_runtime/cache_file.cpp"],
}
# And words that a room does without.
WITHOUT = {"spirv_codegen": ["is_cpu", "driver_name", "driver_info", "DeviceType"]}
MAX_LINES = 800


def room_of(path):
    best = ""
    for room in ALLOWED:
        if path.startswith(room + "/") and len(room) > len(best):
            best = room
    return best


# Folders of tests that are not a room's: what they may include.
OTHER_TESTS = {"compile_time": ["cpu_fallback", "spirv_codegen"], "emit": ["spirv_codegen"], "pjrt": ["api"], "fuzz": ["api", "spirv_codegen"],
               "spirv_codegen": ["vk_runtime"], "faults": ["api"], "soak": ["api"], "threads": ["api"], "shaders": ["api", "spirv_codegen", "vk_runtime"], "builder": ["xla_builder", "api"], "numerics": ["cpu_fallback"]}


def tests_may_see(name):
    parts = name.split("/")
    folder = parts[1] if len(parts) > 2 else ""
    return IN_TESTS + [folder] + ALLOWED.get(folder, []) + OTHER_TESTS.get(folder, [])


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
            for word, places in WORDS.items():
                if re.search(rf"\b{word}\b", line) and not name.startswith(tuple(places)):
                    errors.append(f"src/{name}:{number}: only {', '.join(places)} may use {word}")
            for word in WITHOUT.get(room, []):
                if re.search(rf"\b{word}\b", line):
                    errors.append(f"src/{name}:{number}: {room} may not use {word}")
            m = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
            if not m:
                continue
            target = m.group(1)
            for word, rooms in ONLY.items():
                if target.startswith(word) and room.split("/")[0] not in rooms:
                    errors.append(f"src/{name}:{number}: only {', '.join(rooms)} may include <{target}>")
            to = room_of(target)
            if line.strip().find('"') < 0 or not to or to == room or target in TABLES:
                continue
            if not any(to == a or target == a for a in ALLOWED[room]):
                errors.append(f"src/{name}:{number}: {room} may not include {target}")
    for table in TABLES:
        if re.search(r"^\s*#\s*include", (ROOT / "src" / table).read_text(), re.M):
            errors.append(f"src/{table}: a table that every room reads includes nothing")
    # What stands on the rooms: plugins see what strangers see, and the API; tools show what lies between; a room's tests see
    # what the room sees, and what makes and judges programs for them.
    for folder in ("plugins", "tools", "tests", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            files += 1
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text()
            if text.count("\n") > MAX_LINES:
                errors.append(f"{name}: {text.count(chr(10))} lines, more than {MAX_LINES}")
            if not text.isascii():
                errors.append(f"{name}: holds characters beyond ASCII")
            allowed = ABOVE.get(folder) or tests_may_see(name)
            if allowed is None:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                to = room_of(m.group(1)) if m else ""
                if to and to not in allowed:
                    errors.append(f"{name}:{number}: {folder} may not include {m.group(1)}")
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
