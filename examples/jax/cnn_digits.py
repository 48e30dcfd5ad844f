# SPDX-License-Identifier: Apache-2.0
"""A convolutional network of flax with batch normalization, trained with optax, the whole epoch as one lax.scan."""
import checks
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(16, (3, 3))(x[..., None])
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


train_x, train_y, test_x, test_y = checks.digits()
model = Cnn()
variables = model.init(jax.random.key(0), train_x[:1], train=False)
params, statistics = variables["params"], variables["batch_stats"]
optimizer = optax.adamw(5e-3)


def step(carry, batch):
    params, statistics, state = carry
    images, labels = batch

    def loss(p):
        scores, new = model.apply({"params": p, "batch_stats": statistics}, images, train=True, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean(), new["batch_stats"]

    (value, new_statistics), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state = optimizer.update(grads, state, params)
    return (optax.apply_updates(params, updates), new_statistics, state), value


@jax.jit
def epoch(carry, images, labels):
    return jax.lax.scan(step, carry, (images, labels))


order = np.random.default_rng(1)
carry = (params, statistics, optimizer.init(params))
size = 32
batches = len(train_x) // size
for _ in range(8 if batches > 40 else 25):
    chosen = order.permutation(len(train_x))[:batches * size]
    carry, losses = epoch(carry, train_x[chosen].reshape(batches, size, 8, 8), train_y[chosen].reshape(batches, size))

params, statistics, _ = carry
scores = jax.jit(lambda v, x: model.apply(v, x, train=False))({"params": params, "batch_stats": statistics}, test_x)
accuracy = float(jnp.mean(jnp.argmax(scores, axis=-1) == test_y))
print(f"loss {float(losses[-1]):.4f}, accuracy {100 * accuracy:.1f} %")
checks.require("accuracy of at least 92 %", accuracy >= 0.92)
