# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU: onnxruntime_cpu.py FOLDER SECONDS ONNX_FOLDER -> one JSON line.

The ONNX file is FOLDER/model.onnx or ONNX_FOLDER/NAME.onnx, the model that the folder's module was made from. Its
weights lie in the file; the module's arguments named params.* are left out and the others given in order.
"""
import pathlib
import sys
import time

from recorded import BITS, Folder, Unavailable, driver, own_peak_mb, report, timed


def main():
    folder, seconds = Folder(sys.argv[1]), float(sys.argv[2])
    places = [folder.path / "model.onnx"]
    if sys.argv[3]:
        places.append(pathlib.Path(sys.argv[3]) / (folder.meta["name"] + ".onnx"))
    path = next((p for p in places if p.exists()), None)
    if path is None:
        raise Unavailable("no " + " or ".join(map(str, places)))
    import onnxruntime
    start_mb = own_peak_mb()
    t = time.perf_counter()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    compile_ms = (time.perf_counter() - t) * 1e3
    arrays = [x for x, a in zip(folder.inputs(), folder.arguments) if a["name"].split(".")[0] != "params"]
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(arrays) or any(a["dtype"] in BITS for a in folder.arguments):
        raise Unavailable(f"{path} takes {len(names)} arrays, the folder has {len(arrays)} that are not weights")
    feeds = dict(zip(names, arrays))
    t = time.perf_counter()
    out = session.run(None, feeds)
    first_ms = (time.perf_counter() - t) * 1e3
    verdict = folder.judge(out)
    del out
    report(status="ok", compile_ms=compile_ms, first_ms=first_ms, start_mb=start_mb, **timed(lambda: session.run(None, feeds), seconds),
           **verdict)


driver(main)
