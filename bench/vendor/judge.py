# SPDX-License-Identifier: Apache-2.0
"""One row per chip and module, and its comparison with the stored baseline."""
import json

# A module's ratio of instructions per matrix instruction (or FMA) may grow by so much before the comparison fails, and
# its spills by so much: compilers' heuristics move both a little with any change.
RATIO_LIMIT = 1.10
SPILL_LIMIT = 1.05


def row(program):
    """Of a module's kernels: refusals, the sum of spills, and the figures of its main kernel: the one whose hot loop has
    the most matrix instructions, else FMAs, else that has the most instructions."""
    kernels = program.kernels
    refused = [program.message] if program.message else []
    refused += [f"{k.variant} ({k.name}): {k.result['error']}" for k in kernels if "error" in k.result]
    good = [k for k in kernels if "error" not in k.result]
    out = {"refused": refused, "on_cpu": [f"{name}: {why}" for name, why in program.on_cpu],
           "spills": sum(k.result["spills"] for k in good), "kernels": len(kernels)}
    if not good:
        return out

    def weight(k):
        hot = k.result.get("hot")
        return (hot is not None and hot["of"] == "matrix", hot[hot["of"]] if hot else 0, k.result["instructions"])

    main = max(good, key=weight)
    r = main.result
    out |= {"variant": main.variant, "local": main.local, "groups": main.groups}
    out |= {key: r[key] for key in ("registers", "occupancy", "instructions", "estimate", "subgroup", "ms")}
    if r.get("hot"):
        out["of"] = r["hot"]["of"]
        out["ratio"] = round(r["hot"]["all"] / r["hot"][r["hot"]["of"]], 2)
        out["hot"] = r["hot"]
    return out


def rows(results):
    return {chip: {name: row(program) for name, program in modules.items()} for chip, modules in results.items()}


def baseline_of(table, versions):
    """What is stored: a module's spills, how much of it runs on the CPU, and its ratio where it has one."""
    chips = {}
    for chip, modules in table.items():
        chips[chip] = {name: {"spills": r["spills"], "on_cpu": len(r["on_cpu"])} |
                             {key: r[key] for key in ("of", "ratio") if key in r}
                       for name, r in modules.items() if not r["refused"]}
    return {"mesa": versions, "chips": chips}


def write_baseline(path, baseline):
    """A line per module, so that a change is a readable difference. Chips that were not asked stay as they are."""
    if path.exists():
        before = json.loads(path.read_text())
        baseline = {part: before[part] | baseline[part] for part in ("mesa", "chips")}
    lines = ['{"mesa": ' + json.dumps(baseline["mesa"]) + ',', ' "chips": {']
    for chip, modules in baseline["chips"].items():
        lines.append(f'  "{chip}": {{')
        lines += [f"   {json.dumps(name)}: {json.dumps(r)}," for name, r in modules.items()]
        lines[-1] = lines[-1].rstrip(",") + "},"
    lines[-1] = lines[-1].rstrip(",") + "}}"
    path.write_text("\n".join(lines) + "\n")


def compare(table, versions, baseline):
    """(failures, changes): what must not be, and what is told. Refusals fail whatever the baseline says; spills and
    ratios are judged only against figures of the same drivers."""
    failures, changes = [], []
    for chip, modules in table.items():
        known = baseline["chips"].get(chip, {})
        judged = baseline["mesa"].get(chip) == versions[chip]
        if not judged:
            changes.append(f"{chip}: the baseline is of Mesa {baseline['mesa'].get(chip)}, the driver of "
                           f"{versions[chip]}: spills and ratios are not judged.")
        for name, r in modules.items():
            where = f"{chip} {name}"
            failures += [f"{where}: refused: {why}" for why in r["refused"]]
            then = known.get(name)
            if then is None:
                changes.append(f"{where}: is not in the baseline.")
                continue
            if r["refused"]:
                continue
            if len(r["on_cpu"]) > then["on_cpu"]:
                failures.append(f"{where}: {len(r['on_cpu'])} kernels are left to the CPU, were {then['on_cpu']}: "
                                f"{'; '.join(r['on_cpu'])[:300]}")
            if not judged:
                continue
            if r["spills"] > then["spills"] * SPILL_LIMIT:
                failures.append(f"{where}: spills {r['spills']}, were {then['spills']}.")
            elif r["spills"] != then["spills"]:
                changes.append(f"{where}: spills {r['spills']}, were {then['spills']}.")
            if "ratio" not in then:
                continue
            if then["of"] == "matrix" and r.get("of") != "matrix":
                failures.append(f"{where}: matrix instructions are no longer used.")
            elif "ratio" in r and r["of"] == then["of"]:
                text = f"{where}: {r['ratio']} instructions per {NAME[r['of']]}, were {then['ratio']}."
                if r["ratio"] > then["ratio"] * RATIO_LIMIT:
                    failures.append(text)
                elif r["ratio"] < then["ratio"] / RATIO_LIMIT:
                    changes.append(text)
    return failures, changes


NAME = {"matrix": "matrix instruction", "fma": "FMA"}
