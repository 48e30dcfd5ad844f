# SPDX-License-Identifier: Apache-2.0
"""Whether two back ends gave the same results."""
import numpy as np

TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-4, "complex64": 2e-4, "float16": 4e-3, "bfloat16": 3e-2,
              "float8_e4m3fn": 0.13}
SUBNORMAL = 1.2e-38  # back ends may flush what is smaller


def compare(case, expected, got):
    """None, or what differs. `expected` and `got` are lists of NumPy arrays."""
    if [(a.shape, a.dtype) for a in expected] != [(a.shape, a.dtype) for a in got]:
        return f"shapes: {[(a.shape, str(a.dtype)) for a in got]} for {[(a.shape, str(a.dtype)) for a in expected]}"
    if case.view is not None:
        expected, got = case.view(expected), case.view(got)
    for n, (a, b) in enumerate(zip(expected, got)):
        found = difference(a, b, case.tolerance)
        if found:
            return (f"result {n}: " if len(expected) > 1 else "") + found
    return None


def difference(a, b, tolerance):
    name = str(a.dtype)
    if name not in TOLERANCES:
        wrong = a != b
        if not wrong.any():
            return None
        return describe(wrong, a, b)
    tolerance = tolerance or TOLERANCES[name]
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(x)
    # A part of the allowance is for the size that the values have on the whole: sums cancel.
    size = np.abs(x[finite]).mean() if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= tolerance * (np.abs(x) + size) + SUBNORMAL
    wrong = ~np.where(finite, near, (x == y) | (np.isnan(x) & np.isnan(y)))
    return describe(wrong, a, b) if wrong.any() else None


def describe(wrong, a, b):
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {list(at)}: {b[at]!s} for {a[at]!s}"
