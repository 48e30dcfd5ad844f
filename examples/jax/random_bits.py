# SPDX-License-Identifier: Apache-2.0
"""jax.random gives the same bits as on every other back end, and distributions what those give."""
import checks
import jax
import jax.numpy as jnp
import numpy as np


def both(draw):
    got = draw(jax.random.key(42))
    with jax.default_device(checks.cpu()):
        return got, draw(jax.random.key(42))


checks.same("bits", *both(lambda k: jax.random.bits(k, (1000,))))
checks.same("64 keys", *both(lambda k: jax.random.key_data(jax.random.split(k, 64))))
checks.same("uniform", *both(lambda k: jax.random.uniform(k, (33, 7))))
checks.same("randint", *both(lambda k: jax.random.randint(k, (500,), -3, 1000)))
checks.same("permutation", *both(lambda k: jax.random.permutation(k, 100)))
checks.same("bernoulli", *both(lambda k: jax.random.bernoulli(k, 0.3, (200,))))
checks.same("choice", *both(lambda k: jax.random.choice(k, 50, (20,), replace=False)))
checks.close("normal", *both(lambda k: jax.random.normal(k, (4000,))))
checks.close("exponential", *both(lambda k: jax.random.exponential(k, (4000,))))
checks.close("gumbel", *both(lambda k: jax.random.gumbel(k, (1000,))))
checks.close("gamma", *both(lambda k: jax.random.gamma(k, 2.5, (200,))), rtol=1e-4, atol=1e-4)
checks.same("categorical", *both(lambda k: jax.random.categorical(k, jnp.arange(8.0), shape=(300,))))
got, want = both(lambda k: jax.jit(lambda s: jax.random.normal(jax.random.key(s, impl="rbg"), (100,)))(7))
checks.close("normal of the generator rbg", got, want)
normal = np.asarray(jax.random.normal(jax.random.key(1), (20000,)))
checks.require("mean and variance", abs(normal.mean()) < 0.03 and abs(normal.var() - 1) < 0.05)
