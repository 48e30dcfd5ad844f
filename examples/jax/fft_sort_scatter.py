# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms, sorting, searching, scatter, segment sums and convolution against NumPy."""
import checks
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(3, 60)).astype(np.float32)
z = (x + 1j * rng.normal(size=x.shape)).astype(np.complex64)
checks.close("fft", jax.jit(jnp.fft.fft)(z), np.fft.fft(z), rtol=1e-4, atol=1e-4)
checks.close("ifft", jax.jit(jnp.fft.ifft)(z), np.fft.ifft(z))
checks.close("rfft", jax.jit(jnp.fft.rfft)(x), np.fft.rfft(x), rtol=1e-4, atol=1e-4)
checks.close("irfft", jax.jit(jnp.fft.irfft)(z), np.fft.irfft(z), rtol=1e-4)
checks.close("fft2 of odd sizes", jax.jit(jnp.fft.fft2)(z[:, :35]), np.fft.fft2(z[:, :35]), rtol=1e-4, atol=1e-4)
checks.same("sort", jax.jit(jnp.sort)(x), np.sort(x))
checks.same("stable argsort", jax.jit(jnp.argsort)((x * 2).astype(int)),
            np.argsort((x * 2).astype(int), kind="stable").astype(np.int32))
checks.same("lexsort", jax.jit(lambda a, b: jnp.lexsort((a, b)))(x[0], np.round(x[1])),
            np.lexsort((x[0], np.round(x[1]))).astype(np.int32))
values, places = jax.jit(lambda v: jax.lax.top_k(v, 5))(x)
checks.same("top_k", values, -np.sort(-x)[:, :5])
checks.same("its places", np.take_along_axis(x, np.asarray(places), 1), np.asarray(values))
checks.same("searchsorted", jax.jit(jnp.searchsorted)(np.sort(x[0]), x[1]),
            np.searchsorted(np.sort(x[0]), x[1]).astype(np.int32))
checks.same("unique", jnp.unique((x * 3).astype(np.int32)), np.unique((x * 3).astype(np.int32)))

at = rng.integers(0, 10, 100)
added = np.zeros(10, np.int32)
np.add.at(added, at, np.arange(100))
checks.same("scatter-add", jax.jit(lambda i: jnp.zeros(10, jnp.int32).at[i].add(jnp.arange(100)))(at), added)
checks.same("segment_sum", jax.jit(lambda i: jax.ops.segment_sum(jnp.arange(100), i, 10))(at), added)
highest = np.full(10, -1, np.int32)
np.maximum.at(highest, at, np.arange(100))
checks.same("scatter-max", jax.jit(lambda i: jnp.full(10, -1, jnp.int32).at[i].max(jnp.arange(100)))(at), highest)
checks.same("set, out of range dropped", jax.jit(lambda v: v.at[jnp.array([1, 99])].set(7.0))(x[0]),
            np.where(np.arange(60) == 1, np.float32(7), x[0]))
checks.same("gather", jax.jit(lambda v, i: v[:, i])(x, at), x[:, at])
checks.same("roll, flip, tile", jax.jit(lambda v: jnp.tile(jnp.flip(jnp.roll(v, 3, 1), 1), (2, 1)))(x),
            np.tile(np.flip(np.roll(x, 3, 1), 1), (2, 1)))
checks.close("convolve", jax.jit(jnp.convolve)(x[0], x[1][:9]), np.convolve(x[0], x[1][:9]))
checks.close("median and quantile", jax.jit(lambda v: (jnp.median(v), jnp.quantile(v, 0.3)))(x),
             (np.median(x), np.quantile(x, 0.3)))
checks.same("histogram", jax.jit(lambda v: jnp.histogram(v, bins=8)[0])(x), np.histogram(x, bins=8)[0].astype(np.float32))
