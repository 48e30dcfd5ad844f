#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""jax.experimental.custom_partitioning over krafla's devices (KRAFLA_DEVICE, eight of them): rules of Shardy, functions
that give the sharding of a result, and what a function refuses."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def first(entry):
    return entry[0] if isinstance(entry, tuple) else entry


def product():
    """Depth and rows are cut; the partial products are added up by the function's own collective."""
    @functools.partial(custom_partitioning, static_argnums=(2,))
    def dot(x, y, times):
        z = x @ y
        return z, z * times

    def partition(times, mesh, arguments, results):
        x, y = (a.sharding for a in arguments)
        out = results[0].sharding
        depth = first(y.spec[0])

        def local(x, y):
            rows = y.shape[0]
            start = jax.lax.axis_index(depth) * rows
            z = jax.lax.psum(jax.lax.dynamic_slice_in_dim(x, start, rows, 1) @ y, depth)
            return z, z * times

        return mesh, local, (out, out), (NamedSharding(mesh, P(*x.spec[:1], None)), y)

    dot.def_partition(partition, sharding_rule="i k, k j -> i j, i j")
    return dot


def normalised():
    """Rows that the function wants whole, whatever they came as."""
    @custom_partitioning
    def norm(x):
        return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True))

    def partition(mesh, arguments, result):
        spec = arguments[0].sharding.spec
        rows = NamedSharding(mesh, P(*spec[:1], None))
        return mesh, lambda x: x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True)), rows, (rows,)

    norm.def_partition(partition, sharding_rule="i j -> i j")
    return norm


def check(mesh):
    random = np.random.default_rng(3)
    x = random.integers(-4, 5, (32, 16)).astype(np.float32)
    y = random.integers(-4, 5, (16, 24)).astype(np.float32)
    put = lambda a, spec: jax.device_put(a, NamedSharding(mesh, spec))
    dot, norm = product(), normalised()
    z, twice = jax.jit(dot, static_argnums=2)(put(x, P("x", None)), put(y, P("y", None)), 2.0)
    np.testing.assert_array_equal(np.asarray(z), x @ y)
    np.testing.assert_array_equal(np.asarray(twice), 2 * (x @ y))
    assert z.sharding.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2), z.sharding
    # In a loop, between other operations, with an operand that is cut otherwise.
    def steps(a):
        return jax.lax.fori_loop(0, 3, lambda _, s: norm(s + 1), a)

    expected = x + 0
    for _ in range(3):
        expected = (expected + 1) / np.sqrt(np.sum((expected + 1) ** 2, -1, keepdims=True))
    for spec in (P("x"), P(None, "y"), P("x", "y"), P()):
        np.testing.assert_allclose(np.asarray(jax.jit(steps)(put(x, spec))), expected, rtol=2e-6)
    # Of one device there is nothing to cut.
    np.testing.assert_allclose(np.asarray(jax.jit(steps)(x)), expected, rtol=2e-6)

    @custom_partitioning
    def refuses(x):
        return x * 2

    def partition(mesh, arguments, result):
        raise ValueError("This cannot be cut.")

    refuses.def_partition(partition, sharding_rule="i j -> i j")
    try:
        jax.block_until_ready(jax.jit(refuses)(put(x, P("x"))))
    except Exception as error:
        assert "This cannot be cut." in str(error), error
    else:
        raise AssertionError("a partition that fails is an error")


def main():
    mesh = jax.make_mesh((4, 2), ("x", "y"), devices=jax.devices()[:8],
                         axis_types=(jax.sharding.AxisType.Auto,) * 2)
    with mesh:  # else JAX has no names of axes for loops
        check(mesh)
    print("custom partitioning: as without", jax.devices()[0].device_kind)


if __name__ == "__main__":
    main()
