#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs whose arrays have sizes that depend on the data beside ONNX Runtime: chosen boxes, masks, and what is made of them.

    tests/onnx/run_time_sizes_test.py KRAFLA [-d DEVICE]
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BOXES = 24


def integers(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


WEIGHTS = [integers("zero", 0), integers("one", 1), integers("two", 2), integers("three", 3), integers("minus", -1), integers("five", 5), integers("halves", 2, -1, 4),
           integers("all", 2**40), integers("boxes_all", BOXES), integers("minus_five", -5), numpy_helper.from_array(np.arange(4, dtype=np.float32), "four"), integers("one_open_one", -1, 1), integers("one_four", 1, 4),
           numpy_helper.from_array(np.array(1, np.int64), "step_one"), numpy_helper.from_array(np.array(1, np.float32), "one_more"),
           integers("table", *range(BOXES, -1, -1)), numpy_helper.from_array(np.array([0.3], np.float32), "overlap"),
           numpy_helper.from_array(np.array(20, np.int64), "turns"), numpy_helper.from_array(np.array(True), "yes"),
           numpy_helper.from_array(np.array([0], np.float32), "start"), numpy_helper.from_array(np.array(2, np.float32), "end"),
           numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 1, 2), "kernel"),
           numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "columns"), integers("wider", 1, 2),
           numpy_helper.from_array(np.array([0.5, 2, -1, 1], np.float32), "slopes"), numpy_helper.from_array(np.array([0, 1], np.float32), "off_on")]
CHOICE = [("Unsqueeze", ["boxes", "zero"], "boxes3"), ("Unsqueeze", ["scores", "zero"], "scores2"), ("Unsqueeze", ["scores2", "zero"], "scores3")]
# Indices of what a mask takes, as PyTorch's exporter writes them.
MASK = [("NonZero", ["mask"], "found"), ("Transpose", ["found"], "points"), ("Squeeze", ["points", "one"], "at"), ("Max", ["at"], "same"),
        ("Shape", ["same"], "size"), ("Expand", ["at", "size"], "wide"), ("Unsqueeze", ["wide", "minus"], "index")]
# Nothing where nothing was found, else all of it twice: the two differ in size.
NOTHING = helper.make_graph([helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(np.zeros(0, np.int64)))], "nothing", [],
                            [helper.make_tensor_value_info("none", TensorProto.INT64, [0])])
TWICE = helper.make_graph([helper.make_node("Concat", ["at", "at"], ["twice"], axis=0)], "twice", [],
                          [helper.make_tensor_value_info("twice", TensorProto.INT64, ["n"])])
# A loop of few turns from constants, which ends by what it adds up.
UNTIL = helper.make_graph([helper.make_node("Add", ["sum", "step"], ["more"]), helper.make_node("Squeeze", ["more"], ["number"]),
                           helper.make_node("Less", ["number", "end"], ["goes_on"])], "until",
                          [helper.make_tensor_value_info("turn", TensorProto.INT64, []), helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
                           helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1])],
                          [helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []), helper.make_tensor_value_info("more", TensorProto.FLOAT, [1])])
# Single numbers of one and of no dimension, by the branch.
NUMBER, NUMBERS = (helper.make_graph([helper.make_node("Constant", [], ["n"], value=numpy_helper.from_array(np.full(dims, value, np.float32)))], "n", [],
                                     [helper.make_tensor_value_info("n", TensorProto.FLOAT, dims)]) for dims, value in (([], 3), ([1], 4)))
# A loop whose first turn makes an array of a number, and another of what nobody reads.
WIDENS = helper.make_graph([helper.make_node("Add", ["sum", "step"], ["more"]), helper.make_node("ReduceMax", ["more"], ["number"], keepdims=0),
                            helper.make_node("Less", ["number", "end"], ["goes_on"]), helper.make_node("Add", ["boxes", "more"], ["moved"])], "widens",
                           [helper.make_tensor_value_info("turn", TensorProto.INT64, []), helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
                            helper.make_tensor_value_info("sum", TensorProto.FLOAT, None), helper.make_tensor_value_info("unread", TensorProto.FLOAT, None)],
                           [helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []), helper.make_tensor_value_info("more", TensorProto.FLOAT, None),
                            helper.make_tensor_value_info("moved", TensorProto.FLOAT, None)])
