#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the node tests of onnx.backend.test through `krafla import` and `krafla run`, and prints a table.

    tests/onnx/backend_test.py KRAFLA [-d DEVICE] [--filter GLOB] [--every N] [--jobs N] [--least SHARE] [--list]

An input whose value decides the shape of a result (a new shape, axes) has to be known while importing. Node tests give
it as an input of the graph; where the importer asks for it, the test's value becomes an initializer, as exporters write
it, and the test counts as `passed, with known inputs`. Judged by the tests' own answers, with ONNX's tolerances for node
tests: relative 1e-3 and absolute 1e-7, which a test may widen for itself.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
import onnx.backend.test.loader as loader

# What is left out before it is run, by what the graph has in it.
NEWEST = 28
NO_TENSORS = ("strings, or sequences, maps or optional values as arguments or results", "another domain than ONNX's own",
              f"an opset after {NEWEST}", "random numbers, which are others in every implementation")
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def left_out(model, name):
    def is_string(value):
        return value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.elem_type == onnx.TensorProto.STRING
    def is_other(value):
        return value.type.WhichOneof("value") != "tensor_type" or is_string(value)
    def has_strings(graph):
        for node in graph.node:
            if node.op_type.startswith(("String", "RegexFullMatch")):
                return True
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH and (has_strings(a.g) or any(map(is_string, [*a.g.input, *a.g.output]))):
                    return True
                if a.type == onnx.AttributeProto.STRINGS and node.op_type == "TfIdfVectorizer":
                    return True
        return False
    graph = model.graph
    if any(map(is_other, [*graph.input, *graph.output])) or has_strings(graph):
        return NO_TENSORS[0]
    if any(o.version > NEWEST for o in model.opset_import if o.domain in ("", "ai.onnx")):
        return NO_TENSORS[2]
    # Of Dropout while training, the tests with a ratio that is not zero.
    if any(node.op_type in RANDOM for node in graph.node) or "training_dropout" in name and "zero_ratio" not in name:
        return NO_TENSORS[3]
    if any(node.domain not in ("", "ai.onnx") for node in graph.node):
        return NO_TENSORS[1]
    return None


