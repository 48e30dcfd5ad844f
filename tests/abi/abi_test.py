#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libkrafla.so exports what its headers promise, and the C functions have the ABI that is recorded in krafla.abi.

    abi_test.py LIBKRAFLA C_COMPILER [--update]

The ABI is described by a library of empty functions that is made of krafla.h and krafla_vulkan.h, compiled with debug information: that the
real ones are as the header says is the C++ compiler's work. `--update` records the present ABI: right after an addition (then KRAFLA_ABI_VERSION grows too), wrong after a change.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include/krafla"
HEADER, VULKAN = HEADERS / "krafla.h", HEADERS / "krafla_vulkan.h"
RECORDED = HERE / "krafla.abi"


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                         capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in out.splitlines()]
    plain = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return [tuple(re.split("@@?", line)) if "@" in line else (line, "") for line in plain.splitlines()]


def check_symbols(library):
    text = HEADER.read_text()
    names = {name for name, _ in exported(library)}
    if any(name.startswith("krafla_vulkan_") for name in names):  # a build without Vulkan has none of them
        text += VULKAN.read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    declared = set(re.findall(r"KRAFLA_API[^;(]*?\b(krafla_\w+)\(", text))
    errors, functions = [], set()
    for name, version in exported(library):
        if name.startswith("KRAFLA_") or version == "KRAFLA_PRIVATE":  # the versions themselves; the programs' own
            continue
        if version == "KRAFLA_C_1":
            functions.add(name)
        elif not re.match(r"((typeinfo|typeinfo name|vtable) for )?krafla::", name):
            errors.append(f"{name} is exported and is not krafla's")
    errors += [f"{name} is declared in the headers and not exported" for name in sorted(declared - functions)]
    errors += [f"{name} is exported and not declared in the headers" for name in sorted(functions - declared)]
    print(f"{len(functions)} C functions")
    return errors


def library_of_the_header(compiler, folder):
    """Of functions that are declared as in the headers and do nothing."""
    text = HEADER.read_text() + VULKAN.read_text().replace('#include "krafla/krafla.h"', "")
    bodies = re.sub(r"^(KRAFLA_API [^;]*);", r"\1 { __builtin_trap(); }", text, flags=re.M)
    (folder / "interface.c").write_text(bodies)
    out = folder / "libinterface.so"
    subprocess.run([compiler, "-std=c99", "-g", "-O0", "-w", "-shared", "-fPIC", "-I", HEADER.parent.parent,
                    folder / "interface.c", "-o", out], check=True)
    return out


def main():
    library, compiler = sys.argv[1:3]
    errors = check_symbols(library)
    for error in errors:
        print(error)
    if errors:
        return 1
    if shutil.which("abidiff") is None:
        print("Skipped: abidiff is not installed (package abigail-tools); the symbols are right.")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        present = pathlib.Path(folder) / "krafla.abi"
        subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--out-file", present,
                        library_of_the_header(compiler, pathlib.Path(folder))], check=True)
        if "--update" in sys.argv:
            shutil.copy(present, RECORDED)
            return 0
        # Additions are no change of what there was, but the record has to have them.
        done = subprocess.run(["abidiff", RECORDED, present], capture_output=True, text=True)
        print(done.stdout + done.stderr, end="")
        if done.returncode != 0:
            print("The C functions do not have the ABI of tests/abi/krafla.abi. Additions are recorded with --update.")
        return 1 if done.returncode != 0 else 0


sys.exit(main())
