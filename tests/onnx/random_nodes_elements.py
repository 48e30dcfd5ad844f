# SPDX-License-Identifier: Apache-2.0
"""Random nodes of single elements and of their arrangement, and of what is made of several operators (random_node.py)."""
import numpy as np

from random_node import Node, draws, flip, floats, ints, maybe, pick, sizes, vector


@draws
def Elementwise(rng):
    op = pick(rng, "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu", "Mod", "Where", "BitShift", "Equal", "Less", "GreaterOrEqual",
              "And", "Xor", "BitwiseAnd", "BitwiseXor")
    full = sizes(rng, int(rng.integers(1, 4)))
    part = lambda: [1 if flip(rng) else s for s in full][int(rng.integers(0, len(full) + 1)):]  # noqa: E731
    if op == "PRelu":
        return Node(op, [floats(rng, *full), floats(rng, *part())], {}, 16)
    if op in ("Sum", "Mean", "Max", "Min"):
        kind = pick(rng, np.float32, np.float64) if op in ("Sum", "Mean") else pick(rng, np.float32, np.int64, np.int32, np.uint8)
        return Node(op, [(floats(rng, *part()) * 5).astype(kind) for _ in range(int(rng.integers(1, 4)))], {}, 13)
    if op == "Where":
        return Node(op, [rng.random(part()) > 0.5, floats(rng, *part()), floats(rng, *part())], {}, 16)
    if op in ("And", "Xor"):
        return Node(op, [rng.random(part()) > 0.5, rng.random(part()) > 0.5], {}, 7)
    if op == "BitShift":
        kind = pick(rng, np.uint8, np.uint32, np.uint64)
        return Node(op, [ints(rng, 0, 200, *part(), kind=kind), ints(rng, 0, 8, *part(), kind=kind)], {"direction": pick(rng, "LEFT", "RIGHT")}, 11)
    if op.startswith("Bitwise"):
        kind = pick(rng, np.int32, np.uint8, np.int64)
        return Node(op, [ints(rng, 0, 100, *part(), kind=kind), ints(rng, 0, 100, *part(), kind=kind)], {}, 18)
    if op == "Mod":
        if flip(rng):
            return Node(op, [floats(rng, *part()) * 9, floats(rng, *part()) + 0.01], {"fmod": 1}, 13)
        kind = pick(rng, np.int32, np.int64, np.int8, np.uint8)
        b = ints(rng, 1, 7, *part(), kind=kind)
        return Node(op, [ints(rng, 0 if kind == np.uint8 else -50, 50, *part(), kind=kind), b * (1 if kind == np.uint8 else pick(rng, 1, -1))], maybe(rng, fmod=1), 13)
    if op == "Pow":
        a, b = pick(rng, (np.float32, np.float32), (np.float32, np.int64), (np.int32, np.int32), (np.int64, np.float32), (np.float32, np.int32))
        base = ints(rng, 1, 5, *part()).astype(a) if a != np.float32 else np.abs(floats(rng, *part())) + 0.1
        return Node(op, [base, ints(rng, 0, 4, *part()).astype(b)], {}, 15)
    kind = pick(rng, np.float32, np.float64, np.int32, np.int64, np.float32)
    b = floats(rng, *part()) * 9
    if op == "Div" and kind in (np.int32, np.int64):
        b = np.where(np.abs(b) < 1, 3, b)
    return Node(op, [(floats(rng, *part()) * 9).astype(kind), b.astype(kind)], {}, 13 if op not in ("GreaterOrEqual",) else 16)


