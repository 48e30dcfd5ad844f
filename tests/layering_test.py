#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go one way, sources and functions stay short: reads every source file and fails on what no rule allows."""
import ast
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
    "onnx": ["base", "ir", "evaluator"],
    "plan": ["base", "numerics", "ir"],
    "transport": ["base"],
    "collectives": ["base", "ir", "transport"],
    "recorded": ["base", "ir", "hlo_io"],
    "passes": ["base", "numerics", "ir", "evaluator"],
    "cpu_fallback": ["base", "numerics", "ir", "plan", "evaluator"],
    "spirv_codegen": ["base", "numerics", "device", "ir", "plan"],
    "runtime_only": ["hlo_io", "evaluator", "passes", "cpu_fallback"],  # stands in for these
    "api": ["base", "device", "ir", "hlo_io", "passes", "plan", "spirv_codegen", "vk_runtime", "cpu_fallback", "evaluator",
            "collectives", "transport", "xla_builder", "onnx"],
}
# folder -> rooms that it may include
ABOVE = {
    "plugins": ["api", "transport"],
    "tools": ["api", "recorded", "base", "ir", "hlo_io", "passes", "plan", "spirv_codegen", "evaluator"],
    "examples": ["none"],
}
# Of every room's tests: programs are read and made simpler, and their answers judged.
IN_TESTS = ["base", "numerics", "device", "ir", "hlo_io", "recorded", "evaluator", "passes", "plan"]
# words that only some rooms may include
ONLY = {"vulkan/": ["vk_runtime"], "volk": ["vk_runtime"], "vk_mem_alloc": ["vk_runtime"],
        "hwy/": ["cpu_fallback"], "asmjit": ["cpu_fallback"], "dnnl": ["cpu_fallback"], "zlib.h": ["recorded"]}
# Headers of the system, which only these files may include; what is the system's is asked of base/system.h.
SYSTEM_HEADERS = re.compile(r"^(?:sys/.*|arpa/.*|netinet/.*|mach.*|windows\.h|psapi\.h|(?:unistd|fcntl|dlfcn|sched|poll|spawn|fnmatch|"
                            r"pthread|pwd|grp|glob|dirent|signal|link|termios|io|direct|process)\.h)$")
# An example that maps its weights shows what a program does with its own files.
SYSTEM_FILES = re.compile(r"^(?:src/base/system\w*|examples/llm/weights_file)\.cpp$")
# Tables that include nothing: rows that every room may expand as it needs.
TABLES = ["ir/ops.def", "onnx/onnx_ops.def"]
# Words that only some files of src may use: what is decided by them is decided there (device/workarounds.cpp, tuning.cpp).
WORDS = {
    "driver_id": ["device/", "vk_runtime/device_snapshot.cpp"],
    "vendor_id": ["device/", "vk_runtime/device_snapshot.cpp", "vk_runtime/cache_file.cpp"],
}
# And words that a room does without.
WITHOUT = {"spirv_codegen": ["is_cpu", "driver_name", "driver_info", "DeviceType"]}
# The public header that is C.
C_INTERFACE = "include/krafla/krafla.h"
# The one that is for applications with Vulkan, who have its headers.
VULKAN_INTERFACE = ("include/krafla/vulkan.h", "include/krafla/krafla_vulkan.h")
MAX_LINES = 600
MAX_FUNCTION_LINES = 80
# Functions that may be longer, and why: "path:name". Each is a list, of which a part would say no more than the whole.
A_ROW_EACH = "a table: a row each"
CASES = "a list of cases"
LONG_FUNCTIONS = {
    "src/cpu_fallback/executor/block_program.cpp:RunStep": "a switch: the loop over steps is fastest with it as one function",
    "src/cpu_fallback/native/x86_avx2_ops.cpp:EmitNode": "a switch over the operations of lanes",
    "src/cpu_fallback/native/x86_avx512_ops.cpp:EmitConversion": "a switch over pairs of types",
    "src/cpu_fallback/native/x86_avx512_ops.cpp:EmitNode": "a switch over the operations of lanes",
    "src/evaluator/evaluator.cpp:RunInstruction": "a switch: a line an opcode",
    "src/hlo_io/hlo_proto/instruction_record.cpp:ReadInstruction": "a switch over the fields of a message",
    "src/hlo_io/hlo_proto/instruction_record.cpp:ReadOptions": "a switch over the fields of a message",
    "src/hlo_io/hlo_text/attribute_table.cpp:KeysOf": "a switch: a line an opcode",
    "src/hlo_io/stablehlo_bytecode/types.cpp:DecodeVhloType": "a switch over the codes of VHLO's types",
    "plugins/pjrt/plugin.cpp:MakeApi": A_ROW_EACH,
    "tools/op_examples.cpp:Bodies": A_ROW_EACH,
    "bench/convolutions.py:cases": CASES,
    "tests/builder/compute_cases.cpp:ComputeCases": A_ROW_EACH,
    "tests/builder/control_cases.cpp:ControlCases": A_ROW_EACH,
    "tests/builder/elementwise_cases.cpp:ElementwiseCases": A_ROW_EACH,
    "tests/builder/movement_cases.cpp:MovementCases": A_ROW_EACH,
    "tests/cpu_fallback/convolution_kernel_test.cpp:ConvKernelTest, Parts": CASES,
    "tests/cpu_fallback/order_kernel_test.cpp:OrderKernelTest, Scatters": CASES,
    "tests/cpu_fallback/reduce_kernel_test.cpp:ReduceKernelTest, Windows": CASES,
    "tests/emit/choices_test.cpp:Rows": A_ROW_EACH,
    "tests/numerics/specials_test.cpp:Specials, Unary": A_ROW_EACH,
}


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


