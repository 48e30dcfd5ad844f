# SPDX-License-Identifier: Apache-2.0
"""Operations over dimensions that are cut, one or a few a program."""
import jax
import jax.numpy as jnp
from jax import lax

from programs import I32, add, grid, line, of

C64 = jnp.complex64
IMAGES = ("NHWC", "HWIO", "NHWC")


def conv(x, w, stride=1, padding="SAME"):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=IMAGES)


def cross_entropy(x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()


def largest_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def attention_of_one(q, k, v, filled):
    scores = jnp.einsum("bhd,bshd->bhs", q, k)
    scores = jnp.where(jnp.arange(k.shape[1]) < filled, scores, -1e9)
    return jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(scores), v)


def experts(x, gate, w1, w2):
    p = jax.nn.softmax(x @ gate)
    chosen = jax.nn.one_hot(jnp.argmax(p, -1), 8)
    h = jnp.einsum("bsd,bse->ebsd", x, chosen)
    h = jax.nn.relu(jnp.einsum("ebsd,edf->ebsf", h, w1))
    return jnp.einsum("ebsd,bse->bsd", jnp.einsum("ebsf,efd->ebsd", h, w2), chosen)


def layers(x, a, b):
    return lax.scan(lambda x, w: (x + jax.nn.gelu(x @ w[0]) @ w[1], None), x, (a, b))[0]


def heat(u):
    inner = u[1:-1, 1:-1]
    return u.at[1:-1, 1:-1].add(0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner))


def norm_of_conv(x, w):
    y = conv(x, w)
    y = (y - y.mean((0, 1, 2))) / jnp.sqrt(y.var((0, 1, 2)) + 1e-5)
    return jax.nn.relu(y).mean()


def halves_turned(x):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * 0.5 - b, b * 0.5 + a], -1)


def clipped(a, b):
    norm = jnp.maximum(jnp.sqrt((a ** 2).sum() + (b ** 2).sum()), 1)
    return a / norm, b / norm


X, LAST = line("x"), line(None, "x")
WHOLE = line()

# Movement along the cut dimension.
LONG, LOGITS = of(1024, 64), of(64, 32000)
add("slice", lambda x: x[256:768], (LONG,), (X,), X)
add("difference of neighbours", lambda x: ((x[1:] - x[:-1]) ** 2).sum(), (LONG,), (X,))
add("roll", lambda x: jnp.roll(x, 1, axis=0), (LONG,), (X,), X)
add("reverse", lambda x: x[::-1], (LONG,), (X,), X)
add("pad", lambda x: jnp.pad(x, ((4, 4), (0, 0))), (LONG,), (X,), X)
add("every second row", lambda x: x[::2], (LONG,), (X,), X)
add("concatenate", lambda a, b: jnp.concatenate([a, b], 0), (of(512, 64),) * 2, (X, X), X)
add("q, k, v of one product", lambda x, w: tuple(jnp.split(x @ w, 3, axis=1)), (of(64, 256), of(256, 768)),
    (WHOLE, LAST), (LAST,) * 3)
add("heat equation", heat, (of(1024, 256),), (X,), X)
add("halves turned", halves_turned, (of(64, 8, 64),), (line(None, None, "x"),), line(None, None, "x"))
add("pairs interleaved", lambda x: jnp.stack([x[..., ::2], x[..., 1::2]], -1).reshape(x.shape), (of(64, 8, 64),),
    (LAST,), LAST)
add("heads repeated", lambda x: jnp.repeat(x, 4, axis=2), (of(4, 64, 8, 64),), (line(None, None, "x"),),
    line(None, None, "x"))
add("transpose", lambda a: a.T + 1, (of(512, 512),), (X,), X)
add("reshape, merged", lambda x: jnp.sin(x.reshape(1024, 64)), (of(16, 64, 64),), (X,), X)
add("reshape, merged behind", lambda x: jnp.sin(x.reshape(64, 1024)), (of(64, 16, 64),), (LAST,), LAST)
add("reshape, split", lambda x: jnp.sin(x.reshape(64, 16, 64)), (of(64, 1024),), (LAST,), LAST)
add("twelve heads on eight devices", lambda x: jax.nn.softmax(x.reshape(64, 12, 64)), (of(64, 768),), (LAST,), WHOLE)

# Along the cut dimension, all of it.
add("cumulative sum", lambda x: jnp.cumsum(x, axis=1), (of(64, 1024),), (LAST,), LAST)
add("cumulative sum of rows", lambda x: jnp.cumsum(x, axis=1), (of(64, 1024),), (X,), X)
add("sort", jnp.sort, (of(8192),), (X,), X)
add("argmax", lambda x: jnp.argmax(x, axis=1), (LOGITS,), (LAST,), WHOLE)
add("top-k", lambda x: tuple(lax.top_k(x, 8)), (LOGITS,), (LAST,))
add("softmax", jax.nn.softmax, (LOGITS,), (LAST,), LAST)
add("cross entropy", cross_entropy, (LOGITS, of(64, dtype=I32)), (LAST, WHOLE), WHOLE)
add("cross entropy, gradient", jax.grad(cross_entropy), (LOGITS, of(64, dtype=I32)), (LAST, WHOLE), LAST)
add("layer norm", lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
    (of(64, 1024),), (LAST,), LAST)
