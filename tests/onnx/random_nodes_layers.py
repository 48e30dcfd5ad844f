# SPDX-License-Identifier: Apache-2.0
"""Random nodes of layers: normalisation, products, quantisation, recurrence (random_node.py)."""
import numpy as np

from random_node import Node, draws, flip, floats, ints, maybe, pick, sizes, window


@draws
def Softmax(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    return Node(pick(rng, "Softmax", "LogSoftmax", "Hardmax"), [floats(rng, *x) * 5], maybe(rng, axis=int(rng.integers(-len(x), len(x)))), pick(rng, 11, 13))


@draws
def LayerNormalization(rng):
    x = sizes(rng, int(rng.integers(2, 5)), 2)
    axis = int(rng.integers(1, len(x)))
    inputs = [floats(rng, *x), floats(rng, *x[axis:])] + ([floats(rng, *x[axis:])] if flip(rng) else [])
    return Node("LayerNormalization", inputs, {"axis": axis - len(x) * int(rng.integers(2)), **maybe(rng, epsilon=0.01)}, 17)


@draws
def GroupNormalization(rng):
    groups = int(rng.integers(1, 4))
    c = groups * int(rng.integers(1, 4))
    return Node("GroupNormalization", [floats(rng, 2, c, *sizes(rng, int(rng.integers(1, 3)), 3)), floats(rng, c), floats(rng, c)], {"num_groups": groups}, 21)


@draws
def Normalization(rng):
    op, rank = pick(rng, "BatchNormalization", "InstanceNormalization", "LRN", "MeanVarianceNormalization", "LpNormalization"), int(rng.integers(1, 4))
    x = floats(rng, 2, 4, *sizes(rng, 2 if op in ("LRN", "MeanVarianceNormalization") else rank, 2))
    c = [floats(rng, 4), floats(rng, 4)]
    if op == "BatchNormalization":
        return Node(op, [x, *c, floats(rng, 4), np.abs(floats(rng, 4)) + 0.2], maybe(rng, epsilon=0.1), 15)
    if op == "InstanceNormalization":
        return Node(op, [x, *c], maybe(rng, epsilon=0.1))
    if op == "LRN":
        return Node(op, [x], {"size": int(rng.integers(0, 3)) * 2 + 1, **maybe(rng, alpha=0.3, beta=0.5, bias=1.5)}, 13)
    if op == "LpNormalization":
        return Node(op, [x], {"axis": int(rng.integers(-x.ndim, x.ndim)), "p": int(rng.integers(1, 3))}, 1)
    return Node(op, [x], {}, 13)


@draws
def Gemm(rng):
    m, k, n = sizes(rng, 3)
    ta, tb = int(rng.integers(2)), int(rng.integers(2))
    c = pick(rng, None, (m, n), (1, n), (n,), (m, 1), (1,), ())
    return Node("Gemm", [floats(rng, *((k, m) if ta else (m, k))), floats(rng, *((n, k) if tb else (k, n)))] + ([floats(rng, *c)] if c is not None else []),
                {"transA": ta, "transB": tb, **maybe(rng, alpha=0.5, beta=2.0)}, 13)


@draws
def MatMul(rng):
    m, k, n = sizes(rng, 3)
    batch = sizes(rng, int(rng.integers(0, 3)), 1, 4)
    cut = [1 if flip(rng) else b for b in batch][int(rng.integers(len(batch) + 1)):]
    a, b = [*batch, m, k], [*cut, k, n]
    if not cut and flip(rng):
        b = [k]
    elif flip(rng):
        a, b = [*cut, m, k], [*batch, k, n]
        if not cut and flip(rng):
            a = [k]
    kind = pick(rng, np.float32, np.float32, np.float64, np.int32)
    return Node("MatMul", [(floats(rng, *s) * 3).astype(kind) for s in (a, b)], {}, 13)


@draws
def Integer(rng):
    a, b = pick(rng, np.int8, np.uint8), pick(rng, np.int8, np.uint8)
    low = {np.int8: -128, np.uint8: 0}
    array = lambda kind, *s: ints(rng, low[kind], low[kind] + 256, *s, kind=kind)  # noqa: E731
    if flip(rng):
        m, k, n = sizes(rng, 3, 1, 20)
        zeros = [array(a, *pick(rng, (), (1,), (m,))), array(b, *pick(rng, (), (1,), (n,)))]
        return Node("MatMulInteger", [array(a, *pick(rng, (m, k), (2, m, k))), array(b, k, n)] + zeros[:rng.integers(3)], {}, 10)
    a, groups = np.uint8, int(rng.integers(1, 3))
    x = sizes(rng, 2, 4, 9)
    w = window(rng, 2, x)
    return Node("ConvInteger", [array(a, 1, 2 * groups, *x), array(b, 3 * groups, 2, *w["kernel_shape"])] + [array(a), array(b)][:rng.integers(3)],
                {**w, "group": groups}, 10)


@draws
def QLinear(rng):
    # ONNX Runtime has QLinearConv of u8 by u8, u8 by s8, s8 by s8.
    a, b = pick(rng, (np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    low = {np.int8: -128, np.uint8: 0}
    array = lambda kind, *s: ints(rng, low[kind], low[kind] + 256, *s, kind=kind)  # noqa: E731
    scale = lambda *s: (rng.random(s) * 0.05 + 0.01).astype(np.float32)  # noqa: E731
    if flip(rng):
        m, k, n = sizes(rng, 3, 1, 20)
        return Node("QLinearMatMul", [array(a, m, k), scale(), array(a), array(b, k, n), scale(), array(b), scale() * 20, array(a)], {}, 10)
    groups = int(rng.integers(1, 3))
    x = sizes(rng, 2, 4, 9)
    w = window(rng, 2, x)
    by_channel = flip(rng)
    zero = np.zeros(3 * groups, b) if by_channel else array(b)
    inputs = [array(a, 1, 2 * groups, *x), scale(), array(a), array(b, 3 * groups, 2, *w["kernel_shape"]), scale(*([3 * groups] if by_channel else [])),
              zero, scale() * 20, array(a)]
    return Node("QLinearConv", inputs + ([ints(rng, -2000, 2000, 3 * groups, kind=np.int32)] if flip(rng) else []), {**w, "group": groups}, 10)


@draws
def Quantize(rng):
    kind = pick(rng, np.int8, np.uint8, np.int16, np.uint16)
    info = np.iinfo(kind)
    x = sizes(rng, int(rng.integers(1, 4)), 2, 7)
    how, axis = int(rng.integers(3)), int(rng.integers(-len(x), len(x)))
    form = [] if how == 0 else [x[axis]] if how == 1 else [2 if k == axis % len(x) else s for k, s in enumerate(x)]
    a = {} if how == 0 else {"axis": axis}
    if how == 2:
        x[axis] = 6
        a["block_size"] = 3
    scale, zero = (rng.random(form) * 0.1 + 0.01).astype(np.float32), ints(rng, info.min // 4, info.max // 4, *form, kind=kind)
    if flip(rng):
        return Node("QuantizeLinear", [floats(rng, *x) * 5, scale] + ([zero] if flip(rng) or kind != np.uint8 else []), a, 21)
    return Node("DequantizeLinear", [ints(rng, info.min, info.max, *x, kind=kind), scale] + ([zero] if flip(rng) else []), a, 21)


@draws
def DynamicQuantizeLinear(rng):
    return Node("DynamicQuantizeLinear", [floats(rng, *sizes(rng, 2)) * pick(rng, 0, 3) + pick(rng, 0, 9, -9)], {}, 11, results=3)


@draws
def Recurrent(rng):
    op = pick(rng, "LSTM", "GRU", "RNN")
    steps, batch, width, hidden = sizes(rng, 4, 1, 6)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    direction = pick(rng, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    a = {"hidden_size": hidden, "direction": direction, **maybe(rng, clip=0.5)}
    x, state = [steps, batch, width], [d, batch, hidden]
    inputs = [floats(rng, *x), floats(rng, d, gates * hidden, width) / 2, floats(rng, d, gates * hidden, hidden) / 2,
              floats(rng, d, 2 * gates * hidden) / 2 if flip(rng) else None, ints(rng, 1, steps + 1, batch, kind=np.int32) if flip(rng) else None,
              floats(rng, *state) if flip(rng) else None]
    per = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    if flip(rng):
        known = ["Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "LeakyRelu", "HardSigmoid", "Elu"]
        a["clip"] = 0.5  # or some grow beyond f32
        if flip(rng):  # the last two have no defaults in the standard, and take theirs in the order of the functions
            known = ["Relu", "Tanh", "Sigmoid", "ScaledTanh", "Affine"]
        a["activations"] = [str(rng.choice(known)) for _ in range(per * d)]
        count = sum(n in ("ScaledTanh", "Affine") for n in a["activations"])
        if count:
            a["activation_alpha"], a["activation_beta"] = ([float(v) for v in np.float32(rng.random(count) + 0.5)] for _ in range(2))
    if op == "GRU":
        a.update(maybe(rng, linear_before_reset=1))
    if op == "LSTM":
        a.update(maybe(rng, input_forget=1))
        inputs += [floats(rng, *state) if flip(rng) else None, floats(rng, d, 3 * hidden) if flip(rng) else None]
    return Node(op, inputs, a, 14, results=3 if op == "LSTM" else 2, weights=frozenset({1, 2, 3, 7}))
