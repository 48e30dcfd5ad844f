# SPDX-License-Identifier: Apache-2.0
"""Families of elementwise operations."""
import random

from family import ADD, chain, entry, family, tuple_of


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
def narrow_choices(n):
    """Of numbers that are only moved, each chosen from the last two."""
    lines = ["x0 = bf16[16] parameter(0)", "x1 = bf16[16] parameter(1)", "p = pred[16] parameter(2)", "q = pred[16] parameter(3)"]
    for k in range(1, n):
        lines.append(f"x{k+1} = bf16[16] select({'pq'[k % 2]}, x{k}, x{k-1})")
    return entry(lines)


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
