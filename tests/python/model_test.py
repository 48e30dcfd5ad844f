#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""krafla.load on the C interface: no JAX, and nothing compiled for this Python.    model_test.py DEVICE MODEL"""
import os
import pathlib
import signal
import sys
import tempfile
import threading

import numpy as np

import krafla

DEVICE, MODEL = sys.argv[1:]
AFFINE = b"""HloModule affine, frontend_attributes={krafla.result_names="sum,scaled"}
ENTRY main {
  x = f32[4,3] parameter(0), metadata={op_name="image"}
  y = f32[3] parameter(1)
  b = f32[4,3] broadcast(y), dimensions={1}
  s = f32[4,3] add(x, b)
  n = f32[4,3] multiply(s, b)
  ROOT t = (f32[4,3], f32[4,3]) tuple(s, n)
}"""
FOREVER = b"""HloModule forever
c { p = (f32[64,64]) parameter(0) ROOT yes = pred[] constant(true) }
b {
  p = (f32[64,64]) parameter(0)
  x = f32[64,64] get-tuple-element(p), index=0
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,64]) tuple(d)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  t = (f32[64,64]) tuple(x)
  w = (f32[64,64]) while(t), condition=c, body=b
  ROOT r = f32[64,64] get-tuple-element(w), index=0
}"""

# As many numbers as the second input says.
PREFIX = b"""HloModule prefix
ENTRY main {
  x = s32[8] parameter(0)
  n = s32[] parameter(1)
  ROOT first = s32[<=8] set-dimension-size(x, n), dimensions={0}
}
"""
STEP = b"""HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[4096] parameter(0)
  y = bf16[] parameter(1)
  w = f32[] convert(y)
  b = f32[4096] broadcast(w), dimensions={}
  s = f32[4096] add(x, b)
  ROOT t = (f32[4096], bf16[]) tuple(s, y)
}"""
# As many of x as n says.
FIRST = b"""HloModule first
ENTRY main {
  x = f32[4,3] parameter(0)
  n = s32[] parameter(1)
  ROOT y = f32[<=4,3] set-dimension-size(x, n), dimensions={0}
}"""
OPEN = b"""module { func.func public @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32> } }"""


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def check_calls(model):
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 2, 3], np.float32)
    for total, scaled in (model(x, y), model(image=x, y=y), model(x, y=[1, 2, 3]), model.submit(x, y).result(60)):
        np.testing.assert_array_equal(total, x + y)
        np.testing.assert_array_equal(scaled, (x + y) * y)
    # Not dense: a copy is made.
    np.testing.assert_array_equal(model(np.asfortranarray(x), y)[0], x + y)
    np.testing.assert_array_equal(model(np.repeat(x, 2, axis=0)[::2], y)[0], x + y)
    out = [np.empty((4, 3), np.float32) for _ in range(2)]
    results = model(x, y, out=out)
    assert results[0] is out[0] and out[0][0, 0] == 1

    class Shared:  # what has dlpack and is not numpy's
        def __dlpack__(self, **options):
            return x.__dlpack__(**options)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    assert np.shares_memory(krafla.Model._array(model.inputs[0], Shared()), x)
    np.testing.assert_array_equal(model(Shared(), y)[0], x + y)
    assert np.shares_memory(np.from_dlpack(results[0]), out[0])