# A loop whose condition counts a number up to another, as Keras' exporter writes it, and what its turns give.
COUNTS = helper.make_graph([helper.make_node("Add", ["place", "step_one"], ["next"]), helper.make_node("Cast", ["next"], ["f"], to=TensorProto.FLOAT),
                            helper.make_node("Cast", ["most"], ["g"], to=TensorProto.FLOAT), helper.make_node("Less", ["f", "g"], ["goes_on"]),
                            helper.make_node("Gather", ["boxes", "place"], ["row"]), helper.make_node("Add", ["sum", "row"], ["more"]),
                            helper.make_node("Identity", ["most"], ["same"])], "counts",
                           [helper.make_tensor_value_info("turn", TensorProto.INT64, []), helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
                            helper.make_tensor_value_info("place", TensorProto.INT64, []), helper.make_tensor_value_info("most", TensorProto.INT64, []),
                            helper.make_tensor_value_info("sum", TensorProto.FLOAT, [4])],
                           [helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", TensorProto.INT64, []),
                            helper.make_tensor_value_info("same", TensorProto.INT64, []), helper.make_tensor_value_info("more", TensorProto.FLOAT, [4]),
                            helper.make_tensor_value_info("row", TensorProto.FLOAT, [4])])
# The same by the number of the turn.
TURNS = helper.make_graph([helper.make_node("Less", ["turn", "turns"], ["goes_on"]), helper.make_node("Gather", ["boxes", "turn"], ["row"]),
                           helper.make_node("Add", ["sum", "row"], ["more"])], "turns_", COUNTS.input[:2] + COUNTS.input[4:],
                          COUNTS.output[:1] + COUNTS.output[3:])
