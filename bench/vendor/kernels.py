# SPDX-License-Identifier: Apache-2.0
"""Representative kernels: what networks spend their time in, at the sizes of real ones, as HLO texts."""

ADD = "add { a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] add(a, b) }\n"
MAXIMUM = "max { a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] maximum(a, b) }\n"


def fill(text, **values):
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def product(element, result, m, n, k, transposed=False):
    right = f"{n},{k}" if transposed else f"{k},{n}"
    return f"""ENTRY main {{
  x = {element}[{m},{k}] parameter(0)
  y = {element}[{right}] parameter(1)
  ROOT r = {result}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{1 if transposed else 0}}}
}}
"""


def batched(element, left, right, result, contracting):
    lists = [",".join(map(str, s)) for s in (left, right, result)]
    return f"""ENTRY main {{
  x = {element}[{lists[0]}] parameter(0)
  y = {element}[{lists[1]}] parameter(1)
  ROOT r = {element}[{lists[2]}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{{contracting}}}
}}
"""


def feed_forward(element):
    """A dense layer with its bias and the GELU of GPT-2."""
    return fill("""ENTRY main {
  x = {t}[512,768] parameter(0)
  w = {t}[768,3072] parameter(1)
  bias = {t}[3072] parameter(2)
  d = {t}[512,3072] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  biases = {t}[512,3072] broadcast(bias), dimensions={1}
  f = {t}[512,3072] add(d, biases)
  c0 = {t}[] constant(0.044715)
  c1 = {t}[] constant(0.7978846)
  c2 = {t}[] constant(1)
  c3 = {t}[] constant(0.5)
  b0 = {t}[512,3072] broadcast(c0), dimensions={}
  b1 = {t}[512,3072] broadcast(c1), dimensions={}
  b2 = {t}[512,3072] broadcast(c2), dimensions={}
  b3 = {t}[512,3072] broadcast(c3), dimensions={}
  square = {t}[512,3072] multiply(f, f)
  cube = {t}[512,3072] multiply(square, f)
  e0 = {t}[512,3072] multiply(b0, cube)
  e1 = {t}[512,3072] add(f, e0)
  e2 = {t}[512,3072] multiply(b1, e1)
  e3 = {t}[512,3072] tanh(e2)
  e4 = {t}[512,3072] add(b2, e3)
  e5 = {t}[512,3072] multiply(b3, e4)
  ROOT r = {t}[512,3072] multiply(f, e5)
}
""", t=element)


def convolution(element, result, size, inputs, outputs, window, stride=1, groups=1, channels_last=True):
    """One image of size x size, padded so that it keeps its size (divided by the stride), and a rectifier."""
    out = size // stride
    low = (window - 1) // 2
    high = max(0, (out - 1) * stride + window - size - low)
    x, y = f"1,{size},{size},{inputs}", f"1,{out},{out},{outputs}"
    kernel, labels = f"{window},{window},{inputs // groups},{outputs}", "b01f_01io->b01f"
    if not channels_last:
        x, y = f"1,{inputs},{size},{size}", f"1,{outputs},{out},{out}"
        kernel, labels = f"{outputs},{inputs // groups},{window},{window}", "bf01_oi01->bf01"
    group = f", feature_group_count={groups}" if groups > 1 else ""
    return f"""ENTRY main {{
  x = {element}[{x}] parameter(0)
  k = {element}[{kernel}] parameter(1)
  c = {result}[{y}] convolution(x, k), window={{size={window}x{window} stride={stride}x{stride} pad={low}_{high}x{low}_{high}}}, dim_labels={labels}{group}
  zero = {result}[] constant(0)
  zeros = {result}[{y}] broadcast(zero), dimensions={{}}
  ROOT r = {result}[{y}] maximum(c, zeros)
}}
"""


def softmax(element, rows, columns):
    return fill(MAXIMUM + ADD + """ENTRY main {
  x = {t}[{r},{c}] parameter(0)
  least = {t}[] constant(-inf)
  zero = {t}[] constant(0)
  m = {t}[{r}] reduce(x, least), dimensions={1}, to_apply=max
  ms = {t}[{r},{c}] broadcast(m), dimensions={0}
  shifted = {t}[{r},{c}] subtract(x, ms)
  e = {t}[{r},{c}] exponential(shifted)
  d = {t}[{r}] reduce(e, zero), dimensions={1}, to_apply=add
  ds = {t}[{r},{c}] broadcast(d), dimensions={0}
  ROOT q = {t}[{r},{c}] divide(e, ds)
}
""", t=element, r=rows, c=columns)


