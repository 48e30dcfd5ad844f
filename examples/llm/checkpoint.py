# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as they are published: a folder with config.json and safetensors, or a GGUF file.

`open_checkpoint(path)` gives a Checkpoint: the configuration as Hugging Face writes it, and the tensors by Hugging Face's
names. Nothing but the header is read before a tensor is asked for, and then it is mapped.
"""
from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Callable

import ml_dtypes
import numpy as np

from fields import FILE, GENERATION, INDEX, TOKENIZER, CheckpointError, Values, read_json, safetensors_header, shortened

# https://github.com/huggingface/safetensors: eight bytes of length, a JSON header, the arrays.
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I64": np.int64,
          "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "U32": np.uint32, "BOOL": np.bool_,
          "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
# The numbers of f4e2m1fn, by their four bits.
F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


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
    float_types: list[np.dtype] = dataclasses.field(default_factory=list)  # of each tensor in the file that has floats or scales
    tokenizer: str | None = None              # tokenizer.json, where the checkpoint's file holds the vocabulary itself
    tokenizer_config: Values = Values({}, TOKENIZER, "tokenizer_config.json")
    generation_config: Values = Values({}, GENERATION, "generation_config.json")
    where: str = "config.json"                # what is named where the configuration is wrong
    used: set[str] = dataclasses.field(default_factory=set)  # the tensors that were read

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def read(self, name: str) -> np.ndarray | Blocks:
        if name not in self.tensors:
            raise CheckpointError(f"The checkpoint has no tensor {name!r}.")
        self.used.add(name)
        return self.tensors[name]()

    def unused(self) -> list[str]:
        """Tensors that nobody read. Buffers of positions and masks, which some files have, and towers for pictures and
        sounds are left out."""
        silent = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")
        towers = ("vision", "visual", "audio", "multi_modal", "embed_image")
        return [name for name in self.tensors
                if name not in self.used and not name.endswith(silent) and not any(t in name for t in towers)]

    def numbers(self, name: str) -> np.ndarray:
        """As an array of floats, also where the file has it quantised."""
        out = self.floats(name)
        return out.numbers() if isinstance(out, Blocks) else out

    def floats(self, name: str) -> np.ndarray | Blocks:
        """Weights: no integers, but those of a matrix that is quantised."""
        out = self.read(name)
        if not isinstance(out, Blocks) and not is_float(out):
            raise CheckpointError(f"The tensor {shortened(name)} has the type {NAMES[out.dtype]}; weights are floats.")
        return out

    def integers(self, name: str, dtype, dimensions: int) -> np.ndarray:
        """A part of a matrix that is quantised."""
        out = self.read(name)
        if isinstance(out, Blocks) or out.dtype != dtype or out.ndim != dimensions:
            raise CheckpointError(f"The tensor {shortened(name)} is {list(out.shape)}; in a matrix that is quantised it is of "
                                  f"{NAMES[np.dtype(dtype)]} and has {dimensions} dimensions.")
        return out


def is_float(array: np.ndarray) -> bool:
    return array.dtype.kind not in "biu"


def read_safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Arrays of a file, mapped."""
    entries, offset = safetensors_header(path, {name: np.dtype(dtype).itemsize for name, dtype in DTYPES.items()})
    has_data = any(e.end for e in entries.values())
    data = np.memmap(path, mode="r", offset=offset) if has_data else np.zeros(0, np.uint8)
    return {name: data[e.begin:e.end].view(DTYPES[e.dtype]).reshape(e.shape) for name, e in entries.items()}


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


def _shards(folder: pathlib.Path) -> list[pathlib.Path]:
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return sorted(folder.glob("*.safetensors"))
    named = Values(read_json(index), INDEX, str(index)).get("weight_map")
    for name, file in named.items():
        if FILE.take(file) is None:
            raise CheckpointError(f"{index} has the tensor {shortened(name)} in {shortened(file)}, which is no file's name.")
        if not (folder / file).exists():
            raise CheckpointError(f"{index} names {file}, which is not in {folder}.")
    return sorted(folder / file for file in set(named.values()))


def open_folder(folder: pathlib.Path) -> Checkpoint:
    config = read_json(folder / "config.json")
    if not config:
        raise CheckpointError(f"{folder} has no config.json.")
    files = _shards(folder)
    if not files:
        raise CheckpointError(f"{folder} has no *.safetensors file. (PyTorch's own files are not read: they are programs.)")
    arrays: dict = {}
    for file in files:
        arrays |= read_safetensors(file)
    jsons = [Values(read_json(folder / name), table, str(folder / name))
             for name, table in (("tokenizer_config.json", TOKENIZER), ("generation_config.json", GENERATION))]
    tensors: dict = {name: lambda array=array: array for name, array in arrays.items()}
    out = Checkpoint(config, tensors, folder, [a.dtype for a in arrays.values() if is_float(a)], None, *jsons)
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
