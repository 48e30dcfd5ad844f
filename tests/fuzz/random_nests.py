# SPDX-License-Identifier: Apache-2.0
"""Random modules of loops in loops, conditionals, updates of rows and states that trade places.

    random_nests.py RANDOM_MODULE [--seed N] [--count N] [--by-data] [-d DEVICE]...

Which arrays share memory is decided where they are handed on, so that is what these modules are made of: each is run by
RANDOM_MODULE --replay on the devices, against the evaluator, bit for bit. What fails is left in a folder that is named. With --by-data most loops end by what their arrays hold, so
that nobody knows before how often they turn.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ARRAY, ROW = "s32[4,6]", "s32[1,6]"


class Nest:
    """One module. A computation's state is a counter and `self.count` arrays."""

    def __init__(self, seed, by_data):
        self.random = random.Random(seed)
        self.by_data = by_data
        self.count = self.random.choice([2, 3, 3, 4])
        self.state = f"(s32[], {', '.join([ARRAY] * self.count)})"
        self.computations, self.names = [], 0

    def name(self, stem):
        self.names += 1
        return f"{stem}_{self.names}"

    def add(self, lines, stem, text):
        name = self.name(stem)
        lines.append(f"  {name} = {text}")
        return name

    def update(self, lines, array, source, counter):
        zero, most = self.add(lines, "z", "s32[] constant(0)"), self.random.randint(1, 4)
        limit = self.add(lines, "c", f"s32[] constant({most})")
        at = self.add(lines, "i", f"s32[] remainder({counter}, {limit})")
        row = self.add(lines, "r", f"{ROW} dynamic-slice({source}, {at}, {zero}), dynamic_slice_sizes={{1,6}}")
        if self.random.random() < 0.5:
            at = self.add(lines, "j", f"s32[] add({at}, {limit})")
        if self.random.random() < 0.3:
            row = self.add(lines, "q", f"{ROW} add({row}, {row})")
        return self.add(lines, "v", f"{ARRAY} dynamic-update-slice({array}, {row}, {at}, {zero})")

    def scatter(self, lines, array, source):
        add = self.name("sum")
        self.computations.append(
            f"{add} {{ a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] add(a, b) }}")
        places = ",".join(f"{{{self.random.randint(0, 3)}}}" for _ in range(2))
        at = self.add(lines, "c", f"s32[2,1] constant({{{places}}})")
        rows = self.add(lines, "u", f"s32[2,6] slice({source}), slice={{[0:2], [0:6]}}")
        return self.add(lines, "v", f"{ARRAY} scatter({array}, {at}, {rows}), update_window_dims={{1}}, "
                        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
                        f"to_apply={add}")

    def given(self, lines, counter, pool):
        """A state of arrays of the pool, each once or any."""
        once = self.random.random() < 0.7 and len(pool) >= self.count
        arrays = self.random.sample(pool, self.count) if once else self.random.choices(pool, k=self.count)
        return self.add(lines, "t", f"{self.state} tuple({counter}, {', '.join(arrays)})")

    def taken_apart(self, lines, value):
        return [self.add(lines, "g", f"{ARRAY} get-tuple-element({value}), index={k + 1}") for k in range(self.count)]

    def loop(self, lines, pool, depth):
        begin = self.given(lines, self.add(lines, "z", "s32[] constant(0)"), pool)
        condition, body = self.name("less"), self.name("body")
        limit = f"  c = s32[] constant({self.random.randint(1, 4)})\n"
        if self.by_data and self.random.random() < 0.7:
            row, column = self.random.randint(0, 3), self.random.randint(0, 5)
            limit = (f"  a = {ARRAY} get-tuple-element(s), index={self.random.randint(1, self.count)}\n"
                     f"  e = s32[1,1] slice(a), slice={{[{row}:{row + 1}], [{column}:{column + 1}]}}\n"
                     "  f = s32[] reshape(e)\n  m = s32[] constant(3)\n  c = s32[] and(f, m)\n")
        self.computations.append(
            f"{condition} {{ s = {self.state} parameter(0)\n  n = s32[] get-tuple-element(s), index=0\n"
            f"{limit}  ROOT r = pred[] compare(n, c), direction=LT }}")
        self.computation(body, depth - 1, is_loop=True)
        return self.taken_apart(
            lines, self.add(lines, "w", f"{self.state} while({begin}), condition={condition}, body={body}"))

    def conditional(self, lines, pool, counter, depth):
        given, branches = [], []
        for _ in range(self.random.randint(2, 3)):
            again = given and self.random.random() < 0.6
            given.append(given[0] if again else self.given(lines, counter, pool))
            branches.append(self.name("branch"))
            self.computation(branches[-1], depth - 1, is_loop=False)
        count = self.add(lines, "c", f"s32[] constant({len(branches)})")
        which = self.add(lines, "i", f"s32[] remainder({counter}, {count})")
        return self.taken_apart(lines, self.add(
            lines, "w", f"{self.state} conditional({which}, {', '.join(given)}), "
            f"branch_computations={{{', '.join(branches)}}}"))

    def step(self, lines, pool, counter, depth):
        kind = self.random.choice(["update"] * 4 + ["scatter", "two", "reverse"] + ["loop", "branch"] * (depth > 0))
        array, other = self.random.choice(pool[-self.count - 1:]), self.random.choice(pool)
        if kind == "loop":
            return self.loop(lines, pool, depth)
        if kind == "branch":
            return self.conditional(lines, pool, counter, depth)
        if kind == "update":
            return [self.update(lines, array, self.random.choice([array, other, other]), counter)]
        if kind == "scatter":
            return [self.scatter(lines, array, other)]
        if kind == "reverse":
            return [self.add(lines, "v", f"{ARRAY} reverse({array}), dimensions={{{self.random.randint(0, 1)}}}")]
        return [self.add(lines, "v", f"{ARRAY} {self.random.choice(['add', 'subtract', 'xor'])}({array}, {other})")]

    def results(self, lines, arrays, counter, depth):
        pool = list(arrays)
        for _ in range(self.random.randint(1, 4)):
            pool += self.step(lines, pool, counter, depth)
        out = pool[-self.count:] if self.random.random() < 0.5 else self.random.choices(pool[-2 * self.count:],
                                                                                        k=self.count)
        if self.random.random() < 0.3:
            self.random.shuffle(out)
        return out

    def computation(self, name, depth, is_loop):
        lines = [f"  s = {self.state} parameter(0)", "  n = s32[] get-tuple-element(s), index=0"]
        arrays = self.taken_apart(lines, "s")
        if is_loop or self.random.random() < 0.75:
            arrays = self.results(lines, arrays, "n", depth)
        counter = "n"
        if is_loop:
            counter = self.add(lines, "next", f"s32[] add(n, {self.add(lines, 'one', 's32[] constant(1)')})")
        lines.append(f"  ROOT t = {self.state} tuple({counter}, {', '.join(arrays)})")
        self.computations.append(f"{name} {{\n" + "\n".join(lines) + " }")

    def text(self):
        lines = [f"  a{k} = {ARRAY} parameter({k})" for k in range(self.count)] + ["  n = s32[] constant(1)"]
        out = self.results(lines, [f"a{k}" for k in range(self.count)], "n", 3)
        lines.append(f"  ROOT t = ({', '.join([ARRAY] * self.count)}) tuple({', '.join(out)})")
        return "HloModule nest\n\n" + "\n".join(self.computations) + "\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("random_module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--by-data", action="store_true")
    parser.add_argument("-d", dest="devices", action="append", default=[])
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nests_"))
    for seed in range(options.seed, options.seed + options.count):
        (folder / f"{seed}.hlo").write_text(Nest(seed, options.by_data).text())
    command = [options.random_module, "--replay", str(folder)]
    for device in options.devices:
        command += ["-d", device]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        shutil.rmtree(folder)
    else:
        print(f"The modules lie in {folder}.")
    return code


if __name__ == "__main__":
    sys.exit(main())
