# SPDX-License-Identifier: Apache-2.0
"""Steps of simulations and of classical algorithms."""
import jax
import jax.numpy as jnp
from jax import lax

from cases import case, declare, integers, key_data, normal, uniform


def turns(count, step):
    return lambda x: lax.fori_loop(0, count, lambda i, x: step(x), x)


def lives(x, neighbours):
    return ((neighbours == 3) | ((neighbours == 2) & (x == 1))).astype(x.dtype)


def life(x):
    around = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    return lives(x, sum(jnp.roll(x, shift, (0, 1)) for shift in around))


case("simulation/game of life 256x256, 20 turns", turns(20, life), integers(256, 256, high=2))


@declare("simulation/game of life by convolution", integers(512, 512, high=2, dtype="f32"))
def _(x):
    around = jnp.ones((1, 1, 3, 3)).at[0, 0, 1, 1].set(0)
    return lives(x, lax.conv_general_dilated(x[None, None], around, (1, 1), "SAME")[0, 0])


@declare("simulation/game of life by convolution 64x64, 50 turns", integers(64, 64, high=2, dtype="f32"))
def _(x):
    around = jnp.ones((1, 1, 3, 3)).at[0, 0, 1, 1].set(0)
    return turns(50, lambda x: lives(x, lax.conv_general_dilated(x[None, None], around, (1, 1), "SAME")[0, 0]))(x)


@declare("simulation/rule 110, 500 turns", integers(512, high=2))
def _(x):
    def step(x, _):
        x = (110 >> (4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1))) & 1
        return x, x
    return lax.scan(step, x, None, 500)[1]


def heat_by_roll(u):
    return u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)


def heat_by_slices(u):
    return u.at[1:-1, 1:-1].add(0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]))


def wave(state):
    u, before = state
    return 2 * u - before + 0.1 * sum(jnp.roll(u, d, a) - u for d in (1, -1) for a in (0, 1, 2)), u


case("simulation/heat by roll 256x256, 50 turns", turns(50, heat_by_roll), normal(256, 256))
case("simulation/heat by slices 256x256, 50 turns", turns(50, heat_by_slices), normal(256, 256))
case("simulation/wave 3d 32x32x32, 10 turns", lambda u: turns(10, wave)((u, u))[0], normal(32, 32, 32))


def gravity(x, m):
    d = x - x[:, None]
    return (d * (m / ((d**2).sum(-1) + 0.01) ** 1.5)[..., None]).sum(1)


case("simulation/n-body 500", gravity, normal(500, 3), uniform(500), tolerance=1e-3)


@declare("simulation/n-body 50, 100 turns", normal(50, 3), normal(50, 3), tolerance=1e-2)
def _(x, v):
    def step(state):
        x, v = state
        v = v + 1e-3 * gravity(x, jnp.ones(50))
        return x + 1e-3 * v, v
    return turns(100, step)((x, v))[0]


def lennard_jones(x):
    r = 1 / ((x[:, None] - x) ** 2).sum(-1).clip(1.0)
    return jnp.where(jnp.eye(200, dtype=bool), 0, r**6 - r**3).sum()


case("simulation/lennard-jones energy and force 200", jax.value_and_grad(lennard_jones), uniform(200, 3, high=8),
     tolerance=1e-2)


def runge_kutta(y):
    def f(y):
        return jnp.stack([y[1], -jnp.sin(y[0])])
    h = 0.01
    a = f(y)
    b = f(y + h / 2 * a)
    c = f(y + h / 2 * b)
    return y + h / 6 * (a + 2 * b + 2 * c + f(y + h * c))


def lorenz(s):
    return s + 0.005 * jnp.stack([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])


def cart_pole(state):
    x, v, t, w = state
    force = jnp.where(t > 0, 10.0, -10.0) / 1.1
    turn = (9.8 * jnp.sin(t) - jnp.cos(t) * force) / (0.5 * (4 / 3 - 0.1 * jnp.cos(t) ** 2 / 1.1))
    return jnp.stack([x + 0.02 * v, v + 0.02 * (force - 0.05 * turn * jnp.cos(t)), t + 0.02 * w, w + 0.02 * turn])


