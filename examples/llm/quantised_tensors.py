# SPDX-License-Identifier: Apache-2.0
"""Matrices as published quantised checkpoints pack them, by config.json's quantization_config.

GPTQ (4 and 8 bits), AWQ ("gemm"), the packed format of compressed-tensors (4 and 8 bits), and MXFP4 of experts.
Their tensors take the name that the plain matrix would have, NAME.weight; what reads one gives Blocks.
"""
from __future__ import annotations

from typing import Callable

import numpy as np

from checkpoint import Blocks, Checkpoint
from fields import CONFIG, QUANTISATION, CheckpointError, Values, shortened

Reader = Callable[[], "np.ndarray | Blocks"]
# Of AWQ: the column that each of a word's eight nibbles holds, from the lowest on.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    """uint8 [rows, columns * 32 / bits]: the integers of 32-bit words, the lowest bits first."""
    words = np.ascontiguousarray(words).view(np.uint32)
    parts = [(words >> np.uint32(at)) & np.uint32((1 << bits) - 1) for at in range(0, 32, bits)]
    return np.stack(parts, -1).astype(np.uint8).reshape(words.shape[0], -1)


def centred(values: np.ndarray, bits: int) -> np.ndarray:
    """int8: unsigned integers less the middle of their range, by which nothing changes where zeros are moved too."""
    return (values.astype(np.int16) - (1 << (bits - 1))).astype(np.int8)


def blocks(values: np.ndarray, zeros: np.ndarray | None, scales: np.ndarray, bits: int) -> Blocks:
    """Of [rows, columns], [rows, groups] and [rows, groups]; the first two unsigned."""
    centre = None if zeros is None else centred(zeros, bits)
    return Blocks(np.ascontiguousarray(centred(values, bits)), np.ascontiguousarray(scales, np.float32), bits,
                  centre if centre is not None and centre.any() else None)


def _shape(name: str, array: np.ndarray, expected: tuple[int, ...]) -> None:
    if array.shape != expected:
        raise CheckpointError(f"The tensor {name!r} is {list(array.shape)}; beside the packed matrix it is {list(expected)}.")


def _scales(checkpoint: Checkpoint, name: str) -> np.ndarray:
    """float32, of two dimensions."""
    out = checkpoint.numbers(name).astype(np.float32)
    if out.ndim != 2 or not out.size:
        raise CheckpointError(f"The tensor {name!r} is {list(out.shape)}; scales have two dimensions, and none is 0.")
    return out