add("median of rows", lambda x: jnp.median(x, axis=1), (LONG,), (X,), X)
add("median of columns", lambda x: jnp.median(x, axis=0), (LONG,), (X,), WHOLE)
add("histogram", lambda x: jnp.histogram(x, bins=32, range=(0, 1))[0], (of(8192),), (X,), WHOLE)
add("transforms of rows", jnp.fft.fft, (of(64, 1024, dtype=C64),), (X,), X)
add("transform of a picture", jnp.fft.fft2, (of(256, 256, dtype=C64),), (X,), X)
add("scan over time", lambda x: lax.scan(lambda c, y: (0.9 * c + y,) * 2, jnp.zeros(64), x)[1], (LONG,), (X,), X)
add("associative scan", lambda x: lax.associative_scan(lambda a, b: a * 0.5 + b, x), (LONG,), (X,), X)

# Rows by numbers.
CACHE = of(4, 1024, 8, 64)
MIDDLE = grid(None, "m")
add("write to a cache", lambda c, n, i: lax.dynamic_update_slice(c, n, (0, i, 0, 0)),
    (CACHE, of(4, 1, 8, 64), of(dtype=I32)), (MIDDLE, grid(), grid()), MIDDLE)
add("read from a cache", lambda c, i: lax.dynamic_slice(c, (0, i, 0, 0), (4, 1, 8, 64)), (CACHE, of(dtype=I32)),
    (MIDDLE, grid()), grid())
add("attention over a cut cache", attention_of_one, (of(4, 8, 64), CACHE, CACHE, of(dtype=I32)),
    (grid(), MIDDLE, MIDDLE, grid()), grid())
TABLE, WORDS = of(32000, 64), of(64, 128, dtype=I32)
ROWS, NUMBERS, UPDATES = of(4096, 64), of(8192, dtype=I32), of(8192, 64)
add("embedding, gradient", lambda e, i: jax.grad(lambda e: (e[i] ** 2).sum())(e), (TABLE, WORDS), (X, WHOLE), X)
add("embedding, words cut", lambda e, i: e[i], (TABLE, WORDS), (WHOLE, X), X)
add("add to rows", lambda t, i, u: t.at[i].add(u), (ROWS, NUMBERS, UPDATES), (X,) * 3, X)
add("sums of segments", lambda u, i: jax.ops.segment_sum(u, i, 512), (UPDATES, NUMBERS), (X, X), WHOLE)
add("rows, numbers cut", lambda t, i: t[i], (ROWS, NUMBERS), (X, X), X)

# Products.
SQUARE = of(512, 512)
add("product over a mesh", jnp.matmul, (SQUARE, SQUARE), (grid("d", "m"),) * 2, grid("d", "m"))
add("product, depth cut", jnp.matmul, (SQUARE, SQUARE), (LAST, X), X)
add("product, rows and columns cut", jnp.matmul, (SQUARE, SQUARE), (X, LAST), LAST)
WIDE = (of(512, 256), of(256, 1024), of(1024, 256))
add("gradient with cut weights", lambda x, a, b: jax.grad(lambda a, b: (jax.nn.gelu(x @ a) @ b).mean(), (0, 1))(a, b),
    WIDE, (X,) * 3, (X, X))
add("tensor parallel, sequence cut", lambda x, a, b: jax.nn.gelu(x @ a) @ b, WIDE,
    (grid("m"), grid(None, "m"), grid("m")), grid("m"))
add("experts", experts, (of(64, 16, 128), of(128, 8), of(8, 128, 256), of(8, 256, 128)),
    (grid("d"), grid(), grid("m"), grid("m")), grid("d"))
add("layers, units cut", layers, (of(16, 256), of(4, 256, 1024), of(4, 1024, 256)),
    (grid("d"), grid(None, None, "m"), grid(None, "m")), grid("d"))
add("layers on devices", layers, (of(16, 256), of(8, 256, 1024), of(8, 1024, 256)), (WHOLE, X, X), WHOLE)
MATRICES = of(64, 128, 128)
add("triangular systems", lambda a, b: jax.scipy.linalg.solve_triangular(a + 16 * jnp.eye(128), b[..., None],
                                                                         lower=True), (MATRICES, of(64, 128)), (X, X), X)
add("Cholesky", lambda a: jnp.linalg.cholesky(a @ a.swapaxes(1, 2) + jnp.eye(32)), (of(64, 32, 32),), (X,), X)

# Windows.
PICTURES, KERNEL = of(8, 64, 64, 8), of(3, 3, 8, 16)
add("convolution with steps", lambda x, w: conv(x, w, 2), (PICTURES, KERNEL), (LAST, WHOLE), LAST)
add("convolution, gradients", jax.grad(lambda x, w: (conv(x, w) ** 2).sum(), (0, 1)), (PICTURES, KERNEL),
    (LAST, WHOLE), (LAST, WHOLE))
add("transposed convolution", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
    (of(8, 32, 32, 8), of(4, 4, 8, 8)), (LAST, WHOLE), LAST)
add("pool, gradient", jax.grad(lambda x: (largest_pool(x) ** 2).sum()), (PICTURES,), (LAST,), LAST)
add("average pool", lambda x: lax.reduce_window(x, 0., lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9, (PICTURES,),
    (LAST,), LAST)
add("resize", lambda x: jax.image.resize(x, (8, 128, 128, 8), "bilinear"), (PICTURES,), (LAST,), LAST)
add("batch norm, gradient", jax.grad(lambda w, x: norm_of_conv(x, w)), (KERNEL, of(64, 16, 16, 8)), (WHOLE, X), WHOLE)

# Steps of an optimizer, random numbers.
add("clip by norm", clipped, (LONG, of(512, 64)), (X, X), (X, X))
add("dropout", lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, x.shape), x / 0.9, 0), (LONG,), (X,), X)