# What opens a scope or a statement that is no function.
NO_FUNCTION = re.compile(r"(?:template\s*<.*>\s*)?(?:namespace|class|struct|union|enum|extern|inline namespace|if|for|while|switch|else|do|"
                         r"try|case|return)\b")
ENDS_STATEMENT = re.compile(r"[;{}:]\s*(?://.*)?$|^\s*(?://|#)")


def functions(lines):
    """Name, first line and number of lines of each function, as clang-format lays them out: one ends at the brace that
    closes in the column in which its declaration begins. Texts of programs within it do not count."""
    n = 0
    while n < len(lines):
        if not lines[n].endswith("{"):
            n += 1
            continue
        first = n
        while first > 0 and lines[first - 1].strip() and not ENDS_STATEMENT.search(lines[first - 1]):
            first -= 1
        head = " ".join(line.strip() for line in lines[first:n + 1])
        name = re.search(r"TEST(?:_[FP])?\((\w+, \w+)\)|(~?\w+)\s*\(", head)
        if not name or NO_FUNCTION.match(head) or head.startswith(("}", "{")) or re.search(r"=\s*\{$", head):
            n += 1
            continue
        margin = len(lines[first]) - len(lines[first].lstrip())
        end = n + 1
        while end < len(lines) and not lines[end].startswith(" " * margin + "}"):
            end += 1
        yield name.group(1) or name.group(2), first + 1, sum(line != "TEXT" for line in lines[first:end + 1])
        n = end + 1


def check_length(name, line, function, count, found, errors):
    if count <= MAX_FUNCTION_LINES:
        return
    key = f"{name}:{function}"
    if key in LONG_FUNCTIONS:
        found.add(key)
        print(f"{key}: {count} lines: {LONG_FUNCTIONS[key]}")
    else:
        errors.append(f"{name}:{line}: {function} has {count} lines, more than {MAX_FUNCTION_LINES}")


RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)


def check_functions(name, text, found, errors):
    text = RAW_STRING.sub(lambda m: '"' + "\n".join(["TEXT"] * (m.group(0).count("\n") + 1)) + '"', text)
    for function, line, count in functions(text.splitlines()):
        check_length(name, line, function, count, found, errors)


def sources(*folders):
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".h", ".cpp")]


def scripts():
    """Those of the tree: a folder that is no part of it (an environment, a build) has thousands."""
    return [p for folder in ("bench", "docs", "examples", "plugins", "python", "scripts", "src", "tests", "tools")
            for p in sorted((ROOT / folder).rglob("*.py"))]


def check_lines(name, text, errors):
    if text.count("\n") > MAX_LINES:
        errors.append(f"{name}: {text.count(chr(10))} lines, more than {MAX_LINES}")


def check_file(name, text, found, errors):
    """What holds for every source in C++."""
    check_lines(name, text, errors)
    check_functions(name, text, found, errors)
    if not text.isascii():
        errors.append(f"{name}: holds characters beyond ASCII")


