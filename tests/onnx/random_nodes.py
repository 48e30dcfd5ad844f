# SPDX-License-Identifier: Apache-2.0
"""Random nodes of ONNX's operators: DRAWS[name](rng) gives a Node that the specification allows."""
import dataclasses

import numpy as np

DRAWS = {}


@dataclasses.dataclass
class Node:
    op: str
    inputs: list  # arrays; None where an optional input is left out
    attributes: dict = dataclasses.field(default_factory=dict)
    opset: int = 21
    results: int = 1
    weights: frozenset = frozenset()  # the numbers of the inputs that the model holds
    domain: str = ""
    by_reference: bool = False  # ONNX Runtime has no such operator
    near_ties: bool = False  # steps of floats that lie between two integers: one result of a thousand may be the other one

    def __post_init__(self):
        self.inputs = [None if a is None else np.asarray(a) for a in self.inputs]


def draws(function):
    DRAWS[function.__name__] = function
    return function


def pick(rng, *values):
    return values[rng.integers(len(values))]


def flip(rng):
    return bool(rng.integers(2))


def floats(rng, *sizes, kind=np.float32):
    return rng.normal(size=sizes).astype(kind)


def ints(rng, low, high, *sizes, kind=np.int64):
    return rng.integers(low, high, sizes).astype(kind)


def sizes(rng, rank, low=1, high=7):
    return [int(v) for v in rng.integers(low, high, rank)]


def maybe(rng, **attributes):
    """Each of them or not, so that defaults are tried too."""
    return {k: v for k, v in attributes.items() if flip(rng)}


def vector(*values):
    return np.array(values, np.int64)


