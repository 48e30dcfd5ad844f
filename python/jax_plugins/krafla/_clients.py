# SPDX-License-Identifier: Apache-2.0
"""Libraries over JAX that decide by the name of the platform and know no other than cpu, gpu and tpu.

Each entry is a module and what is changed in it, when it is imported or at once where it has been. docs/jax.md lists them.
A library that asks in another way than the one that is known here is left as it is.
"""
import importlib.abc
import importlib.util
import logging
import sys

_log = logging.getLogger(__name__)


def _mjx(module, platform):
    """mjx.put_model picks an implementation by the platform; JAX's own is the one for every other than CUDA's."""
    resolve, jax_impl = module._resolve_impl, module.types.Impl.JAX

    def _resolve_impl(device):
        return jax_impl if device.platform == platform else resolve(device)

    module._resolve_impl = _resolve_impl


_CLIENTS = {"mujoco.mjx._src.io": _mjx}


def _adapt(module, platform):
    try:
        _CLIENTS[module.__name__](module, platform)
    except Exception:  # its private names have moved: it works as it would without this
        _log.debug("%s is not as krafla's JAX plugin knows it.", module.__name__, exc_info=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the named modules as everyone else does, and has them adapted once they are there."""

    def __init__(self, platform):
        self._platform = platform
        self._looking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _CLIENTS or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        run, platform = spec.loader.exec_module, self._platform

        def exec_module(module):
            run(module)
            _adapt(module, platform)

        spec.loader.exec_module = exec_module
        return spec


def install(platform):
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name in _CLIENTS:
        if name in sys.modules:
            _adapt(sys.modules[name], platform)
    sys.meta_path.insert(0, _Finder(platform))