case("simulation/runge-kutta of a pendulum, 1000 turns", turns(1000, runge_kutta), normal(2))
case("simulation/lorenz of 1000 starts, 100 turns", turns(100, lorenz), normal(3, 1000), tolerance=1e-2)
# Which way the force points at zero decides: the states part from each other by rounding.
case("simulation/cart-pole of 256, 200 turns", turns(200, cart_pole), uniform(4, 256, low=-0.05, high=0.05),
     view=lambda r: [])


@declare("simulation/k-means step 5000x16 to 32", normal(5000, 16), normal(32, 16), tolerance=1e-2)
def _(x, centres):
    label = ((x * x).sum(1)[:, None] - 2 * x @ centres.T + (centres * centres).sum(1)).argmin(1)
    return jax.ops.segment_sum(x, label, 32) / (jax.ops.segment_sum(jnp.ones(5000), label, 32)[:, None] + 1e-6)


@declare("simulation/nearest neighbours 5 of 1000", normal(1000, 16), tolerance=1e-2)
def _(x):
    size = (x * x).sum(1)
    return lax.top_k(-(size[:, None] + size - 2 * x @ x.T), 5)[0]


@declare("simulation/page rank 50 turns", integers(10000, high=1000), integers(10000, high=1000))
def _(source, target):
    def step(rank):
        return 0.15 / 1000 + 0.85 * jax.ops.segment_sum(rank[source] / 10, target, 1000)
    return turns(50, step)(jnp.full(1000, 1e-3))


@declare("simulation/metropolis chains, 200 turns", key_data(), tolerance=0.05)
def _(words):
    def step(state, _):
        x, key = state
        key, a, b = jax.random.split(key, 3)
        y = x + jax.random.normal(a, (64,))
        x = jnp.where(jnp.log(jax.random.uniform(b, (64,))) < 0.5 * (x**2 - y**2), y, x)
        return (x, key), x
    key = jax.random.wrap_key_data(words, impl="threefry2x32")
    return lax.scan(step, (jnp.zeros(64), key), None, 200)[1].std()


@declare("simulation/ray and sphere image 256x256", uniform(3), uniform(3, low=2, high=3), tolerance=1e-2)
def _(origin, centre):
    y, x = jnp.mgrid[:256, :256]
    d = jnp.stack([y / 128 - 1, x / 128 - 1, jnp.ones((256, 256))], -1)
    d = d / jnp.linalg.norm(d, axis=-1, keepdims=True)
    b = (d * (origin - centre)).sum(-1)
    inside = b * b - ((origin - centre) ** 2).sum() + 1
    return jnp.where(inside > 0, -b - jnp.sqrt(jnp.maximum(inside, 0)), 0)


@declare("simulation/sudoku-like constraint step", uniform(9, 9, 9))
def _(x):
    p = x * (1 - 0.5 * x.mean(0, keepdims=True)) * (1 - 0.5 * x.mean(1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


@declare("simulation/hash of 100000 words", integers(100000, high=2**31, dtype="u32"))
def _(x):
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


@declare("simulation/black-scholes", uniform(100000, low=50, high=150), uniform(100000, low=50, high=150),
         uniform(100000, low=0.1, high=2), tolerance=1e-3)
def _(price, strike, time):
    cdf = jax.scipy.stats.norm.cdf
    d = (jnp.log(price / strike) + 0.07 * time) / (0.2 * jnp.sqrt(time))
    return price * cdf(d) - strike * jnp.exp(-0.05 * time) * cdf(d - 0.2 * jnp.sqrt(time))


case("simulation/hessian of a function of 20", jax.hessian(lambda x: (jnp.sin(x) * jnp.roll(x, 1) ** 2).sum()),
     normal(20))
case("simulation/jacobian of an mlp 32", jax.jacobian(lambda x, w, u: jnp.tanh(jnp.tanh(x @ w) @ u)), normal(32),
     uniform(32, 64, low=-0.1, high=0.1), uniform(64, 32, low=-0.1, high=0.1))
