# SPDX-License-Identifier: Apache-2.0
"""Importing this package declares all cases."""
from . import (conv, dot, elementwise, fft, gather, image, linalg, loops, orders, pool, programs,  # noqa: F401
               random_numbers, reduce, scatter, shapes, simulations)