def window(rng, rank, spatial, dilate=True, pool=False):
    """kernel_shape, strides, dilations and padding that leave at least one result."""
    dilations = [int(rng.integers(1, 3)) if dilate else 1 for _ in range(rank)]
    kernel = [int(rng.integers(1, max(2, min(4, (s - 1) // d + 2)))) for s, d in zip(spatial, dilations)]
    out = {"kernel_shape": kernel}
    if flip(rng):
        out["strides"] = [int(rng.integers(1, 4)) for _ in range(rank)]
    if any(d > 1 for d in dilations):
        out["dilations"] = dilations
    how = rng.integers(4)
    if how == 0:
        most = [k - 1 if pool else 3 for k in kernel]
        out["pads"] = [int(rng.integers(0, m + 1)) for m in most + most]
    elif how == 1 and all(d == 1 for d in dilations):
        out["auto_pad"] = pick(rng, "SAME_UPPER", "SAME_LOWER", "VALID")
    return out


@draws
def Conv(rng):
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    channels, features = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    spatial = sizes(rng, rank, 4, 9)
    a = window(rng, rank, spatial)
    if groups > 1:
        a["group"] = groups
    x = [floats(rng, int(rng.integers(1, 3)), channels, *spatial), floats(rng, features, channels // groups, *a["kernel_shape"])]
    return Node("Conv", x + ([floats(rng, features)] if flip(rng) else []), a, weights=pick(rng, frozenset(), frozenset({1, 2})))


@draws
def ConvTranspose(rng):
    rank, groups = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    channels, features = groups * int(rng.integers(1, 3)), int(rng.integers(1, 4))
    spatial = sizes(rng, rank, 2, 7)
    a = {"kernel_shape": sizes(rng, rank, 1, 5), "strides": sizes(rng, rank, 1, 4), "group": groups}
    how = rng.integers(5)
    if how == 0:
        a["auto_pad"] = pick(rng, "SAME_UPPER", "SAME_LOWER", "VALID")
        # ONNX Runtime's result is smaller than the specification's where a stride passes the kernel.
        a["strides"] = [min(s, k) for s, k in zip(a["strides"], a["kernel_shape"])]
    elif how == 1:
        a["output_shape"] = [s * t + int(rng.integers(0, t)) for s, t in zip(spatial, a["strides"])]
    else:
        a["dilations"] = sizes(rng, rank, 1, 3)
        if how >= 3:
            a["pads"] = [int(rng.integers(0, d * (k - 1) + 1)) // 2 for k, d in list(zip(a["kernel_shape"], a["dilations"])) * 2]
            a["output_padding"] = [int(rng.integers(0, max(s, d))) for s, d in zip(a["strides"], a["dilations"])]
    x = [floats(rng, 2, channels, *spatial), floats(rng, channels, features, *a["kernel_shape"])]
    return Node("ConvTranspose", x + ([floats(rng, features * groups)] if flip(rng) else []), a)


def pool(rng, op, opset, **more):
    rank = int(rng.integers(1, 4))
    spatial = sizes(rng, rank, 4, 10)
    a = window(rng, rank, spatial, dilate=op != "LpPool" or opset >= 18, pool=True)
    if flip(rng):
        a["ceil_mode"] = 1
        if rng.integers(4) == 0:  # one window, larger than all
            a = {"kernel_shape": [s + int(rng.integers(1, 4)) for s in spatial], "ceil_mode": 1}
            a["strides"] = list(a["kernel_shape"])
    return Node(op, [floats(rng, 2, 3, *spatial)], {**a, **more}, opset)


@draws
def MaxPool(rng):
    node = pool(rng, "MaxPool", 12)
    if flip(rng):
        node.results = 2
        if flip(rng):
            node.attributes["storage_order"] = 1
    elif flip(rng):
        node.inputs[0] = (node.inputs[0] * 40).astype(pick(rng, np.int8, np.uint8))
    return node


@draws
def AveragePool(rng):
    return pool(rng, "AveragePool", 19, count_include_pad=int(rng.integers(2)))


@draws
def LpPool(rng):
    return pool(rng, "LpPool", 18, p=int(rng.integers(1, 4)))


@draws
def GlobalPool(rng):
    op = pick(rng, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    return Node(op, [floats(rng, 2, 3, *sizes(rng, int(rng.integers(1, 4)), 1, 7))])


@draws
def Resize(rng):
    mode, rank = pick(rng, "nearest", "linear", "cubic"), int(rng.integers(1, 4))
    crops, symmetric = ["tf_crop_and_resize"] * (mode != "cubic"), ["half_pixel_symmetric"] * (mode != "nearest")  # ties by rounding
    if mode == "cubic":
        rank = 2
    x = floats(rng, 1, 2, *sizes(rng, rank, 3, 8))
    a = {"mode": mode, "coordinate_transformation_mode": pick(
        rng, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", *symmetric, *crops)}
    if mode == "nearest":
        a.update(maybe(rng, nearest_mode=pick(rng, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
    elif mode == "cubic":
        a.update(maybe(rng, cubic_coeff_a=-0.5, exclude_outside=1))
    if mode != "nearest" and a["coordinate_transformation_mode"] != "tf_crop_and_resize" and flip(rng) and rank == 2:
        a["antialias"] = 1
    roi = None
    if a["coordinate_transformation_mode"] == "tf_crop_and_resize":
        low, high = rng.random(rank) * 0.4, 0.6 + rng.random(rank) * 0.6
        roi = np.concatenate([[0, 0], low, [1, 1], high]).astype(np.float32)
        a["extrapolation_value"] = 3.5
    if flip(rng):
        some = rng.integers(1, 9, rank) / rng.integers(1, 7, rank) if flip(rng) else rng.random(rank) * 2 + 0.4
        before = np.array(x.shape[2:], np.float32)
        some = np.maximum(some, 1.01 / before).astype(np.float32)
        # ONNX Runtime copies an axis that stays as long as it is, whatever its scale or region.
        some[np.floor(some * before) == before] = 1 if roi is None else 1.5
        inputs = [x, roi, np.array([1, 1, *some], np.float32)]
    else:
        inputs = [x, roi, None, vector(1, 2, *sizes(rng, rank, 1, 12))]
        if flip(rng) and roi is None:
            a["keep_aspect_ratio_policy"] = pick(rng, "not_larger", "not_smaller")
            a["axes"] = list(range(2, 2 + rank))
            inputs[3] = inputs[3][2:]
    return Node("Resize", inputs, a, pick(rng, 18, 19), weights=frozenset({1, 2, 3}))


@draws
def GridSample(rng):
    a = {"mode": pick(rng, "linear", "nearest", "cubic"), "padding_mode": pick(rng, "zeros", "border", "reflection"),
         "align_corners": int(rng.integers(2))}
    n, rank = int(rng.integers(1, 3)), 2 if a["mode"] == "cubic" else pick(rng, 2, 3)
    return Node("GridSample", [floats(rng, n, 3, *sizes(rng, rank, 2, 8)), floats(rng, n, *sizes(rng, rank, 1, 6), rank)], a, 20)


@draws
def DeformConv(rng):
    groups, parts = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    channels, features = groups * parts * int(rng.integers(1, 3)), groups * int(rng.integers(1, 3))
    x, k = sizes(rng, 2, 4, 8), sizes(rng, 2, 1, 4)
    strides, dilations, pads = sizes(rng, 2, 1, 3), sizes(rng, 2, 1, 2), ints(rng, 0, 2, 4)
    out = [(s + int(pads[i] + pads[i + 2]) - dilations[i] * (k[i] - 1) - 1) // strides[i] + 1 for i, s in enumerate(x)]
    inputs = [floats(rng, 2, channels, *x), floats(rng, features, channels // groups, *k), floats(rng, 2, parts * k[0] * k[1] * 2, *out),
              floats(rng, features) if flip(rng) else None, rng.random((2, parts * k[0] * k[1], *out)).astype(np.float32) if flip(rng) else None]
    a = {"strides": strides, "dilations": dilations, "pads": [int(p) for p in pads], "group": groups, "offset_group": parts, "kernel_shape": k}
    return Node("DeformConv", inputs, a, 19, by_reference=True)


@draws
def RoiAlign(rng):
    corners = rng.random((4, 2)) * 6
    rois = np.concatenate([corners, corners + rng.random((4, 2)) * 8], 1).astype(np.float32)
    a = {"output_height": int(rng.integers(1, 4)), "output_width": int(rng.integers(1, 4)), "sampling_ratio": int(rng.integers(1, 4)),
         **maybe(rng, spatial_scale=0.7, mode=pick(rng, "avg", "max"), coordinate_transformation_mode=pick(rng, "half_pixel", "output_half_pixel"))}
    return Node("RoiAlign", [floats(rng, 2, 3, 8, 9), rois, ints(rng, 0, 2, 4)], a, 16)


@draws
def Pad(rng):
    x = sizes(rng, int(rng.integers(1, 5)), 3, 7)
    mode = pick(rng, "constant", "reflect", "edge", "wrap")
    axes = sorted(rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)) if flip(rng) else None
    count = len(x) if axes is None else len(axes)
    pads = ints(rng, -1 if mode == "constant" else 0, 3, 2 * count)
    value = np.float32(2.5) if mode == "constant" and flip(rng) else None
    inputs = [floats(rng, *x), pads] + ([value, vector(*axes)] if axes is not None else [value] if value is not None else [])
    return Node("Pad", inputs, {"mode": mode}, 19, weights=frozenset({1, 2, 3}))


@draws
def Slice(rng):
    x = sizes(rng, int(rng.integers(1, 5)), 1, 8)
    axes = rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)
    starts, ends, steps = ints(rng, -9, 10, len(axes)), ints(rng, -9, 10, len(axes)), ints(rng, 1, 3, len(axes)) * pick(rng, 1, -1)
    ends = np.where(rng.random(len(axes)) < 0.3, np.iinfo(np.int64).max * np.sign(steps), ends)
    return Node("Slice", [floats(rng, *x), starts, ends, vector(*(axes - len(x) * ints(rng, 0, 2, len(axes)))), steps], {}, 13,
                weights=frozenset({1, 2, 3, 4}))


@draws
def Gather(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    axis = int(rng.integers(-len(x), len(x)))
    return Node("Gather", [floats(rng, *x), ints(rng, -x[axis], x[axis], *sizes(rng, int(rng.integers(0, 3)), 1, 4), kind=pick(rng, np.int32, np.int64))],
                {"axis": axis}, 13)


@draws
def GatherElements(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2)
    axis = int(rng.integers(-len(x), len(x)))
    i = [s if k == axis % len(x) else int(rng.integers(1, s + 1)) for k, s in enumerate(x)]
    return Node("GatherElements", [floats(rng, *x), ints(rng, -x[axis], x[axis], *i)], {"axis": axis}, 13)


@draws
def GatherND(rng):
    x = sizes(rng, int(rng.integers(2, 5)), 2, 5)
    batch = int(rng.integers(0, len(x) - 1))
    last = int(rng.integers(1, len(x) - batch + 1))
    outer = x[:batch] + sizes(rng, int(rng.integers(1, 3)), 1, 4)
    i = np.stack([ints(rng, -s, s, *outer) for s in x[batch:batch + last]], -1)
    return Node("GatherND", [floats(rng, *x), i], {"batch_dims": batch}, 13)


@draws
def ScatterElements(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2)
    axis = int(rng.integers(-len(x), len(x)))
    reduction = pick(rng, "none", "add", "mul", "max", "min")
    i = [int(rng.integers(1, s + 1)) for s in x]
    at = ints(rng, -x[axis], x[axis], *i)
    if reduction == "none":  # which of several wins is left open
        at = np.moveaxis(np.argsort(rng.random([x[axis] if k == axis % len(x) else s for k, s in enumerate(i)]), axis=axis), axis, 0)
        at = np.moveaxis(at[:i[axis]], 0, axis)
    return Node("ScatterElements", [floats(rng, *x), at, floats(rng, *i)], {"axis": axis, "reduction": reduction}, 18)


@draws
def ScatterND(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2, 5)
    last = int(rng.integers(1, len(x) + 1))
    reduction = pick(rng, "none", "add", "mul", "max", "min")
    count = int(rng.integers(1, 4))
    if reduction == "none":
        flat = rng.permutation(int(np.prod(x[:last])))[:count]
    else:
        flat = rng.integers(0, int(np.prod(x[:last])), count)
    i = np.stack(np.unravel_index(flat, x[:last]), -1).astype(np.int64)
    return Node("ScatterND", [floats(rng, *x), i, floats(rng, len(flat), *x[last:])], {"reduction": reduction}, 18)


@draws
def TopK(rng):
    x = sizes(rng, int(rng.integers(1, 4)), 2, 8)
    axis = int(rng.integers(-len(x), len(x)))
    data = floats(rng, *x) if flip(rng) else ints(rng, -5, 5, *x)  # equal ones: the lower index first
    return Node("TopK", [data, vector(int(rng.integers(1, x[axis] + 1)))], {"axis": axis, "largest": int(rng.integers(2)), "sorted": 1}, 11,
                results=2, weights=frozenset({1}))


@draws
def ArgMax(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    data = floats(rng, *x) if flip(rng) else ints(rng, 0, 3, *x, kind=np.int32)
    return Node(pick(rng, "ArgMax", "ArgMin"), [data], maybe(rng, axis=int(rng.integers(-len(x), len(x))), keepdims=0, select_last_index=1), 13)


@draws
def Reduce(rng):
    op = pick(rng, "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    x = sizes(rng, int(rng.integers(1, 5)))
    data = np.abs(floats(rng, *x)) + 0.1 if op == "LogSum" else floats(rng, *x)
    if op in ("Max", "Min", "Sum", "Mean", "Prod") and flip(rng):
        data = (data * 4).astype(pick(rng, np.int32, np.int64))
    axes = [np.sort(rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)) - len(x) * int(rng.integers(2))]
    return Node("Reduce" + op, [data] + pick(rng, axes, []), maybe(rng, keepdims=0, noop_with_empty_axes=1), 18, weights=frozenset({1}))


@draws
def CumSum(rng):
    x = sizes(rng, int(rng.integers(1, 4)))
    return Node("CumSum", [floats(rng, *x), np.array(rng.integers(-len(x), len(x)))], maybe(rng, exclusive=1, reverse=1), 14, weights=frozenset({1}))


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
    return Node("DynamicQuantizeLinear", [floats(rng, *sizes(rng, 2)) * 3 + pick(rng, 0, 9, -9)], {}, 11, results=3)


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
    boxes *= 4
    corner, size = rng.random((images, boxes, 2)), rng.random((images, boxes, 2)) * 0.6
    by_centre = flip(rng)
    box = np.concatenate([corner, size if by_centre else corner + size * pick(rng, 1, -1)], 2).astype(np.float32)
    scores = np.round(rng.random((images, classes, boxes)), pick(rng, 1, 6)).astype(np.float32)  # equal ones too
    inputs = [box, scores, vector(int(rng.integers(1, boxes + 3))), np.float32([rng.random() * 0.6])]
    return Node(op, inputs + ([np.float32([rng.random() * 0.7])] if flip(rng) else []), {"center_point_box": int(by_centre)}, 11,
                weights=frozenset({2, 3, 4}))
