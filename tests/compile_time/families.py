# SPDX-License-Identifier: Apache-2.0
"""Families of HLO modules that grow with one number, of about `n` instructions (or, in NESTED, `n` levels).

Each is a function from n to a module's text. They reach every category of operation and every shape of graph: chains,
fans, trees, nests, wide operand and result lists, long constants. Importing a file of them registers its families.
"""
import contraction_families  # noqa: F401
import control_families  # noqa: F401
import elementwise_families  # noqa: F401
import movement_families  # noqa: F401
import nested_families  # noqa: F401
import scalar_families  # noqa: F401
from family import FAMILIES, NESTED  # noqa: F401
