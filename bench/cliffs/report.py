# SPDX-License-Identifier: Apache-2.0
"""Tables of records, and the comparison with a stored baseline."""
import json
import math
import statistics

SLOWER = 1.3
CLIFF = 10
GROWN = 1.5  # a ratio is worse than the baseline's when it is this many times it, and above 1


def number(x):
    return f"{x:.3f}" if x < 1 else f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(out + ["| " + " | ".join(l) + " |" for l in lines]) + "\n"


def cells(r):
    return [r["case"], number(r["xla_ms"]), number(r["krafla_ms"]), number(r["ratio"]),
            f"{number(r['xla_compile_ms'])} -> {number(r['krafla_compile_ms'])}"]


def tables(records, above):
    timed = sorted((r for r in records if "ratio" in r), key=lambda r: -r["ratio"])
    text = []
    if timed:
        shown = [r for r in timed if r["ratio"] >= above]
        text.append("Milliseconds a call; ratio: krafla's over XLA:CPU's. "
                    f"{len(shown)} of {len(timed)} cases have {above:g} or more.\n")
        text.append(table(["case", "XLA", "krafla", "ratio", "compile"], map(cells, shown)))
        families = {}
        for r in timed:
            families.setdefault(r["family"], []).append(r)
        lines = [family_line(name, rows) for name, rows in sorted(families.items(), key=lambda f: -mean_ratio(f[1]))]
        text.append("By family: the geometric mean of the ratios, and of the times to compile.\n")
        head = ["family", "cases", "ratio", f"above {SLOWER}", f"above {CLIFF}", "worst", "compile ratio"]
        text.append(table(head, [*lines, family_line("all", timed)]))
    wrong = [f"- {r['case']}: {r['wrong']}" for r in records if r.get("wrong")]
    failed = [f"- {r['case']} ({who}): {' '.join(why.split())[:300]}"
              for r in records for who, why in r.get("failed", {}).items()]
    for title, lines in (("Results that differ", wrong), ("Not done", failed)):
        if lines:
            text.append(f"{title}:\n\n" + "\n".join(lines) + "\n")
    return "\n".join(text)


def mean_ratio(rows):
    return geometric_mean(r["ratio"] for r in rows)


def family_line(name, rows):
    compile_ratio = geometric_mean(max(r["krafla_compile_ms"], 0.01) / max(r["xla_compile_ms"], 0.01) for r in rows)
    return [name, str(len(rows)), number(mean_ratio(rows)), str(sum(r["ratio"] > SLOWER for r in rows)),
            str(sum(r["ratio"] > CLIFF for r in rows)), number(max(r["ratio"] for r in rows)), number(compile_ratio)]


def least(runs):
    """One record a case of several runs: the last run's, with the least time that each back end took in any of them."""
    found = {}
    for run in runs:
        for name, r in run.items():
            before = found.get(name)
            if before and "ratio" in before and "ratio" in r:
                times = {key: min(r[key], before[key]) for key in r if key.endswith("_ms") and key in before}
                r = {**r, **times, "ratio": times["krafla_ms"] / times["xla_ms"]}
            found[name] = r
    return found


def baseline_of(records):
    return {r["case"]: float(f"{r['ratio']:.3g}") for r in sorted(records, key=lambda r: r["case"]) if "ratio" in r}


def write_baseline(path, records, before):
    """Cases that were not run keep what the file had."""
    merged = dict(sorted({**before, **baseline_of(records)}.items()))
    path.write_text(json.dumps(merged, indent=0) + "\n")


def slower(record, baseline):
    stored = baseline.get(record["case"])
    return stored is not None and record.get("ratio", 0) > max(1.0, GROWN * stored)


def regressions(records, baseline):
    """Sentences: what is slower than the baseline allows, wrong, or failed on krafla's side."""
    found = []
    for r in records:
        if r.get("wrong"):
            found.append(f"{r['case']}: the results differ: {r['wrong']}")
        if "krafla" in r.get("failed", {}):
            found.append(f"{r['case']}: not done: {r['failed']['krafla']}")
        if slower(r, baseline):
            found.append(f"{r['case']}: {number(r['ratio'])} x XLA's time, {number(baseline[r['case']])} in the baseline")
    return found
