# SPDX-License-Identifier: Apache-2.0
"""Families of nests: each level has the one below twice."""
from family import entry, nested


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