GRAPHS = {
    "one at most": ([("Slice", ["mask", "zero", "one", "zero"], "first"), ("NonZero", ["first"], "found"), ("Transpose", ["found"], "points"),
                     ("Slice", ["points", "zero", "one", "one"], "y0"), ("Shape", ["points"], "y1"), ("Unsqueeze", ["points", "zero"], "y2"),
                     ("Slice", ["boxes", "zero", "one", "zero"], "row"), ("Compress", ["row", "first"], "some", {"axis": 0}),
                     ("Split", ["some"], ("y3", "y4"), {"axis": 1, "num_outputs": 2}), ("Gather", ["some", "one"], "y5", {"axis": 1}),
                     ("Unsqueeze", ["some", "one"], "y6")], [f"y{i}" for i in range(7)]),
    "until": ([("Slice", ["scores", "zero", "one", "zero"], "step"), ("Loop", ["turns", "yes", "start"], "y0", {"body": UNTIL})], ["y0"]),
    "boxes": (CHOICE + [("NonMaxSuppression", ["boxes3", "scores3", "all", "overlap"], "chosen"), ("Slice", ["chosen", "two", "three", "one"], "column"),
                        ("Squeeze", ["column", "one"], "keep"), ("Slice", ["keep", "zero", "five", "zero"], "few"), ("Gather", ["boxes", "few"], "y0"),
                        ("Gather", ["scores", "few"], "s"), ("Unsqueeze", ["s", "one"], "s1"), ("Concat", ["y0", "s1"], "y1", {"axis": 1})], ["y0", "y1", "chosen"]),
    "mask": (MASK + [("GatherND", ["boxes", "index"], "y0"), ("ReduceSum", ["y0", "zero"], "y1"), ("Mul", ["y0", "y0"], "y2"), ("Shape", ["y0"], "y3"), ("Reshape", ["y0", "minus"], "y4"),
                     ("Softmax", ["y0"], "y5"), ("Flatten", ["y2"], "y6")], [f"y{i}" for i in range(7)]),
    "boxes of a mask": (MASK + [("GatherND", ["boxes", "index"], "some"), ("GatherND", ["scores", "index"], "s"), ("Unsqueeze", ["some", "zero"], "boxes3"),
                                ("Unsqueeze", ["s", "zero"], "s2"), ("Unsqueeze", ["s2", "zero"], "scores3"),
                                ("NonMaxSuppression", ["boxes3", "scores3", "all", "overlap"], "chosen"), ("Slice", ["chosen", "two", "three", "one"], "column"),
                                ("Reshape", ["column", "minus"], "keep"), ("Gather", ["some", "keep"], "y0")], ["y0"]),
    "filled": (MASK + [("ConstantOfShape", ["size"], "y0"), ("Add", ["size", "size"], "y1"), ("Concat", ["at", "at"], "y2", {"axis": 0})],
                     ["y0", "y1", "y2"]),
    "as many as there are": (MASK + [("Slice", ["boxes", "zero", "size", "zero"], "y0"), ("Compress", ["scores", "mask"], "y1")], ["y0", "y1"]),
    "largest": (MASK + [("GatherND", ["scores", "index"], "some"), ("Min", ["size", "five"], "k"), ("TopK", ["some", "k"], ("y0", "y1")),
                       ("Split", ["points"], ("y2",), {"axis": 1, "num_outputs": 1})], ["y0", "y1", "y2"]),
    "branches": (MASK + [("Equal", ["size", "zero"], "is_empty"), ("Squeeze", ["is_empty", "zero"], "empty"),
                         ("If", ["empty"], "y0", {"then_branch": NOTHING, "else_branch": TWICE})], ["y0"]),
    "ranks": (MASK + [("Equal", ["size", "zero"], "is_empty"), ("Squeeze", ["is_empty", "zero"], "empty"),
                      ("If", ["empty"], "z", {"then_branch": NUMBER, "else_branch": NUMBERS}), ("Add", ["z", "start"], "y0"),
                      ("Slice", ["scores", "zero", "one", "zero"], "step"), ("Loop", ["turns", "yes", "one_more", "one_more"], ("y1", "y2"), {"body": WIDENS})],
              ["y0", "y1", "y2"]),
    "counted": (MASK + [("Gather", ["boxes", "step_one"], "first_row"), ("Loop", ["", "yes", "step_one", "turns", "first_row"], ("y0", "y1", "y2", "y3"), {"body": COUNTS}),
                        ("Loop", ["", "yes", "step_one", "turns", "four"], ("y4", "y5", "y6", "y7"), {"body": COUNTS}),
                        ("Loop", ["", "yes", "first_row"], ("y8", "y9"), {"body": TURNS})], [f"y{i}" for i in range(10)]),
    "images": (MASK + [("GatherND", ["boxes", "index"], "some"), ("Unsqueeze", ["some", "one"], "wide_ones"), ("Conv", ["wide_ones", "kernel"], "y0"),
                       ("MaxPool", ["y0"], "y1", {"kernel_shape": [2]})], ["y0", "y1"]),
    "rows": (MASK + [("GatherND", ["boxes", "index"], "some"), ("MatMul", ["some", "columns"], "y0"), ("ArgMax", ["some"], "y1", {"axis": 1, "keepdims": 0}),
                     ("LayerNormalization", ["some", "slopes"], "y2"), ("CumSum", ["some", "one"], "y3"), ("Sub", ["some", "end"], "signed"),
                     ("PRelu", ["signed", "slopes"], "y4"), ("OneHot", ["at", "five", "off_on"], "y5"), ("Tile", ["some", "wider"], "y6"), ("Size", ["some"], "y7"),
                     ("ReduceMean", ["some", "zero"], "y8", {"keepdims": 0}), ("ReduceMean", ["some", "one"], "y9"), ("ReduceL2", ["some", "one"], "y10"),
                     ("LogSoftmax", ["some"], "y11"), ("Hardmax", ["some"], "y12"), ("Shrink", ["some"], "y13", {"lambd": 1.0}),
                     ("ThresholdedRelu", ["some"], "y14")], [f"y{i}" for i in range(15)]),
    # Parts that begin where the data says, and an element set there, as Paddle's exporter writes it.
    "moving": (MASK + [("Cast", ["size"], "size_f", {"to": TensorProto.FLOAT}), ("Add", ["size_f", "one_more"], "next_f"), ("Cast", ["next_f"], "next", {"to": TensorProto.INT64}),
                       ("Min", ["boxes_all", "next"], "end_at"), ("Slice", ["boxes", "size", "end_at", "zero", "one"], "y0"), ("Add", ["size", "three"], "later"),
                       ("Slice", ["boxes", "size", "later"], "y1"), ("Slice", ["scores", "size", "all"], "y2"), ("Neg", ["size"], "back"),
                       ("Slice", ["scores", "back", "all"], "y3"), ("Slice", ["scores", "five", "size"], "y4"), ("Squeeze", ["size"], "first"), ("Squeeze", ["end_at"], "last"),
                       ("Range", ["first", "last", "step_one"], "places"), ("Reshape", ["places", "one_open_one"], "column"), ("Tile", ["column", "one_four"], "y5"),
                       ("Shape", ["y0"], "part"), ("Slice", ["boxes", "zero", "one", "zero"], "row"), ("Expand", ["row", "part"], "y6"),
                       ("ScatterElements", ["boxes", "y5", "y6"], "y7", {"axis": 0})], [f"y{i}" for i in range(8)]),
    "ends of some": (MASK + [("GatherND", ["boxes", "index"], "some"), ("Slice", ["some", "minus", "all"], "y0"), ("Slice", ["some", "minus_five", "minus"], "y1"),
                             ("Slice", ["some", "two", "five"], "y2"), ("Slice", ["some", "five", "all"], "y3")], [f"y{i}" for i in range(4)]),
    "scattered": (MASK + [("Slice", ["scores", "zero", "size", "zero"], "values"), ("ScatterND", ["scores", "index", "values"], "y0")], ["y0"]),
}
# Right on no array whose size is not known, so refused by name.
REFUSED = {"over the rows": MASK + [("GatherND", ["boxes", "index"], "some"), ("CumSum", ["some", "zero"], "y0")],
           "looked up": MASK + [("Gather", ["table", "size"], "k"), ("Expand", ["overlap", "k"], "y0")],
           "split": MASK + [("GatherND", ["boxes", "index"], "some"), ("Reshape", ["some", "halves"], "y0")]}


