# SPDX-License-Identifier: Apache-2.0
"""A compiled program as bytes: stored, loaded again and run; and the portable form, jax.export."""
import pickle

import checks
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.experimental import serialize_executable


def f(x, y):
    return {"sum": x + y, "product": jnp.tanh(x @ y)}


x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
compiled = jax.jit(f).lower(x, x).compile()
stored = pickle.dumps(serialize_executable.serialize(compiled))
loaded = serialize_executable.deserialize_and_load(*pickle.loads(stored), execution_devices=jax.devices()[:1])
print(f"{len(stored)} bytes")
checks.close("a loaded executable", loaded(x, x), {"sum": x + x, "product": np.tanh(x @ x)})

exported = jax.export.export(jax.jit(f), platforms=("vulkan", "cpu"))(
    jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((8, 8), jnp.float32))
again = jax.export.deserialize(exported.serialize())
checks.close("an exported function", jax.jit(again.call)(x, x), {"sum": x + x, "product": np.tanh(x @ x)})
