# SPDX-License-Identifier: Apache-2.0
"""Tables of rows (judge.py), for people."""
import json
import pathlib

PEERS = pathlib.Path(__file__).resolve().parent / "peers.json"
# What --worst sorts by: name -> figure of a row; None: the row has none.
FIGURES = {
    "ratio": lambda r: r.get("ratio"),
    "spills": lambda r: r["spills"],
    "registers": lambda r: r.get("registers"),
    "instructions": lambda r: r.get("instructions"),
    "estimate": lambda r: r.get("estimate"),
    "address": lambda r: r["hot"].get("address64", 0) / r["hot"][r["of"]] if r.get("hot") else None,
    "lds": lambda r: r["hot"].get("lds", 0) / r["hot"][r["of"]] if r.get("hot") else None,
    "ms": lambda r: r.get("ms"),
}
HEAD = ("chip", "module", "kernel", "groups x lanes", "reg", "spill", "occ", "instr", "estimate", "per", "instr/",
        "int/", "addr64/", "lds/", "spill/", "memory of the loop")


def peers():
    """{(chip, module): the least instructions per matrix instruction or FMA of a peer's kernel}."""
    out = {}
    for p in json.loads(PEERS.read_text())["kernels"]:
        key = (p["chip"], p["module"])
        if key not in out or p["ratio"] < out[key]["ratio"]:
            out[key] = p
    return out


def cells(chip, name, r):
    if r["refused"]:
        return [chip, name, "REFUSED: " + "; ".join(r["refused"])[:150]] + [""] * (len(HEAD) - 3)
    if not r["kernels"]:
        return [chip, name, "no kernels"] + [""] * (len(HEAD) - 3)
    hot = r.get("hot")
    out = [chip, name, r["variant"], f"{r['groups']} x {r['local']}", r["registers"], r["spills"],
           "-" if r["occupancy"] is None else r["occupancy"], r["instructions"], r["estimate"]]
    if not hot:
        return list(map(str, out)) + [""] * (len(HEAD) - len(out))
    count = hot[hot["of"]]
    per = [f"{hot.get(kind, 0) / count:.2f}" for kind in ("int", "address64", "lds", "spill")]
    memory = " ".join(f"{k} x{n}" for k, n in sorted(hot.items()) if k.startswith(("load.", "store.")))
    return list(map(str, out)) + [hot["of"], f"{r['ratio']:.2f}"] + per + [memory]


def print_table(head, lines, markdown=False):
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    widths = [max(len(line[i]) for line in [list(head)] + lines) for i in range(len(head))]
    widths[2] = min(widths[2], 60)  # a refusal's message
    for line in [list(head)] + lines:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip())


def print_rows(table, worst, limit, markdown):
    """Worst first by a figure; refusals before all."""
    every = [(chip, name, r) for chip, modules in table.items() for name, r in modules.items()]
    figure = FIGURES[worst]
    every.sort(key=lambda e: (not e[2]["refused"], -(figure(e[2]) or 0)))
    print_table(HEAD, [cells(*e) for e in every[:limit]], markdown)
    if len(every) > limit:
        print(f"... and {len(every) - limit} more (--limit)")


def print_summary(table, versions, markdown=False):
    """A line per chip."""
    lines = []
    for chip, modules in table.items():
        spilling = [(r["spills"], name) for name, r in modules.items() if r["spills"]]
        matrix = [r for r in modules.values() if r.get("of") == "matrix"]
        worst = "%d in %s" % max(spilling) if spilling else "-"
        lines.append([chip, versions[chip], str(len(modules)), str(sum(r["kernels"] for r in modules.values())),
                      str(sum(len(r["refused"]) for r in modules.values())),
                      str(sum(len(r["on_cpu"]) for r in modules.values())), str(len(spilling)), worst,
                      str(len(matrix))])
    print_table(("chip", "Mesa", "modules", "kernels", "refused", "left to the CPU", "modules that spill",
                 "worst spills", "modules with matrix instructions"), lines, markdown)


def print_grid(table, markdown=False):
    """Modules down, chips across: instructions per matrix instruction or FMA of the hot loop, then spills."""
    def cell(r):
        if r is None:
            return ""
        if r["refused"]:
            return "refused"
        ratio = f"{r['ratio']:.1f}{'m' if r['of'] == 'matrix' else ''}" if "ratio" in r else "."
        return ratio + (f" s{r['spills']}" if r["spills"] else "")

    names = list(dict.fromkeys(name for modules in table.values() for name in modules))
    lines = [[name] + [cell(modules.get(name)) for modules in table.values()] for name in names]
    print_table(("module", *table), lines, markdown)


def print_peers(table, markdown=False):
    lines = []
    for (chip, name), p in peers().items():
        r = table.get(chip, {}).get(name)
        if r and r.get("ratio"):
            of = r["of"] if r["of"] == p["of"] else f"{r['of']}, theirs {p['of']}"
            lines.append([chip, name, of, f"{r['ratio']:.1f}", f"{p['ratio']:.1f}", p["kernel"],
                          f"{r['ratio'] / p['ratio']:.2f}" if r["of"] == p["of"] else "-"])
    if lines:
        print()
        print_table(("chip", "module", "per", "krafla", "peer", "peer's kernel", "krafla / peer"), lines, markdown)
