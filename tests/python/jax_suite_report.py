# SPDX-License-Identifier: Apache-2.0
"""Tables from the JUnit files of JAX's test-suite: results by suite, and failures grouped by cause.

  jax_suite_report.py RESULTS [--baseline RESULTS] [--list] [--differences]

RESULTS is a folder of SUITE.xml files. A baseline (the same suites through another plugin, XLA's CPU back end under a
foreign name) tells what JAX itself cannot do on a platform that it does not know: the share in the last column is of
the tests that passed there.
"""
import argparse
import collections
import pathlib
import re
import xml.etree.ElementTree as ET


def outcome(case):
    for kind in ("error", "failure", "skipped"):
        node = case.find(kind)
        if node is not None:
            text = (node.get("message") or "") + "\n" + (node.text or "")
            return ("skipped" if kind == "skipped" else "failed"), text
    return "passed", ""


def read(path):
    cases = {}
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        print(f"{path}: {error}")
        return cases
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name')}"
        # A test whose worker died is named by pytest-xdist with its file.
        if "::" in case.get("name", ""):
            name = ".".join(case.get("name").split("::")[-2:])
        result, text = outcome(case)
        if name in cases and cases[name][0] == "failed":
            continue
        cases[name] = (result, text)
    return cases


# One line for a failure, without what differs from case to case.
def cause(text):
    if "crashed while running" in text or "Not properly terminated" in text:
        return "the process ended (crash or time limit)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    best = ""
    for line in lines:
        line = re.sub(r"^E\s+", "", line)
        if re.match(r"([\w.]*(Error|Exception|Interrupt|Warning|XlaRuntimeError))\b.*", line):
            best = line
            if not line.startswith("AssertionError"):
                break
    best = best or (lines[0] if lines else "?")
    if best.startswith("AssertionError"):
        for line in lines:
            if "Not equal to tolerance" in line or "Mismatched elements" in line or "not close" in line.lower():
                best = "AssertionError: " + re.sub(r"^E\s+", "", line)
                break
    best = re.sub(r"0x[0-9a-f]+", "0x..", best)
    best = re.sub(r"%?[\w.\-]+\.\d+\b", "X", best)
    best = re.sub(r"\b[a-z]+\d*\[[\d,<= ]*\]", "T[..]", best)
    best = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "N", best)
    return best[:160]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--baseline", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="name every failed test")
    parser.add_argument("--differences", action="store_true",
                        help="name every test that fails or is skipped here and passes with the baseline, or the reverse")
    arguments = parser.parse_args()

    totals = collections.Counter()
    causes = collections.defaultdict(list)
    differences = []
    print("| suite | passed | failed | skipped | passed of run | of what the baseline passes |")
    print("|---|---|---|---|---|---|")
    for path in sorted(arguments.results.glob("*.xml")):
        cases = read(path)
        count = collections.Counter(result for result, _ in cases.values())
        ran = count["passed"] + count["failed"]
        share = f"{100 * count['passed'] / ran:.2f} %" if ran else "-"
        against = "-"
        if arguments.baseline and (arguments.baseline / path.name).exists():
            base = read(arguments.baseline / path.name)
            differences += [(path.stem, name, base.get(name, ("absent",))[0], cases.get(name, ("absent",))[0])
                            for name in sorted(cases.keys() | base.keys())]
            both = [n for n in cases if base.get(n, ("",))[0] == "passed" and cases[n][0] != "skipped"]
            ok = sum(cases[n][0] == "passed" for n in both)
            totals["both"] += len(both)
            totals["both_ok"] += ok
            if both:
                against = f"{100 * ok / len(both):.2f} % of {len(both)}"
        print(f"| {path.stem} | {count['passed']} | {count['failed']} | {count['skipped']} | {share} | {against} |")
        totals.update(count)
        for name, (result, text) in cases.items():
            if result == "failed":
                causes[cause(text)].append(f"{path.stem}: {name}")
    ran = totals["passed"] + totals["failed"]
    against = f"{100 * totals['both_ok'] / totals['both']:.2f} % of {totals['both']}" if totals["both"] else "-"
    print(f"| all | {totals['passed']} | {totals['failed']} | {totals['skipped']} | "
          f"{100 * totals['passed'] / max(ran, 1):.2f} % | {against} |")
    if causes:
        print("\n| failures | cause | for example |\n|---|---|---|")
        for text, names in sorted(causes.items(), key=lambda item: -len(item[1])):
            print(f"| {len(names)} | {text.replace('|', '/')} | {names[0]} |")
    if arguments.differences:
        print("\n| suite | test | with the baseline | here |\n|---|---|---|---|")
        for suite, name, there, here in differences:
            if there != here:
                print(f"| {suite} | {name} | {there} | {here} |")
    if arguments.list:
        print()
        for text, names in sorted(causes.items(), key=lambda item: -len(item[1])):
            for name in names:
                print(f"{name}  [{text}]")


if __name__ == "__main__":
    main()
