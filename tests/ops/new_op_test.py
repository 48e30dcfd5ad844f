#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds an elementwise operation to a copy of the sources by the three edits that docs/adding-an-op.md names, and runs
it: a row in ops.def, its function in f32 and its function in f64. A fourth place that somebody has to know of fails
here, as an error of the compiler or at run time.

    new_op_test.py BUILD DEVICE...    # BUILD: a build folder of Ninja's that is up to date

What is compiled: the files that expand rows of the table, with the commands of BUILD, and the program of this folder;
the rest is linked as BUILD has it. For that the row is the last of the table: the numbers of the other operations stay
as they are."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = "ir/ops.def"
# These headers only declare what a row names: who includes them is the same code with a row more.
DECLARES = {"src/ir/opcode.h", "src/ir/shape_rules/checks.h", "src/numerics/scalar_f64.h", "src/numerics/scalar_math.h",
            "src/numerics/complex_math.h"}

ROW = '''KRAFLA_FORMULA(kSoftsign, Softsign, 5, "softsign", "softsign", 1, kFloat, ResultAccuracyAttributes, SameAsOperand, Ulp(2),
          "x / (1 + |x|)")
'''
F32 = '''template <class Ops>
typename Ops::F Softsign(const Ops& o, typename Ops::F x) {
  const auto a = o.Abs(x);
  const auto is_finite = o.Lt(a, o.Const(0x1p127f));
  const auto bounded = o.Select(is_finite, x, o.Const(0.0f));
  const auto quotient = o.Div(bounded, o.Add(o.Const(1.0f), o.Abs(bounded)));
  const auto one = o.FromBits(o.Or(o.And(o.Bits(x), o.ConstI(0x80000000u)), o.ConstI(0x3f800000u)));
  return o.Select(o.Ne(x, x), x, o.Select(is_finite, quotient, one));
}
'''
F64 = '''template <class Ops>
typename Ops::F Softsign(const Ops& o, typename Ops::F x) {
  const auto is_finite = o.Lt(o.Abs(x), o.Const(kInf));
  const auto bounded = o.Select(is_finite, x, o.Const(0.0));
  const auto quotient = o.Div(bounded, o.Add(o.Const(1.0), o.Abs(bounded)));
  return o.Select(o.Ne(x, x), x, o.Select(is_finite, quotient, WithSign(o, o.Const(1.0), x)));
}
'''
# (file, what the new text stands before, the text)
EDITS = [("src/ir/ops.def", "\n#undef KRAFLA_COMPLEX_FORMULA", ROW),
         ("src/numerics/formulas_basic.h", "\n}  // namespace krafla", F32),
         ("src/numerics/f64_special.h", "\n}  // namespace krafla::f64", F64)]


def fail(message):
    print(message)
    sys.exit(1)


def run(command, folder, what):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{what}\n{shlex.join(command)[:400]}\n{(done.stdout + done.stderr)[-6000:]}")
    return done.stdout


class Copy:
    """The sources and the build folder, as far as they are needed, below `work`."""

    def __init__(self, build):
        self.build = build
        self.work = build / "new_op_test"
        self.source, self.out = self.work / "source", self.work / "build"
        cache = (build / "CMakeCache.txt").read_text()
        # As the commands of the build name it.
        self.home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.M).group(1)
        self.named_build = re.search(r"^CMAKE_CACHEFILE_DIR:INTERNAL=(.*)$", cache, re.M).group(1)

    def moved(self, text):
        """A command, or a file that names sources, with the copy's folders in place of the tree's."""
        text = text.replace(self.named_build, "\0")
        text = text.replace(self.home, str(self.source))
        return text.replace("\0", str(self.out))

    def make(self):
        shutil.rmtree(self.work, ignore_errors=True)
        for folder in ("src", "include", "cmake"):
            shutil.copytree(SOURCE / folder, self.source / folder)
        for name, before, text in EDITS:
            path = self.source / name
            whole = path.read_text()
            if whole.count(before) != 1:
                fail(f"{name} has not one place before {before!r}")
            path.write_text(whole.replace(before, "\n" + text.rstrip("\n") + "\n" + before.lstrip("\n")
                                          if name.endswith(".h") else text + before))
        script = self.work / "generate.cmake"
        script.write_text(f"cmake_minimum_required(VERSION 3.25)\ninclude({self.source}/cmake/ElementwiseOps.cmake)\n"
                          f"krafla_write_elementwise_ops({self.source}/src/{TABLE} {self.out}/generated)\n")
        run(["cmake", "-P", str(script)], self.work, "The builder's calls are not written:")

    def bring(self, path):
        """A file of the build folder (a batch, a precompiled header), rewritten; its path in the copy."""
        to = self.out / path.relative_to(self.named_build)
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            to.write_text(self.moved(path.read_text()))
        return to


