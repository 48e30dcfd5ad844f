#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the network of `krafla demo` on scikit-learn's handwritten digits and writes examples/digits/model.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 numpy scikit-learn
    venv/bin/python examples/digits/train.py

The module is lowered for a platform that JAX has no special rules for, so that it holds plain HLO. Its answers, as
XLA's CPU back end gives them, are recorded beside it, and once more in f64: a result may be 32 times as far from the
f64 answer as XLA's own.
"""
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from sklearn.datasets import load_digits

OUT = pathlib.Path(__file__).parent / "model"
HELD_OUT = 360
EPOCHS = 40
BATCH = 64
SEED = 7


def conv(x, w, b):
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(y + b)


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def network(params, images):
    x = images[..., None]
    x = pool(conv(x, params["conv1.w"], params["conv1.b"]))
    x = pool(conv(x, params["conv2.w"], params["conv2.b"]))
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ params["dense1.w"] + params["dense1.b"])
    return jax.nn.softmax(x @ params["dense2.w"] + params["dense2.b"])


def start(key):
    shapes = {"conv1.w": (3, 3, 1, 16), "conv2.w": (3, 3, 16, 32), "dense1.w": (128, 64), "dense2.w": (64, 10)}
    params = {}
    for name, shape in shapes.items():
        key, k = jax.random.split(key)
        fan_in = int(np.prod(shape[:-1]))
        params[name] = jax.random.normal(k, shape, jnp.float32) * np.sqrt(2.0 / fan_in).astype(np.float32)
        params[name.replace(".w", ".b")] = jnp.zeros(shape[-1], jnp.float32)
    return params


def loss(params, images, labels):
    scores = network(params, images)
    return -jnp.mean(jnp.log(scores[jnp.arange(labels.shape[0]), labels] + 1e-7))


@jax.jit
def step(params, m, v, t, images, labels):
    grads = jax.grad(loss)(params, images, labels)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    params = jax.tree.map(
        lambda p, a, b: p - 2e-3 * (a / (1 - 0.9**t)) / (jnp.sqrt(b / (1 - 0.999**t)) + 1e-8), params, m, v)
    return params, m, v


def main():
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(SEED).permutation(len(images))
    images, labels = images[order], labels[order]
    train_x, train_y = images[:-HELD_OUT], labels[:-HELD_OUT]
    test_x, test_y = images[-HELD_OUT:], labels[-HELD_OUT:]

    params = start(jax.random.key(SEED))
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(SEED)
    t = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(train_x))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            t += 1
            pick = order[i:i + BATCH]
            params, m, v = step(params, m, v, float(t), train_x[pick], train_y[pick])

    def predict(params, images):
        return network(params, images)

    lowered = jax.jit(predict).trace(params, test_x).lower(lowering_platforms=("vulkan",))
    hlo = lowered.compiler_ir("hlo")
    got = np.asarray(jax.jit(predict)(params, test_x))
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), params)
        ref = np.asarray(jax.jit(predict)(wide, test_x.astype(np.float64)))
    accuracy = float((got.argmax(1) == test_y).mean())
    print(f"{accuracy:.4f} of {HELD_OUT} held-out digits right")

    OUT.mkdir(exist_ok=True)
    (OUT / "module.hlo").write_text(hlo.as_hlo_text(print_large_constants=True))
    leaves = [np.asarray(a) for a in jax.tree.leaves((params, test_x))]
    np.savez(OUT / "inputs.npz", **{f"arg{i:04}": a for i, a in enumerate(leaves)})
    np.savez(OUT / "outputs.npz", out0000=got)
    np.savez(OUT / "outputs_ref.npz", out0000=ref)
    np.savez(OUT / "labels.npz", labels=test_y)
    error = float(np.abs(got - ref).max())
    atol = max(32 * error, 2e-5 * float(np.abs(ref).max()))
    meta = {
        "name": "digits", "about": "handwritten digits, 8x8, a small CNN", "jax": jax.__version__,
        "num_partitions": 1, "num_replicas": 1, "accuracy": accuracy,
        "arguments": [{"dtype": "f32", "shape": list(a.shape)} for a in leaves],
        "results": [{"dtype": "f32", "shape": list(got.shape), "xla_cpu_error": error, "reference": "f64", "rtol": 0,
                     "atol": atol}],
    }
    (OUT / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


if __name__ == "__main__":
    main()
