# SPDX-License-Identifier: Apache-2.0
"""Matrices packed as GPTQ, AWQ, compressed-tensors and MXFP4 publish them, number by number, beside the floats that they
stand for.

`pack(method, tensors)` gives config.json's quantization_config, the packed tensors, and the same ones as floats."""
import zlib

import numpy as np

# What the four bits of f4e2m1fn mean, in the order of their bits.
F4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
GROUP = 32


def words(values, bits):
    """int32 of a list of unsigned integers for each word, the first in the lowest bits."""
    per = 32 // bits
    out = np.zeros((*values.shape[:-1], values.shape[-1] // per), np.uint32)
    for at in range(per):
        out |= values[..., at::per].astype(np.uint32) << np.uint32(bits * at)
    return out.view(np.int32)


def parts(name, rows, columns, bits, is_symmetric):
    """Random unsigned integers [rows, columns], zeros and scales [rows, groups], whose floats are about a matrix's."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    top, groups = 1 << bits, columns // GROUP
    values = rng.integers(0, top, (rows, columns))
    zeros = np.full((rows, groups), top // 2) if is_symmetric else rng.integers(1, top, (rows, groups))
    scales = (rng.uniform(0.5, 1.5, (rows, groups)) * 3.5 / top * columns ** -0.5).astype(np.float16)
    return values, zeros, scales


def floats(values, zeros, scales, group_of):
    return ((values - zeros[:, group_of]) * scales.astype(np.float32)[:, group_of]).astype(np.float32)


def gptq(base, shape, bits, is_symmetric=True, in_order=True, is_v2=False):
    rows, columns = shape
    values, zeros, scales = parts(base, rows, columns, bits, is_symmetric)
    group_of = np.arange(columns) // GROUP
    if not in_order:
        group_of = np.random.Generator(np.random.PCG64(1)).permutation(group_of)
    stored = zeros if is_v2 else (zeros - 1) % (1 << bits)
    packed = {"qweight": words(values, bits).T, "qzeros": words(stored.T, bits), "scales": scales.T,
              "g_idx": group_of.astype(np.int32)}
    return {f"{base}.{k}": np.ascontiguousarray(v) for k, v in packed.items()}, floats(values, zeros, scales, group_of)


def awq(base, shape):
    rows, columns = shape
    values, zeros, scales = parts(base, rows, columns, 4, False)

    def shuffled(x):  # [any, rows]: of each eight columns in a word the nibbles are 0, 2, 4, 6, 1, 3, 5, 7
        return words(x.reshape(x.shape[0], -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].reshape(x.shape), 4)
    packed = {"qweight": shuffled(values.T), "qzeros": shuffled(zeros.T), "scales": np.ascontiguousarray(scales.T)}
    return {f"{base}.{k}": v for k, v in packed.items()}, floats(values, zeros, scales, np.arange(columns) // GROUP)


def compressed(base, shape, bits, is_symmetric):
    rows, columns = shape
    values, zeros, scales = parts(base, rows, columns, bits, is_symmetric)
    packed = {"weight_packed": words(values, bits), "weight_scale": scales, "weight_shape": np.array(shape, np.int64)}
    if not is_symmetric:
        packed["weight_zero_point"] = np.ascontiguousarray(words(zeros.T, bits).T)
    return {f"{base}.{k}": v for k, v in packed.items()}, floats(values, zeros, scales, np.arange(columns) // GROUP)


def mxfp4(base, shape):
    """`shape` is [experts, columns, rows], as the floats have it."""
    experts, columns, rows = shape
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(base.encode())))
    values, exponents = rng.integers(0, 16, (experts, rows, columns)), rng.integers(122, 125, (experts, rows, columns // GROUP))
    pairs = (values[..., 0::2] | values[..., 1::2] << 4).astype(np.uint8)
    packed = {base + "_blocks": pairs.reshape(experts, rows, columns // GROUP, 16), base + "_scales": exponents.astype(np.uint8)}
    wide = np.array(F4, np.float32)[values] * np.exp2(exponents.repeat(GROUP, -1) - 127.0).astype(np.float32)
    return packed, np.ascontiguousarray(wide.transpose(0, 2, 1))


METHODS = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False},
             lambda base, shape: gptq(base, shape, 4)),
    "gptq8": ({"quant_method": "gptq", "bits": 8, "group_size": GROUP}, lambda base, shape: gptq(base, shape, 8, False)),
    "gptq_v2": ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"},
                lambda base, shape: gptq(base, shape, 4, False, is_v2=True)),
    "gptq_order": ({"quant_method": "gptq", "bits": 4, "desc_act": True},
                   lambda base, shape: gptq(base, shape, 4, False, in_order=False)),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}, awq),
    "compressed": ({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"group_0": {"weights": {"num_bits": 4, "symmetric": True}}}},
                   lambda base, shape: compressed(base, shape, 4, True)),
    "compressed8": ({"quant_method": "compressed-tensors", "format": "pack-quantized",
                     "config_groups": {"group_0": {"weights": {"num_bits": 8, "symmetric": False}}}},
                    lambda base, shape: compressed(base, shape, 8, False)),
    "mxfp4": ({"quant_method": "mxfp4"}, mxfp4),
}


def pack(method, tensors):
    config, make = METHODS[method]
    packed, plain = {}, {}
    for name, w in tensors.items():
        if method == "mxfp4":
            is_chosen, base = name.endswith(("experts.gate_up_proj", "experts.down_proj")), name
        else:
            is_chosen, base = name.endswith("_proj.weight"), name.removesuffix(".weight")
        if is_chosen:
            some, plain[name] = make(base, w.shape)
            packed |= some
        else:
            packed[name] = plain[name] = w
    return config, packed, plain
