# SPDX-License-Identifier: Apache-2.0
"""Random nodes of ONNX Runtime's own operators (com.microsoft): its quantisation, its attention, blocks of few bits."""
import numpy as np

from random_node import Node, draws, flip, floats, ints, maybe, pick, sizes, window

DOMAIN = "com.microsoft"


def byte(rng, kind, *shape):
    low = -128 if kind == np.int8 else 0
    return ints(rng, low, low + 256, *shape, kind=kind)


def weights(rng, kind, *shape):
    """Of 7 bits where signed: on processors without VNNI, ONNX Runtime adds up pairs of products of an unsigned and a signed byte in
    16 bits, which saturate beyond (its documentation: "reduce_range")."""
    return ints(rng, -64, 65, *shape, kind=kind) if kind == np.int8 else byte(rng, kind, *shape)


def scale(rng, *shape):
    return (rng.random(shape) * 0.05 + 0.01).astype(np.float32)


@draws
def QLinearOwn(rng):
    kind = pick(rng, np.int8, np.uint8)
    op = pick(rng, "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearAveragePool",
              "QLinearConcat", "QLinearSoftmax", "QLinearWhere")
    quantised = lambda *s: [byte(rng, kind, *s), scale(rng), byte(rng, kind)]  # noqa: E731
    result = [scale(rng) * 2, byte(rng, kind)]
    x = sizes(rng, 4, 2, 9)
    if op in ("QLinearAdd", "QLinearMul"):
        x[3] *= 16  # many: few values lie where roundings differ
        return Node(op, quantised(*x) + quantised(*pick(rng, x, x[2:], [1])) + result, {}, domain=DOMAIN, near_ties=True)
    if op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        return Node(op, quantised(*x) + result, maybe(rng, alpha=0.3) if op == "QLinearLeakyRelu" else {}, domain=DOMAIN)
    if op == "QLinearGlobalAveragePool":
        return Node(op, quantised(*x) + result, {"channels_last": int(rng.integers(2))}, domain=DOMAIN)
    if op == "QLinearAveragePool":
        w = window(rng, 2, x[2:], dilate=False, pool=True)
        if "auto_pad" in w and "strides" in w:  # where windows leave elements out, ONNX Runtime's begin elsewhere than those of AveragePool
            w["strides"] = [min(a, b) for a, b in zip(w["strides"], w["kernel_shape"])]
        return Node(op, quantised(*x) + result, {**{k: v for k, v in w.items() if k != "dilations"}, **maybe(rng, count_include_pad=1)},
                    domain=DOMAIN)
    if op == "QLinearConcat":
        axis, parts = int(rng.integers(-4, 4)), []
        for _ in range(rng.integers(1, 4)):
            part = list(x)
            part[axis] = int(rng.integers(1, 5))
            parts += quantised(*part)
        return Node(op, result + parts, {"axis": axis}, domain=DOMAIN)
    if op == "QLinearSoftmax":
        return Node(op, quantised(*x) + [np.float32(1 / 256), np.zeros((), kind) if kind == np.uint8 else np.full((), -128, kind)],
                    {"opset": pick(rng, 11, 13), "axis": int(rng.integers(-4, 4))}, domain=DOMAIN, weights=frozenset({1, 2, 3, 4}), near_ties=True)
    return Node(op, [rng.random(pick(rng, x, x[2:])) > 0.5] + quantised(*x) + quantised(*x) + result, {}, domain=DOMAIN)


@draws
def IntegerProducts(rng):
    op = pick(rng, "QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")
    m, k, n = sizes(rng, 3, 1, 40)
    a, b = pick(rng, np.int8, np.uint8), pick(rng, np.int8, np.uint8)
    by_column = flip(rng)
    b_scale, b_zero = scale(rng, *([n] if by_column else [])), byte(rng, b, *([n] if by_column else []))
    bias = floats(rng, n)
    if op == "DynamicQuantizeMatMul":
        return Node(op, [floats(rng, 2, m, k), weights(rng, b, k, n), b_scale, b_zero] + ([bias] if flip(rng) else []), {}, domain=DOMAIN)
    if op == "MatMulIntegerToFloat":
        return Node(op, [byte(rng, a, m, k), byte(rng, b, k, n), scale(rng), b_scale, byte(rng, a), b_zero] + ([bias] if flip(rng) else []), {},
                    domain=DOMAIN)
    ta, tb = int(rng.integers(2)), int(rng.integers(2))
    inputs = [byte(rng, a, *((k, m) if ta else (m, k))), scale(rng), byte(rng, a), byte(rng, b, *((n, k) if tb else (k, n))), b_scale,
              np.zeros_like(b_zero) if by_column else b_zero]
    if flip(rng):
        inputs.append(ints(rng, -3000, 3000, n, kind=np.int32))
    if flip(rng):
        inputs += [None] * (7 - len(inputs)) + [scale(rng) * 20, byte(rng, a)]
    return Node(op, inputs, {"transA": ta, "transB": tb, **maybe(rng, alpha=0.5)}, domain=DOMAIN)