@draws
def Activation(rng):
    op, opset, a, scale = pick(
        rng, ("Celu", 12, {"alpha": 0.7}, 2), ("Elu", 6, {"alpha": 0.7}, 2), ("Selu", 6, {"alpha": 1.5, "gamma": 1.1}, 2), ("Gelu", 20, {"approximate": "tanh"}, 2),
        ("Mish", 18, {}, 3), ("HardSigmoid", 6, {"alpha": 0.3, "beta": 0.4}, 3), ("HardSwish", 14, {}, 5), ("LeakyRelu", 6, {"alpha": 0.2}, 1),
        ("Shrink", 9, {"lambd": 0.4, "bias": 0.3}, 1), ("ThresholdedRelu", 10, {"alpha": 0.4}, 1), ("Softplus", 1, {}, 30), ("Softsign", 1, {}, 3),
        ("IsInf", 10, {"detect_negative": 0}, 1), ("IsInf", 10, {"detect_positive": 0}, 1), ("Round", 11, {}, 3), ("Sign", 13, {}, 1), ("Erf", 13, {}, 2),
        ("Tan", 7, {}, 1), ("Sinh", 9, {}, 3), ("Atanh", 9, {}, 0.3), ("Acosh", 9, {}, 1), ("Asinh", 9, {}, 9), ("Reciprocal", 13, {}, 1), ("Sigmoid", 13, {}, 20),
        ("Exp", 13, {}, 5), ("Log", 13, {}, 5), ("Sqrt", 13, {}, 5), ("Floor", 13, {}, 5), ("Ceil", 13, {}, 5), ("IsNaN", 13, {}, 1), ("Tanh", 13, {}, 3))
    x = floats(rng, *sizes(rng, 2)) * np.float32(scale)
    if op == "IsInf":
        x = np.where(rng.random(x.shape) < 0.5, pick(rng, np.inf, -np.inf), x).astype(np.float32)
    elif op == "Round":
        x = np.round(x * 2) / 2
    elif op == "Acosh":
        x = np.abs(x) + 1
    elif op == "Shrink" and flip(rng):
        x = np.round(x * 3).astype(pick(rng, np.int8, np.int32, np.int64))
        a = {"lambd": 1.5, "bias": 0.5}
    return Node(op, [x], a if op == "IsInf" else maybe(rng, **a), opset)


@draws
def Cast(rng):
    from onnx import TensorProto as t
    kinds = {np.float32: t.FLOAT, np.float64: t.DOUBLE, np.float16: t.FLOAT16, np.int8: t.INT8, np.uint8: t.UINT8, np.int16: t.INT16, np.uint16: t.UINT16,
             np.int32: t.INT32, np.int64: t.INT64, np.uint32: t.UINT32, np.uint64: t.UINT64, np.bool_: t.BOOL}
    source, target = pick(rng, *kinds), pick(rng, *kinds)
    x = floats(rng, *sizes(rng, 2)) * 20
    if np.dtype(target).kind == "u" or np.dtype(source).kind == "u":
        x = np.abs(x)  # what a negative float is as an unsigned integer is left open
    return Node("Cast", [x.astype(source)], {"to": kinds[target]}, 13)


@draws
def Clip(rng):
    kind = pick(rng, np.float32, np.int32, np.float64)
    bounds = [np.array(-1.5).astype(kind) if flip(rng) else None, np.array(pick(rng, 2, -3)).astype(kind) if flip(rng) else None]
    return Node("Clip", [(floats(rng, *sizes(rng, 2)) * 4).astype(kind), *bounds], {}, 13)


