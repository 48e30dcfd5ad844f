#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network from Python, without JAX.    classify.py MODEL [DEVICE]"""
import sys

import numpy as np

import krafla

model = krafla.load(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu")
print(model.placement)
for tensor in model.inputs[:3]:
    print("takes", tensor)
for tensor in model.outputs:
    print("gives", tensor)

rng = np.random.default_rng(0)
inputs = {t.name: rng.uniform(0, 0.1, t.shape).astype(t.dtype) for t in model.inputs}
scores = model(**inputs)                         # by name; by position it takes them in their order
print("the best class is", int(np.argmax(scores)))

runs = [model.submit(**inputs) for _ in range(4)]  # in the background, in order
assert all(np.array_equal(run.result(timeout=60), scores) for run in runs)

memory = np.empty_like(scores)                   # into memory of one's own, frame after frame
for _ in range(10):
    model(**inputs, out=memory)
assert np.array_equal(memory, scores)
