#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What compiling takes grows with the program, for every family of families.py.

    compile_time_test.py COMPILE_WORK [NAME...]

Each family is compiled at n and 4 n, a nest at depth d and 4 d, and three counts of compile_work are compared:
allocations, bytes allocated, and steps of the compiler's loops. n log n gives a ratio of little more than 4; from 4.6 on
something grows faster. What is the same for any program is taken off first. A limit of processor time ends what would
never end; it is no measure. Without names, those of EVERYDAY are compiled; `all` stands for all.
"""
import pathlib
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import address_space  # noqa: E402
from families import FAMILIES, NESTED  # noqa: E402

N, DEPTH, MOST = 1000, 50, 4.6
# Larger at these sizes, and why. Kernels that are not full yet (400 instructions) grow with the program; the arena looks
# at every pair of ranges as long as that is a million looks; a tuple in a tuple in a tuple has a type of that depth, again
# for each level.
OPEN = {"adds": 4.8, "long_names": 4.8, "transposes": 5.5,
        "dynamic_dimensions": 5.5, "fan_in": 5.8, "random_dag": 8.5, "dense_gradients": 7.0, "while_wide": 7.8,
        "while_wide_swap": 7.8, "while_wide_invariant": 5.8, "nested_tuples": 16.5}
# From here on the kernels of a chain are full, and more of it are more of them; or it is so deep that a call for each
# level would overflow the stack.
FULL = {"reshape_transposes": 4000, "reduce_fans": 12000, "comparators_of_squares": 12000, "combiners_of_choices": 12000}
EVERYDAY = ["adds", "diamonds", "narrow_choices", "fan_out", "fan_out_reduced", "independent", "ladder",
            "reshape_transposes", "shift_pads",
            "transpose_adds", "concatenate_wide", "concatenate_nest", "gathers", "updates_all_results", "reduce_subtracts",
            "reduces_then_subtracts", "reduce_fans", "dots", "parameters_and_results", "tuple_parameter", "results_donated",
            "while_wide",
            "whiles_shared", "conditional_branches", "calls_of_large", "calls_in_calls",
            "calls_in_loop", "maps_in_maps", "maps_of_calls",
            "whiles_in_whiles", "conditionals_in_conditionals", "comparators_of_squares", "comparators_of_choices",
            "combiners_of_choices"]
# A nest that fits the budget of copies is copied; what follows grows by calls alone.
SECONDS = 300


def counts(tool, paths):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        address_space.limit(tool, 8 << 30)
    out = subprocess.run([tool] + paths, capture_output=True, preexec_fn=limit)
    if out.returncode != 0:
        return None, out.stderr.decode(errors="replace").strip()[:300] or f"exit {out.returncode}"
    return [[int(x) for x in line.split()[1:]] for line in out.stdout.decode().splitlines()], ""


def main():
    tool, wanted = sys.argv[1], sys.argv[2:] or EVERYDAY
    wanted = list(FAMILIES) if wanted == ["all"] else wanted
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in wanted:
            sizes = [s * (DEPTH if name in NESTED else FULL.get(name, N)) for s in (1, 4)]
            paths = []
            for size in [4] + sizes:
                paths.append(str(folder / f"{name}.{size}.hlo"))
                pathlib.Path(paths[-1]).write_text(FAMILIES[name](size))
            rows, said = counts(tool, paths)
            if rows is None:
                print(f"{name}: {said}")
                failures += 1
                continue
            base, small, large = rows
            for what, b, s, l in zip(("allocations", "bytes", "steps"), base, small, large):
                ratio = (l - b) / max(s - b, 1)
                if ratio > OPEN.get(name, MOST) and l > 20000:
                    print(f"{name}: {what} {s} at {sizes[0]}, {l} at {sizes[1]}: {ratio:.2f} times as many")
                    failures += 1
    print(f"{len(wanted)} families, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
