#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells what a run of ctest did, from its JUnit file: what was skipped and why, what failed, and the counts.

  test_summary.py JUNIT_FILE

What a test that failed printed is given without the cases of it that passed, at most 120 lines of each test. A ctest
entry that was skipped is counted as skipped, not as passed. Cases that a test program skipped inside (GoogleTest, unittest)
are listed and counted too. The last line has the counts. Exit: 0 nothing failed, 1 something did, 2 no such file.
"""
import re
import sys
import xml.etree.ElementTree as ET


def skipped_cases(output):
    """(case, reason) of what GoogleTest says; unittest gives the number alone."""
    out = []
    for block, name in re.findall(r"^\[ RUN      \] [^\n]*\n((?:(?!^\[ RUN ).*\n)*?)^\[  SKIPPED \] (\S+)", output, re.M):
        reason = re.sub(r"^.*: Skipped\n", "", block, flags=re.M).strip()
        out.append((name, " ".join(reason.split()) or "gave no reason"))
    for count in re.findall(r"^OK \(skipped=(\d+)\)", output, re.M):
        reasons = re.findall(r"skipped ['\"](.*)['\"]$", output, re.M)
        out += [("a case", reasons[i] if i < len(reasons) else "see its output") for i in range(int(count))]
    return out


def excerpt(output):
    """The lines of a test that failed which say why: GoogleTest's without cases that passed or were skipped."""
    shown = re.sub(r"^\[ RUN      \] (\S+)\n(?:(?!\[ RUN ).*\n)*?\[ +(?:OK|SKIPPED) +\] \1.*\n", "", output, flags=re.M)
    lines = [line for line in shown.splitlines() if line.strip() and not re.match(r"\[-{10}\]|\[  SKIPPED \]", line)]
    if len(lines) > 120:
        lines = lines[:60] + [f"({len(lines) - 120} lines left out)"] + lines[-60:]
    return ["    " + line for line in lines]


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "gave no reason"


def summarize(root):
    """The lines to print, and how many failed."""
    passed, failed, skipped, inside, excerpts = 0, [], [], {}, []
    for case in root.iter("testcase"):
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        if case.find("skipped") is not None or status in ("notrun", "disabled"):
            skip = case.find("skipped")
            returned = skip is not None and "SKIP_RE" in (skip.get("message") or "")
            if returned or status == "disabled":
                skipped.append((name, last_line(output)))
            else:  # such as a program that was not built: that is not a choice of the test
                failed.append((name, f"did not run ({skip.get('message') if skip is not None else status})"))
            continue
        if status != "run":
            failed.append((name, last_line(output)))
            excerpts += [f"output of {name}:", *excerpt(output)]
            continue
        passed += 1
        for case_name, reason in skipped_cases(output):
            inside.setdefault(reason, []).append(f"{name}: {case_name}")
    lines = [f"skipped: {name}: {reason}" for name, reason in skipped]
    for reason, names in inside.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"skipped within: {', '.join(names[:3])}{more}: {reason}")
    lines += excerpts + [f"FAILED: {name}: {reason}" for name, reason in failed]
    count = sum(len(names) for names in inside.values())
    within = f" (and {count} cases within those that passed)" if count else ""
    lines.append(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped{within}")
    return lines, len(failed)


def main():
    try:
        root = ET.parse(sys.argv[1]).getroot()
    except (IndexError, OSError, ET.ParseError) as error:
        print(f"test_summary.py: no results could be read: {error}", file=sys.stderr)
        return 2
    lines, failed = summarize(root)
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
