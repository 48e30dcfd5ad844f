# SPDX-License-Identifier: Apache-2.0
"""StableHLO that krafla writes, before StableHLO's own readers and verifier.

  stablehlo_judge.py KRAFLA [--random-module PROGRAM --seed N --count N] [--keep FOLDER] PATH...

Each HLO module below the paths, and N random ones, is written as text and as bytecode by `krafla opt --stage parsed`;
jaxlib parses the one, deserialises the other, and verifies both. What krafla says it has no form for is counted. Exit
code 77 where there is no jaxlib: nothing was judged.
"""
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

try:
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def judge(path):
    """Raises what jaxlib says against the file."""
    with jax_mlir.make_ir_context() as context, ir.Location.unknown():
        if path.suffix == ".mlir":
            module = ir.Module.parse(path.read_text(), context)
        else:
            module = stablehlo.deserialize_portable_artifact(context, path.read_bytes())
        module.operation.verify()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("krafla")
    parser.add_argument("--random-module")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="where the files are left")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_intermixed_args()
    tally = collections.Counter()
    reasons = collections.Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        files = [file for path in options.paths for file in sorted(pathlib.Path(path).rglob("*.hlo"))]
        if options.random_module:
            made = folder / "random"
            made.mkdir(exist_ok=True)
            subprocess.run([options.random_module, "--write", str(made), "--seed", str(options.seed), "--count", str(options.count)], check=True)
            files += sorted(made.glob("*.hlo"))
        for number, file in enumerate(files):
            for suffix in (".mlir", ".mlirbc"):
                out = folder / f"{number}{suffix}"
                done = subprocess.run([options.krafla, "opt", str(file), "--stage", "parsed", "-o", str(out)], capture_output=True, text=True)
                if done.returncode != 0:
                    said = done.stderr.strip().split("\n")[-1]
                    if "UNIMPLEMENTED" not in said and done.returncode != 3:
                        wrong += 1
                        print(f"{file}: exit {done.returncode}: {said}")
                    tally[f"{suffix} refused"] += 1
                    reasons[said[-120:]] += 1
                    continue
                try:
                    judge(out)
                    tally[f"{suffix} right"] += 1
                except Exception as error:  # jaxlib raises several kinds
                    wrong += 1
                    text = str(error).strip().split("\n")
                    print(f"{file}{suffix}: {' / '.join(text[:3])[:400]}")
    for reason, count in reasons.most_common(20):
        print(f"{count} refused: {reason}")
    print(", ".join(f"{count} {what}" for what, count in sorted(tally.items())) + f", {wrong} wrong")
    return 1 if wrong or not tally[".mlir right"] or not tally[".mlirbc right"] else 0


if __name__ == "__main__":
    sys.exit(main())
