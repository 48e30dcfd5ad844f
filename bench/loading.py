#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a model takes until its first result: krafla, ONNX Runtime and IREE from one ONNX file.

    bench/loading.py KRAFLA FOLDER [--python VENV/bin/python] [--rounds 5] [--json]

FOLDER keeps what is made once: ResNet-50 with random weights as .onnx (102 MB), what each engine compiles of it ahead of
time, and krafla's pipelines. Each measurement is a process of its own, the engines take turns, and a cell is the median of
the rounds. Times begin when the engine is imported and its device is open, and end with the model loaded, with the first
result, and with the model loaded a second time in the same process. All answers have to agree.

VENV has numpy, onnx, onnxruntime, iree-base-compiler[onnx] and iree-base-runtime; an engine that is absent is named.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
IMAGE = (1, 3, 224, 224)


def image():
    import numpy as np
    return np.random.default_rng(3).standard_normal(IMAGE).astype(np.float32)


def resnet50(path):
    """The network of He et al. (2015), version 1.5, with batch normalisation as exporters leave it for inference."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    rng, nodes, weights = np.random.default_rng(5), [], []

    def weight(name, array):
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(x, name, inputs, outputs, size, stride):
        scale = (2 / (inputs * size * size)) ** 0.5
        w = weight(name + ".w", rng.standard_normal((outputs, inputs, size, size)) * scale)
        nodes.append(helper.make_node("Conv", [x, w], [name], kernel_shape=[size, size], strides=[stride, stride],
                                      pads=4 * [size // 2]))
        norm = [weight(f"{name}.{part}", values) for part, values in
                (("scale", rng.uniform(0.5, 1, outputs)), ("bias", rng.standard_normal(outputs) * 0.1),
                 ("mean", rng.standard_normal(outputs) * 0.1), ("var", rng.uniform(0.5, 1.5, outputs)))]
        nodes.append(helper.make_node("BatchNormalization", [name, *norm], [name + ".n"]))
        return name + ".n"

    def relu(x):
        nodes.append(helper.make_node("Relu", [x], [x + ".r"]))
        return x + ".r"

    x = relu(conv("image", "stem", 3, 64, 7, 2))
    nodes.append(helper.make_node("MaxPool", [x], ["pool"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    x, channels = "pool", 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            name, stride = f"s{stage}b{block}", 2 if stage > 0 and block == 0 else 1
            y = relu(conv(x, name + "a", channels, width, 1, 1))
            y = relu(conv(y, name + "b", width, width, 3, stride))
            y = conv(y, name + "c", width, 4 * width, 1, 1)
            if block == 0:
                x = conv(x, name + "d", channels, 4 * width, 1, stride)
            nodes.append(helper.make_node("Add", [x, y], [name]))
            x, channels = relu(name), 4 * width
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    w = weight("fc.w", rng.standard_normal((2048, 1000)) * 0.02)
    nodes.append(helper.make_node("Gemm", ["flat", w, weight("fc.b", np.zeros(1000))], ["logits"]))
    graph = helper.make_graph(nodes, "resnet50", [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, 1000))], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def krafla(form, device):
    def start(folder):
        sys.path.insert(0, str(REPOSITORY / "python"))
        import krafla as engine
        client = engine.Client(device)
        path = str(folder / f"resnet50.{form}")

        def load():
            model = engine.load(path, client)
            return lambda x: model(x)
        return load
    return start


def onnx_runtime(optimised):
    def start(folder):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        path = folder / "resnet50.onnx"
        if optimised:
            path = folder / "resnet50.optimised.onnx"
            if not path.exists():
                options.optimized_model_filepath = str(path)
                onnxruntime.InferenceSession(str(folder / "resnet50.onnx"), options, providers=["CPUExecutionProvider"])
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

        def load():
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            return lambda x: session.run(None, {"image": x})[0]
        return load
    return start


def iree(folder):
    import iree.runtime as engine
    config = engine.Config("local-task")

    def load():
        loaded = engine.load_vm_module(engine.VmModule.mmap(config.vm_instance, str(folder / "resnet50.vmfb")), config)
        function = loaded[next(n for n in loaded.vm_module.function_names if not n.startswith("__") and "$" not in n)]
        return lambda x: function(x).to_host()
    return load


ENGINES = {
    "krafla, .onnx, cpu": krafla("onnx", "cpu"),
    "krafla, .krafla, cpu": krafla("krafla", "cpu"),
    "krafla, .krafla, vulkan": krafla("krafla", "vulkan"),
    "ONNX Runtime, .onnx": onnx_runtime(False),
    "ONNX Runtime, optimised .onnx": onnx_runtime(True),
    "IREE, .vmfb, local-task": iree,
}


def measure(engine, folder):
    import numpy as np
    load, x, times = ENGINES[engine](folder), image(), []
    for _ in range(2):
        start, cpu = time.perf_counter(), time.process_time()
        model = load()
        loaded, loaded_cpu = time.perf_counter(), time.process_time()
        result = np.asarray(model(x))
        ready, ready_cpu = time.perf_counter(), time.process_time()
        times.append([1e3 * v for v in (loaded - start, ready - loaded, loaded_cpu - cpu, ready_cpu - loaded_cpu)])
        del model
    np.save(folder / "result.npy", result)
    print(json.dumps({"load_ms": times[0][0], "first_ms": times[0][1], "load_cpu_ms": times[0][2], "first_cpu_ms": times[0][3],
                      "again_load_ms": times[1][0], "again_first_ms": times[1][1]}))


def prepare(folder, command, python):
    """What an engine makes ahead of time; the seconds that it took, by the name of its file."""
    tools, source = pathlib.Path(python).parent, folder / "resnet50.onnx"
    steps = {
        "resnet50.onnx": [[python, __file__, command, str(folder), "--make"]],
        "resnet50.krafla": [[command, "compile", str(source), "-o", str(folder / "resnet50.krafla"), "-q"]],
        "resnet50.vmfb": [
            [str(tools / "iree-import-onnx"), str(source), "-o", str(folder / "iree.mlir")],
            [str(tools / "iree-compile"), str(folder / "iree.mlir"), "--iree-hal-target-device=local",
             "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "-o",
             str(folder / "resnet50.vmfb")]],
    }
    for name, commands in steps.items():
        if (folder / name).exists():
            continue
        start = time.perf_counter()
        for step in commands:
            try:
                done = subprocess.run(step, capture_output=True, text=True)
            except OSError as error:
                print(f"{name} was not made: {error}", file=sys.stderr)
                break
            if done.returncode != 0:
                print(f"{name} was not made: {done.stderr.strip()[-400:]}", file=sys.stderr)
                break
        else:
            print(f"{name}: {(folder / name).stat().st_size / 1e6:.0f} MB in {time.perf_counter() - start:.1f} s",
                  file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        return resnet50(arguments.folder / "resnet50.onnx")
    if arguments.engine:
        return measure(arguments.engine, arguments.folder)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    prepare(arguments.folder, arguments.krafla, arguments.python)
    print(f"load before: {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} processors", file=sys.stderr)
    import numpy as np
    rows, want = {name: [] for name in ENGINES}, None
    environment = os.environ | {"KRAFLA_LIBRARY": str(pathlib.Path(arguments.krafla).resolve().parent / "libkrafla.so"),
                                "KRAFLA_CACHE_DIR": str(arguments.folder / "cache")}
    for turn in range(arguments.rounds + 1):  # the first fills caches and counts for nothing
        for name in [n for n in ENGINES if rows[n] is not None]:
            done = subprocess.run([arguments.python, __file__, arguments.krafla, arguments.folder, "--engine", name],
                                  capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                print(f"{name}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}", file=sys.stderr)
                rows[name] = None
                continue
            result = np.load(arguments.folder / "result.npy")
            want = result if want is None else want
            if not np.allclose(result, want, rtol=1e-3, atol=1e-3 * float(np.abs(want).max())):
                sys.exit(f"{name} gives another answer than {next(iter(ENGINES))}.")
            if turn > 0:
                rows[name].append(json.loads(done.stdout.splitlines()[-1]))
    keys = ["load_ms", "first_ms", "load_cpu_ms", "first_cpu_ms", "again_load_ms", "again_first_ms"]
    table = {name: {k: statistics.median(r[k] for r in seen) for k in keys} for name, seen in rows.items() if seen}
    if arguments.json:
        print(json.dumps(table))
        return None
    print(f"{'ms, median of ' + str(arguments.rounds):32}" + "".join(f"{k.removesuffix('_ms').replace('_', ' '):>13}" for k in keys))
    for name, row in table.items():
        print(f"{name:32}" + "".join(f"{row[k]:13.1f}" for k in keys))
    return None


if __name__ == "__main__":
    main()
