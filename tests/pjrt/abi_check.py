#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares plugins/pjrt/abi with the tables of pypjrt, which come from XLA's header: every slot, every field.

The compiler is the judge: a file of static assertions about our declarations has to compile.
"""
import ctypes
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def abi_tables():
    from pypjrt import _abi
    for name in sorted(p.stem for p in pathlib.Path(_abi.__file__).parent.glob("pjrt_*.py")):
        return __import__(f"pypjrt._abi.{name}", fromlist=["*"])
    raise SystemExit("pypjrt has no tables")


def our_structs():
    """Name -> fields, of the header's text: only to know what to ask the compiler about."""
    text = "".join((ROOT / "plugins/pjrt/abi" / f).read_text() for f in ("pjrt_types.h", "pjrt_args.h", "pjrt_api.h"))
    text = re.sub(r"//.*", "", text)
    return set(re.findall(r"^struct (PJRT_\w+) \{", text, re.M))


def main():
    tables = abi_tables()
    ours = our_structs()
    lines = ['#include <cstddef>', '#include "plugins/pjrt/abi/pjrt_api.h"']
    fields = structs = 0
    for name in sorted(ours - {"PJRT_Api", "PJRT_Error", "PJRT_Memory"}):
        offsets = getattr(tables, f"_OFFSETS_{name}", None)
        if offsets is None:
            print(f"{name}: pypjrt has no such struct")
            return 1
        structs += 1
        for field, offset in offsets:
            if "anon" in field or field.startswith("_"):
                continue
            if name in ("PJRT_NamedValue", "PJRT_Buffer_MemoryLayout") and offset >= 16 and not hasattr(
                    getattr(tables, name), field):
                continue
            if name in ("PJRT_NamedValue", "PJRT_Buffer_MemoryLayout") and issubclass(
                    dict(getattr(tables, name)._fields_).get(field, int), ctypes.Union):
                continue
            fields += 1
            lines.append(f'static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");')
        lines.append(f'static_assert(sizeof({name}) == {ctypes.sizeof(getattr(tables, name))}, "{name}");')
    for slot, number in tables.SLOT.items():
        lines.append(f'static_assert(offsetof(PJRT_Api, {slot}) == {tables.VTABLE_OFFSET + 8 * number}, "{slot}");')
    lines.append(f"static_assert(sizeof(PJRT_Api) == {tables.PJRT_Api_STRUCT_SIZE});")
    missing = [f"{s}_Args" for s in tables.SLOT if f"{s}_Args" not in ours]
    if missing:
        print("not declared:", ", ".join(missing))
        return 1
    result = subprocess.run([sys.argv[1], "-std=c++23", "-fsyntax-only", "-Wno-invalid-offsetof", "-I", str(ROOT), "-x",
                             "c++", "-"], input="\n".join(lines), text=True, capture_output=True)
    failures = re.findall(r"static assertion failed: (.*)", result.stderr)
    for f in failures:
        print("differs:", f)
    if result.returncode != 0 and not failures:
        print(result.stderr[:4000])
    print(f"PJRT {tables.PJRT_API_MAJOR}.{tables.PJRT_API_MINOR}: {len(tables.SLOT)} slots, {structs} structs, {fields} "
          f"fields compared; {len(failures)} differ")
    return 1 if result.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
