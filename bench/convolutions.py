#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convolutions, their gradients and pools on one core: krafla's CPU beside XLA's.

    JAX_PLATFORMS=cpu JAX_ENABLE_X64=1 taskset -c 0 bench/convolutions.py KRAFLA [KRAFLA...] [--filter TEXT]

Each case is lowered by JAX to StableHLO, which `krafla bench` runs on one thread. Prints processor time a run in ms, the
least of some runs, and krafla's by XLA's; more than one KRAFLA is before and after.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LAYOUTS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}
FIRST = {1: ("NCW", "OIW", "NCW"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")}


def cases():
    """name -> (function, arguments)"""
    out = {}

    def array(shape, dtype):
        values = np.random.default_rng(0).uniform(-1, 1, shape)
        return jnp.asarray(values * 3 if np.issubdtype(dtype, np.integer) else values).astype(dtype)

    def conv(name, n, size, i, o, k, what="fwd", dtype=jnp.float32, first=False, groups=1, batch_groups=1, out_dtype=None,
             **kw):
        rank = len(size)
        layout = (FIRST if first else LAYOUTS)[rank]
        shape = (n, i, *size) if first else (n, *size, i)
        kernel = (o, i // groups, *k) if first else (*k, i // groups, o)
        kw.setdefault("window_strides", (1,) * rank)
        kw.setdefault("padding", "SAME")

        def forward(x, w):
            return lax.conv_general_dilated(x, w, dimension_numbers=layout, feature_group_count=groups,
                                            batch_group_count=batch_groups, preferred_element_type=out_dtype, **kw)

        x, w = array(shape, dtype), array(kernel, dtype)
        if what == "fwd":
            out[name] = forward, (x, w)
            return
        g = array(jax.eval_shape(forward, x, w).shape, dtype)
        if what == "dx":
            out[name] = (lambda w, g: jax.linear_transpose(lambda x: forward(x, w), x)(g)[0]), (w, g)
        else:
            out[name] = (lambda x, g: jax.linear_transpose(lambda w: forward(x, w), w)(g)[0]), (x, g)

    s2, s3, d2 = (2, 2), (3, 3), (2, 2)
    for what in ("fwd", "dx", "dw"):
        conv(f"3x3 {what}", 16, (32, 32), 32, 32, (3, 3), what)
        conv(f"3x3 stride 2 {what}", 16, (32, 32), 32, 64, (3, 3), what, window_strides=s2)
        conv(f"3x3 stride 3 {what}", 16, (33, 33), 32, 32, (3, 3), what, window_strides=s3)
        conv(f"1x1 stride 2 {what}", 16, (32, 32), 32, 64, (1, 1), what, window_strides=s2)
        conv(f"7x7 stride 2, 3 channels {what}", 4, (112, 112), 3, 64, (7, 7), what, window_strides=s2)
        conv(f"3x3 dilated {what}", 8, (32, 32), 32, 32, (3, 3), what, rhs_dilation=d2)
        conv(f"3x3 NCHW {what}", 16, (32, 32), 32, 32, (3, 3), what, first=True)
        conv(f"3x3 stride 2 NCHW {what}", 16, (32, 32), 32, 64, (3, 3), what, first=True, window_strides=s2)
        conv(f"3x3 depthwise {what}", 8, (32, 32), 64, 64, (3, 3), what, groups=64)
        conv(f"3x3 depthwise stride 2 {what}", 8, (32, 32), 64, 64, (3, 3), what, groups=64, window_strides=s2)
        conv(f"3x3 depthwise NCHW {what}", 8, (32, 32), 64, 64, (3, 3), what, groups=64, first=True)
        conv(f"3x3 groups of 4 {what}", 8, (32, 32), 64, 64, (3, 3), what, groups=16)
        conv(f"3x3 two groups {what}", 8, (32, 32), 64, 64, (3, 3), what, groups=2)
        conv(f"3x3 f16 {what}", 8, (32, 32), 32, 32, (3, 3), what, jnp.float16)
        conv(f"3x3 stride 2 f16 {what}", 8, (32, 32), 32, 32, (3, 3), what, jnp.float16, window_strides=s2)
        conv(f"3x3 bf16 {what}", 8, (32, 32), 32, 32, (3, 3), what, jnp.bfloat16)
        conv(f"3x3 stride 2 bf16 {what}", 8, (32, 32), 32, 32, (3, 3), what, jnp.bfloat16, window_strides=s2)
        conv(f"3x3 f64 {what}", 8, (32, 32), 32, 32, (3, 3), what, jnp.float64)
        conv(f"3x3 stride 2 f64 {what}", 8, (32, 32), 32, 32, (3, 3), what, jnp.float64, window_strides=s2)
        conv(f"1d 5 stride 2 {what}", 16, (1024,), 32, 32, (5,), what, window_strides=(2,))
        conv(f"1d 9 {what}", 16, (1024,), 16, 16, (9,), what)
        conv(f"3d 3x3x3 {what}", 2, (16, 16, 16), 16, 16, (3, 3, 3), what)
        conv(f"3d 3x3x3 stride 2 {what}", 2, (16, 16, 16), 16, 32, (3, 3, 3), what, window_strides=(2, 2, 2))
        conv(f"digits 16x16x1 {what}", 64, (16, 16), 1, 32, (3, 3), what)
        conv(f"digits 4x4x128 {what}", 64, (4, 4), 128, 128, (3, 3), what)
    conv("transposed 4x4 stride 2", 8, (16, 16), 64, 32, (4, 4), lhs_dilation=d2, padding=[(2, 2)] * 2)
    conv("transposed 3x3 stride 3", 8, (16, 16), 32, 32, (3, 3), lhs_dilation=s3, padding=[(2, 2)] * 2)
    conv("transposed and strided", 8, (16, 16), 32, 32, (3, 3), lhs_dilation=(3, 3), window_strides=s2, padding=[(2, 2)] * 2)
    conv("transposed 1d", 16, (256,), 64, 64, (4,), lhs_dilation=(2,), padding=[(2, 1)])
    conv("transposed 3d", 2, (8, 8, 8), 32, 32, (3, 3, 3), lhs_dilation=(2, 2, 2), padding=[(1, 2)] * 3)
    conv("transposed f16", 8, (16, 16), 32, 32, (4, 4), dtype=jnp.float16, lhs_dilation=d2, padding=[(2, 2)] * 2)
    conv("transposed f64", 8, (16, 16), 32, 32, (4, 4), dtype=jnp.float64, lhs_dilation=d2, padding=[(2, 2)] * 2)
    conv("transposed depthwise", 8, (16, 16), 64, 64, (4, 4), groups=64, lhs_dilation=d2, padding=[(2, 2)] * 2)
    conv("negative padding", 16, (32, 32), 32, 32, (3, 3), padding=[(-1, 1), (-2, -1)])
    conv("batch groups", 16, (32, 32), 32, 32, (3, 3), batch_groups=4)
    conv("s8 to s32", 4, (32, 32), 32, 32, (3, 3), dtype=jnp.int8, out_dtype=jnp.int32)
    conv("s32", 4, (32, 32), 32, 32, (3, 3), dtype=jnp.int32)
    conv("u8", 4, (32, 32), 32, 32, (3, 3), dtype=jnp.uint8, out_dtype=jnp.uint32)
    conv("complex64", 4, (32, 32), 16, 16, (3, 3), dtype=jnp.complex64)

    def pool(name, shape, window, strides, padding, operation=lax.max, start=-np.inf, dtype=jnp.float32, **kw):
        start = np.asarray(start, dtype)
        out[name] = (lambda x: lax.reduce_window(x, start, operation, window, strides, padding, **kw)), (array(shape, dtype),)

    for name, operation, start in (("max", lax.max, -np.inf), ("sum", lax.add, 0)):
        pool(f"{name} pool 2x2 stride 2", (8, 64, 64, 32), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", operation, start)
        pool(f"{name} pool 3x3 stride 2 padded", (8, 64, 64, 32), (1, 3, 3, 1), (1, 2, 2, 1), "SAME", operation, start)
        pool(f"{name} pool 2x2 stride 1 padded", (1, 80, 80, 24), (1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (0, 1), (0, 1), (0, 0)),
             operation, start)
        pool(f"{name} pool 2x2 stride 1 padded NCHW", (1, 24, 80, 80), (1, 1, 2, 2), (1, 1, 1, 1),
             ((0, 0), (0, 0), (0, 1), (0, 1)), operation, start)
        pool(f"{name} pool 3x3 stride 2 padded NCHW", (8, 32, 64, 64), (1, 1, 3, 3), (1, 1, 2, 2),
             ((0, 0), (0, 0), (1, 1), (1, 1)), operation, start)
        pool(f"{name} pool 5x5 stride 1 padded", (4, 32, 32, 64), (1, 5, 5, 1), (1, 1, 1, 1), "SAME", operation, start)
        pool(f"{name} pool 3 dilated 1d", (16, 2048, 8), (1, 3, 1), (1, 1, 1), "SAME", operation, start, window_dilation=(1, 2, 1))
        pool(f"{name} pool 3d", (2, 16, 32, 32, 16), (1, 2, 3, 3, 1), (1, 2, 2, 2, 1), "SAME", operation, start)
        pool(f"{name} pool bf16", (8, 64, 64, 32), (1, 3, 3, 1), (1, 2, 2, 1), "SAME", operation, start, jnp.bfloat16)

    def max_pool_gradient(name, shape, window, strides, padding):
        def f(x):
            return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding).sum()
        out[name] = jax.grad(f), (array(shape, jnp.float32),)

    max_pool_gradient("max pool 2x2 gradient", (8, 64, 64, 32), (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    max_pool_gradient("max pool 3x3 stride 2 gradient", (8, 64, 64, 32), (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return out


def xla_ms(function, arguments):
    compiled = jax.jit(function).lower(*arguments).compile()
    best = 1e9
    for _ in range(7):
        begin = time.process_time()
        jax.block_until_ready(compiled(*arguments))
        best = min(best, time.process_time() - begin)
        if best > 0.3:
            break
    # Short runs together: the clock is no finer.
    count = max(1, int(0.02 / best))
    for _ in range(4 if count > 1 else 0):
        begin = time.process_time()
        for _ in range(count):
            jax.block_until_ready(compiled(*arguments))
        best = min(best, (time.process_time() - begin) / count)
    return best * 1e3


def krafla_ms(krafla, module):
    def run(iterations):
        out = subprocess.run([krafla, "bench", module, "-d", "cpu", "--threads", "1", "--json", "--iters", str(iterations)],
                             capture_output=True, text=True)
        return json.loads(out.stdout.splitlines()[0]) if out.returncode == 0 else None
    first = run(1)
    if first is None:
        return float("nan")
    best = first["cpu_ms"]
    count = max(3, min(200, int(30 / max(best, 0.05))))
    for _ in range(1 if best > 300 else 3):
        best = min(best, run(count)["cpu_ms"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla", nargs="+")
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    slow = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (function, values) in cases().items():
            if arguments.filter not in name:
                continue
            module = os.path.join(folder, "case.mlir")
            with open(module, "w") as f:
                f.write(jax.jit(function).lower(*values).as_text())
            xla = xla_ms(function, values)
            line = f"| {name} | {xla:.3f} |"
            for krafla in arguments.krafla:
                ours = krafla_ms(krafla, module)
                line += f" {ours:.3f} | {ours / xla:.2f} |"
            slow += ours > 1.3 * xla
            print(line, flush=True)
    print(f"{slow} cases slower than 1.3 times XLA")


if __name__ == "__main__":
    main()
