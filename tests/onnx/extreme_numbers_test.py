#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes of which one integer is replaced with an extreme one are imported or refused, and end no process.

    tests/onnx/extreme_numbers_test.py KRAFLA [--seed S] [--count N] [--op NAME,..] [--keep FOLDER]

The nodes are those of random_nodes.py; the integer is an attribute's or one of a small array that the model holds. Under
sanitizers (preset asan) what overflows on the way to a refusal ends the process.
"""
import argparse
import copy
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from random_nodes import DRAWS
from random_nodes_test import model

EXTREMES = [-(1 << 63), (1 << 63) - 1, -(1 << 62), 1 << 62, -(1 << 31), 1 << 31, -(1 << 24), 1 << 24, -1, 0]
ANSWERS = (0, 2, 3)  # imported, not read, not supported (docs/errors.md)


def changes(node):
    """The places of integers: (an attribute's name or an input's number, which of its numbers)."""
    out = []
    for name, value in node.attributes.items():
        if isinstance(value, int) and not isinstance(value, bool):
            out.append((name, None))
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, int) for v in value):
            out += [(name, i) for i in range(len(value))]
    for n, array in enumerate(node.inputs):
        if n in node.weights and array is not None and array.dtype == np.int64 and 0 < array.size <= 16:
            out += [(n, i) for i in range(array.size)]
    return out


def changed(node, place, number):
    node = copy.deepcopy(node)
    where, i = place
    if isinstance(where, int):
        node.inputs[where].flat[i] = number
    elif i is None:
        node.attributes[where] = number
    else:
        values = list(node.attributes[where])
        values[i] = number
        node.attributes[where] = values
    return node


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2, help="changes of each operator")
    parser.add_argument("--op", default="", help="these operators alone")
    parser.add_argument("--keep", help="a folder for the models that failed")
    a = parser.parse_args()
    asked = set(a.op.split(",")) - {""}
    tried = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"
        for name, draw in DRAWS.items():
            if asked and name not in asked:
                continue
            for n in range(a.count):
                rng = np.random.default_rng([a.seed, n, *name.encode()])
                node = draw(rng)
                places = changes(node)
                if not places:
                    continue
                place, number = places[rng.integers(len(places))], EXTREMES[rng.integers(len(EXTREMES))]
                try:
                    onnx.save(model([changed(node, place, number)], max(21, node.opset)), path)
                except (OverflowError, ValueError):  # no such number in a field of 32 bits
                    continue
                tried += 1
                try:
                    done = subprocess.run([a.krafla, "import", path], capture_output=True, text=True, timeout=120)
                    code, said = done.returncode, done.stderr
                except subprocess.TimeoutExpired:
                    code, said = "none", "it did not end"
                if code not in ANSWERS:
                    print(f"{name}, {place} = {number}: exit {code}: {said[:600]}")
                    wrong += 1
                    if a.keep:
                        pathlib.Path(a.keep).mkdir(parents=True, exist_ok=True)
                        pathlib.Path(a.keep, f"{name}-{n}.onnx").write_bytes(path.read_bytes())
    print(f"{tried - wrong} of {tried} nodes imported or refused")
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
