# SPDX-License-Identifier: Apache-2.0
"""Random numbers."""
import jax
import jax.numpy as jnp

from cases import case, key_data, integers, normal

R = jax.random


def threefry(function):
    return lambda words, *rest: function(R.wrap_key_data(words, impl="threefry2x32"), *rest)


def neighbours(s):
    return sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))


def draw(name, function, *rest, **options):
    case(f"random/{name}", threefry(function), key_data(), *rest, **options)


N = 300000
draw("bits 32", lambda k: R.bits(k, (N,)))
draw("bits 8", lambda k: R.bits(k, (N,), "uint8"))
draw("uniform f32", lambda k: R.uniform(k, (N,)))
draw("uniform bf16", lambda k: R.uniform(k, (N,), jnp.bfloat16))
draw("uniform f64", lambda k: R.uniform(k, (N,), jnp.float64), x64=True)
draw("normal f32", lambda k: R.normal(k, (N,)), tolerance=1e-3)
draw("normal bf16", lambda k: R.normal(k, (N,), jnp.bfloat16))
draw("normal 512x512", lambda k: R.normal(k, (512, 512)), tolerance=1e-3)
draw("truncated normal", lambda k: R.truncated_normal(k, -2, 2, (N,)), tolerance=1e-3)
draw("randint 0 to 10", lambda k: R.randint(k, (N,), 0, 10))
draw("bernoulli", lambda k: R.bernoulli(k, 0.3, (N,)))
draw("dropout", lambda k, x: jnp.where(R.bernoulli(k, 0.9, x.shape), x / 0.9, 0), normal(512, 512))
draw("exponential", lambda k: R.exponential(k, (N,)), tolerance=1e-3)
draw("gumbel", lambda k: R.gumbel(k, (N,)), tolerance=1e-3)
draw("laplace", lambda k: R.laplace(k, (N,)), tolerance=1e-3)
draw("cauchy", lambda k: R.cauchy(k, (N,)), tolerance=1e-2)
draw("categorical 512x1000", lambda k, x: R.categorical(k, x), normal(512, 1000))
draw("categorical 1x32000", lambda k, x: R.categorical(k, x), normal(1, 32000))
draw("choice of 10 without repetition", lambda k: R.choice(k, 10000, (10,), replace=False))
draw("choice of 1000 with weights", lambda k, x: R.choice(k, 1000, (1000,), p=jax.nn.softmax(x)), normal(1000))
draw("permutation 100000", lambda k: R.permutation(k, 100000))
draw("permutation of rows", lambda k, x: R.permutation(k, x), normal(10000, 32))
draw("permutation of each row", lambda k, x: R.permutation(k, x, axis=1, independent=True), normal(256, 128))
draw("gamma", lambda k: R.gamma(k, 2.5, (5000,)), tolerance=1e-2)
draw("beta", lambda k: R.beta(k, 2.5, 1.5, (2000,)), tolerance=1e-2)
draw("dirichlet", lambda k: R.dirichlet(k, jnp.ones(8), (500,)), tolerance=1e-2)
draw("poisson", lambda k: R.poisson(k, 5.0, (5000,)))
draw("binomial", lambda k: R.binomial(k, 20, 0.3, (2000,)))
draw("student t", lambda k: R.t(k, 3.0, (2000,)), tolerance=1e-2)
draw("multivariate normal 1000x4", lambda k: R.multivariate_normal(k, jnp.zeros(4), jnp.eye(4) + 0.5, (1000,)),
     tolerance=1e-2)
draw("orthogonal 64", lambda k: R.orthogonal(k, 64), tolerance=1e-2)
draw("rademacher", lambda k: R.rademacher(k, (N,)))
draw("split 1000", lambda k: R.key_data(R.split(k, 1000)))
draw("fold_in 1000", lambda k: R.key_data(jax.vmap(lambda n: R.fold_in(k, n))(jnp.arange(1000))))
draw("uniform of 4", lambda k: R.uniform(k, (4,)))
draw("a number in each of 1000 turns",
     lambda k: jax.lax.scan(lambda k, _: (lambda a, b: (a, R.uniform(b)))(*R.split(k)), k, None, 1000)[1])
draw("1000 keys, 100 normals each", lambda k: jax.vmap(lambda k: R.normal(k, (100,)))(R.split(k, 1000)), tolerance=1e-3)
draw("monte carlo of pi", lambda k: ((R.uniform(k, (100000, 2)) ** 2).sum(1) < 1).mean() * 4)
draw("ising sweep 128x128",
     lambda k, s: jnp.where(R.uniform(k, s.shape) < jax.nn.sigmoid(0.8 * neighbours(s)), 1.0, -1.0),
     normal(128, 128))
for impl in ("rbg", "unsafe_rbg"):
    words = integers(4, high=2**31, dtype="u32")
    case(f"random/{impl} bits", lambda w, impl=impl: R.bits(R.wrap_key_data(w, impl=impl), (N,)), words)
    case(f"random/{impl} normal", lambda w, impl=impl: R.normal(R.wrap_key_data(w, impl=impl), (N,)), words,
         tolerance=1e-3)
