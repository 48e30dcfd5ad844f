#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products between DequantizeLinear and QuantizeLinear, as ONNX Runtime's and PyTorch's quantisation writes them, beside
ONNX Runtime without its own optimisations, which multiplies in f32.

    tests/onnx/quantised_models_test.py KRAFLA [-d DEVICE] [--seed S] [--count N]

krafla multiplies the integers, which rounds once: an answer may fall one step of the result's scale apart. The nodes come
in any order, as converters leave them.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from random_nodes_test import unoptimised


class Graph:
    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.weights, self.inputs = [], [], {}

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        return name

    def node(self, op, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name


def dequantised(g, shape, axis, channels, held):
    """Integers of 8 bits with one scale, or `channels` of them along `axis`, in f32 by the model."""
    kind = np.int8 if g.rng.integers(2) else np.uint8
    low = -128 if kind == np.int8 else 0
    array = g.rng.integers(low, low + 256, shape).astype(kind)
    by_channel = channels > 0 and bool(g.rng.integers(2))
    scales = (g.rng.random(channels if by_channel else ()) * 0.05 + 0.01).astype(np.float32)
    zeros = g.rng.integers(low, low + 256, scales.shape).astype(kind)
    if g.rng.integers(3) == 0:
        zeros = np.zeros_like(zeros)
    value = g.weight(array) if held else g.input(array)
    return g.node("DequantizeLinear", value, g.weight(scales), g.weight(zeros), **({"axis": axis} if by_channel else {}))


def draw(rng):
    g = Graph(rng)
    op = ("Conv", "MatMul", "Gemm")[rng.integers(3)]
    held = bool(rng.integers(4))
    if op == "Conv":
        groups, of, channels = int(rng.integers(1, 4)), int(rng.integers(1, 9)), int(rng.integers(1, 9))
        size = [int(v) for v in rng.integers(1, 4, 2)]
        x = dequantised(g, (2, groups * channels, 9, 8), 1, 0, False)
        w = dequantised(g, (groups * of, channels, *size), 0, groups * of, held)
        y = g.node("Conv", x, w, *([g.weight(rng.normal(size=groups * of).astype(np.float32))] if rng.integers(2) else []), group=groups,
                   pads=[int(v) for v in rng.integers(0, 2, 4)], strides=[int(v) for v in rng.integers(1, 3, 2)])
    else:
        m, k, n = (int(v) for v in rng.integers(1, 40, 3))
        turns = op == "Gemm" and bool(rng.integers(2))
        x = dequantised(g, (m, k) if op == "Gemm" or rng.integers(2) else (3, m, k), 0, 0, False)
        w = dequantised(g, (n, k) if turns else (k, n), 0 if turns else 1, n, held)
        if op == "Gemm":
            bias = [g.weight(rng.normal(size=n).astype(np.float32))] if rng.integers(2) else []
            y = g.node("Gemm", x, w, *bias, transB=int(turns))
        else:
            y = g.node("MatMul", x, w)
    if rng.integers(2):
        scale, zero = g.weight(np.float32(2.0)), g.weight(np.uint8(rng.integers(256)))
        y = g.node("QuantizeLinear", y, scale, zero)
    rng.shuffle(g.nodes)
    inputs = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in g.inputs.items()]
    kind = TensorProto.UINT8 if any(n.op_type == "QuantizeLinear" for n in g.nodes) else TensorProto.FLOAT
    graph = helper.make_graph(list(g.nodes), "g", inputs, [helper.make_tensor_value_info(y, kind, None)], g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), g.inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("-d", "--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    wrong, steps = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for number in range(options.count):
            model, inputs = draw(rng)
            path, given, saved = folder / "m.onnx", folder / "in.npz", folder / "out.npz"
            onnx.save(model, path)
            np.savez(given, **inputs)
            want = unoptimised(model).run(None, inputs)[0]
            done = subprocess.run([options.krafla, "run", path, "-d", options.device, "--inputs", given, "--save", saved, "-q"],
                                  capture_output=True, text=True)
            if done.returncode:
                print(f"model {number}: {done.stderr[:600]}")
                wrong += 1
                continue
            with np.load(saved) as results:
                got = results[results.files[0]]
            apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
            if want.dtype == np.uint8:
                steps += int((apart > 0).sum())
                is_wrong = apart.max(initial=0) > 1 or (apart > 0).mean() > 0.01
            else:
                is_wrong = apart.max(initial=0) > 2e-6 * np.abs(want).max(initial=1)
            if is_wrong:
                print(f"model {number}: {apart.max()} apart\n{onnx.printer.to_text(model)[:1500]}")
                wrong += 1
    print(f"{options.count - wrong} of {options.count} models right; {steps} results one step apart")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
