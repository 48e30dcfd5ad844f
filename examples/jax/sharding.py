# SPDX-License-Identifier: Apache-2.0
"""Several devices: jit with shardings, shard_map with collectives, a data-parallel step of training.

Where KRAFLA_DEVICE names fewer than two devices, four virtual ones are made on the best Vulkan device, two with an
argument of 2.
"""
import os
import sys

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 4
selector = os.environ.get("KRAFLA_DEVICE") or "vulkan:0"
if "*" not in selector and "," not in selector:
    os.environ["KRAFLA_DEVICE"] = f"{selector}*{COUNT}"

import checks
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

checks.require(f"{COUNT} devices", len(jax.devices()) >= COUNT)
mesh = jax.make_mesh((COUNT,), ("data",), devices=jax.devices()[:COUNT], axis_types=(jax.sharding.AxisType.Auto,))
by_row = NamedSharding(mesh, P("data"))
everywhere = NamedSharding(mesh, P())
rng = np.random.default_rng(0)
x, w = rng.normal(size=(16, 8)).astype(np.float32), rng.normal(size=(8, 8)).astype(np.float32)

xs, ws = jax.device_put(x, by_row), jax.device_put(w, everywhere)
product = jax.jit(lambda a, b: jnp.tanh(a @ b))(xs, ws)
checks.close("jit over sharded rows", product, np.tanh(x @ w))
checks.require("one shard a device", len({s.device for s in xs.addressable_shards}) == COUNT)
checks.close("a sum over all", jax.jit(lambda a: a.sum(0))(xs), x.sum(0))
constrained = jax.jit(lambda a: jax.lax.with_sharding_constraint(a * 2, everywhere), out_shardings=by_row)(xs)
checks.close("a constraint inside", constrained, x * 2)
checks.require("the output's sharding", constrained.sharding.is_equivalent_to(by_row, 2))
uneven = jax.jit(lambda a: jax.nn.softmax(jax.lax.with_sharding_constraint(a[1:14], by_row)).mean(0))(xs)
shares = np.exp(x[1:14]) / np.exp(x[1:14]).sum(1, keepdims=True)
checks.close("rows that the devices do not divide", uneven, shares.mean(0))
seen = []


@jax.jit
def inspected(a):
    b = jnp.sin(a)
    jax.debug.inspect_array_sharding(b, callback=seen.append)
    return b * 2


checks.close("a value that is inspected", inspected(xs), np.sin(x) * 2)
checks.require("its sharding, told once", len(seen) == 1 and seen[0].is_equivalent_to(by_row, 2))


def local(a):
    total = jax.lax.psum(a, "data")
    right = jax.lax.ppermute(a, "data", [(i, (i + 1) % COUNT) for i in range(COUNT)])
    return total, right, jax.lax.axis_index("data")[None]


total, right, index = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P("data"), out_specs=(P(), P("data"), P("data"))))(xs)
blocks = x.reshape(COUNT, -1, 8)
checks.close("psum", total, blocks.sum(0))
checks.close("ppermute", right, np.roll(blocks, 1, 0).reshape(16, 8))
checks.same("axis_index", index, np.arange(COUNT, dtype=np.int32))
gathered = jax.jit(jax.shard_map(lambda a: jax.lax.all_gather(a, "data", tiled=True), mesh=mesh, in_specs=P("data"),
                                 out_specs=P(None), check_vma=False))(xs)
checks.close("all_gather", gathered, x)

loss = lambda w, a: jnp.mean((a @ w - 1) ** 2)
step = jax.jit(lambda w, a: w - 0.1 * jax.grad(loss)(w, a))
checks.close("a data-parallel step", step(ws, xs), w - 0.1 * (2 / (16 * 8)) * x.T @ (x @ w - 1), atol=1e-4)
