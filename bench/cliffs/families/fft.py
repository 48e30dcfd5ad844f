# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms."""
import jax.numpy as jnp
import jax

from cases import case, normal, values

F = jnp.fft
for batch, n in ((256, 256), (64, 1024), (1, 65536), (4096, 16), (64, 1000), (64, 360),
                 (64, 997), (16, 4099), (64, 15)):
    case(f"fft/c2c {batch}x{n}", F.fft, values("c64", batch, n))
for batch, n in ((64, 1024), (64, 1000), (64, 997)):
    case(f"fft/r2c {batch}x{n}", F.rfft, normal(batch, n))
    case(f"fft/c2r {batch}x{n}", lambda x, n=n: F.irfft(x, n), values("c64", batch, n // 2 + 1))
    case(f"fft/inverse c2c {batch}x{n}", F.ifft, values("c64", batch, n))
case("fft/2d c2c 4x128x128", F.fft2, values("c64", 4, 128, 128))
case("fft/2d c2c 4x120x90", F.fft2, values("c64", 4, 120, 90))
case("fft/2d r2c 4x256x256", F.rfft2, normal(4, 256, 256))
case("fft/2d c2r 4x256x256", F.irfft2, values("c64", 4, 256, 129))
case("fft/3d c2c 32x32x32", F.fftn, values("c64", 32, 32, 32))
case("fft/3d r2c 32x32x32", F.rfftn, normal(32, 32, 32))
case("fft/along axis 0 1024x64", lambda x: F.fft(x, axis=0), values("c64", 1024, 64))
case("fft/c2c 64x512 c128", F.fft, values("c128", 64, 512))
case("fft/r2c 64x512 f64", F.rfft, values("f64", 64, 512))
case("fft/convolution of 2 signals of 16384", lambda x, y: F.irfft(F.rfft(x, 32768) * F.rfft(y, 32768), 32768),
     normal(16384), normal(16384))
case("fft/spectrogram",
     lambda x: jnp.abs(F.rfft(x[jnp.arange(400)[None] + 160 * jnp.arange(98)[:, None]] * jnp.hanning(400))) ** 2,
     normal(16000))
case("fft/stft of scipy", lambda x: jax.scipy.signal.stft(x, nperseg=256)[2], normal(32768))
case("fft/shift", lambda x: F.fftshift(x), values("c64", 512, 512))
case("fft/gradient", jax.grad(lambda x: (jnp.abs(F.rfft(x)) ** 2).sum()), normal(64, 1024))
case("fft/8 points", F.fft, values("c64", 8))
