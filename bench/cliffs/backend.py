# SPDX-License-Identifier: Apache-2.0
"""A worker process seen from the session: asked over a pipe, with a limit of time, started again after it dies."""
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
START_LIMIT = 300


class Gone(Exception):
    """No answer: an exception in the worker, its death, or no answer in time; the text says which."""


def environment(device, threads, library):
    """device: None for XLA:CPU, else krafla's device."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", TF_CPP_MIN_LOG_LEVEL="2")
    flags = env.get("XLA_FLAGS", "")
    if threads == "1":
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "KRAFLA_THREADS"):
            env[name] = "1"
        flags += " --xla_cpu_multi_thread_eigen=false"
    if device is None:
        env.update(JAX_PLATFORMS="cpu", XLA_FLAGS=flags.strip())
    else:
        env.update(JAX_PLATFORMS="vulkan,cpu", KRAFLA_DEVICE=device, XLA_FLAGS=flags.strip())
        if library:
            env.update(KRAFLA_PJRT_LIBRARY=str(library),
                       PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT / "python"), env.get("PYTHONPATH")])))
    return env


class Backend:
    def __init__(self, name, env, core, clock, budget_ms, declarations):
        self.name, self.env, self.core = name, env, core
        self.arguments = [clock, str(budget_ms), *([declarations] if declarations else [])]
        self.process = self.pipe = self.errors = None
        self.versions = ""

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.pipe, theirs = multiprocessing.Pipe()
        pin = (lambda: os.sched_setaffinity(0, {self.core})) if self.core is not None else None
        command = [sys.executable, str(HERE / "worker.py"), str(theirs.fileno()), *self.arguments]
        # Before the interpreter starts: XLA and krafla count the processors that they may use when they are loaded.
        self.process = subprocess.Popen(command, env=self.env, pass_fds=[theirs.fileno()], stdout=self.errors,
                                        stderr=self.errors, preexec_fn=pin)
        theirs.close()
        reply = self.receive(START_LIMIT)
        self.versions = f"{reply[1]}, jax {reply[2]}"

    def receive(self, limit):
        try:
            if not self.pipe.poll(limit):
                self.stop()
                raise Gone(f"not done after {limit:g} s")
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            code = self.process.wait()
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip().splitlines()
            self.stop()
            raise Gone(f"the process ended with {code}: {' | '.join(said[-3:])[-400:] or 'no message'}") from None

    def ask(self, request, name, limit):
        """What worker.py answers after "ok"."""
        if self.process is None:
            self.start()
        try:
            self.pipe.send((request, name))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it died between two requests; receive() says how
        verdict, *values = self.receive(limit)
        if verdict == "failed":
            raise Gone(values[0])
        return values

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.pipe.close()
            self.errors.close()
        self.process = self.pipe = self.errors = None
