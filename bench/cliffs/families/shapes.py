# SPDX-License-Identifier: Apache-2.0
"""What moves data and computes nothing: transposes, concatenates, pads, slices, broadcasts."""
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cases import case, integers, normal, values


def transpose(order, dtype, *shape):
    name = "".join(map(str, order))
    case(f"transpose/{name} {'x'.join(map(str, shape))} {dtype}", lambda x: x.transpose(order), values(dtype, *shape))


for dtype in ("f32", "bf16", "u8", "f64", "c64", "s32"):
    transpose((1, 0), dtype, 1024, 1024)
for shape in ((2048, 64), (64, 2048), (100000, 3), (3, 100000), (100000, 8), (1000, 777)):
    transpose((1, 0), "f32", *shape)
for order in itertools.permutations(range(3)):
    if order != (0, 1, 2):
        transpose(order, "f32", 64, 96, 128)
for order in itertools.permutations(range(4)):
    if order != (0, 1, 2, 3):
        transpose(order, "f32", 16, 32, 48, 24)
for order in ((0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 1, 0)):
    transpose(order, "bf16", 8, 64, 64, 32)
    transpose(order, "u8", 8, 64, 64, 32)
transpose((0, 2, 1, 3), "f32", 8, 512, 8, 64)
transpose((0, 2, 1, 3), "bf16", 8, 512, 8, 64)
transpose((0, 2, 3, 1), "f32", 2, 512, 8, 64)
transpose((0, 3, 1, 2), "f32", 8, 112, 112, 3)
transpose((0, 2, 3, 1), "f32", 8, 3, 112, 112)
for order in ((4, 3, 2, 1, 0), (0, 2, 1, 3, 4), (0, 1, 3, 2, 4), (4, 2, 3, 1, 0), (1, 0, 3, 2, 4),
              (2, 0, 3, 1, 4), (0, 3, 4, 1, 2), (4, 0, 1, 2, 3), (1, 2, 3, 4, 0), (0, 4, 1, 2, 3)):
    transpose(order, "f32", 8, 14, 16, 18, 20)
case("transpose/heads of 2x512x8x64 and multiply", lambda x: x.transpose(0, 2, 1, 3) * 2 + 1, normal(2, 512, 8, 64))
case("transpose/add the transposed 1024x1024", lambda x: x + x.T, normal(1024, 1024))

S = normal(1024, 1024)
for axis in (0, 1):
    case(f"shape/concatenate 2 of 1024x512 axis {axis}", lambda x, y, axis=axis: jnp.concatenate([x, y], axis),
         normal(1024, 512), normal(1024, 512))
    case(f"shape/concatenate 16 of 256x64 axis {axis}", lambda *x, axis=axis: jnp.concatenate(x, axis),
         *[normal(256, 64)] * 16)
    case(f"shape/stack 4 axis {axis}", lambda *x, axis=axis: jnp.stack(x, axis), *[normal(512, 256)] * 4)
    case(f"shape/split 4 axis {axis} and sum", lambda x, axis=axis: sum(jnp.split(x, 4, axis)), S)
    case(f"shape/reverse axis {axis}", lambda x, axis=axis: jnp.flip(x, axis), S)
    case(f"shape/roll axis {axis}", lambda x, axis=axis: jnp.roll(x, 7, axis), S)
    case(f"shape/pad 3 axis {axis}",
         lambda x, axis=axis: jnp.pad(x, [(3, 3) if n == axis else (0, 0) for n in range(2)]), S)
    case(f"shape/slice stride 2 axis {axis}", lambda x, axis=axis: x[::2] if axis == 0 else x[:, ::2], S)
    case(f"shape/slice stride 3 axis {axis}", lambda x, axis=axis: x[1::3] if axis == 0 else x[:, 1::3], S)
    case(f"shape/repeat 4 axis {axis}", lambda x, axis=axis: jnp.repeat(x, 4, axis), normal(512, 512))
    case(f"shape/broadcast a vector axis {axis}",
         lambda x, axis=axis: jnp.broadcast_to(jnp.expand_dims(x, axis), (1024, 1024)), normal(1024))
    case(f"shape/interior pad axis {axis}",
         lambda x, axis=axis: lax.pad(x, np.float32(0), [(0, 0, 1 if n == axis else 0) for n in range(2)]),
         normal(512, 512))
