# SPDX-License-Identifier: Apache-2.0
"""Runs cases on two back ends in turn and makes a record of each."""
import judge
from backend import Gone

ROUNDS = 3
SUSPICIOUS = 1.2  # a ratio above it is measured for as many rounds again


def run(case, peer, ours, limit):
    """A record: a dictionary as it stands in the JSON lines. "failed" has a reason for each back end that was not done."""
    record = {"case": case.name, "family": case.family}
    results, modules, failed = {}, set(), {}
    for backend in (peer, ours):
        try:
            facts, results[backend.name] = backend.ask("prepare", case.name, limit)
        except Gone as e:
            failed[backend.name] = str(e)[:600]
            continue
        modules.add(facts.pop("module"))
        record.update({f"{backend.name}_{key}": value for key, value in facts.items()})
    if not failed:
        record["same_module"] = len(modules) == 1
        wrong = judge.compare(case, results[peer.name], results[ours.name])
        if wrong:
            record["wrong"] = wrong
        best, failed = measure(case, (peer, ours), limit)
    if failed:
        record["failed"] = failed
    else:
        record.update({"xla_ms": 1e3 * best[peer.name], "krafla_ms": 1e3 * best[ours.name],
                       "ratio": best[ours.name] / best[peer.name]})
    return record


def measure(case, backends, limit):
    """(least seconds a call, reasons of failure), by back end."""
    best = {}
    for _ in range(2):
        for _ in range(ROUNDS):
            for backend in backends:
                try:
                    seconds, = backend.ask("measure", case.name, limit)
                except Gone as e:
                    return best, {backend.name: str(e)[:600]}
                best[backend.name] = min(best.get(backend.name, seconds), seconds)
        peer, ours = (best[b.name] for b in backends)
        if ours <= SUSPICIOUS * peer:
            break
    return best, {}
