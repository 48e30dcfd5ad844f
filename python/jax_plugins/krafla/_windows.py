# SPDX-License-Identifier: Apache-2.0
"""Gradients of max pools: the lowering that JAX has for the CPU and for GPUs, by name.

Its fallback gives padding to select-and-scatter, where a window that lies partly outside takes another of several equal
elements than one over an array that was padded before, as JAX does on every other platform. Zeros after a relu are equal.
"""
import functools


def install(platform):
    from jax._src.interpreters import mlir
    from jax._src.lax import windowed_reductions as windows

    padded_before = functools.partial(windows._select_and_scatter_add_impl, expand_padding=True)
    mlir.register_lowering(windows.select_and_scatter_add_p, mlir.lower_fun(padded_before, multiple_results=False),
                           platform=platform)
