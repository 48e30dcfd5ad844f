# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compilation cache, which it keeps to platforms on a list of its own.

What is stored is the plugin's serialized executable; PJRT_Client_PlatformVersion is a part of the key, so that another
version of krafla finds nothing of this one's.
"""


def install(platform):
    from jax._src import compilation_cache

    original = compilation_cache.is_cache_used
    if getattr(original, "krafla", False):
        return

    def is_cache_used(backend):
        if getattr(backend, "platform", None) != platform:
            return original(backend)
        return bool(compilation_cache._is_cache_enabled()) and getattr(
            backend, "supports_executable_serialization", True)

    is_cache_used.krafla = True
    compilation_cache.is_cache_used = is_cache_used