def check_room_line(name, number, line, errors):
    """What a line of src may say and include; `name` is a path below src."""
    room = room_of(name)
    for word, places in WORDS.items():
        if re.search(rf"\b{word}\b", line) and not name.startswith(tuple(places)):
            errors.append(f"src/{name}:{number}: only {', '.join(places)} may use {word}")
    for word in WITHOUT.get(room, []):
        if re.search(rf"\b{word}\b", line):
            errors.append(f"src/{name}:{number}: {room} may not use {word}")
    m = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
    if not m:
        return
    target = m.group(1)
    if SYSTEM_HEADERS.match(target) and not SYSTEM_FILES.match(f"src/{name}"):
        errors.append(f"src/{name}:{number}: only base/system*.cpp may include <{target}>")
    for word, rooms in ONLY.items():
        if target.startswith(word) and room.split("/")[0] not in rooms:
            errors.append(f"src/{name}:{number}: only {', '.join(rooms)} may include <{target}>")
    to = room_of(target)
    if line.strip().find('"') < 0 or not to or to == room or target in TABLES:
        return
    if not any(to == a or target == a for a in ALLOWED[room]):
        errors.append(f"src/{name}:{number}: {room} may not include {target}")


def check_rooms(found, errors):
    for path in sources("src"):
        name = path.relative_to(ROOT / "src").as_posix()
        text = path.read_text()
        check_file(f"src/{name}", text, found, errors)
        for number, line in enumerate(text.splitlines(), 1):
            check_room_line(name, number, line, errors)
    for table in TABLES:
        if re.search(r"^\s*#\s*include", (ROOT / "src" / table).read_text(), re.M):
            errors.append(f"src/{table}: a table that every room reads includes nothing")


def check_above(found, errors):
    """What stands on the rooms: plugins see what strangers see, and the API; tools show what lies between; a room's tests
    see what the room sees, and what makes and judges programs for them."""
    for path in sources("plugins", "tools", "tests", "examples"):
        name = path.relative_to(ROOT).as_posix()
        folder = name.split("/")[0]
        text = path.read_text()
        check_file(name, text, found, errors)
        allowed = ABOVE.get(folder) or tests_may_see(name)
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r"\s*#\s*include\s*<([^>]+)>", line)
            if folder != "tests" and m and SYSTEM_HEADERS.match(m.group(1)) and not SYSTEM_FILES.match(name):
                errors.append(f"{name}:{number}: only base/system*.cpp may include <{m.group(1)}>")
            m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            to = room_of(m.group(1)) if m else ""
            if allowed is not None and to and to not in allowed:
                errors.append(f"{name}:{number}: {folder} may not include {m.group(1)}")


def check_public(errors):
    """What is installed knows nothing that is not: the standard library and its own kind."""
    for path in sorted((ROOT / "include").rglob("*.h*")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if not text.isascii():
            errors.append(f"{name}: holds characters beyond ASCII")
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
            if m and (m.group(1) == '"') != m.group(2).startswith("krafla/"):
                errors.append(f"{name}:{number}: a public header may not include {m.group(2)}")
            if name == C_INTERFACE and m and m.group(2) in ("stddef.h", "stdint.h"):
                continue
            if name in VULKAN_INTERFACE and m and m.group(2) == "vulkan/vulkan_core.h":
                continue
            if m and m.group(1) == "<" and ("/" in m.group(2) or "." in m.group(2)):
                errors.append(f"{name}:{number}: a public header may not include <{m.group(2)}>")


def check_scripts(found, errors):
    """Python, of which the same limits hold."""
    for path in scripts():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        check_lines(name, text, errors)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                check_length(name, node.lineno, node.name, node.end_lineno - node.lineno + 1, found, errors)


def main():
    errors, found = [], set()
    check_rooms(found, errors)
    check_above(found, errors)
    check_public(errors)
    check_scripts(found, errors)
    for key in LONG_FUNCTIONS.keys() - found:
        errors.append(f"tests/layering_test.py: {key} is not longer than {MAX_FUNCTION_LINES} lines, or is gone")
    for e in errors:
        print(e)
    count = len(sources("src", "plugins", "tools", "tests", "examples")) + len(scripts())
    print(f"{count} sources, {len(errors)} broken rules")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
