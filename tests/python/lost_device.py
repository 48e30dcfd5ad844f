#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that has lost its device goes on: new arrays, and the same functions.

    lost_device.py LAYER.so
"""
import ctypes
import os
import pathlib
import sys

layer = pathlib.Path(sys.argv[1]).resolve()
os.environ["VK_ADD_LAYER_PATH"] = str(layer.parent)
os.environ["VK_INSTANCE_LAYERS"] = "VK_LAYER_KRAFLA_fault"
faults = ctypes.CDLL(str(layer))
faults.krafla_fault_name.restype = ctypes.c_char_p
faults.krafla_fault_arm.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int32]
names = []
while (name := faults.krafla_fault_name(len(names))) is not None:
    names.append(name.decode())
LOST = -4  # VK_ERROR_DEVICE_LOST

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

step = jax.jit(lambda x, w: jnp.tanh(x @ w) * 2)
xs, ws = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), np.ones((4, 5), np.float32)
expected = np.tanh(xs @ ws) * 2


def right():
    np.testing.assert_allclose(np.asarray(step(jnp.asarray(xs), jnp.asarray(ws))), expected, rtol=1e-5, atol=1e-6)


right()
old = jnp.asarray(xs)
np.asarray(old)
for function in ("vkQueueSubmit", "vkWaitSemaphores"):
    faults.krafla_fault_arm(names.index(function), 1, LOST)
    try:
        right()
        raise SystemExit(f"{function}: nothing was lost")
    except Exception as error:  # jax.errors.JaxRuntimeError, by whichever call heard of it
        assert "was lost" in str(error), error
    assert faults.krafla_fault_struck()
    for _ in range(3):
        right()
# What lay on the lost device is gone, with a sentence.
try:
    np.asarray(step(old, jnp.asarray(ws)))
    raise SystemExit("an array of the lost device was read")
except Exception as error:
    assert "lost" in str(error), error
right()
print("lost and found")
