# SPDX-License-Identifier: Apache-2.0
"""What the examples share: where they run, the digits, and how a wrong answer ends the program."""
import gzip
import os
import pathlib
import sys

# Vulkan by krafla, and JAX's own CPU back end to compare with.
os.environ.setdefault("JAX_PLATFORMS", "vulkan,cpu")

import jax
import numpy as np


def cpu():
    return jax.devices("cpu")[0]


def close(what, got, want, rtol=1e-5, atol=1e-5):
    """Ends the program unless `got` is `want` to these tolerances. Both may be trees."""
    got_leaves, want_leaves = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got_leaves) == len(want_leaves), (len(got_leaves), len(want_leaves))
    worst = 0.0
    for g, w in zip(got_leaves, want_leaves):
        g, w = np.asarray(g), np.asarray(w)
        wide = np.complex128 if np.iscomplexobj(g) else np.float64
        g, w = g.astype(wide), w.astype(wide)
        if g.shape != w.shape or not np.allclose(g, w, rtol=rtol, atol=atol, equal_nan=True):
            print(f"WRONG {what}: {g.shape} {g.ravel()[:8]} .. in place of {w.shape} {w.ravel()[:8]} ..")
            sys.exit(1)
        if g.size:
            worst = max(worst, float(np.nanmax(np.abs(g - w), initial=0)))
    print(f"{what}: right, at most {worst:.2g} off")


def same(what, got, want):
    """Ends the program unless both hold the same bits."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape or got.tobytes() != want.tobytes():
        print(f"WRONG {what}: {got.dtype}{got.shape} {got.ravel()[:8]} .. in place of {want.ravel()[:8]} ..")
        sys.exit(1)
    print(f"{what}: the same bits")


def require(what, condition):
    if not condition:
        print(f"WRONG {what}")
        sys.exit(1)
    print(f"{what}: right")


def digits():
    """Handwritten digits: (train images, train labels, test images, test labels), 8 x 8, 0 to 1.

    scikit-learn's 1797 where its package or its file (KRAFLA_DIGITS=digits.csv.gz) is there, else the 360 that are
    kept with the demo's network.
    """
    file = os.environ.get("KRAFLA_DIGITS")
    if file is None:
        try:
            import sklearn

            file = pathlib.Path(sklearn.__file__).parent / "datasets" / "data" / "digits.csv.gz"
        except ImportError:
            pass
    if file is not None and pathlib.Path(file).exists():
        with gzip.open(file, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",")
        images, labels = table[:, :-1].reshape(-1, 8, 8), table[:, -1]
        images = images / 16.0
    else:
        model = pathlib.Path(__file__).resolve().parent.parent / "digits" / "model"
        arrays = np.load(model / "inputs.npz")
        images = next(arrays[k] for k in arrays.files if arrays[k].ndim == 3)
        labels = np.load(model / "labels.npz")
        labels = labels[labels.files[0]]
    images, labels = images.astype(np.float32), labels.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    held_out = len(images) // 5
    test, train = order[:held_out], order[held_out:]
    print(f"{len(train)} digits to learn from, {len(test)} to test with, on {jax.devices()[0]}")
    return images[train], labels[train], images[test], labels[test]
