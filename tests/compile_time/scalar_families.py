# SPDX-License-Identifier: Apache-2.0
"""Families of computations of scalars: comparators and combiners, each of whose values is wanted twice by the next."""
from family import family


def squares(names, kind, n):
    """Lines that square each of `names` n times; name by name it is called name0, .. there."""
    return [f"{x}{k+1} = {kind}[] multiply({x}{k}, {x}{k})" for k in range(n) for x in names]


def choices(names, kind, n):
    """Lines that choose between the last two values of each of `names`, n times."""
    lines = [f"zero = {kind}[] constant(0)"]
    for x in names:
        before = "zero"
        for k in range(n):
            lines += [f"p{x}{k} = pred[] compare({x}{k}, zero), direction={'LT' if k % 2 else 'GT'}",
                      f"{x}{k+1} = {kind}[] select(p{x}{k}, {x}{k}, {before})"]
            before = f"{x}{k}"
    return lines


def computation(name, kind, lines, root):
    lines = [f"{x}0 = {kind}[] parameter({k})" for k, x in enumerate("ab")] + lines + ["ROOT " + root]
    return name + " {\n  " + "\n  ".join(lines) + "\n}\n"


def sorted_by(kind, lines, n):
    of = computation("less", kind, lines, f"r = pred[] compare(a{n}, b{n}), direction=LT, type=TOTALORDER")
    return (f"HloModule m\n{of}\nENTRY e {{\n  x = {kind}[64] parameter(0)\n"
            f"  ROOT s = {kind}[64] sort(x), dimensions={{0}}, to_apply=less\n}}\n")


@family
def comparators_of_squares(n):
    return sorted_by("f32", squares("ab", "f32", n // 2), n // 2)


@family
def comparators_of_choices(n):
    return sorted_by("bf16", choices("ab", "bf16", n // 4), n // 4)


def combined(kind, lines, root, use):
    return (f"HloModule m\n{computation('of_two', kind, lines, root)}\nENTRY e {{\n  x = {kind}[8,64] parameter(0)\n"
            f"  z = {kind}[] constant(0)\n  {use}\n}}\n")


@family
def combiners_of_squares(n):
    return combined("f32", squares("a", "f32", n), f"r = f32[] add(a{n}, b0)",
                    "ROOT s = f32[8] reduce(x, z), dimensions={1}, to_apply=of_two")


@family
def combiners_of_choices(n):
    return combined("bf16", choices("a", "bf16", n // 2), f"r = bf16[] add(a{n//2}, b0)",
                    "ROOT s = bf16[8] reduce(x, z), dimensions={1}, to_apply=of_two")


@family
def windows_of_choices(n):
    return combined("f16", choices("a", "f16", n // 2), f"r = f16[] maximum(a{n//2}, b0)",
                    "ROOT s = f16[8,62] reduce-window(x, z), window={size=1x3}, to_apply=of_two")
