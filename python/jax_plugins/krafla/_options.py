# SPDX-License-Identifier: Apache-2.0
"""Which device the plugin's client is made with."""
import os


def create_options():
    """The options of PJRT_Client_Create, read when JAX makes the client. JAX's own option goes before the environment:
    jax.config.update("jax_pjrt_client_create_options", {"device": "vulkan:0*4"}).
    """
    device = os.environ.get("KRAFLA_DEVICE")
    return {"device": device} if device else {}
