# SPDX-License-Identifier: Apache-2.0
"""Random nodes of windows: convolutions, pools, resizing, sampling (random_node.py)."""
import numpy as np

from random_node import Node, draws, flip, floats, ints, maybe, pick, sizes, vector, window


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
    rois = np.concatenate([corners, corners + rng.random((4, 2)) * pick(rng, 8, 20)], 1).astype(np.float32)
    # A ratio of 0, which is also the operator's own: as many samples as the bin has elements.
    a = {"output_height": int(rng.integers(1, 4)), "output_width": int(rng.integers(1, 4)),
         **maybe(rng, sampling_ratio=int(rng.integers(0, 4)), spatial_scale=0.7, mode=pick(rng, "avg", "max"),
                 coordinate_transformation_mode=pick(rng, "half_pixel", "output_half_pixel"))}
    return Node("RoiAlign", [floats(rng, 2, 3, 8, 9), rois, ints(rng, 0, 2, 4)], a, 16)


@draws
def MaxRoiPool(rng):
    corners = rng.integers(-2, 8, (4, 2)) + 0.25  # not between two elements
    rois = np.concatenate([rng.integers(0, 2, (4, 1)), corners, corners + rng.integers(-2, 9, (4, 2))], 1).astype(np.float32)
    return Node("MaxRoiPool", [floats(rng, 2, 3, 8, 9), rois], {"pooled_shape": sizes(rng, 2, 1, 5), **maybe(rng, spatial_scale=0.5)})
