# SPDX-License-Identifier: Apache-2.0
"""Random modules as StableHLO: the same bits from HLO text, StableHLO text and its portable bytecode.

  stablehlo_forms.py RANDOM_MODULE KRAFLA [--seed N] [--count N] [--device D] [--keep FOLDER]

random_module writes the modules; jaxlib turns them into StableHLO, so that what is read is what XLA itself would write.
A module that jaxlib does not take is counted, with its reason. Exit code 77 where there is no jaxlib: nothing was run.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def run(krafla, module, arguments, results, device):
    """The arrays of the results, or the error's first line and the exit code."""
    command = [krafla, "run", str(module), "--inputs", str(arguments), "--save", str(results), "-d", device, "--time-limit", "60"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().split("\n")
        return None, f"exit {done.returncode}: {lines[-1] if lines else ''}"
    with np.load(results) as arrays:
        return [arrays[name] for name in sorted(arrays)], ""


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("random_module")
    parser.add_argument("krafla")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", help="where modules that differ are left")
    options = parser.parse_args()
    tally = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([options.random_module, "--write", str(folder), "--seed", str(options.seed), "--count", str(options.count)], check=True)
        for proto in sorted(folder.glob("*.pb"), key=lambda p: int(p.stem)):
            stem = proto.with_suffix("")
            arguments = stem.with_suffix(".npz")
            try:
                text = _jax.mlir.hlo_to_stablehlo(proto.read_bytes())
                with jax_mlir.make_ir_context() as context, ir.Location.unknown():
                    module = ir.Module.parse(text, context)
                    stem.with_suffix(".mlir").write_text(str(module))
                    if re.search(r'= "?mhlo\.', str(module)):
                        # topk, scan, copy: StableHLO has no such operations.
                        tally["outside of StableHLO"] += 1
                        continue
                    forms = [".mlir"]
                    try:
                        bytecode = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
                        stem.with_suffix(".mlirbc").write_bytes(bytecode)
                        forms.append(".mlirbc")
                    except Exception:  # what lies in other dialects than StableHLO has no portable form
                        tally["without bytecode"] += 1
            except Exception as error:  # jaxlib raises several kinds
                tally["not taken by jaxlib"] += 1
                print(f"seed {stem.name}: not taken by jaxlib: {str(error).strip().split(chr(10))[0][:160]}")
                continue
            expected, why = run(options.krafla, stem.with_suffix(".hlo"), arguments, stem.with_suffix(".out.npz"), options.device)
            wrong = ""
            for form in forms:
                got, error = run(options.krafla, stem.with_suffix(form), arguments, stem.with_suffix(".out2.npz"), options.device)
                if (got is None) != (expected is None):
                    wrong = f"{form}: {error or 'runs'}; HLO text: {why or 'runs'}"
                elif got is not None and (len(got) != len(expected) or not all(map(same, got, expected))):
                    wrong = f"{form}: other bits"
                if wrong:
                    break
            tally["differ" if wrong else "refused alike" if expected is None else "agree"] += 1
            if wrong:
                print(f"seed {stem.name}: {wrong}")
    print(", ".join(f"{count} {what}" for what, count in sorted(tally.items())))
    return 1 if tally["differ"] or not tally["agree"] else 0


if __name__ == "__main__":
    sys.exit(main())