def layer_norm(element, rows, columns):
    return fill(ADD.replace("{t}", "f32") + """ENTRY main {
  x0 = {t}[{r},{c}] parameter(0)
  gain = f32[{c}] parameter(1)
  bias = f32[{c}] parameter(2)
  x = f32[{r},{c}] convert(x0)
  zero = f32[] constant(0)
  part = f32[] constant({p})
  parts = f32[{r}] broadcast(part), dimensions={}
  sum = f32[{r}] reduce(x, zero), dimensions={1}, to_apply=add
  mean = f32[{r}] multiply(sum, parts)
  means = f32[{r},{c}] broadcast(mean), dimensions={0}
  d = f32[{r},{c}] subtract(x, means)
  square = f32[{r},{c}] multiply(d, d)
  squares = f32[{r}] reduce(square, zero), dimensions={1}, to_apply=add
  variance = f32[{r}] multiply(squares, parts)
  epsilon = f32[] constant(1e-5)
  epsilons = f32[{r}] broadcast(epsilon), dimensions={}
  v = f32[{r}] add(variance, epsilons)
  s = f32[{r}] rsqrt(v)
  scales = f32[{r},{c}] broadcast(s), dimensions={0}
  y0 = f32[{r},{c}] multiply(d, scales)
  gains = f32[{r},{c}] broadcast(gain), dimensions={1}
  y1 = f32[{r},{c}] multiply(y0, gains)
  biases = f32[{r},{c}] broadcast(bias), dimensions={1}
  y2 = f32[{r},{c}] add(y1, biases)
  ROOT y = {t}[{r},{c}] convert(y2)
}
""", t=element, r=rows, c=columns, p=1 / columns)


def reduction(shape, result, dimension):
    return fill(ADD, t="f32") + f"""ENTRY main {{
  x = f32[{shape}] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[{result}] reduce(x, zero), dimensions={{{dimension}}}, to_apply=add
}}
"""


def add_relu(element):
    return fill("""ENTRY main {
  x = {t}[4096,4096] parameter(0)
  y = {t}[4096,4096] parameter(1)
  zero = {t}[] constant(0)
  zeros = {t}[4096,4096] broadcast(zero), dimensions={}
  a = {t}[4096,4096] add(x, y)
  ROOT r = {t}[4096,4096] maximum(a, zeros)
}
""", t=element)


def unary(shape, call):
    return f"ENTRY main {{\n  x = f32[{shape}] parameter(0)\n  ROOT r = f32[{shape}] {call}\n}}\n"


def _all():
    for t, r in (("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"), ("s8", "s32")):
        for name, transposed in (("nn", False), ("nt", True)):
            yield f"gemm_{t}_{name}_4096", product(t, r, 4096, 4096, 4096, transposed)
    yield "gemm_f16_f32out_4096", product("f16", "f32", 4096, 4096, 4096)
    yield "gemm_f32_8rows_nt", product("f32", "f32", 8, 4096, 4096, True)
    for t in ("f32", "f16"):
        yield f"gemm_{t}_512x768x3072", product(t, t, 512, 3072, 768)
        yield f"gemm_{t}_odd", product(t, t, 511, 3071, 767)
        yield f"attn_qk_{t}_512", batched(t, (12, 512, 64), (12, 512, 64), (12, 512, 512), 2)
        yield f"conv3x3_{t}_56x64", convolution(t, t, 56, 64, 64, 3)
        yield f"conv3x3_{t}_14x256", convolution(t, t, 14, 256, 256, 3)
        yield f"conv1x1_{t}_28x128_512", convolution(t, t, 28, 128, 512, 1)
    yield "attn_pv_f32_512", batched("f32", (12, 512, 512), (12, 512, 64), (12, 512, 64), 1)
    for t in ("f32", "f16", "bf16"):
        yield f"ffn_gelu_{t}", feed_forward(t)
        yield f"gemv_{t}_nn_4096", product(t, t, 1, 4096, 4096)
        yield f"gemv_{t}_nt_4096", product(t, t, 1, 4096, 4096, True)
        yield f"add_relu_{t}_16M", add_relu(t)
    yield "gemv_f32_nt_head", product("f32", "f32", 1, 32000, 4096, True)
    yield "conv3x3_f32_nchw_56x64", convolution("f32", "f32", 56, 64, 64, 3, channels_last=False)
    yield "conv3x3_f32_128x64", convolution("f32", "f32", 128, 64, 64, 3)
    yield "conv3x3_s8_56x64", convolution("s8", "s32", 56, 64, 64, 3)
    yield "conv7x7_f32_stem", convolution("f32", "f32", 224, 3, 64, 7, stride=2)
    yield "dwconv3x3_f32_56x144", convolution("f32", "f32", 56, 144, 144, 3, groups=144)
    for t in ("f32", "bf16"):
        yield f"softmax_{t}_6144x512", softmax(t, 6144, 512)
        yield f"layernorm_{t}_4096x768", layer_norm(t, 4096, 768)
    yield "softmax_f32_64x32000", softmax("f32", 64, 32000)
    yield "reduce_all_f32_16M", reduction("16777216", "", 0)
    yield "reduce_cols_f32_4096x4096", reduction("4096,4096", "4096", 0)
    yield "transpose_f32_4096", unary("4096,4096", "transpose(x), dimensions={1,0}")
    yield "tanh_f32_16M", unary("16777216", "tanh(x)")
    yield "exp_f32_16M", unary("16777216", "exponential(x)")


KERNELS = {name: f"HloModule {name}\n{text}" for name, text in _all()}
