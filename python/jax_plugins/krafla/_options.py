# SPDX-License-Identifier: Apache-2.0
"""Which device, and what else the plugin's client is made with."""
import os


def _define(name, default, help_text):
    """A jax.config option, where JAX lets others define some."""
    try:
        from jax._src import config

        return config.string_state(name, default, help_text) if not hasattr(config.config, name) else None
    except Exception:
        return None


_STATES = {
    "device": _define("krafla_device", os.environ.get("KRAFLA_DEVICE", ""),
                      "Device of the platform vulkan: vulkan, vulkan:1, vulkan:0*4, cpu, ... (KRAFLA_DEVICE)"),
    "disable": _define("krafla_disable", os.environ.get("KRAFLA_DISABLE", ""),
                       "Features of krafla to switch off: fusion,coopmat,bda ... (KRAFLA_DISABLE)"),
    "enable": _define("krafla_enable", os.environ.get("KRAFLA_ENABLE", ""),
                      "Features of krafla to switch on (KRAFLA_ENABLE)"),
}


def create_options():
    """The options of PJRT_Client_Create; an empty one is left out."""
    options = {}
    for name, state in _STATES.items():
        value = state.value if state is not None else os.environ.get("KRAFLA_" + name.upper(), "")
        if value:
            options[name] = value
    return options
