# SPDX-License-Identifier: Apache-2.0
"""Modules written in each form that a file's name says, by `krafla opt` and `krafla import`, give the same results.

  module_kinds_test.py KRAFLA
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MODULE = "HloModule sum\nENTRY main { x = f32[3] parameter(0)  y = f32[3] exponential(x)  ROOT z = f32[3] add(x, y) }\n"


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A field of a protobuf message: a number, text or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_model():
    """result = Exp(pixels) + pixels, of three numbers (onnx.proto)."""
    shape = field(2, field(1, field(1, 3)))
    array = field(2, field(1, field(1, 1) + shape))
    graph = field(1, field(1, "pixels") + field(2, "e") + field(4, "Exp"))
    graph += field(1, field(1, "e") + field(1, "pixels") + field(2, "result") + field(4, "Add"))
    graph += field(2, "g") + field(11, field(1, "pixels") + array) + field(12, field(1, "result") + array)
    return field(1, 8) + field(8, field(2, 13)) + field(7, graph)


def main():
    krafla = sys.argv[1]
    failures = []

    def run(*arguments):
        return subprocess.run([krafla, *arguments], capture_output=True, text=True)

    def expect(what, done, code, said=""):
        if done.returncode != code or said not in done.stdout + done.stderr:
            failures.append(f"{what}: exit {done.returncode}, not {code} with '{said}': {done.stdout}{done.stderr}")

    def values(file):
        done = run("run", str(file), "--input", "0=1 2 3", "-d", "cpu", "--json")
        if done.returncode != 0:
            failures.append(f"{file}: {done.stderr}")
            return None
        return json.loads(done.stdout.split("\n")[0])["value"]

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        hlo = folder / "given.hlo"
        hlo.write_text(MODULE)
        model = folder / "model.onnx"
        model.write_bytes(onnx_model())
        wanted = values(hlo)
        begins = {".hlo": b"HloModule", ".pb": b"", ".mlir": b"module", ".mlirbc": b"ML\xefR"}
        for ending, begin in begins.items():
            for stage in ("parsed", "optimized"):
                out = folder / f"opt-{stage}{ending}"
                expect(f"opt {stage} {ending}", run("opt", str(hlo), "--stage", stage, "-o", str(out)), 0)
                if not out.read_bytes().startswith(begin):
                    failures.append(f"{out} does not begin with {begin}")
                if values(out) != wanted:
                    failures.append(f"{out}: {values(out)} in place of {wanted}")
        for ending in [*begins, ".krafla"]:
            out = folder / f"imported{ending}"
            expect(f"import {ending}", run("import", str(model), "-o", str(out)), 0, "pixels")
            if values(out) != wanted:
                failures.append(f"{out}: {values(out)} in place of {wanted}")
            expect(f"names in {ending}", run("inspect", str(out), "--json"), 0, "pixels")
        if 'jax.result_info = "result"' not in (folder / "imported.mlir").read_text():
            failures.append("imported.mlir does not name its result")
        # The word after --emit counts before the name.
        out = folder / "text.pb"
        expect("opt --emit", run("opt", str(hlo), "--stage", "parsed", "--emit", "stablehlo", "-o", str(out)), 0)
        if not out.read_bytes().startswith(b"module"):
            failures.append("--emit stablehlo did not write StableHLO")
        expect("opt to a compiled model", run("opt", str(hlo), "-o", str(folder / "m.krafla")), 3, "krafla compile")
        expect("import of another kind", run("import", str(model), "-o", str(folder / "m.tflite")), 3, "StableHLO bytecode (.mlirbc)")
        expect("emit of another kind", run("opt", str(hlo), "--emit", "json"), 2)
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
