#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that draw random numbers: shapes, types, and the distributions of many numbers.

    tests/onnx/random_numbers_test.py KRAFLA [-d DEVICE]
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

SIDE = 300  # 90,000 numbers: means within 0.02 of what they are, with one chance in 10^8 otherwise


class Check:
    def __init__(self, krafla, device, folder):
        self.krafla, self.device, self.folder = krafla, device, pathlib.Path(folder)

    def run(self, op, inputs=(), result=TensorProto.FLOAT, opset=22, **attributes):
        """What a model with this one node gives."""
        infos, arrays = [], {}
        for i, array in enumerate(inputs):
            infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
            arrays[f"arg{i}"] = array
        node = helper.make_node(op, [i.name for i in infos], ["y"], **attributes)
        graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", result, None)])
        path, given, save = self.folder / "m.onnx", self.folder / "in.npz", self.folder / "out.npz"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
        command = [self.krafla, "run", str(path), "--save", str(save), "-d", self.device]
        if arrays:
            np.savez(given, **arrays)
            command += ["--inputs", str(given)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        with np.load(save) as got:
            return got[got.files[0]]

    def all(self):
        x = self.run("RandomNormal", shape=[SIDE, SIDE], mean=3.0, scale=2.0)
        assert x.shape == (SIDE, SIDE) and x.dtype == np.float32, (x.shape, x.dtype)
        assert abs(x.mean() - 3) < 0.04 and abs(x.std() - 2) < 0.04, (x.mean(), x.std())
        like = self.run("RandomNormalLike", [np.zeros((SIDE, SIDE), np.float16)], TensorProto.FLOAT16)
        assert like.shape == (SIDE, SIDE) and like.dtype == np.float16, (like.shape, like.dtype)
        assert abs(like.astype(np.float64).mean()) < 0.02 and abs(like.astype(np.float64).std() - 1) < 0.02
        u = self.run("RandomUniform", shape=[SIDE, SIDE], low=-1.0, high=3.0, dtype=TensorProto.DOUBLE, result=TensorProto.DOUBLE)
        assert u.dtype == np.float64 and u.min() >= -1 and u.max() <= 3 and abs(u.mean() - 1) < 0.03, (u.min(), u.max(), u.mean())
        like = self.run("RandomUniformLike", [np.zeros((SIDE, SIDE), np.int32)], dtype=TensorProto.FLOAT)
        assert like.dtype == np.float32 and 0 <= like.min() and like.max() < 1 and abs(like.mean() - 0.5) < 0.01
        p = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None] * np.ones((1, SIDE), np.float32)
        flips = self.run("Bernoulli", [p], TensorProto.INT64, dtype=TensorProto.INT64)
        assert flips.dtype == np.int64 and set(np.unique(flips)) == {0, 1} and not flips[0].any() and flips[-1].all()
        assert abs(flips.mean() - 0.5) < 0.02 and abs(flips[SIDE // 4].mean() - 0.25) < 0.15, flips.mean()
        odds = np.array([[0.7, 0.1, 0.2], [0.0, 0.5, 0.5]])
        with np.errstate(divide="ignore"):
            logits = np.log(odds).astype(np.float32)
        drawn = self.run("Multinomial", [logits], TensorProto.INT32, sample_size=30000)
        assert drawn.shape == (2, 30000) and drawn.dtype == np.int32, (drawn.shape, drawn.dtype)
        shares = np.stack([np.bincount(row, minlength=3) for row in drawn]) / 30000
        assert np.abs(shares - odds).max() < 0.02 and shares[1, 0] == 0, shares
        ones, ratio = np.ones((SIDE, SIDE), np.float32), np.array(0.25, np.float32)
        kept = self.run("Dropout", [ones, ratio, np.array(True)])
        assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)} and abs(kept.mean() - 1) < 0.02, kept.mean()
        assert np.array_equal(self.run("Dropout", [ones, ratio, np.array(False)]), ones)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("-d", "--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Check(options.krafla, options.device, folder).all()


if __name__ == "__main__":
    main()