def check_refusals(model):
    x, y = np.zeros((4, 3), np.float32), np.zeros(3, np.float32)
    assert "image: f32[4,3]; y: f32[3]" in str(raises(TypeError, model))
    raises(TypeError, lambda: model(x, y, x))
    assert "image, y" in str(raises(TypeError, lambda: model(x, z=y)))
    raises(TypeError, lambda: model(x, y, y=y))
    raises(TypeError, lambda: model(x.astype(np.float64), y))
    assert "[4, 3]" in str(raises(ValueError, lambda: model(x[:3], y)))
    raises(ValueError, lambda: model(x, y, out=[np.empty((4, 3)), np.empty((4, 3))]))
    raises(ValueError, lambda: model(x, y, timeout=0))
    error = raises(krafla.NotFound, lambda: krafla.load("/nonexistent.mlirbc", DEVICE))
    assert error.code == "NOT_FOUND" and isinstance(error, LookupError)
    raises(krafla.InvalidArgument, lambda: krafla.load(b"no program", DEVICE))
    for names in ({"enable": ["warp_drive"]}, {"disable": ["fusion", "warp_drive"]}):
        assert "warp_drive" in str(raises(krafla.InvalidArgument, lambda: krafla.load(AFFINE, DEVICE, **names)))
    np.testing.assert_array_equal(krafla.load(AFFINE, DEVICE, disable=["fusion"])(x, y)[0], x)
    raises(krafla.InvalidArgument, lambda: krafla.load(AFFINE, "toaster"))
    raises(krafla.Error, model.profile)
    raises(krafla.InvalidArgument, lambda: krafla.load(OPEN, DEVICE, shapes={"0": (2, 4)}))
    assert krafla.load(OPEN, DEVICE, shapes={"0": (2, 3)})(x[:2]).shape == (2, 3)
    first, rows = krafla.load(FIRST, DEVICE), np.arange(12, dtype=np.float32).reshape(4, 3)
    for n in (3, 0, 4):
        assert np.array_equal(first(rows, np.int32(n)), rows[:n])


