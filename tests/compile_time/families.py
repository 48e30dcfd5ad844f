# SPDX-License-Identifier: Apache-2.0
"""Families of HLO modules that grow with one number, of about `n` instructions (or, in NESTED, `n` levels).

Each is a function from n to a module's text. They reach every category of operation and every shape of graph: chains,
fans, trees, nests, wide operand and result lists, long constants.
"""
import random

FAMILIES = {}
NESTED = set()  # n counts levels, each of which calls the one below twice

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"


def family(f):
    FAMILIES[f.__name__] = f
    return f


def nested(f):
    NESTED.add(f.__name__)
    return family(f)


def entry(lines, root=None, before="", header=""):
    """A module; the last line becomes the root unless `root` names a tuple's elements."""
    if root is None:
        lines = lines[:-1] + ["ROOT " + lines[-1]]
    return f"HloModule m{header}\n{before}\nENTRY e {{\n  " + "\n  ".join(lines) + "\n}\n"


def chain(n, first, step, before="", header=""):
    """x0, then x1 = step(x0), ... ; `step(k)` gives the lines whose last one makes x{k+1} of x{k}."""
    lines = list(first)
    for k in range(n):
        lines += step(k)
    return entry(lines, before=before, header=header)


def tuple_of(lines, names, shape, before="", header=""):
    shapes = ", ".join([shape] * len(names)) if isinstance(shape, str) else ", ".join(shape)
    return entry(lines + [f"t = ({shapes}) tuple({', '.join(names)})"], before=before, header=header)


# ---- elementwise -----------------------------------------------------------------------------------------------

@family
def adds(n):
    return chain(n, ["x0 = f32[16] parameter(0)", "y = f32[16] parameter(1)"], lambda k: [f"x{k+1} = f32[16] add(x{k}, y)"])


@family
def unaries(n):
    return chain(n, ["x0 = f32[16] parameter(0)"], lambda k: [f"x{k+1} = f32[16] tanh(x{k})"])


@family
def squares(n):
    return chain(n, ["x0 = f32[16] parameter(0)"], lambda k: [f"x{k+1} = f32[16] multiply(x{k}, x{k})"])


@family
def diamonds(n):
    return chain(n // 3, ["x0 = f32[16] parameter(0)"], lambda k: [
        f"a{k} = f32[16] tanh(x{k})", f"b{k} = f32[16] sine(x{k})", f"x{k+1} = f32[16] add(a{k}, b{k})"])


@family
def selects(n):
    return chain(n // 2, ["x0 = f32[16] parameter(0)", "y = f32[16] parameter(1)"], lambda k: [
        f"p{k} = pred[16] compare(x{k}, y), direction={'LT' if k % 2 else 'GT'}",
        f"x{k+1} = f32[16] select(p{k}, y, x{k})"])


@family
def converts(n):
    types = ["f16", "f32", "s32", "f64", "bf16", "f32"]
    return chain(n, ["x0 = f32[16] parameter(0)"],
                 lambda k: [f"x{k+1} = {types[k % 6]}[16] convert(x{k})"])


@family
def complex_numbers(n):
    return chain(n // 4, ["x0 = f32[16] parameter(0)"], lambda k: [
        f"cc{k} = c64[16] complex(x{k}, x{k})", f"d{k} = c64[16] exponential(cc{k})", f"r{k} = f32[16] imag(d{k})",
        f"x{k+1} = f32[16] add(r{k}, x{k})"])


