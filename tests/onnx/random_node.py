# SPDX-License-Identifier: Apache-2.0
"""What random nodes are drawn with: DRAWS[name](rng) gives a Node that the specification allows."""
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
