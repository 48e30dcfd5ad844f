# SPDX-License-Identifier: Apache-2.0
"""A model folder (module, inputs.npz, outputs.npz, meta.json) as a peer's driver sees it, and the judgement of results.

    recorded.py FOLDER RESULTS.npz     judges arrays out0000, out0001, ...: one JSON line
"""
import json
import os
import pathlib
import resource
import statistics
import sys
import time

import numpy as np

# What npz files hold for the types that numpy lacks.
BITS = {"bf16": np.uint16, "f8e4m3fn": np.uint8, "f8e5m2": np.uint8}
PLAIN = {"pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8,
         "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32,
         "f64": np.float64, "c64": np.complex64, "c128": np.complex128}


class Unavailable(Exception):
    """The peer, or what it needs for this model, is not here. The message says what."""


def storage(dtype):
    return np.dtype(BITS.get(dtype) or PLAIN[dtype])


def narrow_float(dtype):
    import ml_dtypes
    return {"bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}[dtype]


def widened(array, dtype):
    """Floats as f64, complex as c128; integers and pred as they are."""
    if dtype in BITS:
        array = array.view(narrow_float(dtype))
    if dtype in ("c64", "c128"):
        return array.astype(np.complex128)
    return array.astype(np.float64) if dtype in BITS or dtype[0] == "f" else array


class Folder:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.meta = json.loads((self.path / "meta.json").read_text())
        self.arguments, self.results = self.meta["arguments"], self.meta["results"]
        if self.meta.get("num_partitions", 1) * self.meta.get("num_replicas", 1) > 1:
            raise Unavailable("a program for several devices")

    def file(self, *names):
        for name in names:
            if (self.path / name).exists():
                return self.path / name
        raise Unavailable("the folder has no " + " or ".join(names))

    def numbered(self, name, prefix, count):
        with np.load(self.path / name) as z:
            return [z[f"{prefix}{i:04d}"] for i in range(count)]

    def inputs(self):
        return self.numbered("inputs.npz", "arg", len(self.arguments))

    def judge(self, got):
        """Judges results by meta.json's tolerances against the higher-precision reference, where there is one."""
        expected = self.numbered("outputs.npz", "out", len(self.results))
        reference = expected
        if (self.path / "outputs_ref.npz").exists():
            reference = self.numbered("outputs_ref.npz", "out", len(self.results))
        if len(got) != len(expected):
            return {"right": False, "error_over_tolerance": None, "why": f"{len(got)} results, not {len(expected)}"}
        worst, wrong = 0.0, []
        for i, row in enumerate(self.results):
            atol, rtol, share = row.get("atol", 0), row.get("rtol", 0), row.get("share", 0)
            a = np.asarray(got[i])
            if list(a.shape) != row["shape"]:
                wrong.append(f"result {i}: shape {list(a.shape)}, not {row['shape']}")
                continue
            dtype = row["dtype"]
            if a.dtype != storage(dtype) and not (a.dtype.itemsize == storage(dtype).itemsize and dtype in BITS):
                wrong.append(f"result {i}: type {a.dtype}, not {dtype}")
                continue
            a = widened(a, dtype)
            if atol == 0 and rtol == 0 or a.dtype.kind not in "fc":
                e = widened(expected[i], dtype)
            else:
                # The reference is f64 or f32 where the result is narrower.
                e = reference[i]
                e = widened(e, dtype) if e.dtype == storage(dtype) else e.astype(a.dtype)
            if a.dtype.kind not in "fc":
                bad = int((a != e).sum())
                text = f"{bad} of {a.size} elements differ"
            else:
                with np.errstate(all="ignore"):
                    error, allowed = np.abs(a - e), atol + rtol * np.abs(e)
                    fits = (a == e) | (np.isnan(a) & np.isnan(e)) | (np.isfinite(e) & (error <= allowed))
                    ratio = error / np.maximum(allowed, 1e-300)
                bad = int((~fits).sum())
                finite = ratio[np.isfinite(error)]
                if finite.size and share == 0 and (atol or rtol):
                    worst = max(worst, float(finite.max()))
                text = f"{bad} of {a.size} elements outside {atol:.3g} + {rtol:.3g} |x|"
            if bad > share * a.size:
                wrong.append(f"result {i}: {text}")
        return {"right": not wrong, "error_over_tolerance": worst, "why": "; ".join(wrong[:3])}


def timed(run, seconds, before=lambda: None, least=3, most=20000):
    """Milliseconds of each run after two warm-up runs; `before` happens outside the clock."""
    for _ in range(2):
        before()
        run()
    times, start = [], time.perf_counter()
    while len(times) < least or (time.perf_counter() - start < seconds and len(times) < most):
        before()
        t = time.perf_counter()
        run()
        times.append((time.perf_counter() - t) * 1e3)
    return {"median_ms": statistics.median(times), "min_ms": min(times), "runs": len(times)}


def own_peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(**fields):
    print(json.dumps(fields), flush=True)


def driver(main):
    """Runs a peer's driver: what it needs and lacks becomes a line that names it."""
    try:
        main()
    except Unavailable as e:
        report(status="absent", why=str(e))
    except ImportError as e:
        report(status="absent", why=f"{e.name} is not installed for {sys.executable}")
    except Exception as e:  # What a peer throws is its result.
        lines = [l for l in str(e).splitlines() if l.strip()] or [""]
        report(status="failed", why=f"{type(e).__name__}: {lines[0][:300]}")


if __name__ == "__main__":
    def judge_file():
        folder = Folder(sys.argv[1])
        with np.load(sys.argv[2]) as z:
            report(status="ok", **folder.judge([z[k] for k in sorted(z.files)]))
    driver(judge_file)
