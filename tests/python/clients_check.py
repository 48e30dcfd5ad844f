# SPDX-License-Identifier: Apache-2.0
"""A short program of each library over JAX, on krafla and on XLA's CPU back end in one process: what they give is compared.

  JAX_PLATFORMS=vulkan,cpu KRAFLA_DEVICE=cpu python clients_check.py [LIBRARY..]

Each gives a sequence of numbers, losses of training or states of a simulation. Training drifts apart by rounding, so the
first of them are compared closely and all of them loosely. Ends with 1 where one differs; libraries that are not installed
are named and left out.
"""
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "vulkan,cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import numpy as np


def _data(features, n=64, classes=4):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, features)).astype(np.float32)
    return jnp.asarray(x), jnp.asarray((x @ rng.standard_normal((features, classes))).argmax(-1))


def _train(loss, parameters, optimizer, steps=12):
    import optax

    @jax.jit
    def step(parameters, state):
        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    state, losses = optimizer.init(parameters), []
    for _ in range(steps):
        parameters, state, value = step(parameters, state)
        losses.append(float(value))
    return losses


def flax_linen():
    import flax.linen as nn
    import optax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3), strides=(2, 2))(x))
            x = nn.GroupNorm(num_groups=4)(x)
            x = nn.SelfAttention(num_heads=2)(x.reshape(x.shape[0], -1, 8))
            return nn.Dense(4)(x.mean(1))

    x, y = _data(64)
    x, net = x.reshape(-1, 8, 8, 1), Net()
    parameters = net.init(jax.random.key(0), x)

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, x), y).mean()
    return _train(loss, parameters, optax.adamw(1e-2))


def flax_nnx():
    import optax
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Linear(16, 32, rngs=rngs)
            self.norm = nnx.LayerNorm(32, rngs=rngs)
            self.cell = nnx.RNN(nnx.GRUCell(32, 16, rngs=rngs))
            self.out = nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x):
            return self.out(self.cell(self.norm(self.embed(x)))[:, -1])

    x, y = _data(80)
    x, net = x.reshape(-1, 5, 16), Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(net, optimizer):
        def loss(net):
            return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()
        value, gradient = nnx.value_and_grad(loss)(net)
        optimizer.update(net, gradient)
        return value
    return [float(step(net, optimizer)) for _ in range(12)]


def haiku():
    import haiku as hk
    import optax

    def forward(x):
        x = hk.Conv1D(8, 3)(x)
        x = hk.LayerNorm(-1, True, True)(jax.nn.gelu(x))
        x = hk.MultiHeadAttention(2, 4, model_size=8, w_init=hk.initializers.VarianceScaling())(x, x, x)
        x, _ = hk.dynamic_unroll(hk.LSTM(8), x, hk.LSTM(8).initial_state(x.shape[0]), time_major=False)
        return hk.nets.MLP([16, 4])(x[:, -1])

    x, y = _data(32)
    x, net = x.reshape(-1, 8, 4), hk.without_apply_rng(hk.transform(forward))
    parameters = net.init(jax.random.key(1), x)

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, x), y).mean()
    return _train(loss, parameters, optax.sgd(0.1, momentum=0.9))


def keras():
    import keras as k

    k.utils.set_random_seed(0)
    x, y = (np.asarray(v) for v in _data(64))
    model = k.Sequential([k.layers.Input((8, 8, 1)), k.layers.Conv2D(8, 3, activation="relu"),
                          k.layers.BatchNormalization(), k.layers.MaxPooling2D(2), k.layers.Flatten(),
                          k.layers.Dense(16, activation="gelu"), k.layers.Dense(4)])
    model.compile(k.optimizers.Adam(1e-2), k.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x.reshape(-1, 8, 8, 1), y, epochs=6, batch_size=16, shuffle=False, verbose=0)
    return history.history["loss"]


def equinox():
    import equinox as eqx
    import optax

    x, y = _data(16)
    model = eqx.nn.MLP(16, 4, 32, 2, key=jax.random.key(2))
    parameters, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(eqx.combine(p, static))(x), y).mean()
    return _train(loss, parameters, optax.lion(1e-3))


