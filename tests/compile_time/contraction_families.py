# SPDX-License-Identifier: Apache-2.0
"""Families of reductions, contractions and library calls."""
from family import ADD, chain, entry, family, tuple_of


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