@draws
def Arrange(rng):
    op = pick(rng, "Transpose", "Tile", "Expand", "Concat", "Split", "DepthToSpace", "SpaceToDepth", "Trilu", "EyeLike", "ReverseSequence", "OneHot", "Flatten",
              "Squeeze", "Unsqueeze", "Reshape", "CenterCropPad", "Shape", "Compress")
    x = sizes(rng, int(rng.integers(2, 5)))
    data = floats(rng, *x)
    axis = int(rng.integers(-len(x), len(x)))
    if op == "Transpose":
        return Node(op, [data], maybe(rng, perm=[int(v) for v in rng.permutation(len(x))]), 13)
    if op == "Tile":
        return Node(op, [data, ints(rng, 1, 4, len(x))], {}, 13, weights=frozenset({1}))
    if op == "Expand":
        thin = [1 if flip(rng) else s for s in x]
        return Node(op, [floats(rng, *thin[int(rng.integers(len(x))):]), vector(*[1 if flip(rng) else s for s in x])], {}, 13, weights=frozenset({1}))
    if op == "Concat":
        return Node(op, [floats(rng, *[int(rng.integers(1, 5)) if k == axis % len(x) else s for k, s in enumerate(x)]) for _ in range(int(rng.integers(1, 4)))],
                    {"axis": axis}, 13)
    if op == "Split":
        parts = [int(v) for v in rng.integers(0, 4, 3)]
        x[axis] = max(1, sum(parts))
        if flip(rng) and sum(parts):
            return Node(op, [floats(rng, *x), vector(*parts)], {"axis": axis}, 18, results=3, weights=frozenset({1}))
        x[axis] = int(rng.integers(5, 9))
        return Node(op, [floats(rng, *x)], {"axis": axis, "num_outputs": 3}, 18, results=3)
    if op in ("DepthToSpace", "SpaceToDepth"):
        b = int(rng.integers(1, 4))
        if op == "DepthToSpace":
            return Node(op, [floats(rng, 2, 2 * b * b, *sizes(rng, 2))], {"blocksize": b, **maybe(rng, mode="CRD")}, 13)
        return Node(op, [floats(rng, 2, 3, *[s * b for s in sizes(rng, 2, 1, 4)])], {"blocksize": b}, 13)
    if op == "Trilu":
        return Node(op, [data] + ([np.array(rng.integers(-4, 5))] if flip(rng) else []), maybe(rng, upper=0), 14, weights=frozenset({1}))
    if op == "EyeLike":
        return Node(op, [floats(rng, *sizes(rng, 2))], maybe(rng, k=int(rng.integers(-3, 4)), dtype=7), 9)
    if op == "ReverseSequence":
        time = int(rng.integers(2))
        return Node(op, [data, ints(rng, 1, x[time] + 1, x[1 - time])], {"time_axis": time, "batch_axis": 1 - time}, 10)
    if op == "OneHot":
        at = ints(rng, -4, 4, *x[:2])
        return Node(op, [at, np.array(4), floats(rng, 2)], maybe(rng, axis=int(rng.integers(-3, 3))), 11, weights=frozenset({1}))
    if op == "Flatten":
        return Node(op, [data], maybe(rng, axis=axis), 13)
    if op == "Squeeze":
        x[axis] = 1
        return Node(op, [floats(rng, *x)] + ([vector(axis)] if flip(rng) else []), {}, 13, weights=frozenset({1}))
    if op == "Unsqueeze":
        return Node(op, [data, vector(*rng.choice(len(x) + 2, 2, replace=False))], {}, 13, weights=frozenset({1}))
    if op == "Reshape":
        return Node(op, [data, vector(0, -1) if flip(rng) else vector(-1, 1, x[-1])], {}, 14, weights=frozenset({1}))
    if op == "CenterCropPad":
        return Node(op, [data, vector(*sizes(rng, len(x), 1, 9))], {}, 18, weights=frozenset({1}))
    if op == "Shape":
        return Node(op, [data], maybe(rng, start=axis, end=int(rng.integers(-len(x), len(x)))), 15)
    keep = rng.random(x[axis]) > 0.4
    return Node(op, [data, keep], {"axis": axis}, 11, weights=frozenset({1}))


