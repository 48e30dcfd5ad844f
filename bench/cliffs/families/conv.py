# SPDX-License-Identifier: Apache-2.0
"""Convolutions: forward, and the gradients of the input and of the weights."""
import jax
from jax import lax

from cases import case, values, DTYPES

LAYOUTS = {
    "nhwc": {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")},
    "nchw": {1: ("NCW", "OIW", "NCW"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")},
    "hwnc": {2: ("HWNC", "HWIO", "HWNC")},
    "chwn": {2: ("CHWN", "IHWO", "CHWN")},
    "nhwc-nchw": {2: ("NHWC", "OHWI", "NCHW")},
}
KINDS = ("forward", "dx", "dw")


def extent(n, kernel, stride, padding, window_dilation, base_dilation):
    n, kernel = (n - 1) * base_dilation + 1, (kernel - 1) * window_dilation + 1
    if padding == "SAME":
        return -(-n // stride)
    low, high = (0, 0) if padding == "VALID" else padding
    return (n + low + high - kernel) // stride + 1


def arrange(layout, batch, features, spatial):
    """A shape in the order that a layout's letters name."""
    spatial = dict(zip((l for l in layout if l not in "NCIO"), spatial))
    named = {"N": batch, "C": features, "O": batch, "I": features, **spatial}
    return tuple(named[l] for l in layout)


def conv(name, x, kernel, features, stride=1, padding="SAME", rhs=1, lhs=1, groups=1, layout="nhwc", dtype="f32",
         kinds=KINDS):
    """x: batch, spatial .., channels. One case for each of kinds."""
    batch, *spatial, channels = x
    rank = len(spatial)
    kernel = (kernel,) * rank if isinstance(kernel, int) else kernel
    stride = (stride,) * rank if isinstance(stride, int) else stride
    letters = LAYOUTS[layout][rank]
    out = [extent(n, k, s, padding, rhs, lhs) for n, k, s in zip(spatial, kernel, stride)]
    x_shape = arrange(letters[0], batch, channels, spatial)
    w_shape = arrange(letters[1], features, channels // groups, kernel)
    y_shape = arrange(letters[2], batch, features, out)
    result = "s32" if dtype == "s8" else dtype
    pads = padding if isinstance(padding, str) else [padding] * rank

    def f(x, w):
        return lax.conv_general_dilated(x, w, stride, pads, (lhs,) * rank, (rhs,) * rank, letters,
                                        feature_group_count=groups, preferred_element_type=DTYPES[result])

    def dx(w, dy):
        return jax.linear_transpose(lambda x: f(x, w), jax.ShapeDtypeStruct(x_shape, w.dtype))(dy)

    def dw(x, dy):
        return jax.linear_transpose(lambda w: f(x, w), jax.ShapeDtypeStruct(w_shape, x.dtype))(dy)

    a, w, dy = values(dtype, *x_shape), values(dtype, *w_shape), values(result, *y_shape)
    arguments = {"forward": (f, a, w), "dx": (dx, w, dy), "dw": (dw, a, dy)}
    for kind in kinds:
        case(f"conv/{kind} {name}", *arguments[kind])


def transposed(kernel, dilation):
    """The padding of lax.conv_transpose's "SAME" where the kernel is no smaller than the stride: n becomes n * dilation."""
    return kernel - 1, dilation - 1


X = (4, 28, 28, 32)
FORWARD = ("forward",)
for stride in (1, 2, 3):
    for layout in ("nhwc", "nchw"):
        conv(f"2d 3x3 s{stride} {layout}", X, 3, 32, stride, layout=layout)
for layout in ("hwnc", "chwn", "nhwc-nchw"):
    conv(f"2d 3x3 s1 {layout}", X, 3, 32, layout=layout)
    conv(f"2d 3x3 s2 {layout}", X, 3, 32, 2, layout=layout, kinds=FORWARD)
for dtype in ("bf16", "f16"):
    for stride in (1, 2):
        conv(f"2d 3x3 s{stride} nhwc {dtype}", X, 3, 32, stride, dtype=dtype)
    conv(f"2d 3x3 s1 nchw {dtype}", X, 3, 32, layout="nchw", dtype=dtype, kinds=FORWARD)
conv("2d 3x3 s1 nhwc f64", (2, 28, 28, 16), 3, 16, dtype="f64")
conv("2d 3x3 s2 nhwc f64", (2, 28, 28, 16), 3, 16, 2, dtype="f64", kinds=("forward", "dx"))
conv("2d 3x3 s1 nhwc s8", (2, 28, 28, 16), 3, 16, dtype="s8", kinds=FORWARD)
conv("2d 3x3 s2 nhwc s8", (2, 28, 28, 16), 3, 16, 2, dtype="s8", kinds=FORWARD)
conv("2d 3x3 s1 nchw s8", (2, 28, 28, 16), 3, 16, layout="nchw", dtype="s8", kinds=FORWARD)
conv("2d 3x3 s1 nhwc c64", (2, 14, 14, 8), 3, 8, dtype="c64", kinds=FORWARD)
for dilation in (2, 3):
    conv(f"2d 3x3 window-dilation {dilation} nhwc", X, 3, 32, rhs=dilation)
    conv(f"2d 3x3 window-dilation {dilation} nchw", X, 3, 32, rhs=dilation, layout="nchw", kinds=FORWARD)
    conv(f"2d 3x3 window-dilation {dilation} s2 nhwc", X, 3, 32, 2, rhs=dilation, kinds=("forward", "dx"))
    conv(f"2d 3x3 base-dilation {dilation} nhwc", (4, 14, 14, 32), 3, 32, lhs=dilation, padding=transposed(3, dilation))
    conv(f"2d 3x3 base-dilation {dilation} nchw", (4, 14, 14, 32), 3, 32, lhs=dilation, padding=transposed(3, dilation),
         layout="nchw", kinds=FORWARD)
conv("2d 4x4 base-dilation 2 nhwc", (4, 14, 14, 32), 4, 32, padding=(2, 2), lhs=2)
conv("2d 2x2 base-dilation 2 nhwc", (4, 14, 14, 32), 2, 32, padding=(1, 1), lhs=2)
conv("2d 3x3 base-dilation 2 nhwc bf16", (4, 14, 14, 32), 3, 32, padding=transposed(3, 2), lhs=2, dtype="bf16",
     kinds=FORWARD)
conv("2d 3x3 base-dilation 2 window-dilation 2", (4, 14, 14, 32), 3, 32, padding=(3, 2), rhs=2, lhs=2, kinds=FORWARD)
conv("2d 3x3 base-dilation 2 depthwise", (4, 14, 14, 32), 3, 32, padding=transposed(3, 2), lhs=2, groups=32,
     kinds=FORWARD)
conv("1d 4 base-dilation 2", (4, 256, 32), 4, 32, padding=(2, 2), lhs=2, kinds=FORWARD)
conv("3d 3x3x3 base-dilation 2", (1, 8, 8, 8, 16), 3, 16, padding=transposed(3, 2), lhs=2, kinds=FORWARD)
for groups in (2, 4, 8, 32):
    conv(f"2d 3x3 groups {groups} nhwc", X, 3, 32, groups=groups)
conv("2d 3x3 groups 4 s2 nhwc", X, 3, 32, 2, groups=4)
conv("2d 3x3 groups 4 nchw", X, 3, 32, groups=4, layout="nchw")
conv("2d 3x3 depthwise nchw", X, 3, 32, groups=32, layout="nchw")
conv("2d 3x3 depthwise s2 nhwc", X, 3, 32, 2, groups=32)
conv("2d 3x3 depthwise multiplier 2", X, 3, 64, groups=32)
conv("2d 3x3 depthwise window-dilation 2", X, 3, 32, rhs=2, groups=32, kinds=FORWARD)
conv("2d 7x7 depthwise nhwc", (2, 28, 28, 96), 7, 96, groups=96)
conv("2d 3x3 depthwise bf16", X, 3, 32, groups=32, dtype="bf16")
for stride in (1, 2, 3):
    conv(f"1d 5 s{stride}", (8, 512, 32), 5, 32, stride)
conv("1d 5 s1 ncw", (8, 512, 32), 5, 32, layout="nchw")
conv("1d 4 causal depthwise", (4, 512, 128), 4, 128, padding=(3, 0), groups=128)
conv("1d 2 causal window-dilation 16", (4, 1024, 32), 2, 32, padding=(16, 0), rhs=16)
conv("1d 31 depthwise", (4, 512, 64), 31, 64, groups=64, kinds=FORWARD)
conv("1d 400 s160 one channel", (1, 16000, 1), 400, 64, 160, padding="VALID")
for stride in (1, 2):
    conv(f"3d 3x3x3 s{stride}", (1, 16, 16, 16, 16), 3, 16, stride)
conv("3d 3x3x3 s1 ncdhw", (1, 16, 16, 16, 16), 3, 16, layout="nchw", kinds=("forward", "dx"))
for dtype in ("f32", "f16"):
    conv(f"2d 3x3 two images {dtype}", (2, 28, 28, 32), 3, 32, dtype=dtype, kinds=("dw",))
conv("2d 3x3 two images nchw", (2, 28, 28, 32), 3, 32, layout="nchw", kinds=("dw",))
conv("2d 1x1 s1", (4, 28, 28, 64), 1, 128)
conv("2d 1x1 s2", (4, 28, 28, 64), 1, 128, 2)
conv("2d 1x1 s1 nchw", (4, 28, 28, 64), 1, 128, layout="nchw")
conv("2d 5x5 s1", (4, 14, 14, 32), 5, 32)
conv("2d 5x5 valid s2", X, 5, 32, 2, padding="VALID")
conv("2d 7x7 s2 stem", (2, 112, 112, 3), 7, 32, 2)
conv("2d 16x16 s16 patches", (4, 112, 112, 3), 16, 96, 16, padding="VALID")
conv("2d 1x7", X, (1, 7), 32)
conv("2d 3x3 strides 1 2", X, 3, 32, (1, 2), kinds=("forward", "dx"))
conv("2d 3x3 17 to 13 channels", (4, 28, 28, 17), 3, 13)
conv("2d 3x3 one channel 512x512", (1, 512, 512, 1), 3, 1)
conv("2d 5x5 one channel 512x512 nchw", (1, 512, 512, 1), 5, 1, layout="nchw", kinds=FORWARD)
conv("2d 3x3 pad 2 and 0", X, 3, 32, padding=(2, 0), kinds=("forward", "dx"))
conv("2d 3x3 pad -1", X, 3, 32, padding=(-1, -1), kinds=FORWARD)
conv("2d 3x3 pad 4", X, 3, 32, padding=(4, 4), kinds=("forward", "dx"))
conv("2d 3x3 batch 1 7x7x256", (1, 7, 7, 256), 3, 256)
conv("2d 3x3 batch 64 8x8x16", (64, 8, 8, 16), 3, 16)
conv("2d 28x28 whole image", (8, 28, 28, 8), 28, 16, padding="VALID")
