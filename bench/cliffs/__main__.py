# SPDX-License-Identifier: Apache-2.0
"""Operations on which krafla is far slower than XLA:CPU: some 1300 cases in the sizes that programs have.

    VENV/bin/python bench/cliffs [--family conv] [--filter REGEX] [--json RUNS.jsonl [--resume]]
    VENV/bin/python bench/cliffs --baseline bench/cliffs/baseline.json      exit code 1 where krafla has become slower
    VENV/bin/python bench/cliffs --from RUNS.jsonl                          the tables of an earlier run

Both back ends run each case through JAX, each in a process of its own: compiled once, results compared, then timed in
turns (A B A B). A time is the least of several calls, of processor time on one thread pinned to one core unless --clock
and --threads say otherwise; the ratio is krafla's over XLA's.

Exit codes: 0 done, 1 worse than the baseline (with --baseline: slower, wrong or failed), 2 usage, or a back end that
does not start, 130 interrupted.
"""
import argparse
import json
import os
import pathlib
import re
import sys
import time

import report
from backend import Backend, Gone, environment

HERE = pathlib.Path(__file__).resolve().parent
INTERRUPTED = 130
AGAIN = 3  # times that a case worse than the baseline is measured again
LIBRARY = HERE.parent.parent / "build/release/libpjrt_krafla.so"


def parse():
    ap = argparse.ArgumentParser(prog="bench/cliffs", description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--filter", metavar="REGEX", help="only cases whose name it is found in")
    ap.add_argument("--family", help="only these families, separated by commas")
    ap.add_argument("--cases", metavar="FILE.py", help="the cases that this file declares, as families/*.py do, not those")
    ap.add_argument("--list", action="store_true", help="print the names of the cases and end")
    ap.add_argument("--device", default="cpu", help="krafla's device, as KRAFLA_DEVICE has it (default cpu)")
    ap.add_argument("--clock", choices=("cpu", "wall"), default="cpu", help="processor time (default) or wall time")
    ap.add_argument("--threads", choices=("1", "all"), default="1", help="one thread on one core (default), or all")
    ap.add_argument("--core", type=int, help="the core to run on with --threads 1 (default: the last allowed one)")
    ap.add_argument("--budget", type=float, default=12, help="milliseconds of calls in each of the rounds (default 12)")
    ap.add_argument("--limit", type=float, default=120,
                    help="seconds that a case may take to compile or to measure (default 120)")
    ap.add_argument("--above", type=float, default=report.SLOWER,
                    help="the table shows ratios from here on (default 1.3; 0: all)")
    ap.add_argument("--json", metavar="FILE", help="append a line for each case to this file")
    ap.add_argument("--resume", action="store_true", help="do not run again what --json's file has already")
    ap.add_argument("--from", dest="sources", nargs="+", default=[], metavar="FILE",
                    help="run nothing, take such files; of several, the least times of each case")
    ap.add_argument("--baseline", metavar="FILE",
                    help=f"name cases with more than {report.GROWN} times its ratio, and more than 1")
    ap.add_argument("--write-baseline", metavar="FILE", help="store the ratios; cases that are not run keep theirs")
    ap.add_argument("--library", default=os.environ.get("KRAFLA_PJRT_LIBRARY", str(LIBRARY)),
                    help="krafla's PJRT plugin")
    return ap.parse_args()


def read_lines(path):
    """The last record of each case; a line cut short by an interruption is left out."""
    found = {}
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["case"]] = record
    return found


def refuse(text):
    print(f"cliffs: {text}", file=sys.stderr)
    return 2


def chosen_cases(a):
    import cases

    declared = cases.load(a.cases).values()
    wanted = set(a.family.split(",")) if a.family else None
    known = {c.family for c in declared}
    if wanted and wanted - known:
        raise ValueError(f"no family '{sorted(wanted - known)[0]}' (there are {', '.join(sorted(known))})")
    return [c for c in declared
            if (wanted is None or c.family in wanted) and (not a.filter or re.search(a.filter, c.name))]


