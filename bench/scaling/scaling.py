#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An alpha-beta model of programs over many devices (docs/scaling.md).

    scaling.py fit COLLECTIVES.jsonl...            # latency and bandwidth of what was measured
    scaling.py predict [--links LINKS.json] [--step-ms MS] [--machine N] ...   # a step on 8, 64 and 1,024 GPUs
    scaling.py program KIND DEVICES                # the text of one of the programs below
    scaling.py check KRAFLA [--devices 1,2,4,8]    # predicted and measured steps on virtual devices of the CPU

COLLECTIVES.jsonl: what `krafla bench --collectives --json` prints, of one or several numbers of devices."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


# ---- the model -----------------------------------------------------------------------------------------------------

class Link:
    """What a message costs: seconds, and seconds a byte."""

    def __init__(self, latency_us, gb_per_s):
        self.alpha = latency_us * 1e-6
        self.beta = 1e-9 / gb_per_s

    def all_reduce(self, n, size):
        """A ring: n - 1 steps that add up, as many that spread the sums, a share of 1/n each."""
        return 0.0 if n < 2 else 2 * (n - 1) * (self.alpha + size / n * self.beta)

    def reduce_scatter(self, n, size):
        return 0.0 if n < 2 else (n - 1) * (self.alpha + size / n * self.beta)

    all_gather = reduce_scatter

    def send(self, size):
        return self.alpha + size * self.beta


class Cluster:
    """Machines of `per_machine` GPUs; all GPUs of a machine share its port to the others."""

    def __init__(self, inner, outer, per_machine):
        self.inner, self.outer, self.per_machine = inner, outer, per_machine

    def all_reduce(self, n, size):
        """Within each machine first, then the shares between machines, then within again."""
        inside = min(n, self.per_machine)
        machines = math.ceil(n / self.per_machine)
        time = self.inner.reduce_scatter(inside, size) + self.inner.all_gather(inside, size)
        # The GPUs of a machine send their shares at once, through one port.
        return time + self.outer.all_reduce(machines, size)

    def send(self, n, size):
        """To the next stage of a pipeline; with more stages than a machine has GPUs the slowest hop counts."""
        return (self.inner if n <= self.per_machine else self.outer).send(size)


def data_parallel(compute_s, cluster, n, gradient_bytes, backward_share=2 / 3, overlap=True):
    """Each device has a batch of its own; gradients are summed, while the backward pass goes on or after it."""
    exchange = cluster.all_reduce(n, gradient_bytes)
    return compute_s + (max(0.0, exchange - backward_share * compute_s) if overlap else exchange)


def tensor_parallel(compute_s, cluster, n, activation_bytes, layers, sums_a_layer=2):
    """Each layer is shared out; what its two products give is summed before the next one can begin."""
    return compute_s / n + layers * sums_a_layer * cluster.all_reduce(n, activation_bytes)


def pipeline_parallel(compute_s, cluster, n, activation_bytes, microbatches, overlap=True):
    """Each device has some of the layers; a microbatch is worked on while the one before is sent."""
    part = compute_s / n / microbatches
    hop = 0.0 if n < 2 else cluster.send(n, activation_bytes / microbatches)
    turn = max(part, hop) if overlap else part + hop
    return (microbatches + n - 1) * turn


# ---- what was measured ---------------------------------------------------------------------------------------------

def fit(points):
    """alpha and beta of time = alpha + beta * bytes, for the least relative errors. points: (bytes, seconds)."""
    # Weighted by 1 / time^2: a large message must not drown the small ones.
    s = sx = sxx = sy = sxy = 0.0
    for x, y in points:
        w = 1 / (y * y)
        s, sx, sxx, sy, sxy = s + w, sx + w * x, sxx + w * x * x, sy + w * y, sxy + w * x * y
    determinant = s * sxx - sx * sx
    if determinant <= 0:
        raise ValueError("measurements of at least two sizes are needed")
    beta = max(0.0, (s * sxy - sx * sy) / determinant)
    alpha = max(0.0, (sy - beta * sx) / s)
    return alpha, beta


def read_collectives(paths):
    """{(collective, devices): [(bytes, seconds)]}"""
    out = {}
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if row.get("wrong"):
                raise ValueError(f"{path}: {row['collective']} of {row['bytes']} bytes gave wrong elements")
            out.setdefault((row["collective"], row["devices"]), []).append((row["bytes"], row["median_us"] * 1e-6))
    return out


def print_fits(measured):
    print(f"{'collective':<22}{'devices':>8}{'latency us':>12}{'GB/s':>9}{'worst error':>13}")
    for (name, devices), points in sorted(measured.items()):
        alpha, beta = fit(points)
        worst = max(abs(alpha + beta * x - y) / y for x, y in points)
        rate = f"{1e-9 / beta:9.2f}" if beta > 0 else f"{'-':>9}"
        print(f"{name:<22}{devices:>8}{alpha * 1e6:>12.1f}{rate}{worst:>12.0%}")


# ---- predictions ---------------------------------------------------------------------------------------------------

