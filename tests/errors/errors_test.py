#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules that must be refused, or that ask for more than there is: never a crash, a hang or memory without bound.

    errors_test.py KRAFLA [DEVICE] [FOLDER...]

Every module runs in a process of its own under a limit of memory and time. `cases.txt` holds small ones; a FOLDER (and
$KRAFLA_CORPUS/errors) has a manifest.json of cases with `file` and `expect`. What is expected:
  error    exit 3, and a message that names the file or the instruction
  memory   exit 5: valid, but nobody has that much memory
  any      a result, or any of these
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import address_space  # noqa: E402
MEMORY = 6 << 30  # of address space: a Vulkan driver maps a good part of that for nothing
SECONDS = 60
CODES = {"error": {3}, "memory": {5}, "any": {0, 3, 5}}


def limit(krafla):
    address_space.limit(krafla, MEMORY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(krafla, device, path, expect, wanted, save):
    """Empty, or what is wrong."""
    try:
        out = subprocess.run([krafla, "run", str(path), "-d", device, "--random", "--save", save], capture_output=True,
                             timeout=SECONDS, preexec_fn=lambda: limit(krafla))
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    said = out.stderr.decode(errors="replace")
    last = [l for l in said.splitlines() if l.startswith("krafla: ")]
    if out.returncode < 0:
        return f"signal {-out.returncode}: {said[-300:]}"
    if out.returncode not in CODES[expect]:
        return f"exit {out.returncode}, expected {expect}: {said[-300:]}"
    if out.returncode in (3, 5) and not last:
        return f"no message: {said[-300:]}"
    if out.returncode == 3 and not re.search(r"line \d+|:\d+:\d+|" + re.escape(str(path)), said):
        return f"the message does not say where: {said[-300:]}"
    if wanted and wanted not in said:
        return f"the message does not say '{wanted}': {said[-300:]}"
    return ""


def small_cases(folder):
    """cases.txt: '=== name expect [text that the message holds]', then the module."""
    for block in (HERE / "cases.txt").read_text().split("\n=== ")[1:]:
        head, text = block.split("\n", 1)
        name, expect, *wanted = head.split(" ", 2)
        path = folder / (name + ".hlo")
        path.write_text(text)
        yield name, path, expect, wanted[0] if wanted else ""


def made_cases(folder):
    """Those too large or too repetitive to keep."""
    def case(name, expect, text, wanted=""):
        path = folder / (name + ".hlo")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name, path, expect, wanted

    line = "  x{0} = f32[4] add(x{1}, x{1})\n"
    chain = "".join(line.format(i, i - 1) for i in range(1, 50001))
    yield case("long_chain", "any", "HloModule m\nENTRY e {\n  x0 = f32[4] parameter(0)\n" + chain +
               "  ROOT r = f32[4] negate(x50000)\n}\n")
    # Each computation calls the one before it twice: inlined, 2**40 instructions.
    calls = "c0 {\n  ROOT p = f32[] parameter(0)\n}\n"
    for i in range(1, 41):
        calls += f"c{i} {{\n  p = f32[] parameter(0)\n  a = f32[] call(p), to_apply=c{i-1}\n  ROOT b = f32[] call(a), to_apply=c{i-1}\n}}\n"
    yield case("calls_double", "any", "HloModule m\n" + calls + "ENTRY e {\n  p = f32[] parameter(0)\n"
               "  ROOT r = f32[] call(p), to_apply=c40\n}\n")
    calls = "c0 {\n  ROOT p = f32[] parameter(0)\n}\n"
    for i in range(1, 3001):
        calls += f"c{i} {{\n  p = f32[] parameter(0)\n  ROOT b = f32[] call(p), to_apply=c{i-1}\n}}\n"
    yield case("calls_deep", "any", "HloModule m\n" + calls + "ENTRY e {\n  p = f32[] parameter(0)\n"
               "  ROOT r = f32[] call(p), to_apply=c3000\n}\n")
    yield case("tuple_deep", "error", "HloModule m\nENTRY e {\n  ROOT p = " + "(" * 20000 + "f32[]" + ")" * 20000 + " parameter(0)\n}\n")
    yield case("comment_open", "error", "HloModule m /*" + "x" * 100000)
    yield case("many_parameters", "any", "HloModule m\nENTRY e {\n" + "".join(f"  p{i} = f32[] parameter({i})\n" for i in range(5000)) +
               "  ROOT r = f32[] add(p0, p4999)\n}\n")
    yield case("parameter_number", "error", "HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(2000000000)\n}\n")
    good = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n"
    for cut in (12, 25, 40, 60, len(good) - 3):
        yield case(f"cut_{cut}", "error", good[:cut])
    yield case("binary", "error", bytes(range(256)) * 40)
    yield case("zeros", "error", bytes(4096))
    yield case("empty", "error", b"")
    # Headers of the other formats with nothing good behind.
    yield case("bytecode_cut", "error", b"ML\xefR\x01StableHLO_v1.0.0\x00")
    yield case("mlir_cut", "error", "module @m {\n  func.func public @main(%arg0: tensor<4x")
    yield case("proto_cut", "error", b"\x0a\x04main\x12\x04main\x1a\xff\xff\xff\xff\x0f")


ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"


def device_cases(folder):
    """Collectives among more devices than the program is run on, and custom calls that give what they do not."""
    def case(name, expect, body, wanted, header="", extra=""):
        path = folder / (name + ".hlo")
        path.write_text(f"HloModule m{header}\n{extra}ENTRY e {{\n{body}}}\n")
        return name, path, expect, wanted

    x = "  x = f32[4096] parameter(0)\n"
    four = {"listed": "replica_groups={{0,1,2,3}}", "iota": "replica_groups=[1,4]<=[4]",
            "global": "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"}
    for form, groups in four.items():
        for op, result, attributes, extra in (
                ("all-reduce", "f32[4096]", "to_apply=add", ADD),
                ("all-gather", "f32[16384]", "dimensions={0}", ""),
                ("reduce-scatter", "f32[1024]", "dimensions={0}, to_apply=add", ADD),
                ("all-to-all", "f32[4096]", "dimensions={0}", ""),
                ("collective-broadcast", "f32[4096]", "", "")):
            if form == "global" and op in ("all-to-all", "collective-broadcast"):
                continue
            body = x + f"  ROOT r = {result} {op}(x), {groups}{', ' if attributes else ''}{attributes}\n"
            yield case(f"{op}_{form}", "error", body, "1 replicas and 1 partitions", extra=extra)
    groups = four["listed"]
    yield case("all-gather-start", "error", x + f"  s = (f32[4096], f32[16384]) all-gather-start(x), {groups}, dimensions={{0}}\n"
               "  ROOT r = f32[16384] all-gather-done(s)\n", "1 replicas")
    yield case("all-reduce-start", "error", x + f"  s = f32[4096] all-reduce-start(x), {groups}, to_apply=add\n"
               "  ROOT r = f32[4096] all-reduce-done(s)\n", "1 replicas", extra=ADD)
    yield case("async-start", "error", x + "  s = ((f32[4096]), f32[1024], u32[]) async-start(x), calls=c\n"
               "  ROOT r = f32[1024] async-done(s)\n", "1 replicas",
               extra=ADD + f"c {{\n  y = f32[4096] parameter(0)\n  ROOT q = f32[1024] reduce-scatter(y), {groups}, dimensions={{0}}, "
               "to_apply=add\n}\n")
    pairs = "source_target_pairs={{0,1},{1,0}}"
    yield case("collective-permute", "error", x + f"  ROOT r = f32[4096] collective-permute(x), {pairs}\n", "1 replicas")
    yield case("collective-permute-start", "error", x + f"  s = (f32[4096], f32[4096]) collective-permute-start(x), {pairs}\n"
               "  ROOT r = f32[4096] collective-permute-done(s)\n", "1 replicas")
    yield case("ragged-all-to-all", "error", x + "  o = f32[4096] parameter(1)\n  i = s32[4] parameter(2)\n"
               f"  ROOT r = f32[4096] ragged-all-to-all(x, o, i, i, i, i), {groups}\n", "1 replicas")
    yield case("send", "error", x + "  t = token[] after-all()\n  s = (f32[4096], u32[], token[]) send(x, t), channel_id=1\n"
               "  ROOT d = token[] send-done(s), channel_id=1\n", "channel")
    # Groups that divide otherwise than the shapes say, though all the devices are there.
    yield case("empty_groups", "error", x + "  ROOT r = f32[16384] all-gather(x), replica_groups={}, dimensions={0}\n", "")
    yield case("too_few_pairs", "error", x + "  ROOT r = f32[4096] collective-permute(x), source_target_pairs={{0,5}}\n", "",
               header=", replica_count=4")

    two = x + "  y = f32[4096] parameter(1)\n"
    for target in ("Sharding", "LayoutConstraint", "MoveToHost", "SPMDFullToShardShape", "SPMDShardToFullShape",
                   "annotate_device_placement", "xla.sdy.GlobalToLocalShape"):
        call = f'custom_call_target="{target}"'
        yield case(f"call_{target}_tuple", "error", two + f"  ROOT r = (f32[16], f32[16]) custom-call(x, y), {call}\n", target)
        yield case(f"call_{target}_larger", "error", x + f"  ROOT r = f32[8192] custom-call(x), {call}\n", target)
        yield case(f"call_{target}_of_tuple", "error", two + "  t = (f32[4096], f32[4096]) tuple(x, y)\n"
                   f"  ROOT r = (f32[8], f32[4096]) custom-call(t), {call}\n", target)
        yield case(f"call_{target}_type", "error", x + f"  ROOT r = s64[2048] custom-call(x), {call}\n", target)
    for target, results in {"TopK": ("(f32[65536], s32[16])", "(f32[4], f32[4])", "f32[4]", "(f32[4], s32[4], s32[4])"),
                            "PadToStatic": ("(f32[8], s32[])", "(f32[4096])", "f32[4096]", "(f32[4096], f32[])"),
                            "LuDecomposition": ("(f32[4096], s32[1], s32[4096])", "f32[4096]"),
                            "Eigh": ("(f32[4096], f32[4096])", "f32[4096]"), "krafla_svd": ("(f32[1])", "f32[4096]"),
                            "Qr": ("(f32[4096], f32[1])", "f32[4096]"),
                            "dce_sink": ("f32[4096]", "(f32[1])"),
                            "lapack_strsm_ffi": ("f32[4096]",),
                            "ProductOfElementaryHouseholderReflectors": ("f32[4096]", "(f32[1])")}.items():
        for n, result in enumerate(results):
            yield case(f"call_{target}_{n}", "error", x + f'  ROOT r = {result} custom-call(x), custom_call_target="{target}"\n', target)
    matrix = "  x = f32[8,4] parameter(0)\n  t = f32[4] parameter(1)\n"
    for target, operands, result in (("Qr", "x", "(f32[8,4], f32[400])"), ("Qr", "x", "(f32[8,400], f32[4])"), ("Qr", "t", "(f32[4], f32[4])"),
                                     ("LuDecomposition", "x", "(f32[8,4], s32[4], s32[4])"), ("LuDecomposition", "x", "(f32[8,4], f32[4], s32[8])"),
                                     ("LuDecomposition", "x", "(f32[8,4], s32[8], s32[8])"), ("Eigh", "x", "(f32[8,4], f32[4])"),
                                     ("krafla_svd", "x", "f32[8]"), ("krafla_svd", "x", "(f32[4], f32[8,8], f32[4,8])"),
                                     ("ProductOfElementaryHouseholderReflectors", "x, t", "f32[8,800]"),
                                     ("ProductOfElementaryHouseholderReflectors", "x, x", "f32[8,4]"),
                                     ("lapack_strsm_ffi", "x, t", "f32[4]"), ("lapack_strsm_ffi", "x, x", "f32[80,40]")):
        n = abs(hash((target, operands, result)))
        yield case(f"call_{target}_{n}", "error", matrix + f'  ROOT r = {result} custom-call({operands}), custom_call_target="{target}"\n', target)
    sized = x + "  n = s32[] parameter(1)\n"
    for n, (operands, result) in enumerate((("x, n", "f32[8192]"), ("x, n", "s8[4096]"), ("x", "f32[4096]"), ("x, x", "f32[4096]"))):
        yield case(f"call_SliceToDynamic_{n}", "error", sized + f'  ROOT r = {result} custom-call({operands}), custom_call_target="SliceToDynamic"\n',
                   "SliceToDynamic")


def corpus_cases(folder):
    for c in json.loads((folder / "manifest.json").read_text())["cases"]:
        yield c["name"], folder / c["file"], c["expect"], ""


def main():
    krafla, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu"
    folders = [pathlib.Path(p) for p in sys.argv[3:]]
    if os.environ.get("KRAFLA_CORPUS"):
        folders.append(pathlib.Path(os.environ["KRAFLA_CORPUS"]) / "errors")
    right, wrong = 0, 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        cases = [*small_cases(work), *made_cases(work), *device_cases(work)]
        for folder in folders:
            cases += corpus_cases(folder)
        for name, path, expect, wanted in cases:
            why = check(krafla, device, path, expect, wanted, str(work / "out.npz"))
            right, wrong = right + (not why), wrong + bool(why)
            if why:
                print(f"FAILED {name}: {why}", flush=True)
    print(f"{right} as expected, {wrong} not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
