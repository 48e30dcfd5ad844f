# SPDX-License-Identifier: Apache-2.0
"""Families of operations that move data."""
import random

from family import ADD, chain, entry, family, tuple_of


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