@draws
def Einsum(rng):
    equation, *shapes = pick(rng, ("ij,jk->ik", "ab", "bc"), ("ij,jk", "ab", "bc"), ("bij,bjk->bik", "dab", "dbc"), ("bhid,bhjd->bhij", "deab", "decb"), ("ii->i", "aa"),
                             ("ii", "aa"), ("ij->ji", "ab"), ("ij->", "ab"), ("i,j->ij", "a", "b"), ("...ij,...jk->...ik", "deab", "debc"), ("ij,ij->", "ab", "ab"),
                             ("bij,bkj,bk->bik", "dab", "dcb", "dc"), ("ij...->j...", "abd"), ("i,i->", "a", "a"), ("b...,b->b...", "dab", "d"), ("ba", "ab"))
    length = dict(zip("abcde", sizes(rng, 5, 1, 5)))
    return Node("Einsum", [floats(rng, *[length[c] for c in s]) for s in shapes], {"equation": equation}, 12)


@draws
def Signal(rng):
    op = pick(rng, "DFT", "STFT", "Window")
    if op == "Window":
        return Node(pick(rng, "HannWindow", "HammingWindow", "BlackmanWindow"), [np.array(rng.integers(3, 12))], maybe(rng, periodic=0), 17, weights=frozenset({0}))
    if op == "DFT":
        complex_input = flip(rng)
        x = [2, *sizes(rng, 2, 2, 9), 2 if complex_input else 1]
        axis = int(rng.integers(1, 3))
        length = np.array(rng.integers(2, 10)) if flip(rng) else None
        a = {"inverse": 1} if complex_input and flip(rng) else maybe(rng, onesided=1) if not complex_input else {}
        if flip(rng):
            return Node("DFT", [floats(rng, *x), length], {"axis": axis, **a}, 17, weights=frozenset({1}))
        return Node("DFT", [floats(rng, *x), length, np.array(axis - pick(rng, 0, 4))], a, 20, weights=frozenset({1, 2}))
    length = int(rng.integers(3, 9))
    inputs = [floats(rng, 2, 20, 1), np.array(rng.integers(1, 6)), floats(rng, length) if flip(rng) else None, np.array(length)]
    return Node("STFT", inputs, maybe(rng, onesided=0), 17, weights=frozenset({1, 3}))