def optax():
    import optax as o

    x, y = _data(16)
    names = {"adabelief": o.adabelief(1e-2), "adafactor": o.adafactor(1e-2), "adagrad": o.adagrad(1e-1),
             "lamb": o.lamb(1e-2), "rmsprop": o.rmsprop(1e-2), "novograd": o.novograd(1e-2), "muon": o.contrib.muon(1e-2),
             "lbfgs without a search": o.scale_by_lbfgs(), "clipped": o.chain(o.clip_by_global_norm(0.1), o.adam(1e-2))}
    out = []
    for optimizer in names.values():
        w = jnp.full((16, 4), 0.1)
        out += _train(lambda w: o.softmax_cross_entropy_with_integer_labels(x @ w, y).mean(), w, optimizer, steps=3)
    return out


def diffrax():
    import diffrax as d

    def field(t, y, args):
        return jnp.array([y[1], args * (1 - y[0] ** 2) * y[1] - y[0]])

    def end(mu):
        return d.diffeqsolve(d.ODETerm(field), d.Tsit5(), 0, 5, 0.05, jnp.array([2.0, 0.0]), mu,
                             stepsize_controller=d.PIDController(rtol=1e-5, atol=1e-5),
                             saveat=d.SaveAt(ts=jnp.linspace(0, 5, 9))).ys
    stiff = d.diffeqsolve(d.ODETerm(field), d.Kvaerno3(), 0, 2, 0.01, jnp.array([2.0, 0.0]), 5.0,
                          stepsize_controller=d.PIDController(rtol=1e-4, atol=1e-4)).ys
    gradient = jax.grad(lambda mu: end(mu)[-1].sum())(1.0)
    return [*np.ravel(jax.jit(end)(1.0)), *np.ravel(stiff), float(gradient)]


def lineax():
    import lineax as lx

    rng = np.random.default_rng(0)
    a = jnp.asarray(rng.standard_normal((6, 6)).astype(np.float32))
    spd, b = a @ a.T + 6 * jnp.eye(6), jnp.asarray(rng.standard_normal(6).astype(np.float32))
    positive = lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag)
    out = []
    for operator, solver in ((lx.MatrixLinearOperator(a), lx.LU()), (lx.MatrixLinearOperator(a[:, :4]), lx.QR()),
                             (lx.MatrixLinearOperator(a[:, :4]), lx.SVD()), (positive, lx.Cholesky()),
                             (positive, lx.CG(1e-6, 1e-6)), (lx.MatrixLinearOperator(spd), lx.GMRES(1e-5, 1e-5))):
        out += [float(v) for v in jax.jit(lambda b, o=operator, s=solver: lx.linear_solve(o, b, s).value)(b)]
    return out


def mjx():
    import mujoco
    from mujoco import mjx as m

    model = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
      <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/>
      <body pos=".5 0 0"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/></body>
      </body><body pos="0 1 .5"><freejoint/><geom type="sphere" size=".1"/></body></worldbody></mujoco>""")
    device = next(iter(jnp.zeros(()).devices()))  # mjx's own choice is the first of all devices
    on_device = m.put_model(model, device=device)
    data, step, out = m.make_data(on_device, device=device), jax.jit(m.step), []
    for n in range(60):
        data = step(on_device, data)
        if n % 10 == 9:
            out += [float(v) for v in data.qpos]
    return out


_PROGRAMS = {"flax.linen": flax_linen, "flax.nnx": flax_nnx, "haiku": haiku, "keras": keras, "equinox": equinox,
             "optax": optax, "diffrax": diffrax, "lineax": lineax, "mjx": mjx}


def main():
    wrong = 0
    for name in sys.argv[1:] or _PROGRAMS:
        results, seconds = [], []
        try:
            for platform in ("vulkan", "cpu"):
                with jax.default_device(jax.devices(platform)[0]):
                    start = time.process_time()
                    results.append(np.asarray(_PROGRAMS[name](), np.float64))
                    seconds.append(time.process_time() - start)
                jax.clear_caches()
        except ModuleNotFoundError as error:
            print(f"{name}: left out ({error})", flush=True)
            continue
        ours, theirs = results
        apart = np.abs(ours - theirs) / (1e-2 + np.abs(theirs))
        first, largest = apart[:2].max(), apart.max()
        good = ours.shape == theirs.shape and first < 1e-4 and largest < 2e-2
        wrong += not good
        print(f"{name}: {'right' if good else 'WRONG'}, {len(ours)} values, apart at first {first:.1e}, at most "
              f"{largest:.1e}; processor seconds {seconds[0]:.1f}, XLA {seconds[1]:.1f}", flush=True)
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
