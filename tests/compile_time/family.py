# SPDX-License-Identifier: Apache-2.0
"""What a family of modules is registered by and written with."""
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