def packed(rng, bits, *shape):
    return ints(rng, 0, 256, *shape[:-1], (shape[-1] * bits + 7) // 8, kind=np.uint8)


@draws
def Blocks(rng):
    bits, block = pick(rng, 4, 4, 8), pick(rng, 16, 32)
    k, n = int(rng.integers(1, 4 * block)), int(rng.integers(1, 20))
    blocks = -(-k // block)
    kind = np.float32
    held = flip(rng)
    if flip(rng):
        inputs = [floats(rng, *pick(rng, (3, k), (2, 3, k), (1, k))), packed(rng, bits, n, blocks, block), (rng.random((n, blocks)) * 0.1).astype(kind)]
        zeros = pick(rng, None, packed(rng, bits, n, blocks), (rng.random((n, blocks)) * 8).astype(kind))
        bias = floats(rng, n) if flip(rng) else None
        while bias is None and zeros is None and flip(rng):
            zeros = packed(rng, bits, n, blocks)
        inputs += ([zeros] if zeros is not None or bias is not None else []) + ([None, bias] if bias is not None else [])
        return Node("MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block}, domain=DOMAIN,
                    weights=frozenset({1, 2, 3}) if held else frozenset())
    blocks = int(rng.integers(1, 4))
    rows, width = int(rng.integers(2, 9)), blocks * block
    inputs = [packed(rng, bits, rows, width), ints(rng, 0, rows, *sizes(rng, 2, 1, 4)), (rng.random((rows, blocks)) * 0.1).astype(kind)]
    if flip(rng):
        inputs.append(packed(rng, bits, rows, blocks))
    return Node("GatherBlockQuantized", inputs, {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}, domain=DOMAIN,
                weights=frozenset({0, 2, 3}))


@draws
def FusedProducts(rng):
    activation = pick(rng, {"activation": "Relu"}, {"activation": "Tanh"}, {"activation": "Sigmoid"}, {"activation": "LeakyRelu", "activation_params": [0.2]},
                      {"activation": "Clip", "activation_params": [-0.5, 0.75]}, {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]})
    if flip(rng):
        m, k, n = sizes(rng, 3, 1, 20)
        names = {"activation_params": ("activation_alpha", "activation_beta")}
        given = {"activation": activation["activation"], **dict(zip(names["activation_params"], activation.get("activation_params", [])))}
        if given["activation"] == "Clip":
            given = {"activation": "Relu"}
        return Node("FusedGemm", [floats(rng, m, k), floats(rng, k, n)] + ([floats(rng, n)] if flip(rng) else []), {**given, **maybe(rng, alpha=0.5)}, domain=DOMAIN)
    x = sizes(rng, 2, 4, 9)
    w = window(rng, 2, x)
    return Node("FusedConv", [floats(rng, 1, 3, *x), floats(rng, 4, 3, *w["kernel_shape"])] + ([floats(rng, 4)] if flip(rng) else []),
                {**w, "group": 1, **activation}, domain=DOMAIN, weights=frozenset({1, 2}))


def shown(rng, *shape):
    """A mask that hides keys, but not all: beside -10000 a score has few digits."""
    mask = ints(rng, 0, 2, *shape, kind=np.int32)
    mask[..., 0] = 1
    return mask


@draws
def AttentionOwn(rng):
    op = pick(rng, "Attention", "MultiHeadAttention", "RotaryEmbedding", "EmbedLayerNormalization")
    batch, heads, length = sizes(rng, 3, 1, 5)
    width = 2 * int(rng.integers(1, 5))
    hidden = heads * width
    if op == "RotaryEmbedding":
        most = length + 6
        angles = rng.random((most, width // 2)) * 3
        x = floats(rng, batch, length, hidden) if flip(rng) else floats(rng, batch, heads, length, width)
        positions = ints(rng, 0, 6, 1) if flip(rng) else ints(rng, 0, most, batch, length)
        return Node(op, [x, positions, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)],
                    {"interleaved": int(rng.integers(2))}, domain=DOMAIN)
    if op == "EmbedLayerNormalization":
        ids = ints(rng, 0, 7, batch, length, kind=np.int32)
        segments = ints(rng, 0, 2, batch, length, kind=np.int32) if flip(rng) else None
        table = floats(rng, 2, hidden) if segments is not None else None
        inputs = [ids, segments, floats(rng, 7, hidden), floats(rng, length + 2, hidden), table, floats(rng, hidden), floats(rng, hidden)]
        return Node(op, inputs, maybe(rng, epsilon=0.01), domain=DOMAIN, results=2)
    a = {"num_heads": heads, **maybe(rng, unidirectional=1, scale=0.4)}
    if op == "Attention":
        n = int(rng.integers(2, 9))
        inputs = [floats(rng, batch, length, n), floats(rng, n, 3 * hidden), floats(rng, 3 * hidden)]
        if flip(rng):
            inputs.append(pick(rng, ints(rng, 1, length + 1, batch, kind=np.int32), shown(rng, batch, length)))
        if flip(rng):
            inputs += [None] * (5 - len(inputs)) + [floats(rng, 1, heads, length, length)]
            inputs[4] = None
        return Node(op, inputs, a, domain=DOMAIN)
    keys = length if "unidirectional" in a else int(rng.integers(1, 6))
    inputs = [floats(rng, batch, length, hidden), floats(rng, batch, keys, hidden), floats(rng, batch, keys, hidden), floats(rng, 3 * hidden) if flip(rng) else None]
    past = 3 if flip(rng) and "unidirectional" not in a else 0
    inputs.append(shown(rng, batch, keys + past) if flip(rng) else None)
    inputs.append(floats(rng, 1, heads, length, keys + past) if flip(rng) else None)
    if past:
        inputs += [floats(rng, batch, heads, past, width), floats(rng, batch, heads, past, width)]
    return Node(op, inputs, a, domain=DOMAIN, results=3 if past else 1)


@draws
def GroupQuery(rng):
    groups = int(rng.integers(1, 3))
    heads, width = groups * int(rng.integers(1, 4)), 16 * int(rng.integers(1, 3))
    past = pick(rng, 0, 3, 7)
    length = int(rng.integers(1, 6)) if past == 0 or flip(rng) else 1
    batch = int(rng.integers(1, 4)) if past == 0 or length == 1 else 1
    most = past + length + 4
    angles = rng.random((most, width // 2)) * 3
    q, k, v = floats(rng, batch, length, heads * width), floats(rng, batch, length, groups * width), floats(rng, batch, length, groups * width)
    if flip(rng):
        q, k, v = np.concatenate([q, k, v], 2), None, None
    a = {"num_heads": heads, "kv_num_heads": groups, **maybe(rng, scale=0.4, softcap=3.0, local_window_size=int(rng.integers(1, 5)))}
    cache, sinks = past, None
    if flip(rng):
        sinks = floats(rng, heads)
    elif past > 0 and "local_window_size" in a and flip(rng):
        # A cache as long as the window, or longer, of a length that leaves no row without a value.
        total, window_rows = past + length, a["local_window_size"]
        full = [w for w in range(window_rows, window_rows + 4) if total >= w and (total - w) % (w - window_rows + 1) == 0]
        cache = int(rng.choice(full))
        a["sliding_window_cache"] = 1
    inputs = [q, k, v, floats(rng, batch, groups, cache, width), floats(rng, batch, groups, cache, width),
              np.full(batch, past + length - 1, np.int32), np.int32([past + length])]
    if flip(rng):
        inputs += [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        a.update(do_rotary=1, rotary_interleaved=int(rng.integers(2)))
    if sinks is not None:
        inputs += [None] * (11 - len(inputs)) + [sinks]
    return Node("GroupQueryAttention", inputs, a, domain=DOMAIN, results=3, weights=frozenset({6}))
