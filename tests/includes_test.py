#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file uses of the standard library it includes, itself or by a header of ours. Files are compiled in batches and
with headers made ready before, which hide what is missing until another file stands before it."""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "tools", "plugins", "examples", "tests")
# header -> what only it (and headers that include it by the standard's word) has
NAMES = {
    "algorithm": r"(?:ranges::(?:stable_sort|sort|find|find_if|any_of|all_of|none_of|count|count_if|copy|fill|lower_bound|"
                 r"upper_bound|max|min|max_element|min_element|contains|equal|reverse|unique|transform|is_sorted|"
                 r"binary_search|for_each)|stable_sort|sort|max|min|clamp|fill|fill_n|copy|copy_n|reverse)\(",
    "atomic": r"atomic(?:<|_)",
    "bit": r"(?:bit_cast|popcount|countr_zero|countl_zero|bit_ceil|bit_floor|bit_width|has_single_bit|rotl|rotr)\b",
    "charconv": r"(?:from_chars|to_chars)\b",
    "chrono": r"chrono::",
    "cmath": r"(?:ceil|floor|isnan|isinf|isfinite|sqrt|pow|exp|exp2|log|log2|fabs|round|lround|llround|trunc|ldexp|frexp|"
             r"signbit|fma|rint|nearbyint|copysign|hypot|cbrt|tanh|erf|nextafter)\(",
    "complex": r"complex<",
    "cstring": r"(?:memcpy|memset|memmove|memcmp|strlen|strcmp|strerror)\(",
    "deque": r"deque<",
    "functional": r"(?:(?:function|plus|greater)<|identity\b)",
    "limits": r"numeric_limits<",
    "map": r"(?:multi)?map<",
    "mutex": r"(?:mutex|lock_guard|unique_lock|scoped_lock|call_once|once_flag)\b",
    "numeric": r"(?:accumulate|iota|gcd|lcm|reduce|partial_sum|exclusive_scan|inclusive_scan|midpoint)\(",
    "set": r"(?:multi)?set<",
    "thread": r"(?:thread\b|this_thread::)",
    "unordered_map": r"unordered_map<",
    "unordered_set": r"unordered_set<",
}
USES = {header: re.compile(rf"\bstd::{names}") for header, names in NAMES.items()}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
# Of other projects, and what they are known to include.
BRINGS = {"gtest/gtest.h": set(NAMES), "nlohmann/json.hpp": {"algorithm", "functional", "map", "numeric", "limits", "cstring", "cmath"},
          "condition_variable": {"mutex", "chrono"}, "future": {"mutex", "thread", "chrono"}}


@functools.cache
def text_of(path):
    return path.read_text()


def resolve(included, of):
    for folder in (of.parent, ROOT, ROOT / "src", ROOT / "include", ROOT / "tools", ROOT / "tests"):
        if (folder / included).is_file():
            return folder / included
    return None


@functools.cache
def included_by(path):
    """Headers of the standard library, of the file and of those of ours that it includes."""
    out, seen, left = set(), {path}, [path]
    while left:
        file = left.pop()
        for _, name in INCLUDE.findall(text_of(file)):
            header = resolve(name, file)
            if header is None:
                out |= {name} | BRINGS.get(name, set())
            elif header not in seen:
                seen.add(header)
                left.append(header)
    return out


def main():
    count, errors = 0, []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            count += 1
            code = re.sub(r"//.*", "", text_of(path))
            for header in USES.keys() - included_by(path):
                if use := USES[header].search(code):
                    errors.append(f"{path.relative_to(ROOT)}: {use.group(0)} is used, and <{header}> is not included")
    print("\n".join(sorted(errors)) or f"{count} files include what they use of {len(USES)} headers")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