def model(nodes, outputs):
    made = [helper.make_node(op, inputs, [results] if isinstance(results, str) else results, **(more[0] if more else {}))
            for op, inputs, results, *more in nodes]
    inputs = [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [BOXES, 4]), helper.make_tensor_value_info("scores", TensorProto.FLOAT, [BOXES]),
              helper.make_tensor_value_info("mask", TensorProto.BOOL, [BOXES])]
    graph = helper.make_graph(made, "g", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs], WEIGHTS)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("-d", "--device", default="cpu")
    options = parser.parse_args()
    rng = np.random.default_rng(4)
    corner = rng.random((BOXES, 2)) * 4
    boxes = np.concatenate([corner, corner + rng.random((BOXES, 2)) * 3], 1).astype(np.float32)
    scores = rng.random(BOXES).astype(np.float32)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def run(path, results):
            return subprocess.run([options.krafla, "run", path, "-d", options.device, "--inputs", folder / "in.npz", "--save", results, "-q"],
                                  capture_output=True, text=True)

        for name, (nodes, outputs) in GRAPHS.items():
            onnx.save(model(nodes, outputs), folder / "m.onnx")
            session = onnxruntime.InferenceSession(str(folder / "m.onnx"), quiet, providers=["CPUExecutionProvider"])
            for mask in (rng.random(BOXES) > 0.5, np.ones(BOXES, bool), np.arange(BOXES) == 7, np.zeros(BOXES, bool)):
                feeds = {"boxes": boxes, "scores": scores, "mask": mask}
                want = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
                np.savez(folder / "in.npz", **feeds)
                done = run(folder / "m.onnx", folder / "out.npz")
                if not done.returncode and mask.all():  # as StableHLO, whose types have bounds too
                    subprocess.run([options.krafla, "import", folder / "m.onnx", "-o", folder / "m.mlirbc"], check=True, stdout=subprocess.DEVNULL)
                    done = run(folder / "m.mlirbc", folder / "out.npz")
                if done.returncode:
                    print(f"{name}, {mask.sum()}: {done.stderr}")
                    wrong += 1
                    continue
                with np.load(folder / "out.npz") as got:
                    good = [got[k].shape == w.shape and np.allclose(got[k], w, rtol=1e-6, atol=1e-5) for k, w in zip(got.files, want)]
                if len(good) != len(want) or not all(good):
                    print(f"{name}, {mask.sum()}: {good}")
                    wrong += 1
        for name, nodes in REFUSED.items():
            onnx.save(model(nodes, ["y0"]), folder / "m.onnx")
            done = run(folder / "m.onnx", folder / "out.npz")
            if done.returncode != 3 or "depends on the data" not in done.stderr:
                print(f"{name}: exit {done.returncode}: {done.stderr}")
                wrong += 1
    print(f"{4 * len(GRAPHS)} runs and {len(REFUSED)} refusals, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
