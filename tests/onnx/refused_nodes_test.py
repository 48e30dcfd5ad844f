#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes of ranks and numbers that their operators do not take are refused with a sentence.

    tests/onnx/refused_nodes_test.py KRAFLA
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from random_node import Node
from random_nodes_test import model

MICROSOFT = "com.microsoft"


def f32(*shape):
    return np.zeros(shape, np.float32)


def u8(*shape):
    return np.zeros(shape, np.uint8)


def query(**changes):
    """A GroupQueryAttention of one head, but for these inputs."""
    inputs = {"query": f32(1, 2, 8), "key": f32(1, 2, 8), "value": f32(1, 2, 8), "past_key": f32(1, 1, 0, 8), "past_value": f32(1, 1, 0, 8),
              "last": np.int32([1]), "total": np.int32([2]), "cosines": f32(4, 4), "sines": f32(4, 4), **changes}
    return Node("GroupQueryAttention", list(inputs.values()), {"num_heads": 1, "kv_num_heads": 1, "do_rotary": 1}, domain=MICROSOFT,
                weights=frozenset({6}))


def gather(table, scales, **attributes):
    return Node("GatherBlockQuantized", [table, np.int64([0]), scales], {"block_size": 16, "gather_axis": 0, "quantize_axis": 1, **attributes},
                domain=MICROSOFT, weights=frozenset({0, 2}))


def linear_attention(**changes):
    """Of one head and two tokens, but for these inputs and attributes."""
    inputs = {"query": f32(1, 2, 4), "key": f32(1, 2, 4), "value": f32(1, 2, 4), "past_state": f32(1, 1, 4, 4), "decay": f32(1, 2, 1), "beta": f32(1, 2, 1)}
    attributes = {"q_num_heads": 1, "kv_num_heads": 1}
    for name, value in changes.items():
        (inputs if name in inputs else attributes)[name] = value
    return Node("LinearAttention", list(inputs.values()), attributes, 27)


NODES = {
    "table of values of no bits": gather(u8(2, 16), f32(2, 1), bits=0),
    "table of values of 3 bits": gather(u8(2, 16), f32(2, 1), bits=3),
    "scales without dimensions": gather(u8(2, 16), f32(), bits=8),
    "weights of no bits": Node("MatMulNBits", [f32(1, 16), u8(4, 1, 8), f32(4)], {"K": 16, "N": 4, "bits": 0, "block_size": 16}, domain=MICROSOFT),
    "blocks that overflow": Node("MatMulNBits", [f32(1, 16), u8(4, 1, 8), f32(4)], {"K": 1 << 62, "N": 1 << 62, "bits": 4, "block_size": 16}, domain=MICROSOFT),
    "past of two dimensions": query(past_key=f32(1, 8)),
    "number of keys that is none": query(total=np.zeros(0, np.int32)),
    "angles without dimensions": query(cosines=f32()),
    "queries without dimensions": query(query=f32()),
    "rotation by angles without dimensions": Node("RotaryEmbedding", [f32(1, 2, 8), np.int64([0]), f32(), f32()], {}, domain=MICROSOFT),
    "pool of a vector": Node("QLinearGlobalAveragePool", [u8(4), f32(), u8(), f32(), u8()], {}, domain=MICROSOFT),
    "pool of a number, channels last": Node("QLinearAveragePool", [u8(), f32(), u8(), f32(), u8()], {"channels_last": 1, "kernel_shape": [2]}, domain=MICROSOFT),
    "product of numbers": Node("MatMulInteger", [u8(), u8()], {}, 10),
    "words without dimensions": Node("EmbedLayerNormalization", [np.zeros((1, 2), np.int32), np.zeros((1, 2), np.int32), f32(4, 8), f32(4, 8), f32(), f32(8), f32(8)],
                                     {}, domain=MICROSOFT),
    "cache of one dimension": Node("TensorScatter", [f32(4), f32(2)], {"axis": -1}, 24),
    "update longer than the cache": Node("TensorScatter", [f32(1, 4, 2), f32(1, 5, 2)], {}, 24),
    "places of another batch": Node("TensorScatter", [f32(2, 4, 2), f32(2, 1, 2), np.int64([0, 0, 0])], {}, 24),
    "kernel of no taps": Node("CausalConvWithState", [f32(1, 2, 3), f32(2, 1, 0)], {}, 27),
    "past of another length": Node("CausalConvWithState", [f32(1, 2, 3), f32(2, 1, 4), None, f32(1, 2, 2)], {}, 27),
    "rate without dimensions": linear_attention(beta=f32()),
    "decay that is missing": linear_attention(decay=None),
    "no heads of keys": linear_attention(kv_num_heads=0),
    "state of other sizes": linear_attention(past_state=f32(1, 1, 3, 4)),
    "rule of no name": linear_attention(update_rule="none"),
    "gate of another shape": Node("SwiGLU", [f32(2, 4), f32(4)], {}, 28),
    "random text": Node("RandomNormal", [], {"shape": [2], "dtype": 8}),
    "random numbers of a negative size": Node("RandomUniform", [], {"shape": [-2]}),
    "samples of a vector": Node("Multinomial", [f32(3)], {}),
    "parts that do not fit": Node("SplitToSequence", [f32(3), np.int64([2, 2])], {}, 12, weights=frozenset({1})),
    "parts of no size": Node("SplitToSequence", [f32(3), np.int64(0)], {}, 12, weights=frozenset({1})),
    "too many parts": Node("SplitToSequence", [f32(100000)], {}, 12),
    "element of a tensor": Node("SequenceAt", [f32(3), np.int64(0)], {}, 12, weights=frozenset({1})),
    "map over a tensor": Node("SequenceMap", [f32(3)], {}, 18),
    "padding by the least number": Node("Pad", [f32(2), np.int64([-(1 << 63), 0])], {"mode": "edge"}, weights=frozenset({1})),
    "window padded by the least number": Node("MaxPool", [f32(1, 1, 4)], {"kernel_shape": [2], "pads": [-(1 << 63), 0]}),
    "convolution padded by the least number": Node("ConvTranspose", [f32(1, 1, 4), f32(1, 1, 2)], {"pads": [0, -(1 << 63)]}),
    "result of the least size": Node("ConvTranspose", [f32(1, 1, 4), f32(1, 1, 2)], {"output_shape": [-(1 << 63)]}),
    "the least number of groups": Node("DeformConv", [f32(2, 1, 3, 3), f32(1, 1, 2, 2), f32(2, 8, 2, 2)], {"offset_group": -(1 << 63)}, 19),
    "rate of nothing": Node("MelWeightMatrix", [np.int64(8), np.int64(16), np.int64(0), f32() + 20, f32() + 8000], {}, weights=frozenset(range(5))),
    "image of the least size": Node("Col2Im", [f32(1, 4, 4), np.int64([3, -(1 << 63)]), np.int64([2, 2])], {}, 18, weights=frozenset({1, 2})),
    "no heads": Node("MultiHeadAttention", [f32(1, 2, 8)] * 3, {"num_heads": 0}, domain=MICROSOFT),
}


