# SPDX-License-Identifier: Apache-2.0
"""One back end: a process that prepares and times cases as the session asks, over a pipe.

  worker.py DESCRIPTOR CLOCK MILLISECONDS [DECLARATIONS]     started by backend.py, which sets the environment

Requests and answers: ("prepare", name) -> ("ok", facts, results), then ("measure", name) -> ("ok", seconds a call). An
exception is answered by ("failed", text).
"""
import hashlib
import multiprocessing.connection
import sys
import time

import jax
import numpy as np

import cases

CALLS_AT_MOST = 64
SLOW = 0.5  # seconds: a call that takes longer is made once a round, and not at all above VERY_SLOW
VERY_SLOW = 4


class Prepared:
    def __init__(self, case, clock, budget):
        self.clock, self.budget = clock, budget
        jax.config.update("jax_enable_x64", case.x64)
        self.arguments = jax.block_until_ready([jax.device_put(a) for a in case.arguments()])
        start = clock()
        lowered = jax.jit(lambda *a: case.function(*a)).lower(*self.arguments)
        lowered_at = clock()
        self.compiled = lowered.compile()
        compiled_at = clock()
        results = jax.block_until_ready(self.compiled(*self.arguments))
        self.first = clock() - compiled_at
        self.once = self.first  # seconds a call; the first one may hold what is done once
        text = lowered.as_text()
        self.facts = {"lower_ms": 1e3 * (lowered_at - start), "compile_ms": 1e3 * (compiled_at - lowered_at),
                      "first_ms": 1e3 * self.first, "module": hashlib.sha256(text.encode()).hexdigest()[:16]}
        self.results = [np.asarray(r) for r in jax.tree.leaves(results)]

    def measure(self):
        """The least seconds a call of some, within the budget of time."""
        if self.once > VERY_SLOW:
            return self.once
        best, spent, calls = float("inf"), 0.0, 1
        while True:
            start = self.clock()
            for _ in range(calls):
                results = self.compiled(*self.arguments)
            jax.block_until_ready(results)
            taken = self.clock() - start
            best, spent = min(best, taken / calls), spent + taken
            if spent >= self.budget or taken > SLOW:
                self.once = min(self.once, best)
                return best
            # Several calls at a time where one is shorter than the clock is fine.
            calls = max(1, min(CALLS_AT_MOST, int(2e-4 / max(best, 1e-7))))


def answer(prepared, request, name, clock, budget):
    case = cases.CASES[name]
    if request == "prepare":
        prepared.clear()
        jax.clear_caches()
        prepared[name] = one = Prepared(case, clock, budget)
        return "ok", one.facts, one.results
    jax.config.update("jax_enable_x64", case.x64)
    return "ok", prepared[name].measure()


def main():
    connection = multiprocessing.connection.Connection(int(sys.argv[1]))
    clock = {"cpu": time.process_time, "wall": time.perf_counter}[sys.argv[2]]
    budget = float(sys.argv[3]) / 1e3
    cases.load(sys.argv[4] if len(sys.argv) > 4 else None)
    connection.send(("ready", str(jax.devices()[0]), jax.__version__))
    prepared = {}
    while True:
        try:
            request, name = connection.recv()
        except EOFError:
            return
        try:
            reply = answer(prepared, request, name, clock, budget)
        except Exception as e:  # of any kind: it is the case's answer
            reply = "failed", f"{type(e).__name__}: {e}"
        connection.send(reply)


if __name__ == "__main__":
    main()
