#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models with functions of their own, and known integers of 64 bits, beside ONNX Runtime.

    tests/onnx/functions_test.py KRAFLA [-d DEVICE]
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

X = np.array([-1, -2, 3, -4], np.float32)
OPSETS = [helper.make_opsetid("", 18)]


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, functions=(), known=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.asarray(v), name) for name, v in known])
    return helper.make_model(graph, functions=functions, opset_imports=OPSETS + [helper.make_opsetid("own", 1)], ir_version=10)


def leaky_in_a_branch():
    """The branch refers to the function's attribute; without one there the operator's default holds."""
    leaky = node("LeakyRelu", "x", "t")
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    anything = helper.make_empty_tensor_value_info
    branches = {"then_branch": helper.make_graph([leaky], "then", [], [anything("t")]),
                "else_branch": helper.make_graph([node("Neg", "x", "n")], "else", [], [anything("n")])}
    function = helper.make_function("own", "Leaky", ["x"], ["y"], [
        node("ReduceSum", "x", "sum", keepdims=0), node("Constant", "", "z", value_float=100.0), node("Less", "sum z", "less"),
        node("If", "less", "y", **branches)], OPSETS, ["slope"])
    calls = [node("Leaky", "x", "a", domain="own", slope=0.7), node("Leaky", "a", "b", domain="own"), node("Add", "a b", "y")]
    return model(calls, [function])


def overloads():
    """Functions that differ by their overload alone."""
    functions = [helper.make_function("own", "F", ["x"], ["y"], [node(op, "x", "y")], OPSETS) for op in ("Neg", "Abs")]
    for function, overload in zip(functions, "ab"):
        function.overload = overload
    calls = [node("F", "x", "a", domain="own"), node("F", "x", "b", domain="own"), node("Concat", "a b", "y", axis=0)]
    calls[0].overload, calls[1].overload = "b", "a"
    return model(calls, functions)


def unique():
    """Numbers that a double cannot tell apart."""
    numbers = np.array([2**53, 2**53 + 1, 2**53, 2**53 + 2, 5, -2**53 - 1, -2**53], np.int64)
    return model([node("Unique", "n", "y")], known=[("n", numbers)])


def counted():
    ends = [("from", np.int64(2**62)), ("to", np.int64(2**62 + 5)), ("by", np.int64(2)), ("back", np.int64(-3))]
    return model([node("Range", "from to by", "a"), node("Range", "to from back", "b"), node("Concat", "a b", "y", axis=0)], known=ends)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("-d", "--device", default="cpu")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path, given, saved = (pathlib.Path(folder) / name for name in ("m.onnx", "in.npz", "out.npz"))
        np.savez(given, x=X)
        for make in (leaky_in_a_branch, overloads, unique, counted):
            onnx.save(make(), path)
            want = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]
            done = subprocess.run([options.krafla, "run", path, "-d", options.device, "--inputs", given, "--save", saved, "-q"],
                                  capture_output=True, text=True)
            if done.returncode:
                print(f"{make.__name__}: {done.stderr}")
                wrong += 1
                continue
            with np.load(saved) as results:
                got = results[results.files[0]]
            if got.dtype != want.dtype or not np.array_equal(got, want):
                print(f"{make.__name__}: {got} where ONNX Runtime gives {want}")
                wrong += 1
    print(f"4 models, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
