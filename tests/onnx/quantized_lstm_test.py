#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.DynamicQuantizeLSTM beside ONNX Runtime: weights with a scale each direction or each column, of both signs.

    tests/onnx/quantized_lstm_test.py KRAFLA
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

STEPS, BATCH, INPUT, HIDDEN = 7, 2, 12, 8
# Roundings to eight bits of values between two steps fall otherwise here and there, and are carried on by the state.
MOST_DIFFERENCE = 0.01


def model(rng, directions, by_column, kind):
    def weights(rows):
        # Signed ones of 7 bits: on processors without VNNI, ONNX Runtime adds up pairs of products of an unsigned and a
        # signed byte in 16 bits, which saturate beyond (its documentation: "reduce_range").
        low, high = (-64, 64) if kind == np.int8 else (30, 220)
        return rng.integers(low, high, (directions, rows, 4 * HIDDEN)).astype(kind)

    sizes = (directions, 4 * HIDDEN) if by_column else (directions,)
    arrays = {
        "w": weights(INPUT), "r": weights(HIDDEN), "b": (rng.normal(size=(directions, 8 * HIDDEN)) * 0.2).astype(np.float32),
        "w_scale": (rng.random(sizes) * 0.01 + 0.002).astype(np.float32), "w_zero": np.full(sizes, 0 if kind == np.int8 else 128, kind),
        "r_scale": (rng.random(sizes) * 0.01 + 0.002).astype(np.float32), "r_zero": np.full(sizes, 0 if kind == np.int8 else 128, kind)}
    node = helper.make_node("DynamicQuantizeLSTM",
                            ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"], ["y", "h", "c"],
                            domain="com.microsoft", hidden_size=HIDDEN, direction="bidirectional" if directions == 2 else "forward")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, INPUT])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yhc"],
                              [numpy_helper.from_array(v, k) for k, v in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


def main():
    krafla = sys.argv[1]
    rng = np.random.default_rng(3)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for directions, by_column, kind in ((1, False, np.int8), (2, False, np.uint8), (2, True, np.int8)):
            onnx.save(model(rng, directions, by_column, kind), folder / "m.onnx")
            x = rng.normal(size=(STEPS, BATCH, INPUT)).astype(np.float32)
            np.savez(folder / "in.npz", x=x)
            want = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})
            subprocess.run([krafla, "run", str(folder / "m.onnx"), "-d", "cpu", "--inputs", str(folder / "in.npz"), "--save",
                            str(folder / "out.npz"), "-q"], check=True, stdout=subprocess.DEVNULL)
            with np.load(folder / "out.npz") as got:
                differences = [float(np.max(np.abs(got[k] - w)) / np.max(np.abs(w))) for k, w in zip(got.files, want)]
            good = len(differences) == 3 and max(differences) <= MOST_DIFFERENCE
            wrong += not good
            print(f"{directions} directions, {kind.__name__}, {'columns' if by_column else 'arrays'}: {max(differences):.1e}"
                  f"{'' if good else '  WRONG'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