def check_open():
    """Sizes that a program leaves open are those of each call."""
    model, x = krafla.load(OPEN, DEVICE, kept_shapes=2), np.arange(12, dtype=np.float32).reshape(4, 3)
    assert isinstance(model, krafla.OpenModel) and model.inputs[0].is_open and model.inputs[0].shape == (None, 3)
    expected = krafla.load(OPEN, DEVICE, shapes={"0": (4, 3)})(x)
    for rows in (4, 1, 3, 4):
        np.testing.assert_array_equal(model(x[:rows]), expected[:rows])
    assert "ready for 2 shapes" in repr(model)
    np.testing.assert_array_equal(model.submit(x[:2]).result(), expected[:2])
    np.testing.assert_array_equal(model.run_buffers(x[:2])[0].numpy(), expected[:2])
    kept = model.for_shapes((2, 3))
    assert kept is model.for_shapes((2, 3)) and kept.inputs[0].shape == (2, 3)
    out = np.empty((3, 3), np.float32)
    model(x[:3], out=out)
    np.testing.assert_array_equal(out, expected[:3])
    results, threads = {}, []
    for rows in (1, 2, 3, 4, 1, 2, 3, 4):
        threads.append(threading.Thread(target=lambda n=rows: results.setdefault(n, model(x[:n]))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for rows, result in results.items():
        np.testing.assert_array_equal(result, expected[:rows])
    assert "[4]" in str(raises(ValueError, lambda: model(x[:, 0])))
    assert "[4, 2]" in str(raises(ValueError, lambda: model(x[:, :2])))
    assert "is missing" in str(raises(TypeError, model.for_shapes))
    for wrong in (lambda: model(), lambda: model(x, x), lambda: model(z=x), lambda: model(x.astype(np.float64))):
        raises(TypeError, wrong)
    raises(ValueError, lambda: krafla.load(OPEN, DEVICE, kept_shapes=0))
    raises(krafla.InvalidArgument, lambda: krafla.load(OPEN, DEVICE, shapes={"q": (2, 3)}))


def check_values(model):
    """Types, numbers and memory that are easily mistaken for what they are not."""
    client, x, y = krafla.Client(DEVICE), np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
    assert np.array_equal(client.put(x.astype(">f4")).numpy(), x)
    for none in (np.zeros(3, "M8[s]"), "abc", np.zeros(3, np.longdouble)):
        assert "none that a device takes" in str(raises(TypeError, lambda: client.put(none)))
    raises(OverflowError, lambda: client.put(np.int8([7, 8]), type="s4"))
    first = client.load(FIRST)
    raises(OverflowError, lambda: first(x, 1 << 40))
    raises(TypeError, lambda: first(x, 1.5))
    for none in (1j, [["1", "2"]], [[1, 2j]]):
        raises(TypeError, lambda: first(none, 1))
    flag = client.load(b"HloModule f\nENTRY e { p = pred[2] parameter(0) ROOT n = pred[2] not(p) }")
    assert flag([True, 0]).tolist() == [False, True]
    raises(TypeError, lambda: flag([0.5, 1]))
    raises(OverflowError, lambda: flag([2, 1]))
    raises(ValueError, lambda: krafla.Client("cpu\0x"))
    raises(IndexError, lambda: first.run_buffers(x, np.int32(1), donate=[2]))
    raises(ValueError, lambda: krafla.load("a\0b", DEVICE))
    raises(ValueError, lambda: krafla.Client(DEVICE, cache_folder="a\0b"))
    raises(TypeError, lambda: model(x, y, out=[5, 6]))
    raises(TypeError, lambda: krafla.load(AFFINE, DEVICE, progress=5))
    def fails(done, total):
        raise KeyError(done)
    if "kernels" in model.placement:
        raises(KeyError, lambda: krafla.load(AFFINE, DEVICE, progress=fails))
    assert np.array_equal(krafla.load(AFFINE, DEVICE, disable="fusion")(x, y)[0], x + y)
    # An output where an input lies, wholly or in part, and two outputs where one has room.
    memory = np.zeros(20, np.float32)
    state, other = memory[:12].reshape(4, 3), np.empty((4, 3), np.float32)
    state[:] = x
    model(state, y, out=[state, other])
    assert np.array_equal(state, x + y) and np.array_equal(other, x + y)
    state[:] = x
    model(state, y, out=[memory[2:14].reshape(4, 3), other])
    assert np.array_equal(memory[2:14].reshape(4, 3), x + y)
    raises(krafla.InvalidArgument, lambda: model(x, y, out=[state, memory[5:17].reshape(4, 3)]))


def check_forks(model):
    """A fork ends, and says what it cannot do; runs on the CPU go on."""
    if not hasattr(os, "fork"):
        return
    x, y = np.zeros((4, 3), np.float32), np.ones(3, np.float32)
    run, buffer = model.submit(x, y), model.client.put(x)
    run.result(60)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            if model.device == "cpu":
                assert np.array_equal(model(x, y)[0], x + 1)
                assert np.array_equal(buffer.numpy(), x)
            else:
                for call in (lambda: model(x, y), lambda: buffer.numpy(), lambda: model.client.put(x), lambda: model.warm()):
                    assert "fork" in str(raises(krafla.Error, call))
            assert "fork" in str(raises(krafla.Error, lambda: model.submit(x, y)))
            del model, buffer, run
            os._exit(7)
        except BaseException as error:
            print(f"in the fork: {error!r}", flush=True)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def check_buffers():
    client = krafla.Client(DEVICE)
    step, again = client.load(STEP), krafla.load(STEP, client)
    assert step.client is client and client.device == step.device and client.device in repr(client)
    x, two = client.put(np.arange(4096, dtype=np.float32)), client.put(np.uint16(0x4000), type="bf16")
    assert repr(x) == "krafla.Buffer(f32[4096])" and two.type == "bf16" and two.shape == ()
    for model in (step, again, step):  # of one client: no copies between them
        last = x
        x, same = model.run_buffers(x, two, donate=[0])
        x.wait()
        assert same.numpy().tobytes() == b"\x00\x40"
        raises(krafla.Error, last.numpy)
    np.testing.assert_array_equal(np.asarray(x), np.arange(4096, dtype=np.float32) + 6)
    kept, _ = step.run_buffers(np.zeros(4096, np.float32), two)  # arrays of the host's beside buffers
    np.testing.assert_array_equal(kept.numpy(), np.full(4096, 2, np.float32))
    np.testing.assert_array_equal(step.run_buffers(kept, two)[0].numpy(), kept.numpy() + 2)  # not donated: still there
    shared = np.ones(4096, np.float32)
    before = sys.getrefcount(shared)
    held = client.put(shared, share=True)
    np.testing.assert_array_equal(step.run_buffers(held, two)[0].numpy(), shared + 2)
    del held
    assert sys.getrefcount(shared) == before, "the library has let go of the array"
    assert client.put(np.zeros((0, 3), np.int8)).numpy().shape == (0, 3)
    raises(TypeError, lambda: step.run_buffers(x))
    raises(TypeError, lambda: client.put(np.array(["a"])))
    raises(TypeError, lambda: client.put(np.zeros(3, np.uint8), type="bf16"))
    raises(krafla.InvalidArgument, lambda: step.run_buffers(two, two))
    raises(TypeError, lambda: krafla.load(STEP, client, threads=2))
    raises(krafla.OutOfMemory, lambda: krafla.Client(DEVICE, memory_limit=64).put(np.zeros(64)))


def check_ends():
    model = krafla.load(FOREVER, DEVICE)
    x = np.zeros((64, 64), np.float32)
    raises(krafla.DeadlineExceeded, lambda: model(x, timeout=0.05))
    first, second = model.submit(x), model.submit(x)
    raises(TimeoutError, lambda: first.result(0.05))
    assert second.cancel() and first.cancel()
    raises(krafla.Cancelled, lambda: first.result(60))
    raises(krafla.Cancelled, lambda: second.result(60))
    assert not first.cancel()


def check_sizes_of_runs():
    model = krafla.load(PREFIX, DEVICE)
    x = np.arange(8, dtype=np.int32)
    assert model.outputs[0].dynamic and model(x, 3).tolist() == [0, 1, 2]
    runs = [model.submit(x, n) for n in range(9)]
    assert [run.result(60).tolist() for run in runs] == [list(range(n)) for n in range(9)]
    assert not runs[0].cancel()
    forever = krafla.load(FOREVER.replace(b"ROOT r =", b"r =").rstrip(b"}") + b"""  n = s32[] constant(3)
  ROOT first = f32[<=64,64] set-dimension-size(r, n), dimensions={0}
}""", DEVICE)
    square = np.zeros((64, 64), np.float32)
    late, first = forever.submit(square, timeout=0.05), forever.submit(square)
    raises(krafla.DeadlineExceeded, lambda: late.result(60))
    raises(TimeoutError, lambda: first.result(0.05))
    assert first.cancel()
    raises(krafla.Cancelled, lambda: first.result(60))


def check_threads(model):
    wrong = []

    def work(number):
        x, y = np.full((4, 3), number, np.float32), np.ones(3, np.float32)
        for _ in range(100):
            if not np.array_equal(model(x, y)[0], x + 1) or model.submit(x, y).result(60)[0][0, 0] != number + 1:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def main():
    if not any(selector.split(":")[0] == DEVICE.split(":")[0] for selector, _ in krafla.devices()):
        print(f"Skipped: there is no device {DEVICE} here.")
        return 77
    model = krafla.load(AFFINE, DEVICE)
    assert [str(t) for t in model.inputs] == ["image: f32[4,3]", "y: f32[3]"], model.inputs
    assert [t.name for t in model.outputs] == ["sum", "scaled"]
    assert "instructions on" in model.placement and model.device in repr(model)
    check_calls(model)
    check_refusals(model)
    check_open()
    check_values(model)
    check_forks(krafla.load(AFFINE, DEVICE))
    check_threads(model)
    check_buffers()
    check_ends()
    check_sizes_of_runs()
    model.warm()
    told = []
    network = krafla.load(pathlib.Path(MODEL), DEVICE, profile=True, progress=lambda done, total: told.append((done, total)))
    assert told and told[-1][0] <= told[-1][1]
    rng = np.random.default_rng(0)
    out = network(*(rng.standard_normal(t.shape).astype(t.dtype) for t in network.inputs))
    assert out.shape == network.outputs[0].shape and np.isfinite(out).all()
    profile = network.profile(2)
    assert profile.run_ms > 0 and len(profile.steps) > 0 and "a run takes" in str(profile)
    with tempfile.TemporaryDirectory() as folder:
        profile.to_perfetto(folder + "/trace.json")
    assert "jax" not in sys.modules
    print("PASSED")
    return 0


sys.exit(main())