@family
def fan_out(n):
    lines = ["x = f32[64] parameter(0)", "h = f32[64] tanh(x)"]
    for k in range(n // 3):
        lines += [f"cc{k} = f32[] constant({k}.5)", f"b{k} = f32[64] broadcast(cc{k}), dimensions={{}}", f"v{k} = f32[64] add(h, b{k})"]
    return tuple_of(lines, [f"v{k}" for k in range(n // 3)], "f32[64]")


@family
def fan_out_reduced(n):
    lines = ["x = f32[64] parameter(0)", "h = f32[64] tanh(x)", "z = f32[] constant(0)"]
    for k in range(n // 2):
        lines += [f"v{k} = f32[64] {'sine' if k % 2 else 'cosine'}(h)", f"r{k} = f32[] reduce(v{k}, z), dimensions={{0}}, to_apply=add"]
    return tuple_of(lines, [f"r{k}" for k in range(n // 2)], "f32[]", before=ADD)


@family
def fan_in(n):
    """A tree of adds over n/2 parameters."""
    m = n // 2
    lines = [f"p{k} = f32[16] parameter({k})" for k in range(m)]
    level, made = [f"p{k}" for k in range(m)], 0
    while len(level) > 1:
        above = []
        for k in range(0, len(level) - 1, 2):
            lines.append(f"a{made} = f32[16] add({level[k]}, {level[k+1]})")
            above.append(f"a{made}")
            made += 1
        level = above + level[len(level) // 2 * 2:]
    return entry(lines)


@family
def fan_in_maps(n):
    """A tree of adds over slices of one parameter."""
    m = n // 2
    lines = [f"x = f32[{m * 4}] parameter(0)"] + [f"p{k} = f32[4] slice(x), slice={{[{4*k}:{4*k+4}]}}" for k in range(m)]
    level, made = [f"p{k}" for k in range(m)], 0
    while len(level) > 1:
        above = []
        for k in range(0, len(level) - 1, 2):
            lines.append(f"a{made} = f32[4] add({level[k]}, {level[k+1]})")
            above.append(f"a{made}")
            made += 1
        level = above + level[len(level) // 2 * 2:]
    return entry(lines)


@family
def independent(n):
    lines = []
    for k in range(n // 3):
        lines += [f"p{k} = f32[8] parameter({k})", f"a{k} = f32[8] tanh(p{k})", f"v{k} = f32[8] add(a{k}, p{k})"]
    return tuple_of(lines, [f"v{k}" for k in range(n // 3)], "f32[8]")


@family
def ladder(n):
    """Two values that each step makes anew of both."""
    lines = ["x0 = f32[16] parameter(0)", "y0 = f32[16] parameter(1)"]
    for k in range(n // 2):
        lines += [f"x{k+1} = f32[16] add(x{k}, y{k})", f"y{k+1} = f32[16] multiply(x{k}, y{k})"]
    return tuple_of(lines, [f"x{n//2}", f"y{n//2}"], "f32[16]")


@family
def random_dag(n):
    rng = random.Random(1)
    lines = ["v0 = f32[32] parameter(0)", "v1 = f32[32] parameter(1)"]
    for k in range(2, n):
        a, b = rng.randrange(k), k - 1
        lines.append(f"v{k} = f32[32] {rng.choice(['add', 'multiply', 'maximum', 'subtract'])}(v{a}, v{b})")
    return entry(lines)


# ---- data movement ---------------------------------------------------------------------------------------------

@family
def reshape_transposes(n):
    shapes = [(42, 30), (6, 5, 42), (30, 42), (7, 180), (1260,), (2, 3, 5, 42)]

    def step(k):
        s = shapes[k % 6]
        dims = lambda d: ",".join(map(str, d))
        return [f"a{k} = f32[{dims(s)}] reshape(x{k})",
                f"x{k+1} = f32[{dims(s[::-1])}] transpose(a{k}), dimensions={{{dims(range(len(s)-1, -1, -1))}}}"]
    return chain(n // 2, ["x0 = f32[30,42] parameter(0)"], step)


@family
def transposes(n):
    lines, d = ["x0 = f32[4,5,6,7] parameter(0)"], [4, 5, 6, 7]
    for k in range(n // 2):
        d = d[1:] + d[:1]
        s = ",".join(map(str, d))
        lines += [f"a{k} = f32[{s}] transpose(x{k}), dimensions={{1,2,3,0}}", f"x{k+1} = f32[{s}] sine(a{k})"]
    return entry(lines)


@family
def pads(n):
    n = min(n, 1 << 18)
    return chain(n, ["x0 = f32[8] parameter(0)", "z = f32[] constant(1)"],
                 lambda k: [f"x{k+1} = f32[{10+2*k}] pad(x{k}, z), padding=1_1"])


@family
def pad_slices(n):
    return chain(n // 3, ["x0 = f32[64] parameter(0)", "z = f32[] constant(1)"], lambda k: [
        f"a{k} = f32[70] pad(x{k}, z), padding=3_3", f"b{k} = f32[64] slice(a{k}), slice={{[{k%7}:{k%7+64}]}}",
        f"x{k+1} = f32[64] sine(b{k})"])


@family
def shift_adds(n):
    """Each step adds the value to itself moved: what one element needs doubles with each step."""
    return chain(n // 3, ["x0 = f32[100003] parameter(0)"], lambda k: [
        f"h{k} = f32[{(1 << (k % 16))}] slice(x{k}), slice={{[0:{1 << (k % 16)}]}}",
        f"a{k} = f32[{100003 - (1 << (k % 16))}] slice(x{k}), slice={{[{1 << (k % 16)}:100003]}}",
        f"b{k} = f32[100003] concatenate(a{k}, h{k}), dimensions={{0}}",
        f"x{k+1} = f32[100003] add(x{k}, b{k})"])


@family
def shift_pads(n):
    """Sums over prefixes by doubling, again and again."""
    return chain(n // 3, ["x0 = f32[4096] parameter(0)", "z = f32[] constant(0)"], lambda k: [
        f"ss{k} = f32[{4096 - (1 << k % 12)}] slice(x{k}), slice={{[0:{4096 - (1 << k % 12)}]}}",
        f"a{k} = f32[4096] pad(ss{k}, z), padding={1 << k % 12}_0", f"x{k+1} = f32[4096] add(x{k}, a{k})"])


@family
def transpose_adds(n):
    shape = lambda k: "3,5,7" if k % 3 == 0 else "7,3,5" if k % 3 == 1 else "5,7,3"
    return chain(n // 4, ["x0 = f32[105] parameter(0)"], lambda k: [
        f"a{k} = f32[{shape(k)}] reshape(x{k})",
        f"b{k} = f32[{','.join(shape(k).split(',')[::-1])}] transpose(a{k}), dimensions={{2,1,0}}",
        f"cc{k} = f32[105] reshape(b{k})", f"x{k+1} = f32[105] add(x{k}, cc{k})"])


@family
def reverse_adds(n):
    return chain(n // 4, ["x0 = f32[64] parameter(0)"], lambda k: [
        f"a{k} = f32[64] reverse(x{k}), dimensions={{0}}", f"ss{k} = f32[63] slice(a{k}), slice={{[1:64]}}",
        f"z{k} = f32[] constant({k})", f"b{k} = f32[64] pad(ss{k}, z{k}), padding=1_0", f"x{k+1} = f32[64] add(x{k}, b{k})"])


@family
def broadcasts(n):
    return chain(n // 3, ["x0 = f32[16] parameter(0)"], lambda k: [
        f"a{k} = f32[16,4] broadcast(x{k}), dimensions={{0}}", f"b{k} = f32[16,1] slice(a{k}), slice={{[0:16], [{k%4}:{k%4+1}]}}",
        f"x{k+1} = f32[16] reshape(b{k})"])


@family
def concatenate_wide(n):
    m = n
    lines = ["x = f32[4] parameter(0)"] + [f"v{k} = f32[4] {'negate' if k % 2 else 'cosine'}(x)" for k in range(m)]
    lines.append(f"c = f32[{4*m}] concatenate({', '.join(f'v{k}' for k in range(m))}), dimensions={{0}}")
    return entry(lines)


@family
def concatenate_parameters(n):
    m = n
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(m)]
    lines.append(f"c = f32[{4*m}] concatenate({', '.join(f'p{k}' for k in range(m))}), dimensions={{0}}")
    return entry(lines)


@family
def concatenate_slices(n):
    lines = [f"x = f32[{4*n}] parameter(0)"]
    lines += [f"ss{k} = f32[4] slice(x), slice={{[{4*(n-1-k)}:{4*(n-k)}]}}" for k in range(n)]
    lines.append(f"c = f32[{4*n}] concatenate({', '.join(f'ss{k}' for k in range(n))}), dimensions={{0}}")
    return entry(lines)


@family
def concatenate_nest(n):
    return chain(min(n, 30000), ["x0 = f32[1] parameter(0)", "y = f32[1] parameter(1)"],
                 lambda k: [f"x{k+1} = f32[{k+2}] concatenate(x{k}, y), dimensions={{0}}"])


@family
def gathers(n):
    return chain(n, ["x0 = f32[64] parameter(0)", "i = s32[64,1] parameter(1)"], lambda k: [
        f"x{k+1} = f32[64] gather(x{k}, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
        "index_vector_dim=1, slice_sizes={1}"])


@family
def dynamic_slices(n):
    return chain(n // 2, ["x0 = f32[64] parameter(0)", "i = s32[] parameter(1)", "z = f32[] constant(0)"], lambda k: [
        f"a{k} = f32[60] dynamic-slice(x{k}, i), dynamic_slice_sizes={{60}}", f"x{k+1} = f32[64] pad(a{k}, z), padding=2_2"])


@family
def dynamic_slice_starts(n):
    """The start of each is an element of the one before."""
    return chain(n // 3, ["x = s32[64] parameter(0)", "x0 = s32[] parameter(1)"], lambda k: [
        f"a{k} = s32[1] dynamic-slice(x, x{k}), dynamic_slice_sizes={{1}}", f"x{k+1} = s32[] reshape(a{k})"])


@family
def updates(n):
    return chain(n, ["x0 = f32[1024] parameter(0)", "u = f32[4] parameter(1)", "i = s32[] parameter(2)"],
                 lambda k: [f"x{k+1} = f32[1024] dynamic-update-slice(x{k}, u, i)"])


@family
def updates_all_results(n):
    m = n
    lines = ["x0 = f32[64] parameter(0)", "u = f32[4] parameter(1)", "i = s32[] parameter(2)"]
    lines += [f"x{k+1} = f32[64] dynamic-update-slice(x{k}, u, i)" for k in range(m)]
    return tuple_of(lines, [f"x{k+1}" for k in range(m)], "f32[64]")


@family
def updates_fresh(n):
    lines = ["u = f32[4] parameter(0)", "i = s32[] parameter(1)", "c = f32[64] parameter(2)"]
    for k in range(n // 2):
        lines += [f"a{k} = f32[64] {'sine' if k % 2 else 'tanh'}(c)", f"v{k} = f32[64] dynamic-update-slice(a{k}, u, i)"]
    return tuple_of(lines, [f"v{k}" for k in range(n // 2)], "f32[64]")


@family
def iotas(n):
    return chain(n // 2, ["x0 = s32[16] parameter(0)"], lambda k: [
        f"i{k} = s32[16] iota(), iota_dimension=0", f"x{k+1} = s32[16] add(x{k}, i{k})"])


@family
def copies(n):
    return chain(n // 2, ["x0 = f32[16] parameter(0)"], lambda k: [
        f"a{k} = f32[16] copy(x{k})", f"x{k+1} = f32[16] sine(a{k})"])


@family
def bitcasts(n):
    return chain(n // 2, ["x0 = f32[16] parameter(0)"], lambda k: [
        f"a{k} = s16[16,2] bitcast-convert(x{k})", f"x{k+1} = f32[16] bitcast-convert(a{k})"])


@family
def mixed(n):
    """A chain of alternating kinds, at random."""
    rng = random.Random(2)
    lines, shape, k = ["x0 = f32[24,10] parameter(0)", "z = f32[] constant(0)", "y = f32[240] parameter(1)"], [24, 10], 0
    dims = lambda s: ",".join(map(str, s))
    while k < n:
        kind = rng.randrange(8)
        if kind == 0:
            lines.append(f"x{k+1} = f32[{dims(shape)}] {rng.choice(['tanh', 'sine', 'negate', 'abs'])}(x{k})")
        elif kind == 1:
            shape = rng.choice([[240], [24, 10], [10, 24], [4, 6, 10], [2, 3, 4, 10], [5, 48]])
            lines.append(f"x{k+1} = f32[{dims(shape)}] reshape(x{k})")
        elif kind == 2:
            p = list(range(len(shape)))
            rng.shuffle(p)
            shape = [shape[d] for d in p]
            lines.append(f"x{k+1} = f32[{dims(shape)}] transpose(x{k}), dimensions={{{dims(p)}}}")
        elif kind == 3:
            inner = shape[:-1] + [shape[-1] + 2]
            lines.append(f"q{k} = f32[{dims(inner)}] pad(x{k}, z), padding={'x'.join(['0_0'] * (len(shape) - 1) + ['1_1'])}")
            at = rng.randrange(3)
            cut = ", ".join([f"[0:{d}]" for d in shape[:-1]] + [f"[{at}:{at + shape[-1]}]"])
            lines.append(f"x{k+1} = f32[{dims(shape)}] slice(q{k}), slice={{{cut}}}")
        elif kind == 4:
            lines.append(f"q{k} = f32[{dims(shape[:-1])}] reduce(x{k}, z), dimensions={{{len(shape)-1}}}, to_apply=add")
            lines.append(f"w{k} = f32[{dims(shape)}] broadcast(q{k}), dimensions={{{dims(range(len(shape)-1))}}}")
            lines.append(f"x{k+1} = f32[{dims(shape)}] subtract(x{k}, w{k})")
        elif kind == 5:
            lines.append(f"x{k+1} = f32[{dims(shape)}] reverse(x{k}), dimensions={{{rng.randrange(len(shape))}}}")
        elif kind == 6:
            lines.append(f"w{k} = f32[{dims(shape)}] reshape(y)")
            lines.append(f"x{k+1} = f32[{dims(shape)}] add(x{k}, w{k})")
        else:
            lines.append(f"w{k} = f32[{dims(shape)}] reverse(x{k}), dimensions={{0}}")
            lines.append(f"x{k+1} = f32[{dims(shape)}] maximum(x{k}, w{k})")
        k += 1
    return entry(lines, before=ADD)


# ---- reductions, contractions, library -----------------------------------------------------------------------------

@family
def reduce_subtracts(n):
    return chain(n // 3, ["x0 = f32[16,16] parameter(0)", "z = f32[] constant(0)"], lambda k: [
        f"r{k} = f32[16] reduce(x{k}, z), dimensions={{1}}, to_apply=add",
        f"q{k} = f32[16,16] broadcast(r{k}), dimensions={{0}}", f"x{k+1} = f32[16,16] subtract(x{k}, q{k})"], before=ADD)


@family
def reduces_then_subtracts(n):
    m = n // 4
    lines = ["z = f32[] constant(0)"] + [f"x{k} = f32[16,16] parameter({k})" for k in range(m)]
    lines += [f"r{k} = f32[16] reduce(x{k}, z), dimensions={{1}}, to_apply=add" for k in range(m)]
    lines += [f"q{k} = f32[16,16] broadcast(r{k}), dimensions={{0}}" for k in range(m)]
    lines += [f"v{k} = f32[16,16] subtract(x{k}, q{k})" for k in range(m)]
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[16,16]", before=ADD)


@family
def reduce_fans(n):
    """One reduction, read by many over its rows."""
    lines = ["x = f32[16,16] parameter(0)", "z = f32[] constant(0)", "r = f32[16] reduce(x, z), dimensions={1}, to_apply=add",
             "q = f32[16,16] broadcast(r), dimensions={0}"]
    for k in range(n // 3):
        lines += [f"cc{k} = f32[] constant({k})", f"b{k} = f32[16,16] broadcast(cc{k}), dimensions={{}}", f"ss{k} = f32[16,16] subtract(q{k-1 if k else ''}, b{k})", f"q{k} = f32[16,16] add(ss{k}, x)"]
    return entry(lines, before=ADD)


@family
def reduces_of_one(n):
    lines = ["x = f32[16,16] parameter(0)"]
    for k in range(n // 2):
        lines += [f"z{k} = f32[] constant({k})", f"r{k} = f32[16] reduce(x, z{k}), dimensions={{{k%2}}}, to_apply=add"]
    return tuple_of(lines, [f"r{k}" for k in range(n // 2)], "f32[16]", before=ADD)


@family
def reducers(n):
    """A computation for each reduction."""
    m = n // 8
    before = "".join(f"add{k} {{ a{k} = f32[] parameter(0)\n b{k} = f32[] parameter(1)\n ROOT r{k} = f32[] add(a{k}, b{k}) }}\n" for k in range(m))
    lines = ["x = f32[16] parameter(0)", "z = f32[] constant(0)"]
    for k in range(m):
        lines += [f"cc{k} = f32[] constant({k}.25)", f"k{k} = f32[16] broadcast(cc{k}), dimensions={{}}",
                  f"m{k} = f32[16] multiply(x, k{k})", f"v{k} = f32[] reduce(m{k}, z), dimensions={{0}}, to_apply=add{k}"]
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[]", before=before)


@family
def reduce_windows(n):
    return chain(n, ["x0 = f32[64] parameter(0)", "z = f32[] constant(0)"], lambda k: [
        f"x{k+1} = f32[64] reduce-window(x{k}, z), window={{size=3 pad=1_1}}, to_apply=add"], before=ADD)


@family
def select_and_scatters(n):
    before = ADD + "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=GE }\n"
    return chain(n // 2, ["x0 = f32[8] parameter(0)", "s = f32[4] parameter(1)", "z = f32[] constant(0)"], lambda k: [
        f"x{k+1} = f32[8] select-and-scatter(x{k}, s, z), window={{size=2 stride=2}}, select=ge, scatter=add"], before=before)


@family
def dots(n):
    return chain(n, ["x0 = f32[16,16] parameter(0)", "y = f32[16,16] parameter(1)"], lambda k: [
        f"x{k+1} = f32[16,16] dot(x{k}, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"])


@family
def dense_layers(n):
    lines = ["x0 = f32[4,16] parameter(0)", "w = f32[16,16] parameter(1)", "b = f32[16] parameter(2)", "z = f32[] constant(0)"]
    for k in range(n // 8):
        lines += [f"d{k} = f32[4,16] dot(x{k}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                  f"cc{k} = f32[4,16] broadcast(b), dimensions={{1}}", f"a{k} = f32[4,16] add(d{k}, cc{k})", f"t{k} = f32[4,16] tanh(a{k})",
                  f"r{k} = f32[4] reduce(t{k}, z), dimensions={{1}}, to_apply=add", f"ss{k} = f32[4,16] broadcast(r{k}), dimensions={{0}}",
                  f"m{k} = f32[4,16] subtract(t{k}, ss{k})", f"x{k+1} = f32[4,16] add(m{k}, x{k})"]
    return entry(lines, before=ADD)


@family
def dense_gradients(n):
    """Forward, then backward over what the forward pass left behind."""
    m = n // 8
    dot = lambda l, r: f"lhs_contracting_dims={{{l}}}, rhs_contracting_dims={{{r}}}"
    lines = ["x0 = f32[4,16] parameter(0)"] + [f"w{k} = f32[16,16] parameter({k+1})" for k in range(m)]
    for k in range(m):
        lines += [f"d{k} = f32[4,16] dot(x{k}, w{k}), {dot(1, 0)}", f"x{k+1} = f32[4,16] tanh(d{k})"]
    lines.append(f"g{m} = f32[4,16] cosine(x{m})")
    for k in reversed(range(m)):
        lines += [f"ss{k} = f32[4,16] multiply(x{k+1}, x{k+1})", f"h{k} = f32[4,16] multiply(g{k+1}, ss{k})",
                  f"v{k} = f32[16,16] dot(x{k}, h{k}), {dot(0, 0)}", f"g{k} = f32[4,16] dot(h{k}, w{k}), {dot(1, 1)}"]
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[16,16]")


@family
def convolutions(n):
    return chain(n // 2, ["x0 = f32[1,8,8,4] parameter(0)", "w = f32[3,3,4,4] parameter(1)"], lambda k: [
        f"cc{k} = f32[1,8,8,4] convolution(x{k}, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f",
        f"x{k+1} = f32[1,8,8,4] tanh(cc{k})"])


@family
def batch_norms(n):
    return chain(n // 4, ["x0 = f32[2,4,4,8] parameter(0)", "s = f32[8] parameter(1)", "o = f32[8] parameter(2)"], lambda k: [
        f"b{k} = (f32[2,4,4,8], f32[8], f32[8]) batch-norm-training(x{k}, s, o), epsilon=0.001, feature_index=3",
        f"x{k+1} = f32[2,4,4,8] get-tuple-element(b{k}), index=0"])


@family
def sorts(n):
    before = "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }\n"
    return chain(n // 2, ["x0 = f32[64] parameter(0)"], lambda k: [
        f"ss{k} = f32[64] sort(x{k}), dimensions={{0}}, to_apply=lt", f"x{k+1} = f32[64] sine(ss{k})"], before=before)


@family
def sort_wide(n):
    """One sort of many operands."""
    m = max(2, min(n // 4, 2000))
    before = "lt {\n" + "\n".join(f" p{k} = f32[] parameter({k})" for k in range(2 * m)) + "\n ROOT r = pred[] compare(p0, p1), direction=LT }\n"
    lines = [f"x{k} = f32[8] parameter({k})" for k in range(m)]
    shape = "(" + ", ".join(["f32[8]"] * m) + ")"
    lines.append(f"s = {shape} sort({', '.join(f'x{k}' for k in range(m))}), dimensions={{0}}, to_apply=lt")
    return entry(lines, before=before)


@family
def reduce_wide(n):
    """One reduction of many operands."""
    m = max(2, min(n // 5, 2000))
    shape = "(" + ", ".join(["f32[]"] * m) + ")"
    before = "f {\n" + "\n".join(f" p{k} = f32[] parameter({k})" for k in range(2 * m)) + "\n" + "\n".join(
        f" a{k} = f32[] add(p{k}, p{k+m})" for k in range(m)) + f"\n ROOT r = {shape} tuple({', '.join(f'a{k}' for k in range(m))}) }}\n"
    lines = [f"x{k} = f32[8] parameter({k})" for k in range(m)] + ["z = f32[] constant(0)"]
    lines.append(f"s = {shape} reduce({', '.join(f'x{k}' for k in range(m))}, {', '.join(['z'] * m)}), dimensions={{0}}, to_apply=f")
    return entry(lines, before=before)


@family
def scatters(n):
    return chain(n, ["x0 = f32[64] parameter(0)", "i = s32[8,1] parameter(1)", "u = f32[8] parameter(2)"], lambda k: [
        f"x{k+1} = f32[64] scatter(x{k}, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"], before=ADD)


@family
def ffts(n):
    return chain(n, ["x0 = c64[16] parameter(0)"], lambda k: [
        f"x{k+1} = c64[16] fft(x{k}), fft_type={'FFT' if k % 2 else 'IFFT'}, fft_length={{16}}"])


@family
def choleskys(n):
    return chain(n // 2, ["x0 = f32[4,4] parameter(0)", "y = f32[4,4] parameter(1)"], lambda k: [
        f"cc{k} = f32[4,4] cholesky(x{k}), lower=true",
        f"x{k+1} = f32[4,4] triangular-solve(cc{k}, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"])


@family
def rngs(n):
    lines = ["ss0 = u64[2] parameter(0)"]
    for k in range(n // 4):
        lines += [f"g{k} = (u64[2], u32[8]) rng-bit-generator(ss{k}), algorithm=rng_three_fry",
                  f"ss{k+1} = u64[2] get-tuple-element(g{k}), index=0", f"v{k} = u32[8] get-tuple-element(g{k}), index=1"]
    return tuple_of(lines, [f"v{k}" for k in range(n // 4)], "u32[8]")


@family
def uniforms(n):
    lines = ["a = f32[] constant(0)", "b = f32[] constant(1)"]
    lines += [f"v{k} = f32[8] rng(a, b), distribution=rng_uniform" for k in range(n // 8)]
    return tuple_of(lines, [f"v{k}" for k in range(n // 8)], "f32[8]")


@family
def custom_calls(n):
    return chain(n // 2, ["x0 = f32[64] parameter(0)"], lambda k: [
        f"t{k} = (f32[4], s32[4]) topk(x{k}), k=4, largest=true",
        f"a{k} = f32[4] get-tuple-element(t{k}), index=0", f"z{k} = f32[] constant(0)", f"x{k+1} = f32[64] pad(a{k}, z{k}), padding=0_60"])


@family
def collectives(n):
    return chain(n // 3, ["x0 = f32[16] parameter(0)"], lambda k: [
        f"r{k} = f32[16] all-reduce(x{k}), replica_groups={{{{0}}}}, to_apply=add", f"x{k+1} = f32[16] tanh(r{k})"], before=ADD)


@family
def collectives_of_two(n):
    lines = ["x0 = f32[16] parameter(0)"]
    for k in range(n // 3):
        lines += [f"r{k} = f32[16] all-reduce(x{k}), channel_id={k+1}, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add", f"x{k+1} = f32[16] tanh(r{k})"]
    return entry(lines, before=ADD, header=", num_partitions=2")


@family
def collectives_side_by_side(n):
    m = n // 2
    lines = [f"x{k} = f32[16] parameter({k})" for k in range(m)]
    lines += [f"r{k} = f32[16] all-reduce(x{k}), channel_id={k+1}, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add" for k in range(m)]
    return tuple_of(lines, [f"r{k}" for k in range(m)], "f32[16]", before=ADD, header=", num_partitions=2")


@family
def shardings(n):
    s = "sharding={devices=[2]<=[2]}"
    return chain(n, [f"x0 = f32[16] parameter(0), {s}", f"y = f32[16] parameter(1), {s}"],
                 lambda k: [f"x{k+1} = f32[16] {'add' if k % 2 else 'multiply'}(x{k}, y), {s}"], header=", num_partitions=2")


# ---- control flow, calls, tuples -------------------------------------------------------------------------------------

@family
def parameters_and_results(n):
    m = n // 2
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(m)] + [f"v{k} = f32[4] negate(p{k})" for k in range(m)]
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[4]")


@family
def parameters_passed_on(n):
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(n)]
    return tuple_of(lines, [f"p{(k * 7 + 1) % n}" for k in range(n)], "f32[4]")


@family
def results_donated(n):
    m = n // 2
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(m)] + ["u = f32[1] constant({7})", "i = s32[] constant(1)"]
    lines += [f"v{k} = f32[4] dynamic-update-slice(p{k}, u, i)" for k in range(m)]
    alias = ", ".join(f"{{{k}}}: ({k}, {{}}, may-alias)" for k in range(m))
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[4]", header=f", input_output_alias={{ {alias} }}")


@family
def results_of_one(n):
    lines = ["x = f32[4] parameter(0)", "v = f32[4] tanh(x)"]
    return tuple_of(lines, ["v"] * n, "f32[4]")


@family
def tuple_parameter(n):
    m = n // 3
    shape = "(" + ", ".join(["f32[4]"] * m) + ")"
    lines = [f"p = {shape} parameter(0)"]
    for k in range(m):
        lines += [f"g{k} = f32[4] get-tuple-element(p), index={k}", f"v{k} = f32[4] negate(g{k})"]
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[4]")


@family
def tuples_of_tuples(n):
    lines, shape = ["x = f32[2] parameter(0)", "v0 = f32[2] sine(x)"], "f32[2]"
    m = n // 8
    for k in range(m):
        lines += [f"t{k} = ((f32[2], f32[2]), f32[2]) tuple(i{k}, v{k})"]
        lines.insert(-1, f"i{k} = (f32[2], f32[2]) tuple(v{k}, x)")
        lines += [f"h{k} = (f32[2], f32[2]) get-tuple-element(t{k}), index=0", f"ff{k} = f32[2] get-tuple-element(h{k}), index=0",
                  f"v{k+1} = f32[2] sine(ff{k})"]
    return entry(lines)


@family
def barriers(n):
    """A wide tuple through a barrier, taken apart again."""
    m = n // 4
    shape = "(" + ", ".join(["f32[4]"] * m) + ")"
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(m)]
    lines += [f"w = {shape} tuple({', '.join(f'p{k}' for k in range(m))})", f"b = {shape} opt-barrier(w)"]
    for k in range(m):
        lines += [f"g{k} = f32[4] get-tuple-element(b), index={k}", f"v{k} = f32[4] negate(g{k})"]
    return tuple_of(lines, [f"v{k}" for k in range(m)], "f32[4]")


def wide_while(m, use, count):
    """A loop that carries m arrays."""
    shape = "(s32[], " + ", ".join(["f32[4]"] * m) + ")"
    before = f"cond {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] {count}\n ROOT l = pred[] compare(i, n), direction=LT }}\n"
    body = [f"s = {shape} parameter(0)", "i = s32[] get-tuple-element(s), index=0", "one = s32[] constant(1)", "j = s32[] add(i, one)"]
    for k in range(m):
        body += [f"g{k} = f32[4] get-tuple-element(s), index={k+1}", f"v{k} = f32[4] {use(k)}"]
    before += "body {\n " + "\n ".join(body) + f"\n ROOT t = {shape} tuple(j, {', '.join(f'v{k}' for k in range(m))}) }}\n"
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(m)] + ["z = s32[] constant(0)"]
    lines += [f"t = {shape} tuple(z, {', '.join(f'p{k}' for k in range(m))})", f"w = {shape} while(t), condition=cond, body=body"]
    return entry(lines, before=before)


@family
def while_wide(n):
    return wide_while(n // 4, lambda k: f"sine(g{k})", "constant(3)")


@family
def while_wide_swap(n):
    m = n // 4
    return wide_while(m, lambda k: f"maximum(g{k}, g{(k * 3) % (k + 1)})", "constant(3)")


@family
def while_wide_invariant(n):
    return wide_while(n // 4, lambda k: f"add(g{k}, g{k})" if k % 2 else f"copy(g{k})", "constant(3)")


@family
def whiles(n):
    """Loops one after the other, each with computations of its own."""
    m, before = n // 12, ""
    shape = "(s32[], f32[4])"
    lines = ["x0 = f32[4] parameter(0)", "z = s32[] parameter(1)"]
    for k in range(m):
        before += (f"cc{k} {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant({k%5+2})\n ROOT l = pred[] compare(i, n), direction=LT }}\n"
                   f"b{k} {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[4] sine(x)\n ROOT t = {shape} tuple(j, y) }}\n")
        lines += [f"t{k} = {shape} tuple(z, x{k})", f"w{k} = {shape} while(t{k}), condition=cc{k}, body=b{k}", f"x{k+1} = f32[4] get-tuple-element(w{k}), index=1"]
    return entry(lines, before=before)


@family
def whiles_shared(n):
    """Loops one after the other over one body."""
    shape = "(s32[], f32[4])"
    before = (f"c {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(2)\n ROOT l = pred[] compare(i, n), direction=LT }}\n"
              f"b {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[4] sine(x)\n ROOT t = {shape} tuple(j, y) }}\n")
    return chain(n // 3, ["x0 = f32[4] parameter(0)", "z = s32[] parameter(1)"], lambda k: [
        f"t{k} = {shape} tuple(z, x{k})", f"w{k} = {shape} while(t{k}), condition=c, body=b", f"x{k+1} = f32[4] get-tuple-element(w{k}), index=1"],
        before=before)


@family
def conditionals(n):
    before = "".join(f"ff{k} {{ a = f32[4] parameter(0)\n ROOT r = f32[4] {'sine' if k % 2 else 'cosine'}(a) }}\n" for k in range(n // 4 + 1))
    return chain(n // 4, ["x0 = f32[4] parameter(0)", "p = pred[] parameter(1)"], lambda k: [
        f"x{k+1} = f32[4] conditional(p, x{k}, x{k}), true_computation=ff{k}, false_computation=ff{k+1}"], before=before)


@family
def conditional_branches(n):
    """One conditional of many branches."""
    m = n // 4
    before = "".join(f"ff{k} {{ a = f32[4] parameter(0)\n c = f32[] constant({k})\n b = f32[4] broadcast(c), dimensions={{}}\n ROOT r = f32[4] add(a, b) }}\n" for k in range(m))
    lines = ["x = f32[4] parameter(0)", "i = s32[] parameter(1)",
             f"c = f32[4] conditional(i, {', '.join(['x'] * m)}), branch_computations={{{', '.join(f'ff{k}' for k in range(m))}}}"]
    return entry(lines, before=before)


@family
def conditional_results(n):
    """Branches with many results."""
    m = n // 4
    shape = "(" + ", ".join(["f32[4]"] * m) + ")"
    body = lambda name, op: f"{name} {{ a = {shape} parameter(0)\n" + "\n".join(
        f" g{k} = f32[4] get-tuple-element(a), index={k}\n v{k} = f32[4] {op}(g{k})" for k in range(m)) + f"\n ROOT r = {shape} tuple({', '.join(f'v{k}' for k in range(m))}) }}\n"
    lines = [f"x = {shape} parameter(0)", "p = pred[] parameter(1)", f"c = {shape} conditional(p, x, x), true_computation=f, false_computation=g"]
    return entry(lines, before=body("f", "sine") + body("g", "tanh"))


@family
def calls(n):
    """Many calls of one computation."""
    before = "f { a = f32[4] parameter(0)\n b = f32[4] sine(a)\n c = f32[4] tanh(b)\n ROOT r = f32[4] add(a, c) }\n"
    return chain(n // 3, ["x0 = f32[4] parameter(0)"], lambda k: [f"x{k+1} = f32[4] call(x{k}), to_apply=f"], before=before)


@family
def calls_of_large(n):
    """As many calls as the called computation is long."""
    m = int(n ** 0.5) * 4
    before = "f { v0 = f32[4] parameter(0)\n" + "\n".join(
        f" v{k+1} = f32[4] {'sine' if k % 2 else 'tanh'}(v{k})" for k in range(n // 2)) + f"\n ROOT r = f32[4] add(v0, v{n // 2}) }}\n"
    return chain(m, ["x0 = f32[4] parameter(0)"], lambda k: [f"x{k+1} = f32[4] call(x{k}), to_apply=f"], before=before)


@family
def fusions(n):
    before = "".join(f"ff{k} {{ a = f32[4] parameter(0)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b) }}\n" for k in range(n // 4))
    return chain(n // 4, ["x0 = f32[4] parameter(0)"], lambda k: [f"x{k+1} = f32[4] fusion(x{k}), kind=kLoop, calls=ff{k}"], before=before)


@family
def asyncs(n):
    before = "".join(f"ff{k} {{ a = f32[4] parameter(0)\n ROOT b = f32[4] sine(a) }}\n" for k in range(n // 4))
    return chain(n // 4, ["x0 = f32[4] parameter(0)"], lambda k: [
        f"ss{k} = ((f32[4]), f32[4], s32[]) async-start(x{k}), calls=ff{k}", f"x{k+1} = f32[4] async-done(ss{k})"], before=before)


@family
def maps(n):
    before = "f { a = f32[] parameter(0)\n b = f32[] sine(a)\n ROOT r = f32[] add(a, b) }\n"
    return chain(n // 3, ["x0 = f32[4] parameter(0)"], lambda k: [f"x{k+1} = f32[4] map(x{k}), dimensions={{0}}, to_apply=f"], before=before)


@family
def dynamic_dimensions(n):
    lines = ["x = f32[16] parameter(0)", "n = s32[] parameter(1)", "x0 = f32[<=16] set-dimension-size(x, n), dimensions={0}"]
    lines += [f"x{k+1} = f32[<=16] {'sine' if k % 2 else 'tanh'}(x{k})" for k in range(n)]
    return entry(lines + ["z = f32[] constant(0)", f"r = f32[] reduce(x{n}, z), dimensions={{0}}, to_apply=add"], before=ADD)


@family
def constants(n):
    values = ", ".join(str(k % 97 * 0.5) for k in range(n * 10))
    return entry([f"c = f32[{n*10}] constant({{{values}}})", f"x = f32[{n*10}] parameter(0)", f"t = f32[{n*10}] add(x, c)"])


@family
def many_constants(n):
    return chain(n // 2, ["x0 = f32[4] parameter(0)"], lambda k: [
        f"cc{k} = f32[4] constant({{{k}, {k+1}, 3, 4}})", f"x{k+1} = f32[4] add(x{k}, cc{k})"])


@family
def folded(n):
    """Constants all the way."""
    return chain(n // 2, ["x0 = f32[4] constant({1, 2, 3, 4})"], lambda k: [
        f"cc{k} = f32[4] constant({{{k}, {k+1}, 3, 4}})", f"x{k+1} = f32[4] add(x{k}, cc{k})"])


@family
def same_again(n):
    """What cse merges, in layers."""
    lines, m = ["x = f32[16] parameter(0)"], n // 2
    for k in range(m):
        lines += [f"a{k} = f32[16] {'sine' if k % 2 else 'cosine'}({'x' if k < 2 else f'a{k-2}'})"]
    for k in range(m):
        lines += [f"b{k} = f32[16] {'sine' if k % 2 else 'cosine'}({'x' if k < 2 else f'b{k-2}'})"]
    return tuple_of(lines, [f"a{m-1}", f"b{m-1}"], "f32[16]")


@family
def dead(n):
    lines = ["x = f32[16] parameter(0)", "d0 = f32[16] sine(x)"] + [f"d{k+1} = f32[16] add(d{k}, x)" for k in range(n)]
    return entry(lines + ["r = f32[16] cosine(x)"])


@family
def control_edges(n):
    lines = ["x = f32[16] parameter(0)", "v0 = f32[16] sine(x)"]
    lines += [f"v{k+1} = f32[16] {'tanh' if k % 2 else 'sine'}(x), control-predecessors={{v{k}}}" for k in range(n)]
    return tuple_of(lines, [f"v{n}"], "f32[16]")


@family
def long_names(n):
    return entry(["x = f32[16] parameter(0)"] + [f"a.{k+1} = f32[16] add({'x' if k == 0 else f'a.{k}'}, x)" for k in range(n)])


@family
def high_rank(n):
    r = 60
    d = ",".join(["1"] * (r - 1) + ["8"])
    order = ",".join(map(str, list(range(r - 2, -1, -1)) + [r - 1]))
    return chain(n // 20, [f"x0 = f32[{d}] parameter(0)"], lambda k: [
        f"y{k} = f32[{d}] transpose(x{k}), dimensions={{{order}}}", f"x{k+1} = f32[{d}] tanh(y{k})"])


# ---- nests: each level has the one below twice ------------------------------------------------------------------------

@nested
def calls_in_calls(n):
    before = "ff0 { a = f32[4] parameter(0)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b) }\n" + "".join(
        f"ff{k} {{ a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=ff{k-1}\n ROOT r = f32[4] call(b), to_apply=ff{k-1} }}\n" for k in range(1, n))
    return entry(["x = f32[4] parameter(0)", f"r = f32[4] call(x), to_apply=ff{n-1}"], before=before)


@nested
def calls_in_loop(n):
    """A loop whose turn calls in a nest."""
    before = "ff0 { a = f32[4] parameter(0)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b) }\n" + "".join(
        f"ff{k} {{ a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=ff{k-1}\n ROOT r = f32[4] call(b), to_apply=ff{k-1} }}\n" for k in range(1, n))
    shape = "(s32[], f32[4])"
    before += (f"c {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(2)\n ROOT l = pred[] compare(i, n), direction=LT }}\n"
               f"b {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[4] call(x), to_apply=ff{n-1}\n ROOT t = {shape} tuple(j, y) }}\n")
    return entry(["x = f32[4] parameter(0)", "z = s32[] constant(0)", f"t = {shape} tuple(z, x)",
                  f"w = {shape} while(t), condition=c, body=b", "y = f32[4] get-tuple-element(w), index=1"], before=before)


@nested
def fusions_in_fusions(n):
    before = "ff0 { a = f32[4] parameter(0)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b) }\n" + "".join(
        f"ff{k} {{ a = f32[4] parameter(0)\n b = f32[4] fusion(a), kind=kLoop, calls=ff{k-1}\n ROOT r = f32[4] fusion(b), kind=kLoop, calls=ff{k-1} }}\n" for k in range(1, n))
    return entry(["x = f32[4] parameter(0)", f"r = f32[4] fusion(x), kind=kLoop, calls=ff{n-1}"], before=before)


@nested
def maps_in_maps(n):
    before = "ff0 { a = f32[] parameter(0)\n ROOT r = f32[] tanh(a) }\n" + "".join(
        f"ff{k} {{ a = f32[] parameter(0)\n b = f32[] map(a), dimensions={{}}, to_apply=ff{k-1}\n ROOT r = f32[] map(b), dimensions={{}}, to_apply=ff{k-1} }}\n" for k in range(1, n))
    return entry(["x = f32[4] parameter(0)", f"r = f32[4] map(x), dimensions={{0}}, to_apply=ff{n-1}"], before=before)


@nested
def maps_of_calls(n):
    before = "ff0 { a = f32[] parameter(0)\n ROOT r = f32[] tanh(a) }\n" + "".join(
        f"ff{k} {{ a = f32[] parameter(0)\n b = f32[] call(a), to_apply=ff{k-1}\n ROOT r = f32[] call(b), to_apply=ff{k-1} }}\n" for k in range(1, n))
    return entry(["x = f32[4] parameter(0)", f"r = f32[4] map(x), dimensions={{0}}, to_apply=ff{n-1}"], before=before)


@nested
def whiles_in_whiles(n):
    shape = "(s32[], f32[4])"
    before = (f"c {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(2)\n ROOT l = pred[] compare(i, n), direction=LT }}\n"
              f"b0 {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[4] sine(x)\n ROOT t = {shape} tuple(j, y) }}\n")
    for k in range(1, n):
        before += (f"b{k} {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n z = s32[] constant(0)\n"
                   f" t1 = {shape} tuple(z, x)\n w1 = {shape} while(t1), condition=c, body=b{k-1}\n y = f32[4] get-tuple-element(w1), index=1\n"
                   f" t2 = {shape} tuple(z, y)\n w2 = {shape} while(t2), condition=c, body=b{k-1}\n v = f32[4] get-tuple-element(w2), index=1\n ROOT t = {shape} tuple(j, v) }}\n")
    return entry(["x = f32[4] parameter(0)", "z = s32[] constant(0)", f"t = {shape} tuple(z, x)",
                  f"w = {shape} while(t), condition=c, body=b{n-1}", "y = f32[4] get-tuple-element(w), index=1"], before=before)


@nested
def conditionals_in_conditionals(n):
    before = "ff0 { a = f32[4] parameter(0)\n ROOT r = f32[4] sine(a) }\n" + "".join(
        f"ff{k} {{ a = f32[4] parameter(0)\n s = f32[1] slice(a), slice={{[0:1]}}\n q = f32[] reshape(s)\n z = f32[] constant(0)\n p = pred[] compare(q, z), direction=GT\n"
        f" b = f32[4] conditional(p, a, a), true_computation=ff{k-1}, false_computation=ff{k-1}\n ROOT r = f32[4] conditional(p, b, b), true_computation=ff{k-1}, false_computation=ff{k-1} }}\n" for k in range(1, n))
    return entry(["x = f32[4] parameter(0)", f"r = f32[4] call(x), to_apply=ff{n-1}"], before=before)


@nested
def asyncs_in_asyncs(n):
    before = "ff0 { a = f32[4] parameter(0)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b) }\n"
    s = "((f32[4]), f32[4], s32[])"
    for k in range(1, n):
        before += (f"ff{k} {{ a = f32[4] parameter(0)\n s = {s} async-start(a), calls=ff{k-1}\n b = f32[4] async-done(s)\n"
                   f" t = {s} async-start(b), calls=ff{k-1}\n ROOT r = f32[4] async-done(t) }}\n")
    return entry(["x = f32[4] parameter(0)", f"s = {s} async-start(x), calls=ff{n-1}", "r = f32[4] async-done(s)"], before=before)


@nested
def reducers_that_call(n):
    """A reduction whose computation calls in a nest."""
    before = "ff0 { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n" + "".join(
        f"ff{k} {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] call(a, b), to_apply=ff{k-1}\n ROOT r = f32[] call(c, b), to_apply=ff{k-1} }}\n" for k in range(1, n))
    return entry(["x = f32[4] parameter(0)", "z = f32[] constant(0)", f"r = f32[] reduce(x, z), dimensions={{0}}, to_apply=ff{n-1}"], before=before)


@nested
def nested_tuples(n):
    lines, shape, p = ["x = f32[2] parameter(0)"], "f32[2]", "x"
    for k in range(min(n, 190)):
        shape = f"({shape})"
        lines.append(f"t{k} = {shape} tuple({p})")
        p = f"t{k}"
    return entry(lines)