def graph(*nodes, weights=(), result=TensorProto.FLOAT, opset=17):
    """From x to y, both of three numbers."""
    made = [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in nodes]
    x, y = (helper.make_tensor_value_info(name, kind, [3]) for name, kind in (("x", TensorProto.FLOAT), ("y", result)))
    weights = [numpy_helper.from_array(f32(3), name) for name in weights]
    return helper.make_model(helper.make_graph(made, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def twice(model):
    model.graph.node[0].attribute.extend([helper.make_attribute("axis", 0)])
    return model


# Models that are wrong as a whole, and a part of what is said of them.
MODELS = {
    "a result that is made twice": (graph(("Neg", ["x"], ["y"], {}), ("Abs", ["x"], ["y"], {})), "there already"),
    "a result of an input's name": (graph(("Neg", ["x"], ["x"], {}), ("Abs", ["x"], ["y"], {})), "there already"),
    "a result of a weight's name": (graph(("Neg", ["x"], ["y"], {}), weights=["y"]), "there already"),
    "two weights of a name": (graph(("Add", ["x", "w"], ["y"], {}), weights=["w", "w"]), "two initializers"),
    "an attribute twice": (twice(graph(("Softmax", ["x"], ["y"], {"axis": 0}))), "'axis' twice"),
    "a string for a number": (graph(("Softmax", ["x"], ["y"], {"axis": "one"})), "'axis' is of the type string"),
    "a result of another type": (graph(("Neg", ["x"], ["y"], {}), result=TensorProto.INT64), "INT64"),
    "an opset of the future": (graph(("Neg", ["x"], ["y"], {}), opset=999), "opset 999"),
}


def main():
    krafla, wrong = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"
        for name, node in NODES.items():
            onnx.save(model([node], max(21, node.opset)), path)
            done = subprocess.run([krafla, "import", path], capture_output=True, text=True, timeout=60)
            if done.returncode != 3 or "'n0'" not in done.stderr:
                print(f"{name}: exit {done.returncode}: {done.stderr[:300]}")
                wrong += 1
        for name, (whole, said) in MODELS.items():
            onnx.save(whole, path)
            done = subprocess.run([krafla, "import", path], capture_output=True, text=True, timeout=60)
            if done.returncode not in (2, 3) or said not in done.stderr:
                print(f"{name}: exit {done.returncode}: {done.stderr[:300]}")
                wrong += 1
    print(f"{len(NODES) + len(MODELS) - wrong} of {len(NODES) + len(MODELS)} nodes and models refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
