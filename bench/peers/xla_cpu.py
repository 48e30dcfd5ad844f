# SPDX-License-Identifier: Apache-2.0
"""XLA:CPU, through the client that JAX carries: xla_cpu.py FOLDER SECONDS -> one JSON line."""
import os
import sys
import time

from recorded import BITS, Folder, driver, narrow_float, own_peak_mb, report, timed

os.environ["JAX_PLATFORMS"] = "cpu"


def main():
    folder, seconds = Folder(sys.argv[1]), float(sys.argv[2])
    path = folder.file("module.mlirbc", "module.mlir")
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    if any(x["dtype"] in ("f64", "s64", "u64", "c128") for x in folder.arguments + folder.results):
        jax.config.update("jax_enable_x64", True)
    device = jax.devices("cpu")[0]
    start_mb = own_peak_mb()
    with mlir.make_ir_context():
        if path.suffix == ".mlirbc":
            module = _jax.mlir.deserialize_portable_artifact(path.read_bytes())
        else:
            from jax._src.lib.mlir import ir
            module = ir.Module.parse(path.read_text())
        t = time.perf_counter()
        program = device.client.compile_and_load(module, _jax.DeviceList((device,)), _jax.CompileOptions())
        compile_ms = (time.perf_counter() - t) * 1e3

    host = [x.view(narrow_float(a["dtype"])) if a["dtype"] in BITS else x for x, a in zip(folder.inputs(), folder.arguments)]
    arguments = [jax.device_put(x, device) for x in host]

    def refresh():  # A donated argument is gone after a run.
        for i, x in enumerate(arguments):
            if x.is_deleted():
                arguments[i] = jax.device_put(np.array(host[i]), device)
        jax.block_until_ready(arguments)

    refresh()
    t = time.perf_counter()
    out = jax.block_until_ready(program.execute(arguments))
    first_ms = (time.perf_counter() - t) * 1e3
    verdict = folder.judge([np.asarray(x) for x in out])
    del out
    times = timed(lambda: jax.block_until_ready(program.execute(arguments)), seconds, refresh)
    report(status="ok", compile_ms=compile_ms, first_ms=first_ms, start_mb=start_mb, **times, **verdict)


driver(main)
