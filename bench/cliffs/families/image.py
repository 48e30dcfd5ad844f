# SPDX-License-Identifier: Apache-2.0
"""Images: resizes, sampling, augmentations."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, declare, integers, normal, uniform

X = uniform(4, 112, 112, 3)
for method in ("nearest", "linear", "cubic", "lanczos3"):
    for size, word in ((224, "up 2"), (56, "down 2"), (150, "up 1.34"), (80, "down 1.4")):
        if method == "lanczos3" and size not in (224, 56):
            continue
        case(f"resize/{method} {word}", lambda x, m=method, s=size: jax.image.resize(x, (4, s, s, 3), m), X)
case("resize/linear up 2 nchw", lambda x: jax.image.resize(x, (4, 3, 224, 224), "linear"), uniform(4, 3, 112, 112))
case("resize/linear up 2 of 64 channels", lambda x: jax.image.resize(x, (2, 56, 56, 64), "linear"),
     uniform(2, 28, 28, 64))
case("resize/nearest up 2 of 64 channels", lambda x: jax.image.resize(x, (2, 56, 56, 64), "nearest"),
     uniform(2, 28, 28, 64))
case("resize/nearest by repeat", lambda x: x.repeat(2, 1).repeat(2, 2), uniform(4, 56, 56, 16))
case("resize/linear bf16", lambda x: jax.image.resize(x, (4, 224, 224, 3), "linear"),
     uniform(4, 112, 112, 3, dtype="bf16"))
case("resize/linear gradient", jax.grad(lambda x: (jax.image.resize(x, (4, 112, 112, 3), "linear") ** 2).sum()),
     uniform(4, 56, 56, 3))
case("resize/one image 640x480 to 224x224", lambda x: jax.image.resize(x, (224, 224, 3), "linear"),
     uniform(480, 640, 3))
for order in (0, 1):
    for mode in ("nearest", "constant", "wrap", "reflect"):
        if order == 0 and mode in ("wrap", "reflect"):
            continue
        case(f"image/map_coordinates order {order} {mode}",
             lambda x, c, o=order, m=mode: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1]], o, m),
             uniform(256, 256), uniform(2, 50000, high=255))
case("image/map_coordinates 3d", lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c[0], c[1], c[2]], 1),
     uniform(32, 32, 32), uniform(3, 20000, high=31))


@declare("image/affine warp of a batch", uniform(8, 64, 64, 3), uniform(8, 2, 2, low=0.5, high=1.2))
def _(images, matrices):
    def warp(image, matrix):
        at = jnp.einsum("ij,jhw->ihw", matrix, jnp.mgrid[:64, :64].astype(jnp.float32))
        return jax.vmap(lambda plane: jax.scipy.ndimage.map_coordinates(plane, [at[0], at[1]], 1), 2, 2)(image)
    return jax.vmap(warp)(images, matrices)


case("image/flip each by a coin", jax.vmap(lambda x, c: jnp.where(c > 0, x[:, ::-1], x)), uniform(16, 64, 64, 3),
     integers(16, high=2))
case("image/normalise u8",
     lambda x: (x.astype(jnp.float32) / 255 - jnp.array([0.485, 0.456, 0.406])) / jnp.array([0.229, 0.224, 0.225]),
     integers(8, 112, 112, 3, high=256, dtype="u8"))
case("image/to u8", lambda x: jnp.clip(x * 255 + 0.5, 0, 255).astype(jnp.uint8), X)
case("image/rgb to grey", lambda x: x @ jnp.array([0.299, 0.587, 0.114]), X)


@declare("image/rgb to hsv", uniform(4, 112, 112, 3, low=0.1), tolerance=1e-2)
def _(x):
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    high, low = x.max(-1), x.min(-1)
    range_ = high - low
    hue = jnp.where(high == r, (g - b) / range_, jnp.where(high == g, 2 + (b - r) / range_, 4 + (r - g) / range_))
    return jnp.stack([hue / 6 % 1, range_ / high, high], -1)


case("image/contrast and brightness",
     lambda x, a: jnp.clip((x - x.mean((1, 2), keepdims=True)) * a[:, None, None, None] + 0.5, 0, 1), X, uniform(4))


@declare("image/cutout", X, integers(4, 2, high=7))
def _(images, places):
    def cut(image, place):
        block = jnp.arange(112) // 16
        return jnp.where(((block == place[0])[:, None] & (block == place[1]))[..., None], 0, image)
    return jax.vmap(cut)(images, places)


case("image/mixup", lambda x, a: x * a[:, None, None, None] + x[::-1] * (1 - a[:, None, None, None]), X, uniform(4))
case("image/patches of 16", lambda x: x.reshape(4, 7, 16, 7, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(4, 49, 768), X)
case("image/im2col patches", lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"),
     normal(2, 16, 32, 32))
case("image/pixel shuffle",
     lambda x: x.reshape(2, 28, 28, 2, 2, 16).transpose(0, 1, 3, 2, 4, 5).reshape(2, 56, 56, 16),
     normal(2, 28, 28, 64))


def blur(x):
    return sum(w * jnp.roll(x, n - 2, 0) for n, w in enumerate((0.06, 0.24, 0.4, 0.24, 0.06)))


case("image/gauss blur separable", lambda x: blur(blur(x).swapaxes(0, 1)).swapaxes(0, 1), uniform(512, 512))


@declare("image/sobel", uniform(256, 256))
def _(x):
    kernel = jnp.array([[1., 0, -1], [2, 0, -2], [1, 0, -1]])
    return jnp.hypot(*[jax.scipy.signal.convolve2d(x, k, "same") for k in (kernel, kernel.T)])


case("image/reflect pad", lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), "reflect"), X)


@declare("image/boxes: overlap of 500 by 500", uniform(500, 4), uniform(500, 4))
def _(a, b):
    low, high = jnp.maximum(a[:, None, :2], b[:, :2]), jnp.minimum(a[:, None, :2] + a[:, None, 2:], b[:, :2] + b[:, 2:])
    both = jnp.prod(jnp.clip(high - low, 0), -1)
    return both / (1e-6 + (a[:, 2] * a[:, 3])[:, None] + b[:, 2] * b[:, 3] - both)


@declare("image/non-maximum suppression 200", uniform(200, 200))
def _(overlap):
    def step(i, keep):
        return jnp.where((overlap[i] > 0.9) & (jnp.arange(200) > i) & keep[i], False, keep)
    return lax.fori_loop(0, 200, step, jnp.ones(200, bool))
