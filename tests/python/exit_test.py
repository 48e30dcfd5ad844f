#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that holds arrays of NumPy's from jax.device_get at its end ends well.    exit_test.py"""
import os
import subprocess
import sys

PROGRAM = """
import jax, jax.numpy as jnp
def train(device):
    with jax.default_device(device):
        weights = [jnp.ones((10, 64))]
        jnp.zeros(3) + 1
        weights = [weights[0] * 2]
        return [1.0], jax.device_get(weights), 2.0
other = train(jax.devices('cpu')[0])
own = train(jax.devices()[0])
"""
# Memory that is freed is filled, so that who looks at it does not find what was there.
environment = {**os.environ, "MALLOC_PERTURB_": "165"}
for _ in range(2):
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
print("PASSED")