def predictions(cluster, step_s, options, counts=(8, 64, 1024)):
    """Rows: kind of parallelism, GPUs, step in ms without and with overlap, efficiency with it."""
    rows = []
    for n in counts:
        dp = [data_parallel(step_s, cluster, n, options.gradient_mb * 1e6, overlap=o) for o in (False, True)]
        rows.append(("data", n, dp[0], dp[1], step_s / dp[1]))
    for n in counts:
        tp = tensor_parallel(step_s, cluster, n, options.activation_mb * 1e6, options.layers)
        rows.append(("tensor", n, tp, tp, step_s / n / tp))
    for n in counts:
        if n > options.layers:
            continue
        pp = [pipeline_parallel(step_s, cluster, n, options.activation_mb * 1e6, options.microbatches, overlap=o)
              for o in (False, True)]
        rows.append(("pipeline", n, pp[0], pp[1], step_s / n / pp[1]))
    return rows


def predict(options):
    links = json.loads(pathlib.Path(options.links).read_text())
    inner, outer = (Link(links[k]["latency_us"], links[k]["gb_per_s"]) for k in ("pcie", "network"))
    cluster = Cluster(inner, outer, options.machine)
    print(f"a step of {options.step_ms} ms on one GPU, {options.layers} layers, gradients of {options.gradient_mb} MB, "
          f"activations of {options.activation_mb} MB, {options.microbatches} microbatches, "
          f"{options.machine} GPUs a machine")
    print(f"{'parallel':<10}{'GPUs':>6}{'ms':>12}{'ms, overlapped':>16}{'efficiency':>12}")
    for kind, n, plain, overlapped, efficiency in predictions(cluster, options.step_ms * 1e-3, options):
        print(f"{kind:<10}{n:>6}{plain * 1e3:>12.2f}{overlapped * 1e3:>16.2f}{efficiency:>12.0%}")


# ---- predicted and measured on virtual devices ---------------------------------------------------------------------

HEAD = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"


def data_program(n, rows, width):
    """A gradient of one layer, summed over replicas."""
    dot = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    return (f"HloModule data, replica_count={n}\n{HEAD}ENTRY e {{ x = f32[{rows},{width}] parameter(0) "
            f"y = f32[{rows},{width}] parameter(1) g = f32[{width},{width}] dot(x, y), {dot} "
            f"ROOT s = f32[{width},{width}] all-reduce(g), replica_groups={{}}, to_apply=sum }}\n")


def tensor_program(n, rows, width, layers):
    """Layers of two products: the first one's columns and the second one's rows are shared out."""
    part = width // n
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = (f"HloModule tensor, replica_count={n}\n{HEAD}ENTRY e {{ x0 = f32[{rows},{width}] parameter(0) "
            f"a = f32[{width},{part}] parameter(1) b = f32[{part},{width}] parameter(2) ")
    for l in range(layers):
        text += (f"h{l} = f32[{rows},{part}] dot(x{l}, a), {dot} t{l} = f32[{rows},{part}] tanh(h{l}) "
                 f"p{l} = f32[{rows},{width}] dot(t{l}, b), {dot} "
                 f"x{l + 1} = f32[{rows},{width}] all-reduce(p{l}), replica_groups={{}}, to_apply=sum ")
    return text + f"ROOT r = f32[{rows},{width}] negate(x{layers}) }}\n"


def pipeline_program(n, rows, width, turns):
    """Each turn of a loop works on one microbatch and hands the one before on."""
    ring = ",".join(f"{{{d},{(d + 1) % n}}}" for d in range(n))
    state = f"(s32[], f32[{rows},{width}], f32[{width},{width}])"
    get = "get-tuple-element(p), index="
    return (f"HloModule pipeline, replica_count={n}\n"
            f"again {{ p = {state} parameter(0) i = s32[] {get}0 m = s32[] constant({turns}) "
            f"ROOT c = pred[] compare(i, m), direction=LT }}\n"
            f"turn {{ p = {state} parameter(0) i = s32[] {get}0 x = f32[{rows},{width}] {get}1 "
            f"w = f32[{width},{width}] {get}2 one = s32[] constant(1) j = s32[] add(i, one) "
            f"h = f32[{rows},{width}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} "
            f"y = f32[{rows},{width}] tanh(h) "
            f"s = f32[{rows},{width}] collective-permute(y), source_target_pairs={{{ring}}} "
            f"ROOT t = {state} tuple(j, s, w) }}\n"
            f"ENTRY e {{ x = f32[{rows},{width}] parameter(0) w = f32[{width},{width}] parameter(1) "
            f"zero = s32[] constant(0) t = {state} tuple(zero, x, w) l = {state} while(t), condition=again, body=turn "
            f"ROOT r = f32[{rows},{width}] get-tuple-element(l), index=1 }}\n")


