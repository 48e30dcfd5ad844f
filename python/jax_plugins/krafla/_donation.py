# SPDX-License-Identifier: Apache-2.0
"""JAX marks donated arguments only for platforms on a list of its own."""


def install(platform):
    from jax._src.interpreters import mlir

    platforms = getattr(mlir, "_platforms_with_donation", None)
    if platforms is not None and platform not in platforms:
        platforms.append(platform)
