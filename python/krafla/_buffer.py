# SPDX-License-Identifier: Apache-2.0
"""Clients, and arrays that stay on their devices: what a model leaves for the next run, and weights that many share."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable

import numpy as np

from krafla import _abi


class Handle:
    """A handle of the C interface, freed when nobody has it any more."""

    def __init__(self, free: Callable[[ctypes.c_void_p], None]):
        self.pointer = ctypes.c_void_p()
        self._free = free

    def __del__(self) -> None:
        if self.pointer:
            self._free(self.pointer)


# By the names that krafla_type_name has. Types that numpy lacks come from ml_dtypes, where it is installed.
NUMPY = {"pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "u8": "uint8", "u16": "uint16",
         "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
         "c128": "complex128"}
ML_DTYPES = {"bf16": "bfloat16", "f8e5m2": "float8_e5m2", "f8e4m3fn": "float8_e4m3fn",
             "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e4m3fnuz": "float8_e4m3fnuz",
             "f8e4m3": "float8_e4m3", "f8e3m4": "float8_e3m4", "f8e8m0fnu": "float8_e8m0fnu",
             "f4e2m1fn": "float4_e2m1fn", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2"}
_TYPE_OF = {numpy: name for names in (NUMPY, ML_DTYPES) for name, numpy in names.items()}
_LAST_TYPE = 33
# What bits of types without a type of numpy's may be: at least and at most.
_RANGES = {"s1": (-1, 0), "u1": (0, 1), "s2": (-2, 1), "u2": (0, 3), "s4": (-8, 7), "u4": (0, 15)}


def dtype_of(name: str, size: int) -> np.dtype:
    """The bits as integers where no package has the type."""
    if name == "s1":
        return np.dtype("int8")
    if name in NUMPY:
        return np.dtype(NUMPY[name])
    try:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, ML_DTYPES[name]))
    except (ImportError, KeyError, AttributeError):
        return np.dtype(f"uint{8 * size}")


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path for C, which would end at a zero byte."""
    return _whole("path", os.fsencode(path))


def text_bytes(what: str, text: str) -> bytes:
    return _whole(what, text.encode())


def _whole(what: str, text: bytes) -> bytes:
    if b"\0" in text:
        raise ValueError(f"The {what} {text!r} has a zero byte in it.")
    return text


class Buffer:
    """An array on a device. Made by Client.put and Model.run_buffers; freed with its last reference."""

    def __init__(self, library: _abi.Library, handle: Handle):
        self._library, self._handle = library, handle
        info = _abi.TensorInfo()
        library.buffer_info(handle.pointer, ctypes.byref(info))
        self.type: str = library.type_name(info.type).decode()
        self.shape: tuple[int, ...] = tuple(info.dims[: info.rank])
        self.dtype: np.dtype = dtype_of(self.type, library.type_bytes(info.type))

    def __repr__(self) -> str:
        return f"krafla.Buffer({self.type}[{','.join(map(str, self.shape))}])"

    def wait(self) -> None:
        """Returns when the device has made the array, and raises what went wrong meanwhile."""
        self._library.buffer_wait(self._handle.pointer)

    def numpy(self) -> np.ndarray:
        """A copy on the host."""
        out = np.empty(self.shape, self.dtype)
        self._library.buffer_read(self._handle.pointer, out.ctypes.data, out.nbytes)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("An array on a device is copied to the host.")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)


class Client:
    """A device. What is loaded and put by one client stays on it; another client's arrays are copied.

    device: "cpu", "vulkan", "vulkan:1", ..; "" is the best one here. threads: of the CPU's kernels; 0: as many as there
    are processors. memory_limit: bytes; 0: none.
    """

    def __init__(self, device: str = "", *, threads: int = 0, cache_folder: str | os.PathLike[str] | None = None,
                 memory_limit: int = 0):
        from krafla._model import load_library
        self._library = load_library()
        self._handle = Handle(self._library.client_free)
        options = _abi.ClientOptions(threads=threads, memory_limit=memory_limit)
        if cache_folder is not None:
            options.cache_folder = path_bytes(cache_folder)
        self._library.client_create(text_bytes("device", device), ctypes.byref(options), ctypes.byref(self._handle.pointer))

        names = ((self._library.type_name(t).decode(), t) for t in range(1, _LAST_TYPE + 1))
        self._types = {name: t for name, t in names if name}

    @property
    def device(self) -> str:
        return self._library.client_selector(self._handle.pointer).decode()

    @property
    def description(self) -> str:
        return self._library.client_description(self._handle.pointer).decode(errors="replace")

    def __repr__(self) -> str:
        return f"krafla.Client({self.device!r}: {self.description})"

    def load(self, program: str | os.PathLike[str] | bytes, **options: Any) -> Any:
        """krafla.load on this client."""
        from krafla._load import load
        return load(program, self, **options)

    def put(self, array: Any, *, type: str | None = None, share: bool = False) -> Buffer:
        """An array as a buffer. `share`: the device reads the memory that the array has, if it can; then nobody may
        change it while the buffer lives. `type`: krafla's name of the elements' type, where they are given as bits."""
        array = np.require(array, requirements="C")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        name = type or _TYPE_OF.get(array.dtype.name)
        number = self._types.get(name) if name else None
        if number is None:
            raise TypeError(f"Arrays of {type or array.dtype} are none that a device takes.")
        if self._library.type_bytes(number) != array.dtype.itemsize:
            raise TypeError(f"Elements of {name} have {self._library.type_bytes(number)} bytes, {array.dtype} was given.")
        if name in _RANGES and array.dtype.kind in "iu" and array.size:
            least, most = _RANGES[name]
            if array.min() < least or array.max() > most:
                raise OverflowError(f"Elements of {name} are from {least} to {most}; the array has {array.min()} to {array.max()}.")
        handle = Handle(self._library.buffer_free)
        release, user = _abi.RELEASE(0), None
        if share:  # the array lives until krafla says that it needs it no more
            kept = _Kept(array)
            release, user = _released, kept.number
        self._library.buffer_create(self._handle.pointer, number, (ctypes.c_int64 * array.ndim)(*array.shape),
                                    array.ndim, array.ctypes.data if array.nbytes else None, array.nbytes, int(share),
                                    release, user, ctypes.byref(handle.pointer))
        return Buffer(self._library, handle)


class _Kept:
    """An array that the library reads, by a number that it hands back."""
    all: dict[int, np.ndarray] = {}
    last = 0

    def __init__(self, array: np.ndarray):
        _Kept.last += 1
        self.number = _Kept.last
        _Kept.all[self.number] = array


@_abi.RELEASE
def _released(number: int | None) -> None:
    _Kept.all.pop(number or 0, None)
