# SPDX-License-Identifier: Apache-2.0
"""Emits kernels for a chip and has its driver compile them.

Both are remembered in .cache/vendor: kernels by the command krafla, the profile and the module; what the driver says by
the SPIR-V, the chip and the driver's version.
"""
import ast
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading

import figures
import isa
from chips import ARM_ROOT, CACHE, ROOT

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "compile_spirv.cpp"
PUSH_BYTES = 64  # kPushConstantBytes of src/vk_runtime/pipeline.h
AT_ONCE = 24     # pipelines of one process
LIMIT = {False: 300, True: 900}  # seconds for one pipeline or program; under qemu
# What is remembered is made again in minutes: it is forgotten rather than kept in order.
MOST_BYTES = 64 << 20  # of a file of results
MOST_FILES = 20000     # of SPIR-V
MOST_BUILDS = 4        # of krafla, whose kernels are listed


class Unavailable(Exception):
    """A chip's driver does not come up here; the message says why."""


def sha(*parts):
    h = hashlib.sha256()
    for part in parts:
        part = part if isinstance(part, bytes) else str(part).encode()
        h.update(len(part).to_bytes(8, "little") + part)
    return h.hexdigest()


def built(arm):
    """The program that makes pipelines, built again where its source is newer."""
    out = CACHE / ("bin/compile_spirv.arm64" if arm else "bin/compile_spirv")
    if out.exists() and out.stat().st_mtime > SOURCE.stat().st_mtime:
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    if arm:
        command = ["clang++-19", "--target=aarch64-linux-gnu", f"--sysroot={ARM_ROOT}",
                   f"--gcc-toolchain={ARM_ROOT}/usr", f"--ld-path={CACHE}/arm64/usr/bin/ld.lld-19",
                   "-static-libstdc++", "-static-libgcc"]
    else:
        command = ["g++"]
    with tempfile.NamedTemporaryFile(dir=out.parent, delete=False) as temporary:
        pass
    try:
        r = subprocess.run(command + ["-O1", "-std=c++20", "-Wall", str(SOURCE), "-o", temporary.name, "-lvulkan"],
                           capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unavailable(f"'{error.filename}' is not installed; scripts/setup.sh --test installs it.") from None
    if r.returncode:
        raise Unavailable(f"{SOURCE.name} cannot be built: {r.stderr.strip()[-500:]}")
    os.chmod(temporary.name, 0o755)
    os.rename(temporary.name, out)
    return out


def mesa(arm=False):
    """The version of the drivers: it decides what kernels compile to."""
    if arm:
        ready = ARM_ROOT / "ready"
        return ready.read_text().strip() if ready.exists() else "unknown"
    try:
        r = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "mesa-vulkan-drivers"], capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return r.stdout or "unknown"


