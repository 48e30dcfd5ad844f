# SPDX-License-Identifier: Apache-2.0
"""A multilayer perceptron of flax, trained with optax on handwritten digits: nine of ten held-out ones right."""
import checks
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(128)(x))
        x = nn.relu(nn.Dense(64)(x))
        return nn.Dense(10)(x)


train_x, train_y, test_x, test_y = checks.digits()
model = Mlp()
params = model.init(jax.random.key(0), train_x[:1])
optimizer = optax.adam(3e-3)
state = optimizer.init(params)


@jax.jit
def step(params, state, images, labels):
    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(p, images), labels).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


order = np.random.default_rng(1)
for epoch in range(12):
    shuffled = order.permutation(len(train_x))
    for at in range(0, len(shuffled) - 31, 32):
        batch = shuffled[at:at + 32]
        params, state, loss = step(params, state, train_x[batch], train_y[batch])

accuracy = float(jnp.mean(jnp.argmax(jax.jit(model.apply)(params, test_x), axis=-1) == test_y))
print(f"loss {float(loss):.4f}, accuracy {100 * accuracy:.1f} %")
checks.require("accuracy of at least 90 %", accuracy >= 0.9)