def _gptq(checkpoint: Checkpoint, base: str, bits: int, form: str):
    """qweight [in * bits / 32, out] packs along the input, qzeros [groups, out * bits / 32] along the output; the first
    form of the format has zeros less one."""
    values = unpack(checkpoint.integers(base + ".qweight", np.int32, 2).T, bits)  # [out, in]
    scales = _scales(checkpoint, base + ".scales").T
    zeros = unpack(checkpoint.integers(base + ".qzeros", np.int32, 2), bits).T
    _shape(base + ".qzeros", zeros, scales.shape)
    if form != "gptq_v2":
        zeros = (zeros + 1) & ((1 << bits) - 1)
    rows, columns = values.shape
    groups = scales.shape[1]
    _shape(base + ".scales", scales, (rows, groups))
    order = checkpoint.integers(base + ".g_idx", np.int32, 1) if base + ".g_idx" in checkpoint else None
    if order is not None and not np.array_equal(order, np.arange(columns) * groups // columns):
        # Groups of rows that do not lie side by side: as floats.
        _shape(base + ".g_idx", order, (columns,))
        if order.min() < 0 or order.max() >= groups:
            raise CheckpointError(f"The tensor {base + '.g_idx'!r} names groups from {order.min()} to {order.max()} of {groups}.")
        return (values.astype(np.float32) - zeros[:, order]) * scales[:, order]
    if columns % groups:
        raise CheckpointError(f"{base!r} has {groups} groups of scales for {columns} rows, which they do not divide.")
    return blocks(values, zeros, scales, bits)


def _awq(checkpoint: Checkpoint, base: str) -> Blocks:
    """qweight [in, out / 8] and qzeros [groups, out / 8] pack along the output, in an order of their own."""
    def columns(words: np.ndarray) -> np.ndarray:
        nibbles = unpack(words, 4).reshape(words.shape[0], -1, 8)
        return nibbles[..., np.argsort(AWQ_ORDER)].reshape(words.shape[0], -1)
    scales = _scales(checkpoint, base + ".scales").T
    values, zeros = (checkpoint.integers(f"{base}.{part}", np.int32, 2) for part in ("qweight", "qzeros"))
    if not values.size or not zeros.size:
        raise CheckpointError(f"The tensor {base + '.qweight'!r} is {list(values.shape)}, its zeros {list(zeros.shape)}.")
    values, zeros = columns(values).T, columns(zeros).T
    _shape(base + ".scales", scales, zeros.shape)
    if values.shape[0] != scales.shape[0] or values.shape[1] % scales.shape[1]:
        raise CheckpointError(f"The tensor {base + '.scales'!r} is {list(scales.shape)} (turned), for a matrix of {list(values.shape)}.")
    return blocks(values, zeros, scales, 4)


def _packed(checkpoint: Checkpoint, base: str, bits: int) -> Blocks:
    """compressed-tensors: weight_packed [out, in * bits / 32], zero points packed along the output."""
    shape = [int(n) for n in checkpoint.integers(base + ".weight_shape", np.int64, 1)]
    values = unpack(checkpoint.integers(base + ".weight_packed", np.int32, 2), bits)
    scales = _scales(checkpoint, base + ".weight_scale")
    rows, columns = shape if len(shape) == 2 else (-1, -1)
    if (values.shape[0] != rows or not 0 < columns <= values.shape[1] or scales.shape[0] != rows
            or columns % scales.shape[1]):
        raise CheckpointError(f"The packed tensors of {base!r} do not hold a matrix of {shape}.")
    zeros = None
    if base + ".weight_zero_point" in checkpoint:
        zeros = unpack(checkpoint.integers(base + ".weight_zero_point", np.int32, 2).T, bits).T[:rows]
        _shape(base + ".weight_zero_point", zeros, scales.shape)
    return blocks(values[:, :columns], zeros, scales, bits)


def _mxfp4(checkpoint: Checkpoint, base: str, expert: int) -> Blocks:
    """Of [experts, out, in / 32, 16] bytes of two each, the low nibble first, and exponents [experts, out, in / 32]."""
    pairs, exponents = checkpoint.integers(base + "_blocks", np.uint8, 4), checkpoint.integers(base + "_scales", np.uint8, 3)
    if pairs.shape[:3] != exponents.shape or not pairs.size or pairs.shape[3] != 16:
        raise CheckpointError(f"The tensors {base + '_blocks'!r} and its scales are {list(pairs.shape)} and {list(exponents.shape)}; "
                              "blocks are of 16 bytes, with a scale each.")
    pairs, exponents = pairs[expert], exponents[expert]
    values = np.stack([pairs & 15, pairs >> 4], -1).astype(np.int8).reshape(pairs.shape[0], -1)
    return Blocks(values, np.ldexp(np.float32(1), exponents.astype(np.int32) - 127), 4, is_f4=True)


def _bits_of_groups(quantisation: Values) -> int:
    """Of compressed-tensors: of all groups of layers."""
    found = set()
    for name, group in quantisation.get("config_groups").items():
        group = Values({name: group}, {name: QUANTISATION["weights"]}, quantisation.where).object(name, QUANTISATION)
        found.add(group.object("weights", QUANTISATION).get("num_bits"))
    if len(found) != 1 or not found <= {4, 8}:
        raise CheckpointError(f"The checkpoint has weights of {', '.join(sorted(map(str, found))) or 'no'} bits; 4 or 8 are "
                              "supported.")
    return found.pop()


def unpacked(checkpoint: Checkpoint) -> dict[str, Reader]:
    """What reads the matrices that are packed, by plain names. Nothing is read before it is asked for."""
    quantisation = Values(checkpoint.config, CONFIG, checkpoint.where).object("quantization_config", QUANTISATION)
    out: dict[str, Reader] = {}
    if not quantisation.has("quant_method"):
        return out
    method, bits = quantisation.get("quant_method"), quantisation.get("bits", default=quantisation.get("w_bit"))
    if method == "gptq":
        form = quantisation.get("checkpoint_format")
        if bits not in (4, 8):
            raise CheckpointError(f"The checkpoint is quantised by GPTQ to {bits} bits; 4 and 8 are supported.")
        if form not in ("gptq", "gptq_v2"):
            raise CheckpointError(f"The checkpoint has GPTQ's format '{form}'; gptq and gptq_v2 are supported.")
        suffix, make = ".qweight", lambda base: _gptq(checkpoint, base, bits, form)
    elif method == "awq":
        version = quantisation.get("version").lower()
        if version != "gemm" or bits != 4:
            raise CheckpointError(f"The checkpoint has AWQ's version '{version}' of {bits} bits; 'gemm' of 4 is supported.")
        suffix, make = ".qweight", lambda base: _awq(checkpoint, base)
    elif method == "compressed-tensors" and quantisation.get("format") == "pack-quantized":
        bits = _bits_of_groups(quantisation)
        suffix, make = ".weight_packed", lambda base: _packed(checkpoint, base, bits)
    elif method == "mxfp4":
        for name in checkpoint.tensors:
            if name.endswith("_blocks"):
                base, packed = name.removesuffix("_blocks"), checkpoint.integers(name, np.uint8, 4)
                for e in range(packed.shape[0] if packed.size else 0):
                    out[f"{base}.{e}"] = lambda base=base, e=e: _mxfp4(checkpoint, base, e)
        return out
    else:
        raise CheckpointError(f"The checkpoint is quantised by {shortened(method)}; take the one with plain weights, one of GPTQ, AWQ "
                              "or compressed-tensors (pack-quantized), or a GGUF file.")
    for name in checkpoint.tensors:
        if name.endswith(suffix):
            base = name.removesuffix(suffix)
            out[base + ".weight"] = lambda base=base: make(base)
    return out