class Store:
    """What is remembered, a line each; lines of other processes may come in between."""

    def __init__(self, path):
        self.path, self.lock, self.known = path, threading.Lock(), {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.unlink()
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    key, value = json.loads(line)
                    self.known[key] = value
                except ValueError:
                    pass  # cut off: made again

    def get(self, key):
        return self.known.get(key)

    def put(self, key, value, keep=True):
        """`keep`: it is so another time too."""
        with self.lock:
            self.known[key] = value
            if not keep:
                return
            with open(self.path, "a") as out:
                out.write(json.dumps([key, value], separators=(",", ":")) + "\n")


@dataclasses.dataclass(frozen=True)
class Module:
    path: pathlib.Path  # or None: a text of our own
    content: bytes
    options: tuple = ()  # of krafla opt


@dataclasses.dataclass
class Kernel:
    """A kernel of a module for a chip, and what the driver says of it."""
    name: str
    variant: str
    subgroup_size: int
    full_subgroups: bool
    local: int
    groups: int
    code: str            # the hash of its SPIR-V, and the name of its file
    result: dict = None  # figures, or {"error": ...}


@dataclasses.dataclass
class Program:
    """A module for a chip."""
    kernels: list
    on_cpu: list        # (name, why) of what the chip does not run
    message: str = ""   # why there is no program


class Compiler:
    """`krafla`: the command. `disabled`: features left out (krafla opt --disable)."""

    def __init__(self, krafla, disabled="", dump=None, on_progress=lambda done, of: None):
        self.krafla, self.disabled, self.dump, self.on_progress = pathlib.Path(krafla), disabled, dump, on_progress
        # The command is little but its library, where it has one. What another tuning emits is another build's.
        files = [self.krafla, *sorted(self.krafla.parent.glob("libkrafla.so*"))]
        if os.environ.get("KRAFLA_TUNING"):
            files.append(pathlib.Path(os.environ["KRAFLA_TUNING"]))
        self.tool = sha(*(f.read_bytes() for f in files))
        self.spirv = CACHE / "spirv"
        self.spirv.mkdir(parents=True, exist_ok=True)
        if sum(1 for _ in os.scandir(self.spirv)) > MOST_FILES:
            shutil.rmtree(self.spirv)
            self.spirv.mkdir()
        # How ISA texts are read is part of a result; comments are not.
        texts = [ast.dump(ast.parse((HERE / name).read_text())) for name in ("isa.py", "figures.py")]
        self.reading = sha(*texts, SOURCE.read_bytes())[:12]
        self.emitted = Store(CACHE / f"results/programs-{self.tool[:16]}.jsonl")
        builds = sorted((CACHE / "results").glob("programs-*.jsonl"), key=lambda path: path.stat().st_mtime)
        for path in builds[:-MOST_BUILDS]:
            path.unlink(missing_ok=True)
        self.results = {}

    def check(self, wanted):
        """{chip's name: {module: Program}} of {chip: {name: Module}}."""
        chips = list(wanted)
        for chip in chips:
            self.results[chip.name] = Store(CACHE / f"results/{chip.name}.jsonl")
        threads = max(1, min(2, os.cpu_count() or 1))
        done = {chip.name: {} for chip in chips}
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            work = {}
            for chip in chips:
                for name, module in wanted[chip].items():
                    work[pool.submit(self._emit, chip, module)] = (chip, name)
            for n, future in enumerate(concurrent.futures.as_completed(work)):
                chip, name = work[future]
                done[chip.name][name] = future.result()
                self.on_progress(n + 1, len(work))
            # So that the slow ones do not end alone.
            slow_first = sorted(chips, key=lambda chip: not chip.driver.arm)
            batches = [b for chip in slow_first for b in self._missing(chip, done[chip.name])]
            futures = [pool.submit(self._compile, chip, batch) for chip, batch in batches]
            for n, future in enumerate(concurrent.futures.as_completed(futures)):
                future.result()
                self.on_progress(n + 1, len(futures))
        for chip in chips:
            done[chip.name] = {name: done[chip.name][name] for name in wanted[chip]}
            for program in done[chip.name].values():
                for kernel in program.kernels:
                    kernel.result = self.results[chip.name].get(self._key(chip, kernel))
        return done

    def _emit(self, chip, module):
        key = sha(chip.profile().read_bytes(), module.content, module.options, self.disabled)
        listed = self.emitted.get(key)
        if listed is None or any(not (self.spirv / (k[-1] + ".spv")).exists() for k in listed["kernels"]):
            with tempfile.TemporaryDirectory() as folder:
                path = module.path
                if path is None:
                    path = pathlib.Path(folder) / "module.hlo"
                    path.write_bytes(module.content)
                command = ["nice", self.krafla, "opt", path, "--stage", "spirv", "--profile", chip.profile(),
                           "-o", folder, *module.options] + (["--disable", self.disabled] if self.disabled else [])
                try:
                    r = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT[False], errors="replace")
                    code, message = r.returncode, r.stderr.strip()
                except subprocess.TimeoutExpired:
                    code, message = -1, f"krafla opt does not end within {LIMIT[False]} s"
                listed = self._listed(folder) if code == 0 else {
                    "kernels": [], "on_cpu": [], "message": message or f"exit code {code}"}
            self.emitted.put(key, listed, keep=code >= 0)
        return Program([Kernel(*k) for k in listed["kernels"]], listed["on_cpu"], listed["message"])

    def _listed(self, folder):
        out = []
        found = json.loads((pathlib.Path(folder) / "kernels.json").read_text())
        for k in found["kernels"]:
            words = (pathlib.Path(folder) / k["file"]).read_bytes()
            code = sha(words)
            file = self.spirv / (code + ".spv")
            if not file.exists():
                part = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
                part.write_bytes(words)
                part.rename(file)
            groups = max((g[0] * g[1] * g[2] for g in k["grids"]), default=1)
            local = k["local_size"][0] * k["local_size"][1] * k["local_size"][2]
            out.append([k["name"], k["variant"], k["subgroup_size"], k["full_subgroups"], local, groups, code])
        return {"kernels": out, "on_cpu": [[k["name"], k["reason"]] for k in found["on_cpu"]], "message": ""}

    def _key(self, chip, kernel):
        return sha(kernel.code, kernel.subgroup_size, kernel.full_subgroups, mesa_of(chip), self.reading)[:40]

    def _missing(self, chip, programs):
        """What is not remembered, in batches."""
        jobs = {}
        for program in programs.values():
            for kernel in program.kernels:
                key = self._key(chip, kernel)
                if self.dump or self.results[chip.name].get(key) is None:
                    jobs[key] = kernel
        items = list(jobs.items())
        size = 8 if chip.driver.arm else AT_ONCE
        return [(chip, items[i:i + size]) for i in range(0, len(items), size)]

    def _compile(self, chip, batch):
        store = self.results[chip.name]
        with tempfile.TemporaryDirectory() as folder:
            lines = [f"{k.subgroup_size} {int(k.full_subgroups)} {PUSH_BYTES} {self.spirv / k.code}.spv\n"
                     for _, k in batch]
            (pathlib.Path(folder) / "jobs").write_text("".join(lines))
            first = 0
            while first < len(batch):
                first = self._run(chip, batch, folder, first, store)

    def _run(self, chip, batch, folder, first, store):
        """One process; its crash or standstill costs the pipeline that it was at. Returns where to go on."""
        argv, environment = chip.command([built(chip.driver.arm), folder + "/jobs", folder, first])
        process = subprocess.Popen(["nice"] + argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", cwd=folder)
        talk = []
        reader = threading.Thread(target=lambda: talk.append(process.stderr.read()), daemon=True)
        reader.start()
        at, answered, error = None, None, ""
        watch = self._watch(process, chip)
        for line in process.stdout:
            watch.cancel()
            watch = self._watch(process, chip)
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if "start" in said:
                at = said["start"]
            elif "job" in said:
                answered = said["job"]
                key, kernel = batch[answered]
                store.put(key, self._judge(chip, kernel, said, pathlib.Path(folder) / f"{answered}.txt"))
            elif "error" in said:
                error = said["error"]
        watch.cancel()
        if watch.ended:
            error = f"does not end within {LIMIT[chip.driver.arm]} s"
        process.wait()
        reader.join(5)
        last = (("".join(talk)).strip().splitlines() or [""])[-1]
        if at is None:
            raise Unavailable(f"{chip.name}: {error or last or f'exit code {process.returncode}'}")
        if at != answered:
            # A process that was killed had no time or no room, which is of the moment.
            store.put(batch[at][0], {"error": error or f"the driver ends (code {process.returncode}): {last}"[:300]},
                      keep=process.returncode != -signal.SIGKILL)
        return at + 1

    @staticmethod
    def _watch(process, chip):
        """Kills the process unless it is cancelled in time."""
        watch = threading.Timer(LIMIT[chip.driver.arm], lambda: (setattr(watch, "ended", True), process.kill()))
        watch.daemon, watch.ended = True, False
        watch.start()
        return watch

    def _judge(self, chip, kernel, said, text):
        if "error" in said:
            return {"error": said["error"]}
        out = {"subgroup": said.get("subgroup"), "ms": round(said["ms"], 1),
               **figures.of(said.get("stats", {}), chip.driver.icd)}
        if text.exists():
            out["isa"] = True
            if chip.driver.isa:
                out["hot"] = isa.hot(text.read_text(errors="replace"), chip.driver.isa)
            if self.dump:
                folder = pathlib.Path(self.dump) / chip.name
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(text, folder / re.sub(r"[^\w.-]", "_", f"{kernel.name}.{kernel.variant}.txt"))
            text.unlink()
        return out


_versions = {}


def mesa_of(chip):
    if chip.driver.arm not in _versions:
        _versions[chip.driver.arm] = mesa(chip.driver.arm)
    return _versions[chip.driver.arm]
