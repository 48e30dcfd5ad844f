# SPDX-License-Identifier: Apache-2.0
"""What JAX's tests ask of the package of this name."""
import socket


def pick_unused_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