case("shape/stack 4 axis 2 (interleave)", lambda *x: jnp.stack(x, 2), *[normal(512, 256)] * 4)
case("shape/concatenate interleaved pairs", lambda x, y: jnp.stack([x, y], -1).reshape(-1), normal(500000),
     normal(500000))
case("shape/concatenate u8", lambda x, y: jnp.concatenate([x, y], 1), values("u8", 1024, 512), values("u8", 1024, 511))
case("shape/concatenate bf16 axis 1", lambda x, y: jnp.concatenate([x, y], 1), values("bf16", 1024, 512),
     values("bf16", 1024, 512))
case("shape/concatenate one column", lambda x, y: jnp.concatenate([x, y], 1), normal(1024, 512), normal(1024, 1))
case("shape/roll both", lambda x: jnp.roll(x, (3, 5), (0, 1)), S)
case("shape/reverse both", lambda x: x[::-1, ::-1], S)
case("shape/pad all of 4d", lambda x: jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), normal(8, 56, 56, 32))
case("shape/pad edge", lambda x: jnp.pad(x, 2, "edge"), S)
case("shape/pad wrap", lambda x: jnp.pad(x, 2, "wrap"), S)
case("shape/negative pad", lambda x: lax.pad(x, np.float32(0), [(-3, -3, 0), (-5, 2, 0)]), S)
case("shape/slice a window", lambda x: x[100:900, 100:900], S)
case("shape/slice stride 2 both", lambda x: x[::2, ::2], S)
case("shape/slice every other row u8", lambda x: x[::2], values("u8", 2048, 1024))
case("shape/even and odd to halves", lambda x: jnp.concatenate([x[..., ::2], x[..., 1::2]], -1), normal(2048, 256))
case("shape/tile 2x2", lambda x: jnp.tile(x, (2, 2)), normal(512, 512))
case("shape/tile a row 1000", lambda x: jnp.tile(x, (1000, 1)), normal(1, 500))
case("shape/repeat by counts", lambda x, n: jnp.repeat(x, n, total_repeat_length=20000), normal(10000),
     integers(10000, high=4))
case("shape/broadcast scalar", lambda x: jnp.broadcast_to(x, (1024, 1024)), normal())
case("shape/broadcast middle axis", lambda x: jnp.broadcast_to(x[:, None], (64, 64, 128)), normal(64, 128))
case("shape/one-hot 4096 of 256", lambda i: jax.nn.one_hot(i, 256), integers(4096, high=256))
case("shape/one-hot 4096 of 256 axis 0", lambda i: jax.nn.one_hot(i, 256, axis=0), integers(4096, high=256))
case("shape/iota and compare (causal mask)", lambda x: jnp.where(jnp.tril(jnp.ones((512, 512), bool)), x, -jnp.inf),
     normal(4, 512, 512))
case("shape/triu", jnp.triu, S)
case("shape/eye", lambda x: jnp.eye(512) * x, normal())
case("shape/rotate 90", jnp.rot90, S)
case("shape/meshgrid", lambda x, y: jnp.meshgrid(x, y), normal(1000), normal(500))
case("shape/outer", jnp.outer, normal(1000), normal(1000))
case("shape/kron 32", jnp.kron, normal(32, 32), normal(32, 32))
case("shape/reshape through merged axes", lambda x: x.transpose(1, 0, 2).reshape(512, -1), normal(16, 512, 64))
case("shape/ravel of a tree of 50", lambda *x: jnp.concatenate([v.ravel() for v in x]), *[normal(64, 64)] * 50)
case("shape/unravel to 50", lambda x: [v.reshape(64, 64) for v in jnp.split(x, 50)], normal(50 * 4096))
case("shape/copy", lambda x: x.copy(), S)
case("shape/shift by one with zero", lambda x: jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1], normal(4, 512, 128))
case("shape/bits to bytes", lambda x: lax.bitcast_convert_type(x, jnp.uint8), S)
case("shape/bits to words", lambda x: lax.bitcast_convert_type(x, jnp.int32), S)
case("shape/pack 4 bits", lambda x: (x[:, ::2] & 15) | (x[:, 1::2] << 4), integers(1024, 1024, high=16, dtype="u8"))
case("shape/unpack 4 bits", lambda x: jnp.stack([x & 15, x >> 4], -1).reshape(1024, -1),
     integers(1024, 512, high=256, dtype="u8"))
case("shape/packbits", jnp.packbits, integers(1000000, high=2, dtype="u8"))
case("shape/unpackbits", jnp.unpackbits, integers(100000, high=256, dtype="u8"))
