# SPDX-License-Identifier: Apache-2.0
"""JAX on Vulkan devices: registers krafla's PJRT plugin as the platform "vulkan".

JAX finds this package by itself and calls initialize(). The devices are chosen by KRAFLA_DEVICE, or in the program,
before its first computation, by jax.config.update("jax_pjrt_client_create_options", {"device": ..}): "vulkan" (the
best), "vulkan:1", "vulkan:0*4" (four virtual devices on one), "vulkan:0,vulkan:1", "cpu", "cpu*8". Platforms:

  JAX_PLATFORMS=vulkan,cpu   Vulkan first, JAX's own CPU back end beside it
  JAX_PLATFORMS unset        the same, as krafla has a higher priority than the CPU
"""
import logging
import os

from . import _options

PLATFORM = "vulkan"

# The versions of jaxlib that this package was written for and tested with; the last one excluded. What lies outside
# is tried all the same, with a warning: the C API promises compatibility, JAX's private Python interfaces do not.
OLDEST_JAXLIB = (0, 9, 0)
NEWEST_JAXLIB = (0, 13, 0)
TESTED_JAXLIB = "0.10.2"

_log = logging.getLogger(__name__)


def _check_versions():
    import jaxlib

    version = tuple(int(part) for part in jaxlib.__version__.split(".")[:3] if part.isdigit())
    if version < OLDEST_JAXLIB:
        raise RuntimeError(
            f"krafla's JAX plugin needs jaxlib {'.'.join(map(str, OLDEST_JAXLIB))} or newer (tested with "
            f"{TESTED_JAXLIB}); jaxlib {jaxlib.__version__} is installed. Install a newer jax and jaxlib, or uninstall "
            "krafla to use JAX without it.")
    if version >= NEWEST_JAXLIB:
        _log.warning("krafla's JAX plugin was tested with jaxlib %s; jaxlib %s is installed. Should something fail, "
                     "look for a newer krafla.", TESTED_JAXLIB, jaxlib.__version__)


def initialize():
    """Called by JAX when it looks for its back ends."""
    from jax._src import xla_bridge

    import krafla

    _check_versions()
    try:
        # Else JAX warns that the platform is experimental.
        xla_bridge._nonexperimental_plugins.add(PLATFORM)
    except AttributeError:
        pass
    library = krafla.pjrt_library_path()
    xla_bridge.register_plugin(PLATFORM, priority=500, library_path=library, options=_options.create_options)
    if not os.environ.get("JAX_PLATFORMS"):
        _fail_quietly(xla_bridge)

    # What JAX has for the platforms that it knows by name only.
    from . import (_cache, _clients, _custom_partitioning, _donation, _host_callback, _lifetime, _linalg, _ragged_dot,
                   _windows)

    def host_functions(platform):
        _host_callback.install(platform, library)
        _linalg.install(platform)

    for install in (_donation.install, _cache.install, _clients.install, _custom_partitioning.install,
                    _lifetime.install, _ragged_dot.install, _windows.install, host_functions):
        try:
            install(PLATFORM)
        except Exception:  # a private interface of JAX that moved costs its feature, not the platform
            _log.warning("A part of krafla's JAX plugin does not fit this version of JAX.", exc_info=True)


def _fail_quietly(xla_bridge):
    """Where nobody asked for Vulkan, a device that cannot be opened must not take JAX's CPU away."""
    import dataclasses

    try:
        factories = xla_bridge._backend_factories
        factories[PLATFORM] = dataclasses.replace(factories[PLATFORM], fail_quietly=True)
    except (AttributeError, KeyError, TypeError):
        pass
