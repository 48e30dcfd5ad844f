# SPDX-License-Identifier: Apache-2.0
"""The types of GGUF's tensors: bytes to numbers, by ggml's structures (https://github.com/ggml-org/ggml, ggml-common.h).

A tensor of a quantised type is blocks of 32 or 256 numbers along its rows. Of a block's parts: `d` scales, `m` or `dmin` is
added or subtracted. Q4_0 and Q8_0 are Blocks, all others floats.
"""
from __future__ import annotations

import ml_dtypes
import numpy as np

from checkpoint import Blocks


def _f16(block: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(block).view(np.float16).astype(np.float32)


def _i8(block: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(block).view(np.int8).astype(np.float32)


def _nibbles(block: np.ndarray) -> np.ndarray:
    """Of blocks [n, bytes]: byte i has value i in its low nibble, and value i + bytes in the high one."""
    return np.concatenate([block & 15, block >> 4], -1)


def _bits(block: np.ndarray, count: int) -> np.ndarray:
    """[n, bytes] to [n, 8 / count, bytes]: the fields of `count` bits of each byte, the lowest ones first."""
    shifts = np.arange(0, 8, count, dtype=np.uint8).reshape(1, -1, 1)
    return block[:, None, :] >> shifts & np.uint8((1 << count) - 1)


def _q8_0(raw: np.ndarray, shape) -> Blocks:
    """32: d, 32 integers."""
    rows, columns = shape
    block = raw.reshape(rows, columns // 32, 34)
    values = np.ascontiguousarray(block[:, :, 2:]).view(np.int8).reshape(rows, columns)
    return Blocks(values, _f16(block[:, :, :2])[..., 0], 8)


def _q4_0(raw: np.ndarray, shape) -> Blocks:
    """32: d, 16 bytes of nibbles, plus 8."""
    rows, columns = shape
    block = raw.reshape(rows, columns // 32, 18)
    nibbles = _nibbles(block[:, :, 2:])
    return Blocks((nibbles.astype(np.int8) - 8).reshape(rows, columns), _f16(block[:, :, :2])[..., 0], 4)


def _q4_1(raw: np.ndarray, shape) -> np.ndarray:
    """32: d, m, 16 bytes of nibbles."""
    block = raw.reshape(-1, 20)
    return (_f16(block[:, 0:2]) * _nibbles(block[:, 4:]) + _f16(block[:, 2:4])).reshape(shape)


def _fifth_bits(block: np.ndarray) -> np.ndarray:
    """Of 32 values, bit i of four bytes: 16 or 0."""
    return np.unpackbits(block, axis=-1, bitorder="little") << 4


def _q5_0(raw: np.ndarray, shape) -> np.ndarray:
    """32: d, the fifth bits, 16 bytes of nibbles, plus 16."""
    block = raw.reshape(-1, 22)
    q = (_nibbles(block[:, 6:]) | _fifth_bits(block[:, 2:6])).astype(np.float32) - 16
    return (_f16(block[:, 0:2]) * q).reshape(shape)


def _q5_1(raw: np.ndarray, shape) -> np.ndarray:
    """32: d, m, the fifth bits, 16 bytes of nibbles."""
    block = raw.reshape(-1, 24)
    q = (_nibbles(block[:, 8:]) | _fifth_bits(block[:, 4:8])).astype(np.float32)
    return (_f16(block[:, 0:2]) * q + _f16(block[:, 2:4])).reshape(shape)


def _q2_k(raw: np.ndarray, shape) -> np.ndarray:
    """256: a scale and a minimum of 4 bits for each 16, 64 bytes of two bits, d, dmin. Each half of the block has its 32
    bytes, of which the lowest bits are the first 32 values."""
    block = raw.reshape(-1, 84)
    scales = (block[:, :16] & 15) * _f16(block[:, 80:82])
    minima = (block[:, :16] >> 4) * _f16(block[:, 82:84])
    q = _bits(block[:, 16:80].reshape(-1, 32), 2).reshape(-1, 16, 16)
    return (q * scales[:, :, None] - minima[:, :, None]).astype(np.float32).reshape(shape)


def _q3_k(raw: np.ndarray, shape) -> np.ndarray:
    """256: 32 bytes of third bits, which take 4 off where they are 0, 64 bytes as Q2_K's, 16 scales of 6 bits, d."""
    block = raw.reshape(-1, 110)
    packed = block[:, 96:108]
    low = _nibbles(packed[:, :8])                              # of 16
    high = _bits(packed[:, 8:12], 2).reshape(-1, 16)
    scales = ((low | high << 4).astype(np.float32) - 32) * _f16(block[:, 108:110])
    q = _bits(block[:, 32:96].reshape(-1, 32), 2).reshape(-1, 8, 32).astype(np.float32)
    third = _bits(block[:, :32], 1)                            # [n, 8, 32]
    q = (q - np.where(third == 0, 4, 0)).reshape(-1, 16, 16)
    return (q * scales[:, :, None]).astype(np.float32).reshape(shape)


def _scales_and_minima(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight of each in 6 bits, of 12 bytes."""
    low, middle, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    return (np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], 1),
            np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], 1))


def _q4_k(raw: np.ndarray, shape) -> np.ndarray:
    """256: d, dmin, scales and minima of 6 bits for each 32, 128 bytes; 32 bytes have one group of 32 in their low
    nibbles and the next in the high ones."""
    block = raw.reshape(-1, 144)
    scales, minima = _scales_and_minima(block[:, 4:16])
    q = _nibbles(block[:, 16:].reshape(-1, 32)).reshape(-1, 8, 32).astype(np.float32)
    return (q * (scales * _f16(block[:, 0:2]))[:, :, None] - (minima * _f16(block[:, 2:4]))[:, :, None]).reshape(shape)


def _q5_k(raw: np.ndarray, shape) -> np.ndarray:
    """256: as Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte l is of value l of group j."""
    block = raw.reshape(-1, 176)
    scales, minima = _scales_and_minima(block[:, 4:16])
    q = _nibbles(block[:, 48:].reshape(-1, 32)).reshape(-1, 8, 32) | _bits(block[:, 16:48], 1) << 4
    return (q.astype(np.float32) * (scales * _f16(block[:, 0:2]))[:, :, None] -
            (minima * _f16(block[:, 2:4]))[:, :, None]).reshape(shape)


def _q6_k(raw: np.ndarray, shape) -> np.ndarray:
    """256: 128 bytes of low nibbles, 64 of the upper two bits, 16 scales (int8), d."""
    block = raw.reshape(-1, 210)
    low = _nibbles(block[:, :128].reshape(-1, 64)).reshape(-1, 8, 32)
    high = _bits(block[:, 128:192].reshape(-1, 32), 2).reshape(-1, 8, 32)
    q = (low | high << 4).astype(np.int8) - 32
    scales = _i8(block[:, 192:208]) * _f16(block[:, 208:210])
    return (q.reshape(-1, 16, 16) * scales[:, :, None]).astype(np.float32).reshape(shape)


# The sixteen values of IQ4_NL and IQ4_XS.
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def _iq4_nl(raw: np.ndarray, shape) -> np.ndarray:
    """32: d, 16 bytes of nibbles, which name values."""
    block = raw.reshape(-1, 18)
    return (_f16(block[:, 0:2]) * IQ4[_nibbles(block[:, 2:])]).reshape(shape)


def _iq4_xs(raw: np.ndarray, shape) -> np.ndarray:
    """256: d, upper bits (16) and lower bits (4 bytes) of eight scales, plus 32, and 128 bytes as IQ4_NL's."""
    block = raw.reshape(-1, 136)
    low = np.stack([block[:, 4:8] & 15, block[:, 4:8] >> 4], -1).reshape(-1, 8)
    high = _bits(block[:, 2:4], 2).swapaxes(1, 2).reshape(-1, 8)
    scales = ((low | high << 4).astype(np.float32) - 32) * _f16(block[:, 0:2])
    q = IQ4[_nibbles(block[:, 8:].reshape(-1, 16))].reshape(-1, 8, 32)
    return (q * scales[:, :, None]).reshape(shape)


def _mxfp4(raw: np.ndarray, shape) -> Blocks:
    """32: a power of two (f8e8m0), 16 bytes of nibbles, which are f4e2m1fn."""
    rows, columns = shape
    block = raw.reshape(rows, -1, 17)
    values = _nibbles(block[:, :, 1:]).astype(np.int8).reshape(rows, columns)
    return Blocks(values, np.ldexp(np.float32(1), block[:, :, 0].astype(np.int32) - 127), 4, is_f4=True)


def _plain(dtype):
    return lambda raw, shape: raw.view(dtype).reshape(shape)


# By ggml's number of the type: (name, values a block, bytes a block, reader).
TYPES = {0: ("F32", 1, 4, _plain(np.float32)), 1: ("F16", 1, 2, _plain(np.float16)),
         30: ("BF16", 1, 2, _plain(ml_dtypes.bfloat16)), 2: ("Q4_0", 32, 18, _q4_0), 3: ("Q4_1", 32, 20, _q4_1),
         6: ("Q5_0", 32, 22, _q5_0), 7: ("Q5_1", 32, 24, _q5_1), 8: ("Q8_0", 32, 34, _q8_0),
         10: ("Q2_K", 256, 84, _q2_k), 11: ("Q3_K", 256, 110, _q3_k), 12: ("Q4_K", 256, 144, _q4_k),
         13: ("Q5_K", 256, 176, _q5_k), 14: ("Q6_K", 256, 210, _q6_k), 20: ("IQ4_NL", 32, 18, _iq4_nl),
         23: ("IQ4_XS", 256, 136, _iq4_xs), 39: ("MXFP4", 32, 17, _mxfp4)}
# Named where they are refused.
OTHERS = {16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 29: "IQ1_M", 34: "TQ1_0",
          35: "TQ2_0"}
