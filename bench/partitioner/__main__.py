#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a partitioned program moves between eight devices, beside XLA's partitioner.

    bench/partitioner KRAFLA [NAME..] [--json FILE]      # the bytes that collectives bring to each device
    bench/partitioner KRAFLA [NAME..] --run PLUGIN       # runs them on cpu*8 by the PJRT plugin, and compares the answers

KRAFLA: the command. The Python needs jax. Bytes are what a ring brings to a device: of n, an all-reduce 2 (n - 1) / n of its
result, an all-gather or all-to-all (n - 1) / n, a reduce-scatter n - 1 times it, a permute all of it. In a loop they
are counted once. Exit: 0, 1 where an answer differs or a program fails, 2 wrong usage."""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COLLECTIVE = re.compile(r"\s*(?:ROOT )?\S+ = (.*?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|"
                        r"collective-broadcast)(?:-start)?\(")
# Lists of devices, iotas, and axes of a mesh, or parts of these.
GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]*)\}|\[\d+,(\d+)\]|mesh\[([^\]]*)\][^{]* \{([^}]*)\})")
WIDTHS = {"pred": 1, "bf16": 2, "c64": 8, "c128": 16}


def group_size(found):
    if not found:
        return 1
    if found[1]:
        return found[1].count(",") + 1
    if found[2]:
        return int(found[2])
    axes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", found[3])}
    return math.prod(int(part) if part else axes[name] for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", found[4]))


def received(name, size, text_line):
    """The bytes that a device gets by the best algorithm, of a result of `size` bytes."""
    count = group_size(GROUPS.search(text_line))
    share = (count - 1) / count
    return size * {"all-reduce": 2 * share, "all-gather": share, "all-to-all": share, "reduce-scatter": count - 1}.get(
        name, 1)


def moved(text):
    """Of each collective of a module how many there are, and the bytes that they bring to a device."""
    out = {}
    for text_line in text.splitlines():
        if not (found := COLLECTIVE.match(text_line)):
            continue
        total = 0
        for dtype, dims in re.findall(r"\b(pred|bf16|[suf]\d+|c64|c128)\[([\d,]*)\]", found[1]):
            count = WIDTHS.get(dtype) or max(1, int(dtype[1:]) // 8)
            for d in filter(None, dims.split(",")):
                count *= int(d)
            total += count
        entry = out.setdefault(found[2], [0, 0])
        entry[0] += 1
        entry[1] += received(found[2], total, text_line)
    return out


def described(what):
    return " ".join(f"{n} {name} {size / 1024:.0f}" for name, (n, size) in what.items()) or "nothing"


def compiled(program):
    import jax
    function, arguments, cuts, results = program
    more = {} if results is None else {"out_shardings": results}
    return jax.jit(function, in_shardings=cuts, **more).lower(*arguments)


def compare(krafla, programs, json_file):
    rows, failed = [], 0
    print("KiB a device        XLA   krafla")
    for name, program in programs.items():
        lowered = compiled(program)
        xla = moved(lowered.compile().as_text())
        with tempfile.NamedTemporaryFile(suffix=".mlir", mode="w") as file:
            file.write(lowered.as_text())
            file.flush()
            run = subprocess.run([krafla, "opt", file.name, "--stage", "partitioned"], capture_output=True, text=True)
        if run.returncode:
            print(f"{name}: {run.stderr.strip()}")
            failed += 1
            continue
        own = moved(run.stdout)
        row = {"program": name, "xla": sum(b for _, b in xla.values()), "krafla": sum(b for _, b in own.values())}
        rows.append(row)
        print(f"{row['xla'] / 1024:8.0f} {row['krafla'] / 1024:8.0f}  {name}: XLA {described(xla)}; "
              f"krafla {described(own)}", flush=True)
    more = [r["program"] for r in rows if r["krafla"] > 1.25 * r["xla"] + 2048]
    less = [r["program"] for r in rows if r["xla"] > 1.25 * r["krafla"] + 2048]
    print(f"{len(rows)} programs; krafla moves less in {len(less)}, more in {len(more)}: {', '.join(more)}")
    if json_file:
        pathlib.Path(json_file).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


def argument(rng, like, np):
    if np.issubdtype(like.dtype, np.integer):
        return rng.integers(0, 30, like.shape).astype(like.dtype)
    values = 0.3 * rng.standard_normal(like.shape)
    if np.issubdtype(like.dtype, np.complexfloating):
        values = values + 0.3j * rng.standard_normal(like.shape)
    return values.astype(like.dtype)


def judge(programs):
    import jax
    import numpy as np
    from programs import alone
    processor = jax.devices("cpu")[0]
    wrong = 0
    for name, (function, arguments, cuts, results) in programs.items():
        rng = np.random.default_rng(0)
        given = jax.tree.map(lambda a: argument(rng, a, np), arguments)
        more = {} if results is None else {"out_shardings": results}
        got = jax.tree.leaves(jax.jit(function, in_shardings=cuts, **more)(*given))
        with jax.default_device(processor):
            want = jax.tree.leaves(jax.jit(alone(function))(*jax.tree.map(lambda a: jax.device_put(a, processor), given)))
        error = max(float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / (1e-3 + np.max(np.abs(np.asarray(b)))))
                    for a, b in zip(got, want))
        fits = error < 1e-4
        wrong += not fits
        print(f"{'as XLA' if fits else 'WRONG '} {error:.1e} {name}", flush=True)
    print(f"{len(programs)} programs, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--run", metavar="PLUGIN")
    options = parser.parse_args()
    if options.run:
        os.environ.update(JAX_PLATFORMS="krafla,cpu", PJRT_NAMES_AND_LIBRARY_PATHS=f"krafla:{options.run}")
        os.environ.setdefault("KRAFLA_DEVICE", "cpu*8")
    else:
        os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=8")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import networks  # noqa: F401  (its programs and, by import, those of operations)
    import uneven  # noqa: F401  (more of them)
    from programs import PROGRAMS
    chosen = {n: p for n, p in PROGRAMS.items() if not options.names or n in options.names}
    if unknown := [n for n in options.names if n not in PROGRAMS]:
        parser.error(f"There is no program '{unknown[0]}'. There are: {', '.join(PROGRAMS)}.")
    return judge(chosen) if options.run else compare(options.krafla, chosen, options.json)


if __name__ == "__main__":
    sys.exit(main())
