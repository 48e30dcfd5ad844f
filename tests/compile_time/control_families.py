# SPDX-License-Identifier: Apache-2.0
"""Families of control flow, calls and tuples."""
from family import ADD, chain, entry, family, tuple_of


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
    lines = ["x = f32[2] parameter(0)", "v0 = f32[2] sine(x)"]
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
