# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as they are published: a folder with config.json and safetensors, or a GGUF file.

`open_checkpoint(path)` gives a Checkpoint: the configuration as Hugging Face writes it, and the tensors by Hugging Face's
names. Nothing but the header is read before a tensor is asked for, and then it is mapped.
"""
from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from typing import Callable

import ml_dtypes
import numpy as np

# https://github.com/huggingface/safetensors: eight bytes of length, a JSON header, the arrays.
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I64": np.int64,
          "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "U32": np.uint32, "BOOL": np.bool_,
          "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
# The numbers of f4e2m1fn, by their four bits.
F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


class CheckpointError(ValueError):
    """What is wrong with a checkpoint, or not supported of it, as a sentence."""


@dataclasses.dataclass
class Blocks:
    """A matrix [rows, columns] of integers with a scale for each `group` of a row, as quantised files hold it; a number is
    (value - zero) * scale."""
    values: np.ndarray  # int8 [rows, columns], from -8 to 7 where `bits` is 4; the four bits of F4's numbers if is_f4
    scales: np.ndarray  # float32 [rows, columns / group]
    bits: int
    zeros: np.ndarray | None = None  # int8, as `scales`; all zero where there are none
    is_f4: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __getitem__(self, rows) -> Blocks:
        zeros = None if self.zeros is None else self.zeros[rows]
        return Blocks(self.values[rows], self.scales[rows], self.bits, zeros, self.is_f4)

    def numbers(self) -> np.ndarray:
        rows, groups = self.scales.shape
        wide = (F4[self.values] if self.is_f4 else self.values.astype(np.float32)).reshape(rows, groups, -1)
        if self.zeros is not None:
            wide -= self.zeros[:, :, None]
        return (wide * self.scales[:, :, None]).reshape(self.values.shape)


@dataclasses.dataclass
class Checkpoint:
    config: dict
    tensors: dict[str, Callable[[], np.ndarray | Blocks]]  # by name: what reads it
    folder: pathlib.Path                      # where its tokenizer lies
    tokenizer: str | None = None              # tokenizer.json, where the checkpoint's file holds the vocabulary itself
    tokenizer_config: dict = dataclasses.field(default_factory=dict)
    generation_config: dict = dataclasses.field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def read(self, name: str) -> np.ndarray | Blocks:
        if name not in self.tensors:
            raise CheckpointError(f"The checkpoint has no tensor {name!r}.")
        return self.tensors[name]()

    def numbers(self, name: str) -> np.ndarray:
        """As an array of floats, also where the file has it quantised."""
        out = self.read(name)
        return out.numbers() if isinstance(out, Blocks) else out


def read_safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Arrays of a file, mapped."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, 100_000_000):
            raise CheckpointError(f"{path} is no safetensors file: its header has {length} bytes, the file {size}.")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise CheckpointError(f"{path} is no safetensors file: its header is no JSON ({error}).") from None
    data = np.memmap(path, mode="r", offset=8 + length) if size > 8 + length else np.zeros(0, np.uint8)
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise CheckpointError(f"{path}: the tensor {name!r} has the type {entry['dtype']}, which is not supported "
                                  f"(those that are: {', '.join(DTYPES)}).")
        begin, end = entry["data_offsets"]
        dtype = np.dtype(DTYPES[entry["dtype"]])
        if not 0 <= begin <= end <= data.size or math.prod(entry["shape"]) * dtype.itemsize != end - begin:
            raise CheckpointError(f"{path}: the tensor {name!r} of {entry['shape']} lies at bytes {begin} to {end} of "
                                  f"{data.size}.")
        out[name] = data[begin:end].view(dtype).reshape(entry["shape"])
    return out


def write_safetensors(path: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    """Each array at a multiple of 64 bytes, so that it is read where the file is mapped."""
    header, at = {}, 0
    for name, array in arrays.items():
        at = -(-at // 64) * 64
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        begin = file.tell()
        for name, array in arrays.items():
            file.seek(begin + header[name]["data_offsets"][0])
            np.ascontiguousarray(array).view(np.uint8).tofile(file)


def _json(path: pathlib.Path) -> dict:
    if not path.exists():
        return {}
    try:
        out = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is no JSON: {error}.") from None
    if not isinstance(out, dict):
        raise CheckpointError(f"{path} is no JSON object.")
    return out


def open_folder(folder: pathlib.Path) -> Checkpoint:
    config = _json(folder / "config.json")
    if not config:
        raise CheckpointError(f"{folder} has no config.json.")
    index = _json(folder / "model.safetensors.index.json")
    files = sorted({folder / file for file in index["weight_map"].values()} if index else folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no *.safetensors file. (PyTorch's own files are not read: they are programs.)")
    tensors: dict = {}
    for file in files:
        if not file.exists():
            raise CheckpointError(f"model.safetensors.index.json names {file.name}, which is not in {folder}.")
        for name, array in read_safetensors(file).items():
            tensors[name] = lambda array=array: array
    out = Checkpoint(config, tensors, folder, None, _json(folder / "tokenizer_config.json"),
                     _json(folder / "generation_config.json"))
    import quantised_tensors
    out.tensors |= quantised_tensors.unpacked(out)
    return out


def open_checkpoint(path: str | pathlib.Path) -> Checkpoint:
    path = pathlib.Path(path)
    if path.is_dir():
        return open_folder(path)
    if not path.exists():
        raise CheckpointError(f"There is no checkpoint {path}.")
    import gguf_file
    return gguf_file.open_gguf(path)
