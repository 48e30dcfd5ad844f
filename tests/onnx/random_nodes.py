# SPDX-License-Identifier: Apache-2.0
"""Random nodes of ONNX's operators, each family of which registers itself in DRAWS when its file is imported."""
import random_nodes_elements  # noqa: F401
import random_nodes_indices  # noqa: F401
import random_nodes_layers  # noqa: F401
import random_nodes_microsoft  # noqa: F401
import random_nodes_windows  # noqa: F401
from random_node import DRAWS, Node  # noqa: F401
