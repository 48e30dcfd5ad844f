#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Error of long sums: krafla's f32 beside XLA:CPU's, both against f64, and their processor times on one core.

    VENV/bin/python bench/sums.py --library build/release/libpjrt_krafla.so [--device cpu] [--filter REGEX] [--seeds 3]

An error is the norm of the difference over the norm of the truth, the root mean square over the seeds: the luck of one
scalar would say nothing. A ratio is krafla's error over XLA's. Narrow types are compared with sums in f64 of the same
numbers. Times are the least of several calls.
"""
import argparse
import os
import re
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--library", required=True)
parser.add_argument("--device", default="cpu")
parser.add_argument("--filter", default="")
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--budget", type=float, default=0.2, help="seconds of calls a row and back end")
options = parser.parse_args()

os.environ.update(KRAFLA_DEVICE=options.device, KRAFLA_PJRT_LIBRARY=os.path.abspath(options.library), JAX_PLATFORMS="vulkan,cpu")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

xla, krafla = jax.devices("cpu")[0], jax.devices()[0]


def run(f, arguments, device, dtype):
    placed = [jax.device_put(np.asarray(a, dtype), device) for a in arguments]
    g = jax.jit(f)
    return [np.asarray(v).astype(np.float64) for v in jax.tree.leaves(g(*placed))], g, placed


def least(g, arguments):
    best, begin = 1e9, time.time()
    while time.time() - begin < options.budget:
        start = time.process_time()
        jax.block_until_ready(g(*arguments))
        best = min(best, time.process_time() - start)
    return best


def row(name, f, *shapes, dtype=np.float32, positive=False, shift=0.0):
    if not re.search(options.filter, name):
        return
    squares = {}
    for seed in range(options.seeds):
        r = np.random.RandomState(seed)
        arguments = [np.asarray((np.abs if positive else np.asarray)(r.randn(*s)) + shift, dtype) for s in shapes]
        truth, *_ = run(f, [a.astype(np.float64) for a in arguments], xla, np.float64)
        size = sum(float((t * t).sum()) for t in truth)
        for device in (xla, krafla):
            out, g, placed = run(f, arguments, device, dtype)
            error = sum(float(((o - t) ** 2).sum()) for o, t in zip(out, truth)) / size
            squares.setdefault(device, []).append(error)
            if seed == options.seeds - 1:
                squares[device, "time"] = least(g, placed)
    a, b = (float(np.sqrt(np.mean(squares[d]))) for d in (xla, krafla))
    s, t = squares[xla, "time"] * 1e3, squares[krafla, "time"] * 1e3
    print(f"| {name} | {np.dtype(dtype).name} | {a:.2e} | {b:.2e} | {b / max(a, 1e-30):.2f} | {s:.3f} | {t:.3f} | {t / s:.2f} |", flush=True)


def conv(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)


def conv_rows(images, size, inputs, outputs, window, stride=1, groups=1):
    shapes = (images, size, size, inputs), (window, window, inputs // groups, outputs), (images, -(-size // stride), -(-size // stride), outputs)
    name = f"{window}x{window} conv, {inputs} to {outputs} of {images}x{size}x{size}" + f" stride {stride}" * (stride > 1) + f" groups {groups}" * (groups > 1)
    row(name, lambda x, w, g: conv(x, w, stride, groups), *shapes)
    row(name + " dx", lambda x, w, g: jax.vjp(lambda x: conv(x, w, stride, groups), x)[1](g)[0], *shapes)
    row(name + " dw", lambda x, w, g: jax.vjp(lambda w: conv(x, w, stride, groups), w)[1](g)[0], *shapes)


print("| case | type | XLA error | krafla error | ratio | XLA ms | krafla ms | ratio |")
print("|---|---|---:|---:|---:|---:|---:|---:|")
for dtype in (np.float32, jnp.bfloat16, np.float16):
    fit = 1 if dtype != np.float16 else 0.01  # sums that f16 can hold
    row("sum of 1,000,000", lambda x: (x * x.dtype.type(fit)).sum(), (1000000,), dtype=dtype, positive=True)
    row("sum 16x1000000 rows", lambda x: (x * x.dtype.type(fit)).sum(1), (16, 1000000), dtype=dtype, positive=True)
    row("sum 100000x64 columns", lambda x: (x * x.dtype.type(fit)).sum(0), (100000, 64), dtype=dtype, positive=True)
    row("sum 1000x1000 columns", lambda x: x.sum(0), (1000, 1000), dtype=dtype, positive=True)
    row("sum 16x4096x33 middle", lambda x: x.sum(1), (16, 4096, 33), dtype=dtype, positive=True)
    row("sum 64x16x16x32 to 32", lambda x: x.sum((0, 1, 2)), (64, 16, 16, 32), dtype=dtype, positive=True)
    row("cumsum 100000", lambda x: jnp.cumsum(x * x.dtype.type(fit)), (100000,), dtype=dtype, positive=True)
    row("cumsum 4096x64 columns", lambda x: jnp.cumsum(x, 0), (4096, 64), dtype=dtype, positive=True)
    row("cumsum 64x4096 rows, reverse", lambda x: lax.cumsum(x, 1, reverse=True), (64, 4096), dtype=dtype, positive=True)
    row("average pool 32x32", lambda x: lax.reduce_window(x, np.asarray(0, x.dtype), lax.add, (1, 32, 32, 1), (1, 8, 8, 1), "SAME"), (8, 128, 128, 4), dtype=dtype, positive=True)
    row("dot 512x4096x512", jnp.dot, (512, 4096), (4096, 512), dtype=dtype)
    row("dot 32x100000x32", jnp.dot, (32, 100000), (100000, 32), dtype=dtype)
    row("dot 64x100000 vector", jnp.dot, (64, 100000), (100000,), dtype=dtype)
    row("vector dot 100000x32", jnp.dot, (100000,), (100000, 32), dtype=dtype)
    row("vdot 1,000,000", jnp.vdot, (1000000,), (1000000,), dtype=dtype, positive=True)
row("variance NHWC", lambda x: (x.mean((0, 1, 2)), x.var((0, 1, 2))), (64, 16, 16, 32), shift=3)
row("logsumexp 64x10000", lambda x: jax.nn.logsumexp(x, 1), (64, 10000))
row("norm 1,000,000", lambda x: jnp.sqrt((x * x).sum()), (1000000,))
row("complex sum 1,000,000", lambda x: jnp.abs((x + 1j * x[::-1]).sum()), (1000000,), positive=True)
for case in ((64, 16, 32, 32, 3), (64, 16, 32, 32, 3, 2), (256, 8, 64, 64, 3), (8, 28, 128, 128, 3), (8, 7, 512, 512, 3), (2, 56, 64, 64, 3), (16, 112, 32, 32, 3),
             (16, 32, 16, 64, 5), (32, 16, 32, 32, 3, 1, 32), (8, 64, 3, 64, 7, 2), (32, 14, 512, 128, 1)):
    conv_rows(*case)
