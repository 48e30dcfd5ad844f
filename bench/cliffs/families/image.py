# SPDX-License-Identifier: Apache-2.0
"""Images: resizes, sampling, augmentations."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, integers, normal, uniform

X = uniform(4, 112, 112, 3)
for method in ("nearest", "linear", "cubic", "lanczos3"):
    for size, word in ((224, "up 2"), (56, "down 2"), (150, "up 1.34"), (80, "down 1.4")):
        if method == "lanczos3" and size not in (224, 56):
            continue
        case(f"resize/{method} {word}", lambda x, m=method, s=size: jax.image.resize(x, (4, s, s, 3), m), X)
case("resize/linear up 2 nchw", lambda x: jax.image.resize(x, (4, 3, 224, 224), "linear"), uniform(4, 3, 112, 112))
case("resize/linear up 2 of 64 channels", lambda x: jax.image.resize(x, (2, 56, 56, 64), "linear"), uniform(2, 28, 28, 64))
case("resize/nearest up 2 of 64 channels", lambda x: jax.image.resize(x, (2, 56, 56, 64), "nearest"), uniform(2, 28, 28, 64))
case("resize/nearest by repeat", lambda x: x.repeat(2, 1).repeat(2, 2), uniform(4, 56, 56, 16))
case("resize/linear bf16", lambda x: jax.image.resize(x, (4, 224, 224, 3), "linear"), uniform(4, 112, 112, 3, dtype="bf16"))
case("resize/linear gradient", jax.grad(lambda x: (jax.image.resize(x, (4, 112, 112, 3), "linear") ** 2).sum()), uniform(4, 56, 56, 3))
case("resize/one image 640x480 to 224x224", lambda x: jax.image.resize(x, (224, 224, 3), "linear"), uniform(480, 640, 3))
for order in (0, 1):
    for mode in ("nearest", "constant", "wrap", "reflect"):
        if order == 0 and mode in ("wrap", "reflect"):
            continue
        case(f"image/map_coordinates order {order} {mode}", lambda x, c, o=order, m=mode: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], o, m), uniform(256, 256), uniform(2, 50000, high=255))
case("image/map_coordinates 3d", lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1], c[2]], 1), uniform(32, 32, 32), uniform(3, 20000, high=31))
case("image/affine warp of a batch", lambda x, a: jax.vmap(lambda x, a: (lambda c: jax.vmap(lambda p: jax.scipy.ndimage.map_coordinates(p, [c[0], c[1]], 1), 2, 2)(x))(jnp.einsum("ij,jhw->ihw", a, jnp.mgrid[:64, :64].astype(jnp.float32))))(x, a), uniform(8, 64, 64, 3), uniform(8, 2, 2, low=0.5, high=1.2))
case("image/flip each by a coin", jax.vmap(lambda x, c: jnp.where(c > 0, x[:, ::-1], x)), uniform(16, 64, 64, 3), integers(16, high=2))
case("image/normalise u8", lambda x: (x.astype(jnp.float32) / 255 - jnp.array([0.485, 0.456, 0.406])) / jnp.array([0.229, 0.224, 0.225]), integers(8, 112, 112, 3, high=256, dtype="u8"))
case("image/to u8", lambda x: jnp.clip(x * 255 + 0.5, 0, 255).astype(jnp.uint8), X)
case("image/rgb to grey", lambda x: x @ jnp.array([0.299, 0.587, 0.114]), X)
case("image/rgb to hsv", lambda x: (lambda m, n: jnp.stack([jnp.where(m == x[..., 0], (x[..., 1] - x[..., 2]) / (m - n), jnp.where(m == x[..., 1], 2 + (x[..., 2] - x[..., 0]) / (m - n), 4 + (x[..., 0] - x[..., 1]) / (m - n))) / 6 % 1, (m - n) / m, m], -1))(x.max(-1), x.min(-1)), uniform(4, 112, 112, 3, low=0.1), tolerance=1e-2)
case("image/contrast and brightness", lambda x, a: jnp.clip((x - x.mean((1, 2), keepdims=True)) * a[:, None, None, None] + 0.5, 0, 1), X, uniform(4))
case("image/cutout", jax.vmap(lambda x, i: jnp.where(((jnp.arange(112) // 16 == i[0])[:, None] & (jnp.arange(112) // 16 == i[1]))[..., None], 0, x)), X, integers(4, 2, high=7))
case("image/mixup", lambda x, a: x * a[:, None, None, None] + x[::-1] * (1 - a[:, None, None, None]), X, uniform(4))
case("image/patches of 16", lambda x: x.reshape(4, 7, 16, 7, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(4, 49, 768), X)
case("image/im2col patches", lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"), normal(2, 16, 32, 32))
case("image/pixel shuffle", lambda x: x.reshape(2, 28, 28, 2, 2, 16).transpose(0, 1, 3, 2, 4, 5).reshape(2, 56, 56, 16), normal(2, 28, 28, 64))
case("image/gauss blur separable", lambda x: (lambda f: f(f(x).swapaxes(0, 1)).swapaxes(0, 1))(lambda x: sum(w * jnp.roll(x, n - 2, 0) for n, w in enumerate((0.06, 0.24, 0.4, 0.24, 0.06)))), uniform(512, 512))
case("image/sobel", lambda x: jnp.hypot(*[jax.scipy.signal.convolve2d(x, k, "same") for k in (jnp.array([[1., 0, -1], [2, 0, -2], [1, 0, -1]]), jnp.array([[1., 2, 1], [0, 0, 0], [-1, -2, -1]]))]), uniform(256, 256))
case("image/reflect pad", lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), "reflect"), X)
case("image/boxes: overlap of 500 by 500", lambda a, b: (lambda i: i / (1e-6 + (a[:, 2] * a[:, 3])[:, None] + b[:, 2] * b[:, 3] - i))(jnp.prod(jnp.clip(jnp.minimum(a[:, None, :2] + a[:, None, 2:], b[:, :2] + b[:, 2:]) - jnp.maximum(a[:, None, :2], b[:, :2]), 0), -1)), uniform(500, 4), uniform(500, 4))
case("image/non-maximum suppression 200", lambda o: lax.fori_loop(0, 200, lambda i, keep: jnp.where((o[i] > 0.9) & (jnp.arange(200) > i) & keep[i], False, keep), jnp.ones(200, bool)), uniform(200, 200))
