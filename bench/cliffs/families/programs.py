# SPDX-License-Identifier: Apache-2.0
"""Short programs as people write them: cells, attention, steps of training and of simulations."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, integers, key_data, normal, uniform


def small(*shape):
    """Weights."""
    return uniform(*shape, low=-0.1, high=0.1)


def lstm(x, w, u):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    return lax.scan(cell, (jnp.zeros((x.shape[1], u.shape[0])),) * 2, x)[1]


def gru(x, w, u):
    def cell(h, x):
        a, b = jnp.split(x @ w, [2 * h.shape[-1]], -1)
        ub, uc = jnp.split(u, [2 * h.shape[-1]], -1)
        r, z = jnp.split(jax.nn.sigmoid(a + h @ ub), 2, -1)
        h = (1 - z) * jnp.tanh(b + r * (h @ uc)) + z * h
        return h, h
    return lax.scan(cell, jnp.zeros((x.shape[1], u.shape[0])), x)[1]


for name, f, gates in (("lstm", lstm, 4), ("gru", gru, 3)):
    a = normal(50, 16, 64), small(64, gates * 64), small(64, gates * 64)
    case(f"program/{name} 50 turns", f, *a)
    case(f"program/{name} 50 turns, gradient", jax.grad(lambda x, w, u, f=f: (f(x, w, u) ** 2).sum(), (1, 2)), *a, tolerance=1e-2)

Q = normal(2, 256, 4, 64)
case("attention/full", lambda q, k, v: jax.nn.dot_product_attention(q, k, v), Q, Q, Q)
case("attention/causal", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), Q, Q, Q)
case("attention/causal gradient", jax.grad(lambda q, k, v: (jax.nn.dot_product_attention(q, k, v, is_causal=True) ** 2).sum(), (0, 1, 2)), Q, Q, Q, tolerance=1e-2)
case("attention/causal bf16", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), *[normal(2, 256, 4, 64, dtype="bf16")] * 3, tolerance=0.1)
case("attention/grouped queries", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), normal(1, 256, 8, 64), normal(1, 256, 2, 64), normal(1, 256, 2, 64))
case("attention/decode, 512 keys", lambda q, k, v, n: (lambda s: jnp.einsum("bht,bthd->bhd", jax.nn.softmax(jnp.where(jnp.arange(512) < n[0], s, -1e9)), v))(jnp.einsum("bhd,bthd->bht", q, k) / 8), normal(4, 8, 64), normal(4, 512, 8, 64), normal(4, 512, 8, 64), integers(1, low=100, high=500))
case("attention/decode, cache written and read", lambda c, x, w, i: (lambda c: (c, jnp.einsum("bt,btd->bd", jax.nn.softmax(jnp.einsum("bd,btd->bt", x, c)), c) @ w))(lax.dynamic_update_slice(c, x[:, None], (0, i[0], 0))), normal(4, 512, 128), normal(4, 128), small(128, 128), integers(1, high=500))
case("attention/decode loop of 64", lambda c, x, w: lax.scan(lambda s, i: (lambda c: (lambda x: ((c, x), x))(jnp.tanh(jnp.einsum("bt,btd->bd", jax.nn.softmax(jnp.where(jnp.arange(128) <= i, jnp.einsum("bd,btd->bt", s[1], c), -1e9)), c) @ w)))(lax.dynamic_update_slice(s[0], s[1][:, None], (0, i, 0))), (c, x), jnp.arange(64))[1], normal(4, 128, 64), normal(4, 64), small(64, 64))
case("attention/window of 64", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=64), Q, Q, Q)
case("attention/rotary embedding", lambda x: (lambda a: jnp.concatenate([x[..., :32] * jnp.cos(a) - x[..., 32:] * jnp.sin(a), x[..., 32:] * jnp.cos(a) + x[..., :32] * jnp.sin(a)], -1))(jnp.arange(256)[:, None, None] / 10000 ** (jnp.arange(32) / 32)), Q)
case("attention/relative bias", lambda s, b: s + b[:, jnp.arange(256)[:, None] - jnp.arange(256) + 255], normal(2, 4, 256, 256), normal(4, 511))
case("attention/linear (kernel feature map)", lambda q, k, v: jnp.einsum("bqhd,bhde->bqhe", jax.nn.relu(q), jnp.einsum("bkhd,bkhe->bhde", jax.nn.relu(k), v)), Q, Q, Q)


def block(x, w):
    z = x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    q, k, v = (jnp.einsum("btd,dhe->bthe", z, w[n]) for n in range(3))
    s = jnp.where(jnp.tril(jnp.ones((x.shape[1],) * 2, bool)), jnp.einsum("bthe,bshe->bhts", q, k) / 4, -1e9)
    x = x + jnp.einsum("bhts,bshe,hed->btd", jax.nn.softmax(s, -1), v, w[3])
    return x + jax.nn.gelu(x @ w[4]) @ w[5]


WEIGHTS = [small(64, 4, 16)] * 3 + [small(4, 16, 64), small(64, 256), small(256, 64)]
case("program/transformer block", lambda x, *w: block(x, w), normal(2, 64, 64), *WEIGHTS, tolerance=1e-3)
case("program/transformer block gradient", lambda x, *w: jax.grad(lambda w: (block(x, w) ** 2).mean())(w), normal(2, 64, 64), *WEIGHTS, tolerance=1e-2)


def mlp_step(x, y, *w):
    def loss(w):
        h = x
        for a in w[:-1]:
            h = jax.nn.relu(h @ a)
        return -(jax.nn.log_softmax(h @ w[-1]) * y).sum(-1).mean()
    return [a - 0.1 * g for a, g in zip(w, jax.grad(loss)(w))]


case("program/mlp training step", mlp_step, normal(64, 64), uniform(64, 10), small(64, 128), small(128, 128), small(128, 10), tolerance=1e-2)
case("program/mlp training step, tiny", mlp_step, normal(8, 4), uniform(8, 2), small(4, 16), small(16, 2), tolerance=1e-2)


def adam(n, *trees):
    p, g, m, v = (trees[i::4] for i in range(4))
    m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
    v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
    s = 1 - 0.9 ** (n[0] + 1.0), 1 - 0.999 ** (n[0] + 1.0)
    return [a - 1e-3 * (b / s[0]) / (jnp.sqrt(c / s[1]) + 1e-8) for a, b, c in zip(p, m, v)], m, v


case("program/adam step of 20 arrays", adam, integers(1, low=5, high=50), *[uniform(64, 128)] * 80)
case("program/adam step of 1 array", adam, integers(1, low=5, high=50), *[uniform(512, 512)] * 4)


def cnn(x, w1, w2, w3):
    conv = lambda x, w, s: lax.conv_general_dilated(x, w, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    norm = lambda x: (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)
    x = jax.nn.relu(norm(conv(x, w1, 1)))
    x = jax.nn.relu(norm(conv(x, w2, 2)))
    return x.mean((1, 2)) @ w3


CNN = normal(16, 16, 16, 3), small(3, 3, 3, 16), small(3, 3, 16, 32), small(32, 10)
case("program/cnn with strides and batchnorm", cnn, *CNN, tolerance=1e-3)
case("program/cnn with strides and batchnorm, gradient", lambda x, *w: jax.grad(lambda w: (cnn(x, *w) ** 2).sum())(w), *CNN, tolerance=1e-2)
case("program/u-net step down and up", lambda x, d, u: lax.conv_transpose(jax.nn.silu(lax.conv_general_dilated(x, d, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))), u, (2, 2), "SAME"), normal(4, 16, 16, 16), small(3, 3, 16, 32), small(3, 3, 32, 16))
case("program/mixture of experts, 4 of all", lambda x, g, w: jnp.einsum("te,ted->td", jax.nn.softmax(x @ g), jnp.einsum("td,edf->tef", x, w)), normal(128, 64), small(64, 4), small(4, 64, 64))
case("program/beam search step", lambda s, l: (lambda v, i: (v, i // 1000, i % 1000))(*lax.top_k((s[..., None] + jax.nn.log_softmax(l)).reshape(8, -1), 4)), normal(8, 4), normal(8, 4, 1000))
case("program/sample a token, top 40", lambda w, l: (lambda v, i: jnp.take_along_axis(i, jax.random.categorical(jax.random.wrap_key_data(w, impl="threefry2x32"), v)[:, None], 1))(*lax.top_k(l, 40)), key_data(), normal(4, 32000))
case("program/ctc-like forward 100x32", lambda x: lax.scan(lambda a, x: (lambda a: (a, None))(jnp.logaddexp(a, jnp.pad(a, ((0, 0), (1, 0)), constant_values=-1e9)[:, :-1]) + x), jnp.zeros((8, 32)), x)[0], normal(100, 8, 32))
case("program/viterbi 200x32", lambda t, x: lax.scan(lambda a, x: (lambda s: (s.max(0) + x, s.argmax(0)))(a[:, None] + t), jnp.zeros(32), x), normal(32, 32), normal(200, 32))

case("simulation/game of life 256x256, 20 turns", lambda x: lax.fori_loop(0, 20, lambda i, x: (lambda n: ((n == 3) | ((n == 2) & (x == 1))).astype(jnp.int32))(sum(jnp.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)), x), integers(256, 256, high=2))
case("simulation/game of life by convolution", lambda x: (lambda n: ((n == 3) | ((n == 2) & (x == 1))).astype(jnp.float32))(lax.conv_general_dilated(x[None, None], jnp.ones((1, 1, 3, 3)).at[0, 0, 1, 1].set(0), (1, 1), "SAME")[0, 0]), integers(512, 512, high=2, dtype="f32"))
case("simulation/rule 110, 500 turns", lambda x: lax.scan(lambda x, _: ((lambda n: (110 >> n) & 1)(4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1)),) * 2, x, None, 500)[1], integers(512, high=2))
case("simulation/heat by roll 256x256, 50 turns", lambda u: lax.fori_loop(0, 50, lambda i, u: u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u), u), normal(256, 256))
case("simulation/heat by slices 256x256, 50 turns", lambda u: lax.fori_loop(0, 50, lambda i, u: u.at[1:-1, 1:-1].add(0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])), u), normal(256, 256))
case("simulation/wave 3d 32x32x32, 10 turns", lambda u: lax.fori_loop(0, 10, lambda i, s: (2 * s[0] - s[1] + 0.1 * sum(jnp.roll(s[0], d, a) - s[0] for d in (1, -1) for a in (0, 1, 2)), s[0]), (u, u))[0], normal(32, 32, 32))
case("simulation/n-body 500", lambda x, m: (lambda d: (d * (m / ((d**2).sum(-1) + 0.01) ** 1.5)[..., None]).sum(1))(x - x[:, None]), normal(500, 3), uniform(500), tolerance=1e-3)
case("simulation/n-body 50, 100 turns", lambda x, v: lax.fori_loop(0, 100, lambda i, s: (lambda d: (lambda v: (s[0] + 1e-3 * v, v))(s[1] + 1e-3 * (d / ((d**2).sum(-1) + 0.01)[..., None] ** 1.5).sum(1)))(s[0] - s[0][:, None]), (x, v))[0], normal(50, 3), normal(50, 3), tolerance=1e-2)
case("simulation/lennard-jones energy and force 200", jax.value_and_grad(lambda x: (lambda r: jnp.where(jnp.eye(200, dtype=bool), 0, r**6 - r**3).sum())(1 / ((x[:, None] - x) ** 2).sum(-1).clip(1.0))), uniform(200, 3, high=8), tolerance=1e-2)
case("simulation/runge-kutta of a pendulum, 1000 turns", lambda y: lax.fori_loop(0, 1000, lambda i, y: (lambda f, h: (lambda a: (lambda b: (lambda c: y + h / 6 * (a + 2 * b + 2 * c + f(y + h * c)))(f(y + h / 2 * b)))(f(y + h / 2 * a)))(f(y)))(lambda y: jnp.stack([y[1], -jnp.sin(y[0])]), 0.01), y), normal(2))
case("simulation/lorenz of 1000 starts, 100 turns", lambda s: lax.fori_loop(0, 100, lambda i, s: s + 0.005 * jnp.stack([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]), s), normal(3, 1000), tolerance=1e-2)
case("simulation/k-means step 5000x16 to 32", lambda x, c: (lambda l: jax.ops.segment_sum(x, l, 32) / (jax.ops.segment_sum(jnp.ones(5000), l, 32)[:, None] + 1e-6))(((x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)).argmin(1)), normal(5000, 16), normal(32, 16), tolerance=1e-2)
case("simulation/nearest neighbours 5 of 1000", lambda x: lax.top_k(-(lambda s: s[:, None] + s - 2 * x @ x.T)((x * x).sum(1)), 5)[0], normal(1000, 16), tolerance=1e-2)
case("simulation/page rank 50 turns", lambda i, j: lax.fori_loop(0, 50, lambda n, r: 0.15 / 1000 + 0.85 * jax.ops.segment_sum(r[i] / 10, j, 1000), jnp.full(1000, 1e-3)), integers(10000, high=1000), integers(10000, high=1000))
case("simulation/metropolis chain 1000 turns", lambda w: lax.scan(lambda s, _: (lambda k, a, b: (lambda y: (lambda z: ((z, k), z))(jnp.where(jnp.log(jax.random.uniform(b, (64,))) < 0.5 * (s[0] ** 2 - y**2), y, s[0])))(s[0] + jax.random.normal(a, (64,))))(*jax.random.split(s[1], 3)), (jnp.zeros(64), jax.random.wrap_key_data(w, impl="threefry2x32")), None, 200)[1].std(), key_data(), tolerance=0.05)
case("simulation/cart-pole of 256, 200 turns", lambda s: lax.fori_loop(0, 200, lambda i, s: (lambda x, v, t, w: (lambda f: (lambda a: jnp.stack([x + 0.02 * v, v + 0.02 * (f - 0.05 * a * jnp.cos(t)), t + 0.02 * w, w + 0.02 * a]))((9.8 * jnp.sin(t) - jnp.cos(t) * f) / (0.5 * (4 / 3 - 0.1 * jnp.cos(t) ** 2 / 1.1))))(jnp.where(t > 0, 10.0, -10.0) / 1.1))(*s), s), uniform(4, 256, low=-0.05, high=0.05), view=lambda r: [])
case("simulation/ray and sphere image 256x256", lambda o, c: (lambda d: (lambda b, k: jnp.where(b * b - k > 0, -b - jnp.sqrt(jnp.maximum(b * b - k, 0)), 0))((d * (o - c)).sum(-1), ((o - c) ** 2).sum() - 1))((lambda g: (lambda v: v / jnp.linalg.norm(v, axis=-1, keepdims=True))(jnp.stack([g[0] / 128 - 1, g[1] / 128 - 1, jnp.ones((256, 256))], -1)))(jnp.mgrid[:256, :256])), uniform(3), uniform(3, low=2, high=3), tolerance=1e-2)
case("simulation/sudoku-like constraint step", lambda x: (lambda p: p / p.sum(-1, keepdims=True))(x * (1 - 0.5 * x.mean(0, keepdims=True)) * (1 - 0.5 * x.mean(1, keepdims=True))), uniform(9, 9, 9))
case("simulation/hash of 100000 words", lambda x: (lambda h: h ^ (h >> 16))((lambda h: (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35))((x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B))), integers(100000, high=2**31, dtype="u32"))
case("simulation/black-scholes", lambda s, k, t: (lambda d: s * jax.scipy.stats.norm.cdf(d) - k * jnp.exp(-0.05 * t) * jax.scipy.stats.norm.cdf(d - 0.2 * jnp.sqrt(t)))((jnp.log(s / k) + 0.07 * t) / (0.2 * jnp.sqrt(t))), uniform(100000, low=50, high=150), uniform(100000, low=50, high=150), uniform(100000, low=0.1, high=2), tolerance=1e-3)
case("simulation/hessian of a function of 20", jax.hessian(lambda x: (jnp.sin(x) * jnp.roll(x, 1) ** 2).sum()), normal(20))
case("simulation/jacobian of an mlp 32", jax.jacobian(lambda x, w, u: jnp.tanh(jnp.tanh(x @ w) @ u)), normal(32), small(32, 64), small(64, 32))
