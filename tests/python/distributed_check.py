#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""jax.distributed over krafla: processes that see each other's devices, and programs over all of them.

    distributed_check.py [--processes 2,4] [--local-devices 2] [--checkpoints FOLDER]

Each process is this program again, with --rank; KRAFLA_DEVICE is what the devices are made of (cpu). What is expected
comes from NumPy. With --checkpoints, arrays are saved and restored by orbax instead. With KRAFLA_JAX_CONTROL=1 the same runs on JAX's own CPU back end."""
import argparse
import os
import shutil
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


def same_shards(actual, expected):
    import numpy as np

    for a, e in zip(actual.addressable_shards, expected.addressable_shards, strict=True):
        assert a.index == e.index and a.data.dtype == e.data.dtype
        np.testing.assert_array_equal(np.asarray(a.data), np.asarray(e.data))


def check_checkpoints(folder, per):
    """Saved by all processes, restored as they were and with other shardings, and by a manager that keeps the last."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import orbax.checkpoint as ocp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, per), ("x", "y"))
    whole = np.arange(devices.size * 96, dtype=np.float32).reshape(devices.size * 4, 24)

    def cut(spec, values=whole):
        return jax.make_array_from_callback(values.shape, NamedSharding(mesh, spec), lambda index: values[index])

    rows = cut(P(("x", "y")))
    state = {"weights": rows, "half": jax.jit(lambda a: a.astype(jnp.bfloat16))(rows),
             "sum": jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(rows), "step": 7,
             "key": jax.jit(lambda: jax.random.key_data(jax.random.key(3)), out_shardings=NamedSharding(mesh, P()))()}

    def like(tree):
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
                            if isinstance(x, jax.Array) else x, tree)

    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(os.path.join(folder, "once"), state)
    checkpointer.wait_until_finished()
    restored = checkpointer.restore(os.path.join(folder, "once"), like(state))
    assert restored["step"] == 7
    for name in ("weights", "half", "sum", "key"):
        same_shards(restored[name], state[name])
    for spec in (P(), P("y", "x"), P(None, ("y", "x"))):
        expected = cut(spec)
        target = dict(like(state), weights=like(expected))
        same_shards(checkpointer.restore(os.path.join(folder, "once"), target)["weights"], expected)

    step = jax.jit(lambda a: a + 1, donate_argnums=0)
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(os.path.join(folder, "steps"), options=options) as manager:
        now = cut(P(("x", "y")))
        for turn in range(4):
            # The arrays that are being written are donated to the next step.
            manager.save(turn, args=ocp.args.StandardSave({"weights": now}))
            now = step(now)
        manager.wait_until_finished()
        assert list(manager.all_steps()) == [2, 3], manager.all_steps()
        last = manager.restore(3, args=ocp.args.StandardRestore({"weights": like(now)}))
    same_shards(last["weights"], cut(P(("x", "y")), whole + 3))


def check_moves(rank, size, per):
    """Arrays that go from the devices of one process to those of another, and back, outside of any program."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    def over(process, spec):
        return NamedSharding(Mesh(np.array(jax.local_devices(process_index=process)), ("y",)), spec)

    random = np.random.default_rng(5)
    rows = 8 * per
    tree = [random.standard_normal((rows, 5)).astype(np.float32), np.arange(rows, dtype=np.int32),
            random.standard_normal((rows, 3)).astype(jnp.bfloat16), random.integers(0, 2, (rows, 7)).astype(bool),
            random.integers(-8, 8, (rows, 3)).astype(jnp.int4), np.zeros((rows, 0), np.float32),
            (random.standard_normal((rows, 2)) * (1 + 2j)).astype(np.complex64),
            random.standard_normal((rows, 1 << 16)).astype(np.float32)]
    last = size - 1
    for spec in (P("y"), P()):
        there = jax.device_put(jax.device_put(tree, over(0, spec)), over(last, spec))
        for array, expected in zip(there, tree, strict=True):
            assert len(array.addressable_shards) == (per if rank == last else 0)
            for shard in array.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])
        # What is still being computed goes when it is there, also where its buffer is given away at once.
        if rank == last:
            there[0] = jax.jit(lambda a: a * 2 + 1, donate_argnums=0)(there[0])
        else:
            there[0] = jax.make_array_from_single_device_arrays(tree[0].shape, over(last, spec), [], dtype=np.float32)
        back = jax.device_put(there[0], over(0, spec))
        if rank == last:
            there[0] = jax.jit(lambda a: a - 5, donate_argnums=0)(there[0])
        for shard in back.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), tree[0][shard.index] * 2 + 1)


def work(rank, size, per, port, checkpoints):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    jax.distributed.initialize(f"localhost:{port}", size, rank)
    if checkpoints:
        check_checkpoints(checkpoints, per)
        jax.distributed.shutdown()
        print(f"process {rank} of {size}: checkpoints of {per} devices each", flush=True)
        return
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
    if not CONTROL:  # JAX refuses it on its own CPU back end
        check_moves(rank, size, per)
    jax.distributed.shutdown()
    print(f"process {rank} of {size}: {per} devices each, {devices[0].device_kind}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", default="2,4")
    parser.add_argument("--local-devices", type=int, default=2)
    parser.add_argument("--checkpoints", metavar="FOLDER", help="save and restore arrays below it")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.rank is not None:
        return work(options.rank, int(options.processes), options.local_devices, options.port,
                    options.checkpoints)
    environment = dict(os.environ)
    base = environment.get("KRAFLA_DEVICE", "cpu")
    if CONTROL:
        environment.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(options.local_devices),
                           JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
    else:
        environment.update(JAX_PLATFORMS="vulkan", KRAFLA_DEVICE=f"{base}*{options.local_devices}")
    for size in options.processes.split(","):
        port = free_port()
        command = [sys.executable, __file__, "--processes", size, "--port", str(port), "--local-devices",
                   str(options.local_devices)]
        if options.checkpoints:
            folder = os.path.join(os.path.abspath(options.checkpoints), size)
            shutil.rmtree(folder, ignore_errors=True)
            command += ["--checkpoints", folder]
        started = [subprocess.Popen([*command, "--rank", str(r)], env=environment) for r in range(int(size))]
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