def gradients_program(n, rows, width, layers):
    """A backward pass: the gradient of each layer is summed over replicas, and the next one's does not need it."""
    text = (f"HloModule gradients, replica_count={n}\n{HEAD}ENTRY e {{ x = f32[{rows},{width}] parameter(0) "
            f"d{layers} = f32[{rows},{width}] parameter(1) w = f32[{width},{width}] parameter(2) "
            f"r = f32[] constant(0.01) rate = f32[{width},{width}] broadcast(r), dimensions={{}} ")
    for l in reversed(range(layers)):
        text += (f"grad{l} = f32[{width},{width}] dot(x, d{l + 1}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} "
                 f"sum{l} = f32[{width},{width}] all-reduce(grad{l}), replica_groups={{}}, to_apply=sum "
                 f"update{l} = f32[{width},{width}] multiply(sum{l}, rate) new{l} = f32[{width},{width}] subtract(w, update{l}) "
                 f"p{l} = f32[{rows},{width}] dot(d{l + 1}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} "
                 f"d{l} = f32[{rows},{width}] tanh(p{l}) ")
    names = [f"new{l}" for l in range(layers)]
    types = ", ".join([f"f32[{width},{width}]"] * layers)
    return text + f"ROOT t = ({types}) tuple({', '.join(names)}) }}\n"


class Machine:
    """krafla on virtual devices of the CPU, which share its processors."""

    def __init__(self, krafla, seconds):
        self.krafla, self.seconds = krafla, seconds

    def run(self, *words):
        done = subprocess.run([self.krafla, *words, "--json"], check=True, text=True, stdout=subprocess.PIPE)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def step(self, text, n):
        with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
            file.write(text)
            file.flush()
            return self.run("bench", file.name, "-d", f"cpu*{n}", "--min-time", str(self.seconds))[0]["min_ms"] * 1e-3

    def collective(self, name, n, sizes):
        """alpha and beta on n devices; nothing on one."""
        if n < 2:
            return 0.0, 0.0
        points = []
        for row in self.run("bench", "--collectives", "-d", f"cpu*{n}", "--ops", name, "--sizes", sizes, "--min-time",
                            str(self.seconds)):
            if row["collective"] == name:
                points.append((row["bytes"], row["min_us"] * 1e-6))
        return fit(points)


def without_collectives(text):
    """The same work with nothing between the devices."""
    for word in (", replica_groups={}, to_apply=sum",):
        text = text.replace(word, "")
    text = text.replace("all-reduce(", "negate(")
    while (at := text.find("collective-permute(")) >= 0:
        end = text.index("}}", at) + 2
        text = text[:at] + "negate(" + text[at + len("collective-permute("):text.index(",", at)] + text[end:]
    return text


def check(options):
    # The least of many runs: what others on the machine take is not to be predicted.
    machine = Machine(options.krafla, options.seconds)
    rows, width, layers, turns = 64, 512, 4, 16
    size = 4 * rows * width
    print(f"{'parallel':<10}{'devices':>8}{'measured ms':>13}{'predicted ms':>14}{'error':>8}")
    worst = 0.0
    for n in options.devices:
        sums = machine.collective("all-reduce", n, "16K:4M")
        hops = machine.collective("collective-permute", n, "16K:4M")
        for kind, text, exchange in (
                ("data", data_program(n, rows, width), sums[0] + sums[1] * 4 * width * width),
                ("tensor", tensor_program(n, rows, width, layers), layers * (sums[0] + sums[1] * size)),
                ("pipeline", pipeline_program(n, rows, width, turns), turns * (hops[0] + hops[1] * size))):
            predicted = machine.step(without_collectives(text), n) + exchange
            measured = machine.step(text, n)
            error = predicted / measured - 1
            worst = max(worst, abs(error))
            print(f"{kind:<10}{n:>8}{measured * 1e3:>13.3f}{predicted * 1e3:>14.3f}{error:>8.0%}")
    print(f"worst error {worst:.0%}")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("fit")
    one.add_argument("files", nargs="+")
    one = commands.add_parser("predict")
    one.add_argument("--links", default=HERE / "links.json", help="latency and bandwidth of `pcie` and `network`")
    one.add_argument("--machine", type=int, default=8, help="GPUs of a machine (8)")
    one.add_argument("--step-ms", type=float, default=100, help="a step on one GPU, by `krafla bench` (100)")
    one.add_argument("--gradient-mb", type=float, default=1000)
    one.add_argument("--activation-mb", type=float, default=8)
    one.add_argument("--layers", type=int, default=64)
    one.add_argument("--microbatches", type=int, default=64)
    one = commands.add_parser("program")
    one.add_argument("kind", choices=["data", "tensor", "pipeline", "gradients"])
    one.add_argument("devices", type=int)
    one = commands.add_parser("check")
    one.add_argument("krafla")
    one.add_argument("--devices", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2, 4, 8])
    one.add_argument("--seconds", type=float, default=0.5, help="of each measurement (0.5)")
    options = parser.parse_args()
    if options.command == "fit":
        print_fits(read_collectives(options.files))
    elif options.command == "predict":
        predict(options)
    elif options.command == "program":
        n = options.devices
        sys.stdout.write({"data": lambda: data_program(n, 64, 512), "tensor": lambda: tensor_program(n, 64, 512, 4),
                          "pipeline": lambda: pipeline_program(n, 64, 512, 16),
                          "gradients": lambda: gradients_program(n, 256, 1024, 6)}[options.kind]())
    else:
        check(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
