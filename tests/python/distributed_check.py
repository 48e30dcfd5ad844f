#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""jax.distributed over krafla: processes that see each other's devices, and programs over all of them.

    distributed_check.py [--processes 2,4] [--local-devices 2]

Each process is this program again, with --rank; KRAFLA_DEVICE is what the devices are made of (cpu). What is expected
comes from NumPy. With KRAFLA_JAX_CONTROL=1 the same runs on JAX's own CPU back end."""
import argparse
import os
import socket
import subprocess
import sys

CONTROL = os.environ.get("KRAFLA_JAX_CONTROL") == "1"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check_training(mesh, sharding, whole, weights):
    """Training, data-parallel: every process ends with the same weights."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import NamedSharding, PartitionSpec as P

    def loss(w, a):
        return jnp.mean((jnp.tanh(a @ w) - 0.5) ** 2)

    train = jax.jit(lambda w, a: w - 0.1 * jax.grad(loss)(w, a), donate_argnums=0)
    state = jax.device_put(weights, NamedSharding(mesh, P()))
    small = jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index] / whole.size)
    for _ in range(5):
        state = train(state, small)
    finals = multihost_utils.process_allgather(np.asarray(state.addressable_shards[0].data))
    assert all((f == finals[0]).all() for f in finals)
    expected = weights.astype(np.float64)
    for _ in range(5):
        y = np.tanh(whole / whole.size @ expected)
        expected = expected - 0.1 * (whole / whole.size).T @ (2 * (y - 0.5) * (1 - y * y) / y.size)
    np.testing.assert_allclose(finals[0], expected, rtol=2e-4, atol=2e-5)


def work(rank, size, per, port):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    jax.distributed.initialize(f"localhost:{port}", size, rank)
    total = size * per
    devices = jax.devices()
    assert (len(devices), len(jax.local_devices())) == (total, per), (devices, jax.local_devices())
    assert jax.process_index() == rank and jax.process_count() == size
    assert [d.process_index for d in devices] == [d // per for d in range(total)]
    assert all(d.process_index == rank for d in jax.local_devices())

    mesh = Mesh(np.array(devices).reshape(size, per), ("x", "y"))
    whole = np.arange(total * 6 * 4, dtype=np.float32).reshape(total * 2, 12)
    sharding = NamedSharding(mesh, P(("x", "y")))
    array = jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), whole[shard.index])

    # A program that the partitioner cuts, with a result that all have.
    weights = np.linspace(-1, 1, 12 * 5, dtype=np.float32).reshape(12, 5)
    step = jax.jit(lambda a, w: (jnp.sin(a) @ w, jnp.sum(a * a)), out_shardings=(sharding, NamedSharding(mesh, P())))
    product, squares = step(array, weights)
    np.testing.assert_allclose(float(squares), np.sum(whole.astype(np.float64) ** 2), rtol=1e-5)
    everywhere = multihost_utils.process_allgather(product, tiled=True)
    np.testing.assert_allclose(everywhere, np.sin(whole) @ weights, rtol=2e-4, atol=2e-4)

    # Collectives by name, over one axis and over both.
    def block(a):
        ring = [(i, (i + 1) % size) for i in range(size)]
        return (jax.lax.psum(a, ("x", "y")), jax.lax.all_gather(a, "x", tiled=True), jax.lax.ppermute(a, "x", ring),
                jax.lax.psum_scatter(jnp.tile(a, (total, 1)), ("x", "y"), tiled=True), jax.lax.pmax(a, "y"))

    sums, gathered, moved, scattered, largest = jax.jit(jax.shard_map(
        block, mesh=mesh, in_specs=P(("x", "y")), out_specs=(P(None), P("y"), P(("x", "y")), P(("x", "y")), P("x")),
        check_vma=False))(array)
    blocks = whole.reshape(size, per, 2, 12)
    np.testing.assert_array_equal(np.asarray(sums.addressable_shards[0].data), blocks.sum((0, 1)))
    for shard in gathered.addressable_shards:
        d = devices.index(shard.device) % per
        np.testing.assert_array_equal(np.asarray(shard.data), blocks[:, d].reshape(-1, 12))
    for shard in moved.addressable_shards:
        d = devices.index(shard.device)
        np.testing.assert_array_equal(np.asarray(shard.data), blocks[(d // per - 1) % size, d % per])
    for shard in scattered.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), blocks.sum((0, 1)))
    for shard in largest.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), blocks[devices.index(shard.device) // per].max(0))

    # Arrays of local parts, and what processes tell each other.
    local = np.full((per, 3), rank, np.int32)
    joined = jax.make_array_from_process_local_data(NamedSharding(mesh, P(("x", "y"))), local)
    total_sum = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(joined)
    assert int(total_sum) == 3 * per * sum(range(size))
    told = multihost_utils.broadcast_one_to_all(np.array([rank + 7.0], np.float32))
    assert float(np.asarray(told)[0]) == 7.0
    assert list(multihost_utils.process_allgather(np.int32(rank))) == list(range(size))
    multihost_utils.sync_global_devices("before training")
    # Between two processes only, and within one.
    own = Mesh(np.array(jax.local_devices()), ("y",))
    doubled = jax.jit(lambda a: a * 2, out_shardings=NamedSharding(own, P("y")))(
        jax.device_put(np.arange(per, dtype=np.float32), NamedSharding(own, P("y"))))
    np.testing.assert_array_equal(np.asarray(doubled), 2 * np.arange(per))

    check_training(mesh, sharding, whole, weights)
    jax.distributed.shutdown()
    print(f"process {rank} of {size}: {per} devices each, {devices[0].device_kind}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", default="2,4")
    parser.add_argument("--local-devices", type=int, default=2)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.rank is not None:
        return work(options.rank, int(options.processes), options.local_devices, options.port)
    environment = dict(os.environ)
    base = environment.get("KRAFLA_DEVICE", "cpu")
    if CONTROL:
        environment.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(options.local_devices),
                           JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
    else:
        environment.update(JAX_PLATFORMS="vulkan", KRAFLA_DEVICE=f"{base}*{options.local_devices}")
    for size in options.processes.split(","):
        port = free_port()
        started = [subprocess.Popen([sys.executable, __file__, "--processes", size, "--rank", str(r), "--port", str(port),
                                     "--local-devices", str(options.local_devices)], env=environment)
                   for r in range(int(size))]
        try:
            codes = [p.wait(timeout=240) for p in started]
        except subprocess.TimeoutExpired:
            for p in started:
                p.kill()
            print(f"{size} processes have not ended")
            return 1
        if any(codes):
            print(f"{size} processes ended with {codes}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