class Readers:
    """Which translation units expand rows of the table."""

    def __init__(self, home):
        self.home, self.known = home, {}

    def included(self, path):
        if path not in self.known:
            text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
            self.known[path] = re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.M)
        return self.known[path]

    def reads(self, path):
        seen, left = {path}, [path]
        while left:
            at = left.pop()
            names = self.included(at)
            if TABLE in names and at.removeprefix(self.home + "/") not in DECLARES:
                return True
            for name in names:
                for folder in ("", self.home + "/src/", self.home + "/include/", os.path.dirname(at) + "/"):
                    if os.path.isfile(folder + name) and folder + name not in seen:
                        seen.add(folder + name)
                        left.append(folder + name)
        return False


def output_of(command):
    words = shlex.split(command)
    return words[words.index("-o") + 1]


def main():
    build, devices = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    if not (build / "build.ninja").exists():
        print(f"{build} is not a build folder of Ninja's: nothing is tested.")
        return 77
    begin = time.monotonic()
    listed = subprocess.run([str(build / "krafla"), "devices"], capture_output=True, text=True, check=False).stdout
    for device in [d for d in devices if d == "vulkan:llvmpipe" and "llvmpipe" not in listed]:
        print(f"{device} is not here: the operation does not run on it.")
        devices.remove(device)
    copy = Copy(build)
    copy.make()
    commands = json.loads((build / "compile_commands.json").read_text())
    readers = Readers(copy.home)
    rooms = [c for c in commands if c["file"].startswith((f"{copy.home}/src/", f"{copy.named_build}/src/"))]
    # The builder's calls are written from the table.
    units = [c for c in rooms if "/xla_builder/" in c["file"] or readers.reads(c["file"])]
    headers = {}
    for c in commands:
        if c["file"].endswith("cmake_pch.hxx.cxx"):
            headers[c["file"].removesuffix(".cxx")] = c["command"]
    used = sorted({h for h in headers for c in units if f"-include {h} " in c["command"]})
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)))

    def compile_one(command, path):
        if path.startswith(copy.named_build):
            copy.bring(pathlib.Path(path))
        (copy.out / output_of(command)).parent.mkdir(parents=True, exist_ok=True)
        words = shlex.split(copy.moved(command))
        # The bits are the same unoptimised, in three quarters of the time; Highway's loops are made for optimisation.
        if "/krafla_cpu.dir/" not in command and "/krafla_ir_headers.dir/" not in command:
            words = ["-O0" if w in ("-O1", "-O2") else w for w in words]
        run(words, copy.out, f"{path.removeprefix(copy.home)} does not take a new row:")

    for header in used:
        copy.bring(pathlib.Path(header))
    list(pool.map(lambda h: compile_one(headers[h], h + ".cxx"), used))

    # The program: compiled as a test of the builder is, linked as that is.
    test = next(c for c in commands if "/builder_test.dir/" in output_of(c["command"]))
    words = shlex.split(copy.moved(test["command"]))
    while "-include" in words:
        del words[words.index("-include"):words.index("-include") + 2]
    program = copy.out / "new_op_program.o"
    words = words[:words.index("-o")] + [f"-I{copy.out}/generated/include", "-o", str(program), "-c",
                                         str(SOURCE / "tests" / "ops" / "new_op_program.cpp")]
    done = [pool.submit(compile_one, c["command"], c["file"]) for c in units]
    done.append(pool.submit(run, words, copy.out, "The program that uses the new operation is not compiled:"))
    for one in concurrent.futures.as_completed(done):
        if one.exception() is not None:
            pool.shutdown(cancel_futures=True)
            raise one.exception()

    # Archives as in the build, with the new objects in place of the old ones.
    fresh = {output_of(c["command"]) for c in units}
    archives = {}
    for target in sorted({re.search(r"/CMakeFiles/(krafla_\w+)\.dir/", o).group(1) for o in fresh}):
        # The CPU's room has its assembler's files in a library of objects.
        parts = [target, target + "_native"]
        objects = [output_of(c["command"]) for c in rooms
                   if any(f"/{part}.dir/" in output_of(c["command"]) for part in parts)]
        objects = [o for o in objects if not o.endswith(".gch")]
        archive = copy.out / f"lib{target}.a"
        paths = [str((copy.out if o in fresh else build) / o) for o in objects]
        run(["ar", "qcsT", str(archive)] + paths, copy.out, f"lib{target}.a is not written:")
        archives[archive.name] = str(archive)
    link = run(["ninja", "-C", str(build), "-t", "commands", "builder_test"], build, "The link is not known:").splitlines()[-1]
    words = [w for w in shlex.split(link) if w not in (":", "&&")]
    binary = copy.out / "new_op"
    words[words.index("-o") + 1] = str(binary)
    words = [w for w in words if not w.endswith(".o") and "krafla_test_main" not in w]
    words = [archives.get(os.path.basename(w), w) for w in words]
    run(words[:1] + [str(program)] + words[1:], build, "The program is not linked:")

    print(run([str(binary)] + devices, copy.out, "The new operation does not run:"), end="")
    os.environ["KRAFLA_JIT"] = "always"
    print(run([str(binary), "cpu"], copy.out, "The new operation does not run as native code:"), end="")
    print(f"{len(used)} headers and {len(units)} of {len(rooms)} files compiled, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
