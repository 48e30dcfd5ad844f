# SPDX-License-Identifier: Apache-2.0
"""The client lives as long as the process.

An array of NumPy's that jax.device_get gave may be a view of the client's memory, and holds a reference that jaxlib
counts in the client. JAX drops its clients when the interpreter ends, before the modules that hold such arrays: the last
of them would look into a client that is gone (jaxlib 0.10.2, PjRtCApiExternalReference). Of a program over several
processes the client goes as ever, since its end is a step of all of them.
"""
import ctypes
import dataclasses


def install(platform):
    from jax._src import distributed, xla_bridge

    registration = xla_bridge._backend_factories[platform]
    make = registration.factory

    def factory(*arguments, **options):
        client = make(*arguments, **options)
        if distributed.global_state.client is None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        return client

    xla_bridge._backend_factories[platform] = dataclasses.replace(registration, factory=factory)
