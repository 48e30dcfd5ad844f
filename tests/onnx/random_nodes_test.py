#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes with random attributes, sizes and types beside ONNX Runtime.

    tests/onnx/random_nodes_test.py KRAFLA [-d DEVICE] [--seed S] [--count N] [--op NAME,..] [--keep FOLDER]

Each operator below draws N nodes. ONNX Runtime runs each alone, without its own optimizations; those that it refuses are
counted and left out. The others go into models of many nodes, which krafla runs. Where its answer is not ONNX Runtime's,
ONNX's reference implementation decides. What krafla refuses is listed.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from random_nodes import DRAWS, Node

MOST_DIFFERENCE = 2e-5  # of the largest answer: sums in another order, and exact functions of another library
A_MODEL = 25  # nodes


def unoptimised(proto):
    """The model as ONNX Runtime runs it node by node."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_alone(node):
    """The node's results by ONNX Runtime, or the sentence that it refuses with."""
    try:
        return unoptimised(model([node], 0)).run(None, {f"n0_i{i}": a for i, a in enumerate(node.inputs) if a is not None and i not in node.weights})
    except Exception as error:  # whatever class its bindings throw
        return str(error).split("\n")[0]


def by_reference(node):
    """The node's results by ONNX's reference implementation, or none where it fails."""
    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model([node], 0)).run(
                None, {f"n0_i{i}": a for i, a in enumerate(node.inputs) if a is not None and i not in node.weights})
    except Exception:  # whatever NumPy throws
        return None


def model(nodes, opset):
    graph_nodes, inputs, outputs, weights = [], [], [], []
    for n, node in enumerate(nodes):
        names = []
        for i, array in enumerate(node.inputs):
            name = f"n{n}_i{i}" if array is not None else ""
            names.append(name)
            if array is None:
                continue
            if i in node.weights:
                weights.append(numpy_helper.from_array(array, name))
            else:
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        results = [f"n{n}_o{i}" for i in range(node.results)]
        graph_nodes.append(helper.make_node(node.op, names, results, name=f"n{n}", domain=node.domain, **node.attributes))
        outputs += [helper.make_empty_tensor_value_info(r) for r in results]
    graph = helper.make_graph(graph_nodes, "g", inputs, outputs, weights)
    domains = [helper.make_opsetid("", opset or nodes[0].opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def difference(got, want, near_ties):
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    if want.size == 0:
        return None
    if want.dtype.kind in "biu":
        apart = np.abs(got.astype(np.int64) - want.astype(np.int64))
        if near_ties and apart.max() == 1 and (apart > 0).sum() <= max(1, apart.size // 1000):
            return None
        return f"{apart.max()} apart" if apart.any() else None
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(np.where(np.isinf(a), a, 0), np.where(np.isinf(b), b, 0)):
        return "other infinities or NaN"
    finite = np.isfinite(b)
    if not finite.any():
        return None
    apart = np.abs(a - b)[finite].max() / max(np.abs(b[finite]).max(), 1e-20)
    return f"{apart:.1e}" if apart > (2e-3 if want.dtype == np.float16 else MOST_DIFFERENCE) else None


def say(node):
    def one(i, a):
        if a is None:
            return "-"
        return f"{a.dtype}{a.tolist()}" if i in node.weights and a.size <= 12 else f"{a.dtype}{list(a.shape)}"
    sizes = " ".join(one(i, a) for i, a in enumerate(node.inputs))
    return f"{node.op}({node.opset}) {sizes} {node.attributes}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("-d", "--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--op", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    names = options.op.split(",") if options.op else list(DRAWS)
    counts = collections.Counter()
    by_opset = collections.defaultdict(list)
    refusals = collections.Counter()
    for name in names:
        rng = np.random.default_rng([options.seed, *name.encode()])
        for _ in range(options.count):
            node = DRAWS[name](rng)
            want = by_reference(node) or "the reference fails" if node.by_reference else run_alone(node)
            if isinstance(want, str):
                counts["left out"] += 1
                refusals[node.op] += 1
                if options.keep:
                    print(f"left out: {say(node)}: {want[:300]}")
                continue
            by_opset[node.opset].append((node, want))
    wrong = []
    refused = []
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or pathlib.Path(folder)
        folder.mkdir(exist_ok=True)
        for opset, pairs in sorted(by_opset.items()):
            for start in range(0, len(pairs), A_MODEL):
                part = pairs[start:start + A_MODEL]
                stem = folder / f"opset{opset}_{start}"
                path = stem.with_suffix(".onnx")
                while part:
                    onnx.save(model([n for n, _ in part], opset), path)
                    np.savez(stem.with_suffix(".in.npz"), **{
                        f"n{n}_i{i}": a for n, (node, _) in enumerate(part) for i, a in enumerate(node.inputs)
                        if a is not None and i not in node.weights})
                    done = subprocess.run([options.krafla, "run", path, "-d", options.device, "--inputs", stem.with_suffix(".in.npz"),
                                           "--save", stem.with_suffix(".out.npz"), "-q"], capture_output=True, text=True)
                    out = {int(n): why for n, why in re.findall(r"'n(\d+)' \((.*)", done.stderr)} if done.returncode == 3 else {}
                    if not out:
                        break
                    for n, why in sorted(out.items()):
                        refused.append(f"{say(part[n][0])}: {why}")
                    part = [p for n, p in enumerate(part) if n not in out]
                if not part:
                    continue
                if done.returncode:
                    wrong.append(f"{path}: {done.stderr[:600]}")
                    counts["wrong"] += len(part)
                    continue
                with np.load(stem.with_suffix(".out.npz")) as got:
                    results = iter([got[k] for k in got.files])
                    for node, want in part:
                        ours = [next(results) for _ in want]
                        apart = [difference(o, w, node.near_ties) for o, w in zip(ours, want)]
                        if any(apart):
                            reference = by_reference(node)
                            if reference and not any(difference(o, r, node.near_ties) for o, r in zip(ours, reference)):
                                counts["as the reference"] += 1
                                continue
                            counts["wrong"] += 1
                            wrong.append(f"{say(node)}: {apart}")
                        else:
                            counts["right"] += 1
    for line in refused:
        print("refused: " + line)
    for line in wrong:
        print("WRONG: " + line)
    print(f"{counts['right']} right, {counts['as the reference']} as ONNX's reference alone, {counts['wrong']} wrong, {len(refused)} refused; ONNX Runtime refuses {counts['left out']}"
          + (f" ({', '.join(f'{n} of {k}' for k, n in refusals.items())})" if refusals else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
