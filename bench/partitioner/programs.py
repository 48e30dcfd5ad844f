# SPDX-License-Identifier: Apache-2.0
"""What a program for eight devices is: a function, its arguments' shapes, and how arguments and results are cut."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

F32, I32 = jnp.float32, jnp.int32
PROGRAMS = {}
_MESHES = {}
_IS_ALONE = [False]


def line(*axes):
    """A sharding over eight devices in a row, of which "x" is the axis."""
    mesh = _MESHES.setdefault("x", Mesh(np.array(jax.devices()[:8]), ("x",)))
    return NamedSharding(mesh, PartitionSpec(*axes))


def grid(*axes):
    """A sharding over two by four devices, the axes "d" and "m"."""
    mesh = _MESHES.setdefault("dm", Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("d", "m")))
    return NamedSharding(mesh, PartitionSpec(*axes))


def cut(x, sharding):
    """A constraint within a program; none where it runs on one device (`alone`)."""
    return x if _IS_ALONE[0] else jax.lax.with_sharding_constraint(x, sharding)


def alone(function):
    def run(*arguments):
        _IS_ALONE[0] = True
        try:
            return function(*arguments)
        finally:
            _IS_ALONE[0] = False
    return run


def of(*dims, dtype=F32):
    return jax.ShapeDtypeStruct(dims, dtype)


def add(name, function, arguments, cuts, results=None):
    """`cuts`, `results`: shardings as jax.jit takes them; results that are None are left to the compiler."""
    if name in PROGRAMS:
        raise ValueError(f"two programs are named '{name}'")
    PROGRAMS[name] = (function, arguments, cuts, results)