@draws
def Loss(rng):
    classes, batch = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    more = sizes(rng, int(rng.integers(0, 3)), 1, 4)
    op = pick(rng, "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
    labels = ints(rng, 0, classes, batch, *more)
    labels.flat[0] = 0
    weight = [np.abs(floats(rng, classes)) + 0.1] if flip(rng) else []
    return Node(op, [floats(rng, batch, classes, *more), labels, *weight], maybe(rng, reduction=pick(rng, "none", "sum", "mean"), ignore_index=1), 13)


@draws
def Image(rng):
    op = pick(rng, "Col2Im", "AffineGrid", "MaxUnpool", "Upsample")
    if op == "Upsample":
        return Node(op, [floats(rng, 1, 2, *sizes(rng, 2, 2)), np.array([1, 1, *(rng.random(2) * 2 + 1.5)], np.float32)], {"mode": pick(rng, "nearest", "linear")}, 9,
                    weights=frozenset({1}))
    if op == "AffineGrid":
        rank = int(rng.integers(2, 4))
        return Node(op, [floats(rng, 2, rank, rank + 1), vector(2, 3, *sizes(rng, rank, 2))], maybe(rng, align_corners=1), 20, weights=frozenset({1}))
    if op == "MaxUnpool":
        data = floats(rng, 1, 2, 3, 2)
        places = np.stack([rng.permutation(24)[:6].reshape(3, 2) + 24 * c for c in range(2)])[None]
        return Node(op, [data, places.astype(np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]}, 11)
    k, d, s = sizes(rng, 2, 1, 4), sizes(rng, 2, 1, 3), sizes(rng, 2, 1, 3)
    image = [6, 7]
    blocks = int(np.prod([(i - dd * (kk - 1) - 1) // ss + 1 for i, kk, dd, ss in zip(image, k, d, s)]))
    return Node(op, [floats(rng, 2, 3 * k[0] * k[1], blocks), vector(*image), vector(*k)], {"dilations": d, "strides": s}, 18, weights=frozenset({1, 2}))


@draws
def Attention(rng):
    batch, heads, q, kv, width, value = sizes(rng, 6, 1, 6)
    shared = heads * int(rng.integers(1, 3))
    a = maybe(rng, scale=0.3, softcap=2.0, is_causal=1)
    if flip(rng):
        inputs = [floats(rng, batch, shared, q, width), floats(rng, batch, heads, kv, width), floats(rng, batch, heads, kv, value)]
    else:
        a.update(q_num_heads=shared, kv_num_heads=heads)
        inputs = [floats(rng, batch, q, shared * width), floats(rng, batch, kv, heads * width), floats(rng, batch, kv, heads * value)]
    if flip(rng) and "is_causal" not in a:
        mask = pick(rng, (q, kv), (batch, 1, q, kv), (1, shared, q, kv))
        inputs.append(floats(rng, *mask) if flip(rng) else rng.random(mask) > 0.2)
    return Node("Attention", inputs, a, 23)


@draws
def Fused(rng):
    op = pick(rng, "BiasGelu", "FastGelu", "Gelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "FusedMatMul")
    b, t, w = sizes(rng, 3, 2, 6)
    x = floats(rng, b, t, w)
    if op == "FusedMatMul":
        ta, tb = int(rng.integers(2)), int(rng.integers(2))
        return Node(op, [floats(rng, b, *((w, t) if ta else (t, w))), floats(rng, b, *((5, w) if tb else (w, 5)))], {"transA": ta, "transB": tb, **maybe(rng, alpha=0.5)},
                    domain="com.microsoft")
    if op == "SkipLayerNormalization":
        return Node(op, [x, floats(rng, b, t, w), floats(rng, w)] + [floats(rng, w), floats(rng, w)][:rng.integers(3)], maybe(rng, epsilon=0.01), domain="com.microsoft")
    if op == "SkipSimplifiedLayerNormalization":
        return Node(op, [x, floats(rng, b, t, w), floats(rng, w)], maybe(rng, epsilon=0.01), domain="com.microsoft")
    a = maybe(rng, alpha=1.3) if op == "QuickGelu" else {}
    return Node(op, [x] + ([floats(rng, w)] if op == "BiasGelu" or op == "FastGelu" and flip(rng) else []), a, domain="com.microsoft")


@draws
def Counted(rng):
    op = pick(rng, "NonMaxSuppression", "NonZero", "Compress")
    if op == "NonZero":
        return Node(op, [ints(rng, 0, 2, *sizes(rng, int(rng.integers(1, 4)))).astype(pick(rng, np.float32, np.int64, np.bool_))], {}, 13)
    if op == "Compress":
        x = sizes(rng, int(rng.integers(1, 4)))
        axis = int(rng.integers(-len(x), len(x)))
        flat = flip(rng)
        length = int(np.prod(x)) if flat else x[axis]
        return Node(op, [floats(rng, *x), rng.random(int(rng.integers(1, length + 1))) > 0.4], {} if flat else {"axis": axis}, 11)
    images, classes, boxes = sizes(rng, 3, 1, 5)
    boxes *= pick(rng, 4, 90)  # blocks of 32 are looked at together, and parts of them sorted
    corner, size = rng.random((images, boxes, 2)), rng.random((images, boxes, 2)) * 0.6
    by_centre = flip(rng)
    box = np.concatenate([corner, size if by_centre else corner + size * pick(rng, 1, -1)], 2).astype(np.float32)
    scores = np.round(rng.random((images, classes, boxes)), pick(rng, 1, 6)).astype(np.float32)  # equal ones too
    inputs = [box, scores, vector(int(rng.integers(1, pick(rng, 20, boxes) + 3))), np.float32([rng.random() * 0.6])]
    return Node(op, inputs + ([np.float32([rng.random() * 0.7])] if flip(rng) else []), {"center_point_box": int(by_centre)}, 11,
                weights=frozenset({2, 3, 4}))
