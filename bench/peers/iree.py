# SPDX-License-Identifier: Apache-2.0
"""IREE, through the tools of its Python packages (iree-base-compiler, iree-base-runtime).

    iree.py FOLDER SECONDS cpu|vulkan CACHE_FOLDER [FLAG...]   -> one JSON line; FLAGs go to iree-compile

The first call for a module compiles it into CACHE_FOLDER; later ones only run what lies there.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from recorded import Folder, Unavailable, driver, report, storage

TARGETS = {
    "cpu": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host"],
    "vulkan": ["--iree-hal-target-device=vulkan"],
}
DEVICES = {"cpu": "local-task", "vulkan": "vulkan"}


def tool(name):
    beside = pathlib.Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        package = "iree-base-compiler" if name == "iree-compile" else "iree-base-runtime"
        raise Unavailable(f"{name} is neither beside {sys.executable} nor on PATH (pip install {package})")
    return path


def first_error(text):
    lines = [l.strip() for l in text.splitlines() if re.search(r"error:|[A-Z]{4,}[A-Z_]*;|Assertion|signal|Error", l)]
    return (lines or text.strip().splitlines() or ["no message"])[0][-300:]


def call(command):
    """(exit code, stdout, stderr, peak MB of that process)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode(errors="replace"))
        return process.returncode, *texts, usage.ru_maxrss / 1024


def compiled(folder, target, cache, flags):
    """The compiled module and what its compilation took; remembered in the cache folder."""
    path = pathlib.Path(cache) / f"{folder.path.resolve().name}-{target}.vmfb"
    facts = path.with_suffix(".json")
    if not facts.exists():
        row = {}
        # The text holds CHLO operations; where IREE refuses them, the form without.
        for source in ("module.mlir", "module.pure.mlirbc"):
            if not (folder.path / source).exists():
                continue
            t = time.perf_counter()
            code, _, err, mb = call([tool("iree-compile"), "--iree-input-type=stablehlo", *TARGETS[target], *flags,
                                     str(folder.path / source), "-o", str(path)])
            row = {"compile_ms": (time.perf_counter() - t) * 1e3, "compile_peak_mb": mb}
            if code == 0:
                break
            row["why"] = f"iree-compile {source}: exit {code}: {first_error(err)}"
        if not row:
            raise Unavailable("the folder has no module.mlir")
        facts.write_text(json.dumps(row))
    return path, json.loads(facts.read_text())


def tensor_type(argument):
    dtype = argument["dtype"]
    known = {"pred": "i1", "c64": "complex<f32>", "c128": "complex<f64>", "f8e4m3fn": "f8E4M3FN", "f8e5m2": "f8E5M2"}
    element = known.get(dtype) or (("i" + dtype[1:]) if dtype[0] in "su" else dtype)
    return "x".join([*map(str, argument["shape"]), element])


def main():
    folder, seconds, target, cache = Folder(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
    module, facts = compiled(folder, target, cache, sys.argv[5:])
    if "why" in facts and not module.exists():
        return report(status="failed", **facts)
    with tempfile.TemporaryDirectory() as work:
        common = [f"--device={DEVICES[target]}", f"--module={module}", "--function=main"]
        for i, (x, argument) in enumerate(zip(folder.inputs(), folder.arguments)):
            np.ascontiguousarray(x).tofile(f"{work}/in{i}")
            common.append(f"--input={tensor_type(argument)}=@{work}/in{i}")
        results = [f"--output=@{work}/out{i}" for i in range(len(folder.results))]
        t = time.perf_counter()
        code, out, err, mb = call([tool("iree-run-module"), *common, *results])
        facts["first_ms"] = (time.perf_counter() - t) * 1e3  # with the start of the process and the reading of inputs
        if code:
            facts["why"] = f"iree-run-module: exit {code}: {first_error(err or out)}"
            return report(status="failed", **facts)
        got = [np.fromfile(f"{work}/out{i}", storage(r["dtype"])) for i, r in enumerate(folder.results)]
        verdict = folder.judge([a.reshape(r["shape"]) if a.size == np.prod(r["shape"], dtype=int) else a
                                for a, r in zip(got, folder.results)])
        code, out, err, mb = call([tool("iree-benchmark-module"), *common, "--benchmark_format=json",
                                   "--benchmark_repetitions=5", f"--benchmark_min_time={seconds / 5}s"])
        if code:
            facts["why"] = f"iree-benchmark-module: exit {code}: {first_error(err or out)}"
            return report(status="failed", **facts)
        rows = [r for r in json.loads(out[out.index("{"):])["benchmarks"] if "aggregate_name" not in r]
        unit = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[rows[0]["time_unit"]]
        times = sorted(r["real_time"] * unit for r in rows)
        report(status="ok", **facts, median_ms=times[len(times) // 2], min_ms=times[0],
               runs=sum(r["iterations"] for r in rows), run_peak_mb=mb, **verdict)


driver(main)