def measure(a, chosen, done, mode, baseline):
    """Yields a record a case. One that is worse than the baseline is measured again before that is believed."""
    import session

    core = None
    if a.threads == "1":
        core = a.core if a.core is not None else max(os.sched_getaffinity(0))
    peer = Backend("xla", environment(None, a.threads, None), core, a.clock, a.budget, a.cases)
    ours = Backend("krafla", environment(a.device, a.threads, a.library), core, a.clock, a.budget, a.cases)
    show = sys.stderr.isatty()
    try:
        peer.start()
        ours.start()
        print(f"XLA: {peer.versions}. krafla: {ours.versions}. {mode}. Load {os.getloadavg()[0]:.1f}.\n", flush=True)
        for n, case in enumerate(chosen):
            if show:
                print(f"\r\033[K{n + 1}/{len(chosen)} {case.name}", end="", file=sys.stderr, flush=True)
            if case.name in done:
                yield done[case.name]
                continue
            start = time.monotonic()
            record = session.run(case, peer, ours, a.limit)
            for _ in range(AGAIN):
                if report.slower(record, baseline):
                    again = session.run(case, peer, ours, a.limit)
                    record = report.least([{case.name: record}, {case.name: again}])[case.name]
            yield {**record, "mode": mode, "seconds": round(time.monotonic() - start, 3)}
    finally:
        if show:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        peer.stop()
        ours.stop()


def run(a, chosen, mode, baseline):
    """(records, whether it came to the end). Each record is in --json's file when the next case begins."""
    lines = pathlib.Path(a.json) if a.json else None
    done = {}
    if lines and lines.exists():
        if a.resume:
            done = {name: r for name, r in read_lines(lines).items() if r.get("mode") == mode}
        if not lines.read_text().endswith("\n"):
            with open(lines, "a") as f:  # after a line that was cut short
                f.write("\n")
    records = []
    try:
        for record in measure(a, chosen, done, mode, baseline):
            if lines and record["case"] not in done:
                with open(lines, "a") as f:
                    f.write(json.dumps(record) + "\n")
            records.append(record)
    except KeyboardInterrupt:
        print(f"cliffs: interrupted after {len(records)} of {len(chosen)} cases", file=sys.stderr)
    return records, len(records) == len(chosen)


def main():
    a = parse()
    for path in filter(None, (a.baseline, a.cases, *a.sources)):
        if not pathlib.Path(path).exists():
            return refuse(f"{path} is not there")
    if a.resume and not a.json:
        return refuse("--resume needs --json FILE, where the earlier results are")
    try:
        baseline = json.loads(pathlib.Path(a.baseline).read_text()) if a.baseline else {}
    except ValueError as e:
        return refuse(f"{a.baseline} is no JSON: {e}")
    try:
        chosen = chosen_cases(a)
    except (ValueError, re.error) as e:
        return refuse(str(e))
    if not chosen:
        return refuse("no case has such a name (--list prints them)")
    if a.list:
        print("\n".join(c.name for c in chosen))
        return 0
    finished = True
    if a.sources:
        found = report.least([read_lines(pathlib.Path(path)) for path in a.sources])
        records = [found[c.name] for c in chosen if c.name in found]
    elif not pathlib.Path(a.library).exists():
        return refuse(f"{a.library} is not there: build the target pjrt_krafla, or say --library")
    else:
        try:
            records, finished = run(a, chosen, f"{a.device}, {a.clock} time, threads: {a.threads}", baseline)
        except Gone as e:
            return refuse(f"a back end does not start: {e}")
    print(report.tables(records, a.above))
    if a.write_baseline:
        path = pathlib.Path(a.write_baseline)
        report.write_baseline(path, records, json.loads(path.read_text()) if path.exists() else {})
    if a.baseline:
        worse = report.regressions(records, baseline)
        print(f"Worse than {a.baseline}: {len(worse)}\n" + "".join(f"- {line}\n" for line in worse))
        if worse:
            return 1
    return 0 if finished else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
