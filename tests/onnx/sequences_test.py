#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models with sequences and optional values inside, beside ONNX Runtime.

    tests/onnx/sequences_test.py KRAFLA [-d DEVICE]
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

X = np.arange(24, dtype=np.float32).reshape(4, 6) / 7
FLOATS = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def tensor(name, kind=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def known(**values):
    return [numpy_helper.from_array(np.asarray(v), name) for name, v in values.items()]


def collected():
    """A loop that appends a row scaled by its turn; the sequence starts empty."""
    body = helper.make_graph([
        node("Gather", "x turn", "row", axis=0), node("Cast", "turn", "scale", to=TensorProto.FLOAT),
        node("Mul", "row scale", "scaled"), node("SequenceInsert", "before scaled", "after"), node("Identity", "go", "on")],
        "body", [tensor("turn", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, []),
                 helper.make_value_info("before", FLOATS)],
        [tensor("on", TensorProto.BOOL, []), helper.make_value_info("after", FLOATS)])
    return [node("SequenceEmpty", "", "none"), helper.make_node("Loop", ["four", "", "none"], ["rows"], body=body),
            node("ConcatFromSequence", "rows", "y", axis=0, new_axis=1), node("SequenceLength", "rows", "n")], \
        ["y", ("n", TensorProto.INT64)], known(four=np.int64(4))


def mapped():
    body = helper.make_graph([node("Mul", "a b", "c"), node("ReduceSum", "c", "total", keepdims=0)], "body",
                             [tensor("a"), tensor("b")], [tensor("c"), tensor("total")])
    return [node("SplitToSequence", "x", "rows", axis=0, keepdims=0), node("SplitToSequence", "x two", "pairs", axis=0),
            helper.make_node("SequenceMap", ["rows", "first"], ["products", "totals"], body=body),
            node("ConcatFromSequence", "products", "y", axis=-1), node("ConcatFromSequence", "totals", "z", axis=0, new_axis=1),
            node("SequenceAt", "pairs last", "w")], ["y", "z", "w"], known(first=X[0], two=np.int64(2), last=np.int64(-1))


def edited():
    return [node("SplitToSequence", "x sizes", "parts", axis=1), node("SequenceAt", "parts zero", "a"),
            node("SequenceInsert", "parts a minus", "more"), node("SequenceErase", "more zero", "less"),
            node("SequenceErase", "less", "least"), node("ConcatFromSequence", "more", "y", axis=1),
            node("ConcatFromSequence", "least", "z", axis=1), node("SequenceConstruct", "a x", "two"),
            node("ConcatFromSequence", "two", "w", axis=1)], ["y", "z", "w"], \
        known(sizes=np.int64([1, 3, 2]), zero=np.int64(0), minus=np.int64(-1))


def chosen():
    """A branch that is known, whose result is a sequence; and shape arithmetic that goes through one."""
    yes = helper.make_graph([node("SequenceConstruct", "x x", "both")], "yes", [], [helper.make_value_info("both", FLOATS)])
    no = helper.make_graph([node("SequenceConstruct", "x", "single")], "no", [], [helper.make_value_info("single", FLOATS)])
    return [helper.make_node("If", ["flag"], ["some"], then_branch=yes, else_branch=no), node("ConcatFromSequence", "some", "y", axis=0),
            node("Shape", "x", "shape"), node("SplitToSequence", "shape", "dims", axis=0, keepdims=1), node("SequenceAt", "dims one", "columns"),
            node("SequenceAt", "dims zero", "rows"), node("Concat", "columns rows", "turned", axis=0), node("Reshape", "x turned", "z")], \
        ["y", "z"], known(flag=np.bool_(True), one=np.int64(1), zero=np.int64(0))


def optional():
    return [node("Optional", "x", "maybe"), node("OptionalHasElement", "maybe", "has"), node("OptionalGetElement", "maybe", "y")], \
        ["y", ("has", TensorProto.BOOL)], []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("-d", "--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, given, save = (pathlib.Path(folder) / n for n in ("m.onnx", "in.npz", "out.npz"))
        np.savez(given, arg0=X)
        for make in (collected, mapped, edited, chosen, optional):
            nodes, results, weights = make()
            outputs = [tensor(*r) if isinstance(r, tuple) else tensor(r) for r in results]
            graph = helper.make_graph(nodes, "g", [tensor("x", shape=X.shape)], outputs, weights)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
            want = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})
            done = subprocess.run([options.krafla, "run", str(path), "--inputs", str(given), "--save", str(save), "-d", options.device],
                                  capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{make.__name__}: {done.stderr}"
            with np.load(save) as got:
                for result, name in zip(want, got.files, strict=True):
                    np.testing.assert_allclose(got[name], result, rtol=1e-5, err_msg=f"{make.__name__} {name}")
                    assert got[name].shape == np.shape(result) and got[name].dtype == np.asarray(result).dtype, make.__name__
        # A sequence as a result has no form outside.
        graph = helper.make_graph([node("SplitToSequence", "x", "y")], "g", [tensor("x", shape=X.shape)], [helper.make_value_info("y", FLOATS)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
        done = subprocess.run([options.krafla, "import", str(path)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 3 and "sequence" in done.stderr, done


if __name__ == "__main__":
    main()