def read(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor, numpy_helper.to_array(tensor)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


SMALL_INTEGERS = ("int4", "uint4", "int2", "uint2")


def as_stored(array):
    """What an .npz holds of it: types that NumPy has not go by their bits."""
    if array.dtype.name in SMALL_INTEGERS:
        return array.astype(np.int8 if array.dtype.name.startswith("int") else np.uint8)
    if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8", "float4")):
        return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    return array


def is_close(got, want, rtol, atol):
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    name = want.dtype.name
    if want.dtype.kind in "biu" or name in SMALL_INTEGERS:
        return None if np.array_equal(as_stored(want), got) else "other integers"
    if name == "bfloat16" or name.startswith("float8") or name.startswith("float4"):
        got = got.view(want.dtype)
    if want.dtype.kind == "c":
        a, b = got.astype(np.complex128), want.astype(np.complex128)
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            return None
        return f"largest difference {np.nanmax(np.abs(a - b)):.3g}" if a.size else "other"


def one(krafla, device, case, folder):
    model = onnx.load(case.model_dir + "/model.onnx") if case.model_dir else case.model
    reason = left_out(model, case.name)
    if reason:
        return "left out", reason
    if case.model_dir:
        sets = [pathlib.Path(p) for p in sorted(pathlib.Path(case.model_dir).glob("test_data_set_*"))]
        data = []
        for s in sets:
            data.append(([read(p) for p in sorted(s.glob("input_*.pb"), key=lambda p: int(p.stem[6:]))],
                         [read(p) for p in sorted(s.glob("output_*.pb"), key=lambda p: int(p.stem[7:]))]))
    else:
        def value(x):
            return (x, numpy_helper.to_array(x)) if isinstance(x, onnx.TensorProto) else (None, np.asarray(x))
        data = [([value(x) for x in i], [value(x) for x in o]) for i, o in case.data_sets]
    known = False
    for number, (inputs, outputs) in enumerate(data):
        made = onnx.ModelProto()
        made.CopyFrom(model)
        values = {}
        for info, (tensor, array) in zip(list(made.graph.input), inputs):
            values[info.name] = (tensor, array)
            if info.type.tensor_type.HasField("shape"):
                info.type.tensor_type.ClearField("shape")
            info.type.tensor_type.shape.SetInParent()
            for d in array.shape:
                info.type.tensor_type.shape.dim.add().dim_value = d
        path = folder / f"{case.name}_{number}.onnx"
        path.write_bytes(made.SerializeToString())
        code, out, err = run([krafla, "import", str(path), "--json"])
        for _ in range(12):
            if code == 0:
                break
            asked = re.findall(r"Input \d+ \('([^']*)'\)", err)
            asked = [name for name in asked if any(i.name == name for i in made.graph.input)]
            if not asked and "depends on the data" in err:  # asked for what is made of it: short lists of integers, numbers
                asked = [i.name for i in made.graph.input
                         if values[i.name][1].ndim <= 1 and values[i.name][1].dtype.kind in "iu" or values[i.name][1].ndim == 0]
            if not asked:
                break
            known = True
            for name in asked:
                tensor, array = values[name]
                tensor = tensor or numpy_helper.from_array(array, name)
                tensor.name = name
                if not any(t.name == name for t in made.graph.initializer):
                    made.graph.initializer.append(tensor)
                for i, info in enumerate(made.graph.input):
                    if info.name == name:
                        del made.graph.input[i]
                        break
            path.write_bytes(made.SerializeToString())
            code, out, err = run([krafla, "import", str(path), "--json"])
        if code == 3 and "not supported" in err:
            lines = [l.strip() for l in err.splitlines() if re.match(r"\s+'", l)]
            return "refused", re.sub(r"^'[^']*' ", "", lines[0]) if lines else err.strip().splitlines()[0]
        if code != 0:
            return "failed", "import: " + (err.strip().splitlines() or [f"exit {code}"])[0]
        arguments = {}
        for i, info in enumerate(made.graph.input):
            arguments[f"arg{i:04d}"] = as_stored(values[info.name][1])
        np.savez(folder / f"{case.name}.in.npz", **arguments)
        save = folder / f"{case.name}.out.npz"
        command = [krafla, "run", str(path), "--save", str(save), "-d", device]
        if arguments:
            command += ["--inputs", str(folder / f"{case.name}.in.npz")]
        code, out, err = run(command)
        if code != 0:
            return "failed", "run: " + (err.strip().splitlines() or [f"exit {code}"])[0]
        with np.load(save) as got:
            results = [got[k] for k in got.files]
        if len(results) != len(outputs):
            return "failed", f"{len(results)} results, not {len(outputs)}"
        for result, (_, want) in zip(results, outputs):
            wrong = is_close(result, want, case.rtol, case.atol)
            if wrong:
                return "failed", wrong
    return ("passed, with known inputs" if known else "passed"), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla", nargs="?")
    parser.add_argument("--write", metavar="FOLDER", type=pathlib.Path, help="only write the tests' models, as seeds of a fuzzer")
    parser.add_argument("-d", "--device", default="cpu")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--every", type=int, default=1, help="only each N-th test")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0, help="fail below this share of passed tests")
    parser.add_argument("--list", action="store_true", help="print every test that did not pass")
    options = parser.parse_args()
    import warnings
    warnings.simplefilter("ignore")
    cases = [c for c in loader.load_model_tests(kind="node") if fnmatch.fnmatch(c.name, options.filter)]
    cases = sorted(cases, key=lambda c: c.name)[::options.every]
    if options.write:
        for case in cases:
            if case.model is not None:
                (options.write / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
        return 0
    if options.krafla is None:
        parser.error("KRAFLA, the command, is missing")
    rows = {}
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def guarded(case):
            try:
                return one(options.krafla, options.device, case, pathlib.Path(temporary))
            except subprocess.TimeoutExpired:
                return "failed", "it took more than 120 s"
            except Exception as e:  # a test whose data Python cannot read
                return "failed", f"{type(e).__name__}: {e}"
        for case, result in zip(cases, pool.map(guarded, cases)):
            rows[case.name] = result
    counts = collections.Counter(kind for kind, _ in rows.values())
    reasons = collections.Counter((kind, reason) for kind, reason in rows.values() if kind in ("left out", "refused"))
    if options.list:
        for name, (kind, reason) in rows.items():
            if kind in ("failed", "refused"):
                print(f"{kind:8} {name}: {reason[:170]}")
    for kind in ("passed", "passed, with known inputs", "failed", "refused", "left out"):
        print(f"{counts[kind]:6} {kind}")
    for (kind, reason), count in sorted(reasons.items(), key=lambda r: -r[1]):
        print(f"  {count:5} {kind}: {reason[:150]}")
    judged = sum(counts.values()) - counts["left out"]
    passed = counts["passed"] + counts["passed, with known inputs"]
    share = passed / judged if judged else 0
    print(f"{passed} of {judged} on {options.device}: {100 * share:.1f} %")
    return 0 if judged and share >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
