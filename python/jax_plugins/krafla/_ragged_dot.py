# SPDX-License-Identifier: Apache-2.0
"""jax.lax.ragged_dot as the operation of that name, which JAX keeps for TPUs and GPUs.

Its fallback multiplies all rows, masked, by the matrix of every group.
"""
import functools


def install(platform):
    from jax._src.interpreters import mlir
    from jax._src.lax import lax

    mlir.register_lowering(lax.ragged_dot_general_p, functools.partial(lax._ragged_dot_general_lower, platform=platform),
                           platform=platform)
