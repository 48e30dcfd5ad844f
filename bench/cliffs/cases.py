# SPDX-License-Identifier: Apache-2.0
"""What a case is: a name "family/what", a function of JAX, and descriptions of its arguments.

A case is declared by case(), at import, in families/*.py. The data come from the case's name alone, so that every process
that builds them gets the same.
"""
import dataclasses
import importlib
import runpy
import zlib

import ml_dtypes
import numpy as np

DTYPES = {
    "pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32,
    "f64": np.float64, "c64": np.complex64, "c128": np.complex128, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
}
WIDE = ("s64", "u64", "f64", "c128")


@dataclasses.dataclass(frozen=True)
class Array:
    """A description of one argument; build() makes it."""
    kind: str
    shape: tuple
    dtype: str = "f32"
    low: float = 0
    high: float = 1

    def build(self, seed):
        random = np.random.default_rng(seed)
        shape, dtype = self.shape, DTYPES[self.dtype]
        if self.kind == "integers":
            return random.integers(int(self.low), int(self.high), shape, np.int64).astype(dtype)
        if self.kind == "uniform":
            return (random.random(shape, np.float32) * (self.high - self.low) + self.low).astype(dtype)
        if self.kind == "distinct":  # the first of a permutation of 0..high
            return random.permutation(int(self.high))[: shape[0]].astype(dtype)
        if self.kind == "ascending":
            return np.sort(random.random(shape), axis=-1).astype(dtype)
        x = random.standard_normal(shape, np.float32)
        if self.dtype in ("c64", "c128"):
            x = x + 1j * random.standard_normal(shape, np.float32)
        if self.kind == "dominant":  # a matrix that is far from singular
            x = x + shape[-1] * np.eye(shape[-1], dtype=np.float32)
        if self.kind == "definite":
            x = x @ x.conj().swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1], dtype=np.float32)
        if self.kind == "symmetric":
            x = x + x.conj().swapaxes(-1, -2)
        return x.astype(dtype)


def normal(*shape, dtype="f32"):
    return Array("normal", shape, dtype)


def uniform(*shape, low=0.0, high=1.0, dtype="f32"):
    return Array("uniform", shape, dtype, low, high)


def integers(*shape, high, low=0, dtype="s32"):
    return Array("integers", shape, dtype, low, high)


def distinct(count, high):
    return Array("distinct", (count,), "s32", 0, high)


def matrices(kind, *shape, dtype="f32"):
    """kind: dominant, definite or symmetric."""
    return Array(kind, shape, dtype)


def ascending(*shape, dtype="f32"):
    return Array("ascending", shape, dtype)


def key_data():
    """The words of a threefry key; jax.random.wrap_key_data makes the key of them."""
    return Array("integers", (2,), "u32", 0, 2**31)


def values(dtype, *shape):
    """Values that suit a type: small whole numbers for integers, normal ones for the rest."""
    if dtype == "pred":
        return integers(*shape, high=2, dtype=dtype)
    if dtype[0] == "u":
        return integers(*shape, high=100, dtype=dtype)
    if dtype[0] == "s":
        return integers(*shape, low=-100, high=100, dtype=dtype)
    return normal(*shape, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    function: object
    arrays: tuple
    tolerance: float | None = None  # relative; None: by the type of the result
    view: object = None             # what of the results (NumPy arrays) is compared; None: all
    x64: bool = False

    @property
    def family(self):
        return self.name.split("/")[0]

    def arguments(self):
        return [a.build(zlib.crc32(f"{self.name} {n}".encode())) for n, a in enumerate(self.arrays)]


CASES = {}


def case(name, function, *arrays, tolerance=None, view=None, x64=False):
    if name in CASES:
        raise ValueError(f"two cases are named {name}")
    x64 = x64 or any(a.dtype in WIDE for a in arrays)
    CASES[name] = Case(name, function, arrays, tolerance, view, x64)


def declare(name, *arrays, **options):
    """case() as a decorator."""
    def of(function):
        case(name, function, *arrays, **options)
        return function
    return of


def load(path=None):
    """Declares the cases of a file, or all of families/."""
    if path is None:
        importlib.import_module("families")
    else:
        runpy.run_path(path)
    return CASES
