# SPDX-License-Identifier: Apache-2.0
"""A transformer block with causal attention, its value and gradients compared with those of JAX's CPU back end."""
import checks
import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HEADS, LENGTH, BATCH = 64, 4, 24, 2


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(p, x):
    q, k, v = (jnp.einsum("blw,whd->bhld", x, p[name]) for name in ("q", "k", "v"))
    scores = jnp.einsum("bhld,bhmd->bhlm", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhlm,bhmd,hdw->blw", weights, v, p["o"])


def block(p, x):
    x = x + attention(p, norm(x, p["norm1"]))
    return x + jax.nn.gelu(norm(x, p["norm2"]) @ p["up"]) @ p["down"]


def loss(p, x, y):
    return jnp.mean((block(p, x) - y) ** 2)


def parameters(key):
    names = {"q": (WIDTH, HEADS, WIDTH // HEADS), "k": (WIDTH, HEADS, WIDTH // HEADS),
             "v": (WIDTH, HEADS, WIDTH // HEADS), "o": (HEADS, WIDTH // HEADS, WIDTH),
             "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    out = {name: jax.random.normal(jax.random.fold_in(key, i), shape) / np.sqrt(WIDTH)
           for i, (name, shape) in enumerate(names.items())}
    return out | {"norm1": jnp.ones(WIDTH), "norm2": jnp.ones(WIDTH)}


p = parameters(jax.random.key(0))
x, y = jax.random.normal(jax.random.key(1), (2, BATCH, LENGTH, WIDTH))
value_and_grads = jax.jit(jax.value_and_grad(loss))
got = value_and_grads(p, x, y)
want = value_and_grads(*jax.device_put((p, x, y), checks.cpu()))
checks.close("loss and gradients", got, want, rtol=2e-4, atol=2e-5)

batch_of_grads = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(p, x[:, None], y[:, None])
checks.close("gradients by example", jax.tree.map(lambda g: g.mean(0), batch_of_grads), want[1], rtol=5e-4, atol=2e-5)
remat = jax.jit(jax.grad(jax.checkpoint(loss)))(p, x, y)
checks.close("gradients with rematerialization", remat, want[1], rtol=2e-4, atol=2e-5)
