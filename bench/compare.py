#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""krafla beside its peers on the same recorded programs.

    bench/compare.py FOLDER... --python VENV/bin/python [--only krafla-cpu,xla-cpu] [--rounds 5] [--json RUNS.jsonl]
    bench/compare.py --from RUNS.jsonl              the tables of an earlier session

A FOLDER holds module.hlo, module.mlir, inputs.npz, outputs.npz and meta.json, or such folders. Every round runs each
contender once on each folder, each in its own process, so that a slow minute of the machine falls on all of them.
A cell is the median over the rounds of each process's median. Results are judged by meta.json's tolerance; who is
wrong, fails or is absent is said. Ahead-of-time compilers (IREE) compile once and keep that for all rounds.

The peers come from PyPI: jax (XLA:CPU), iree-base-compiler and iree-base-runtime, onnxruntime, each optional; --python
names the interpreter that has them (with numpy and ml_dtypes, which judging needs).
"""
import argparse
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
CONTENDERS = ["krafla-cpu", "krafla-vulkan", "xla-cpu", "onnxruntime-cpu", "iree-cpu", "iree-vulkan"]
# Whom each is held against: the same processor through the same kind of program.
AGAINST = {"xla-cpu": "krafla-cpu", "onnxruntime-cpu": "krafla-cpu", "iree-cpu": "krafla-cpu", "iree-vulkan": "krafla-vulkan"}


def run(command, limit, cpus):
    """(exit code or None at the time limit, stdout, stderr, peak MB of the largest process started)."""
    limits = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=limits, start_new_session=True)
        expired = threading.Event()

        def stop():
            expired.set()
            os.killpg(process.pid, 9)
        timer = threading.Timer(limit, stop)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode(errors="replace"))
        return None if expired.is_set() else process.returncode, *texts, usage.ru_maxrss / 1024


def last_line(text):
    return (text.strip().splitlines() or ["no message"])[-1][:300]


def row_of(code, out, err, limit):
    """The JSON line that a process printed, or what went wrong with it."""
    if code is None:
        return {"status": "failed", "why": f"not done after {limit:g} s"}
    lines = [l for l in out.splitlines() if l.startswith("{")]
    if not lines or (code != 0 and '"status"' not in lines[-1]):
        return {"status": "failed", "why": f"exit {code}: {last_line(err or out)}"}
    return json.loads(lines[-1])


def run_krafla(a, folder, device, work):
    module = next((folder / n for n in ("module.hlo", "module.pb", "module.mlir", "module.mlirbc") if (folder / n).exists()), None)
    selector = "cpu" if device == "cpu" else a.vulkan
    flags = shlex.split(a.krafla_flags)
    code, out, err, mb = run([a.krafla, "bench", str(folder), "-d", selector, "--min-time", str(a.seconds), "--json", *flags],
                             a.limit, a.cpus)
    row = {"status": "ok", **row_of(code, out, err, a.limit)}
    row["peak_mb"] = mb
    if row["status"] != "ok" or "median_ms" not in row:
        return row
    saved = work / "krafla.npz"
    code, out, err, _ = run([a.krafla, "run", str(module), "--inputs", str(folder / "inputs.npz"), "--save", str(saved),
                             "-d", selector, *flags], a.limit, a.cpus)
    if code != 0:
        return {**row, "status": "failed", "why": f"krafla run: exit {code}: {last_line(err)}"}
    row["placement"] = last_line(err)
    judged = row_of(*run([a.python, str(PEERS / "recorded.py"), str(folder), str(saved)], a.limit, a.cpus)[:3], a.limit)
    saved.unlink()
    if judged["status"] != "ok":
        return {**row, "right": None, "why": "not judged: " + judged["why"]}
    return {**row, **judged}


def run_peer(a, folder, contender, cache):
    script = {"xla-cpu": ["xla_cpu.py", str(folder), str(a.seconds)],
              "onnxruntime-cpu": ["onnxruntime_cpu.py", str(folder), str(a.seconds), a.onnx],
              "iree-cpu": ["iree.py", str(folder), str(a.seconds), "cpu", str(cache), *shlex.split(a.iree_flags)],
              "iree-vulkan": ["iree.py", str(folder), str(a.seconds), "vulkan", str(cache), *shlex.split(a.iree_flags)]}[contender]
    code, out, err, mb = run([a.python, str(PEERS / script[0]), *script[1:]], a.limit, a.cpus)
    row = row_of(code, out, err, a.limit)
    # IREE's tools are children of the driver; their own figure is the one that counts.
    row["peak_mb"] = row.pop("run_peak_mb", mb)
    return row


def folders_of(paths):
    found = []
    for path in map(pathlib.Path, paths):
        if (path / "meta.json").exists():
            found.append(path)
        else:
            found += sorted(p.parent for p in path.rglob("meta.json"))
    return found


# --- Tables.

def median(rows, key):
    values = [r[key] for r in rows if r.get(key) is not None]
    return statistics.median(values) if values else None


def number(x):
    if x is None:
        return "-"
    return f"{x:.3f}" if x < 1 else f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def verdict(rows):
    """(word for the cell, reason) of all the rounds of a contender on a folder: the worst of them."""
    for status in ("failed", "absent"):
        for r in rows:
            if r["status"] == status:
                return status, r.get("why", "")
    for r in rows:
        if r.get("right") is False:
            return "wrong", r["why"]
    for r in rows:
        if r.get("right") is None:
            return "unjudged", r.get("why", "")
    return "", ""


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(out + ["| " + " | ".join(l) + " |" for l in lines]) + "\n"


def tables(runs):
    cases = list(dict.fromkeys(r["case"] for r in runs))
    contenders = [c for c in CONTENDERS if any(r["contender"] == c for r in runs)]
    rows = {}
    for r in runs:
        rows.setdefault((r["case"], r["contender"]), []).append(r)
    words = {key: verdict(value) for key, value in rows.items()}

    def cells(key, mark):
        for case in cases:
            line = [case]
            for c in contenders:
                word = words.get((case, c), ("-", ""))[0]
                value = number(median(rows.get((case, c), []), key))
                if word == "absent" or (word and value == "-"):
                    line.append(word)
                else:
                    line.append(f"{value} ({word})" if word and mark else value)
            yield line

    rounds = max(r["round"] for r in runs) + 1
    text = [f"Milliseconds a run: the median over {rounds} rounds of each process's median.\n",
            table(["program", *contenders], cells("median_ms", True))]

    pairs = [(c, AGAINST[c]) for c in contenders if AGAINST.get(c) in contenders]
    if pairs:
        lines, logs = [], {p: [] for p in pairs}
        for case in cases:
            line = [case]
            for c, ours in pairs:
                a = {r["round"]: r.get("median_ms") for r in rows.get((case, c), [])}
                b = {r["round"]: r.get("median_ms") for r in rows.get((case, ours), [])}
                ratios = sorted(a[n] / b[n] for n in a if a[n] and b.get(n))
                bad = words.get((case, c), ("-", ""))[0] or words.get((case, ours), ("-", ""))[0]
                if bad or not ratios:
                    line.append(bad or "-")
                    continue
                middle = statistics.median(ratios)
                logs[c, ours].append(math.log(middle))
                spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
                line.append(f"{middle:.2f}{spread}")
            lines.append(line)
        means = [f"{math.exp(statistics.mean(v)):.2f} of {len(v)}" if v else "-" for v in logs.values()]
        lines.append(["geometric mean", *means])
        text += ["The peer's time over krafla's in the same round: above 1, krafla is faster (median, range).\n",
                 table(["program", *(f"{c} / {ours}" for c, ours in pairs)], lines)]
    text += ["Milliseconds to compile.\n", table(["program", *contenders], cells("compile_ms", True)),
             "Milliseconds of the first run (a Vulkan driver's own compilation included; for iree, its process's start too).\n",
             table(["program", *contenders], cells("first_ms", True)),
             "Peak resident MB of the process that runs (for the peers in Python, the interpreter included).\n",
             table(["program", *contenders], cells("peak_mb", True))]
    notes = [f"- {case}, {c}: {word}: {why}" for (case, c), (word, why) in words.items() if word]
    if notes:
        text += ["Not right, or not there:\n", "\n".join(notes) + "\n"]
    return "\n".join(text)


def machine():
    model = "an unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}"


def versions(a):
    names = ["jax", "jaxlib", "onnxruntime", "iree-base-compiler", "iree-base-runtime"]
    script = "import importlib.metadata as m, json\nd = {}\nfor n in %r:\n  try: d[n] = m.version(n)\n  except m.PackageNotFoundError: pass\nprint(json.dumps(d))" % names
    found = json.loads(subprocess.run([a.python, "-c", script], capture_output=True, text=True).stdout or "{}")
    missing = [n for n in names if n not in found]
    if missing:
        print(f"compare: {a.python} has no {', '.join(missing)}", file=sys.stderr)
    krafla = subprocess.run([a.krafla, "--version"], capture_output=True, text=True).stdout.strip().replace("\n", ", ")
    return ", ".join([krafla, *(f"{n} {v}" for n, v in found.items())])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folders", nargs="*")
    ap.add_argument("--only", default=",".join(CONTENDERS), help="contenders, by name, separated by commas")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2, help="of timed runs in each process (default 2)")
    ap.add_argument("--limit", type=float, default=900, help="seconds a process may take")
    ap.add_argument("--json", help="append a line for each process to this file")
    ap.add_argument("--from", dest="source", help="only print the tables of such a file")
    ap.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    ap.add_argument("--krafla", default=str(HERE.parent / "build/release/krafla"))
    ap.add_argument("--krafla-flags", default="", help="more arguments of krafla bench and run")
    ap.add_argument("--vulkan", default="vulkan", help="krafla's Vulkan device (default the best one)")
    ap.add_argument("--iree-flags", default="", help="more arguments of iree-compile")
    ap.add_argument("--onnx", default="", help="a folder with NAME.onnx files")
    ap.add_argument("--cpus", help="processors to run on, as 0,1")
    a = ap.parse_args()
    if a.source:
        print(tables([json.loads(l) for l in open(a.source)]))
        return 0
    contenders = a.only.split(",")
    unknown = [c for c in contenders if c not in CONTENDERS]
    folders = folders_of(a.folders)
    if unknown or not folders:
        print(f"compare: no contender '{unknown[0]}' (there are {', '.join(CONTENDERS)})" if unknown else
              "compare: no folder with a meta.json was given", file=sys.stderr)
        return 2
    if not pathlib.Path(a.krafla).exists():
        print(f"compare: {a.krafla} is not there: build it, or say --krafla", file=sys.stderr)
        return 2
    a.cpus = {int(x) for x in a.cpus.split(",")} if a.cpus else None
    print(f"{machine()}. {versions(a)}.\n", flush=True)
    runs, failed = [], False
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for n in range(a.rounds):
            for folder in folders:
                # The order turns from round to round: who comes first finds a colder machine.
                for contender in contenders[n % len(contenders):] + contenders[:n % len(contenders)]:
                    meta = json.loads((folder / "meta.json").read_text())
                    if meta.get("num_partitions", 1) * meta.get("num_replicas", 1) > 1:
                        row = {"status": "absent", "why": "a program for several devices"}
                    elif contender.startswith("krafla-"):
                        row = run_krafla(a, folder, contender.split("-")[1], work)
                    else:
                        row = run_peer(a, folder, contender, work)
                    row.pop("case", None)
                    row = {"case": folder.name, "contender": contender, "round": n, **row}
                    failed |= contender.startswith("krafla-") and verdict([row])[0] in ("failed", "wrong")
                    runs.append(row)
                    print(f"compare: round {n + 1}/{a.rounds} {folder.name} {contender}: "
                          f"{' '.join(filter(None, [number(row.get('median_ms')), *verdict([row])]))}", file=sys.stderr)
                    if a.json:
                        with open(a.json, "a") as f:
                            f.write(json.dumps(row) + "\n")
    print(tables(runs))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
