#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `krafla run` takes as arguments, how modules are named, and what `krafla inspect` says of them."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "tests/models"

# Arguments of different shapes, so that one in the place of another is found.
AXPY = """HloModule m
ENTRY main {
  a = f32[] parameter(0)
  x.3 = f32[4] parameter(1), metadata={op_name="params['x']"}
  y = f32[4] parameter(2)
  b = f32[4] broadcast(a), dimensions={}
  m = f32[4] multiply(b, x.3)
  ROOT r = f32[4] add(m, y)
}
"""
OPEN = """func.func public @main(%arg0: tensor<?x4xf32> loc("x"), %arg1: tensor<4xf32> loc("b")) -> tensor<?x4xf32> {
  %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %c = stablehlo.constant dense<4> : tensor<1xi32>
  %2 = stablehlo.concatenate %1, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %3 = stablehlo.dynamic_broadcast_in_dim %arg1, %2, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %4 = stablehlo.add %arg0, %3 : tensor<?x4xf32>
  return %4 : tensor<?x4xf32>
}
"""


def npy(values, shape, descr="<f4", code="f", fortran=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    header += " " * (64 - (len(header) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() +
            struct.pack(f"<{len(values)}{code}", *values))


class InputsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def krafla(self, *words, code=0, **more):
        out = subprocess.run([KRAFLA, *map(str, words)], capture_output=True, text=True, timeout=120, **more)
        self.assertEqual(out.returncode, code, (words, out.stdout, out.stderr))
        return out

    def values(self, *words, **more):
        out = self.krafla("run", *words, "-d", "cpu", "--json", **more)
        return [json.loads(line)["value"] for line in out.stdout.splitlines()]

    def test_by_name_by_number_and_in_order(self):
        m = self.file("m.hlo", AXPY)
        x = self.file("x.npy", npy([1, 2, 3, 4], "(4,)"))
        y = self.file("y.bin", struct.pack("<4f", 10, 20, 30, 40))
        expected = [[12, 24, 36, 48]]
        self.assertEqual(self.values(m, "--input", f"y=@{y}", "--input", f"x=@{x}", "--input", "a=2"), expected)
        self.assertEqual(self.values(m, "--input", f"2=@{y}", "--input", "0=2", "--input", f"x.3=@{x}"), expected)
        self.assertEqual(self.values(m, "--input", f"params['x']=@{x}", "--input", "f32[]=2", "--input", f"@{y}"), expected)
        self.assertEqual(self.values("--input", "f32[]=2", "--input", f"@{x}", "--input", "f32[4]=10,20,30,40", m), expected)
        # Standard input holds one of them: an .npy, or raw bytes.
        for path in (x, self.file("x.bin", struct.pack("<4f", 1, 2, 3, 4))):
            with open(path) as given:
                self.assertEqual(self.values(m, "--input", f"y=@{y}", "--input", "x=@-", "--input", "a=2", stdin=given), expected)

    def test_what_is_wrong_with_them_is_said_before_anything_is_compiled(self):
        m = self.file("m.hlo", AXPY)
        short = self.file("short.bin", bytes(12))
        wide = self.file("wide.npy", npy([1] * 5, "(5,)"))
        cut = self.file("cut.npy", npy([1] * 4, "(4,)")[:-4])
        rest = ("--input", "a=2", "--input", "y=1 2 3 4")
        for words, says in (((*rest, "--input", f"x=@{short}"), f"f32[4] takes 16 bytes, '{short}' has 12"),
                            ((*rest, "--input", f"x=@{wide}"), "Argument 1 (x.3): expected f32[4], got f32[5]"),
                            ((*rest, "--input", f"x=@{cut}"), "takes 16 bytes, but the file has 12"),
                            ((*rest, "--input", "x=@/nonexistent"), "cannot be opened"),
                            ((*rest, "--input", "z=@/nonexistent"), "There is no parameter 'z'; the parameters are: a f32[], x.3"),
                            ((*rest, "--input", "a=3"), "Argument 0 (a) is given twice"),
                            ((*rest, "--input", "x=1 2 3"), "1 (x.3)"),
                            (rest, "2 were given"),
                            ((*rest, "--input", "x"), "'x' is not an argument")):
            out = self.krafla("run", m, "-d", "cpu", *words, code=3)
            self.assertIn(says, out.stderr)
            self.assertNotIn("instructions on", out.stderr)

    def test_archives_by_name(self):
        m = self.file("m.hlo", AXPY)
        x, y, a = npy([1, 2, 3, 4], "(4,)"), npy([10, 20, 30, 40], "(4,)"), npy([2], "()")

        def archive(name, arrays):
            path = self.folder / name
            with zipfile.ZipFile(path, "w") as z:
                for key, content in arrays:
                    z.writestr(key + ".npy", content)
            return path

        expected = [[12, 24, 36, 48]]
        for arrays in ([("y", y), ("a", a), ("x", x)], [("2", y), ("params['x']", x), ("0", a)],
                       [("arr_0", a), ("arr_1", x), ("arr_2", y)]):
            self.assertEqual(self.values(m, "--inputs", archive("in.npz", arrays)), expected)
        out = self.krafla("run", m, "-d", "cpu", "--inputs", archive("bad.npz", [("y", y), ("a", a), ("z", x)]), code=3)
        self.assertIn("one 'z', which is none; the parameters are: a f32[], x.3 f32[4], y f32[4]", out.stderr)
        # Names leave some for --input, an order does not.
        some = archive("some.npz", [("y", y), ("a", a)])
        self.assertEqual(self.values(m, "--inputs", some, "--input", "x=1 2 3 4"), expected)
        self.krafla("run", m, "-d", "cpu", "--inputs", some, code=3)
        self.krafla("run", m, "-d", "cpu", "--inputs", archive("q.npz", [("q", y), ("r", a)]), "--input", "x=1 2 3 4", code=3)

    def test_safetensors(self):
        m = self.file("m.hlo", AXPY)
        header = json.dumps({"__metadata__": {"format": "pt"},
                             "y": {"dtype": "F32", "shape": [4], "data_offsets": [4, 20]},
                             "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}).encode()
        weights = self.folder / "w.safetensors"
        weights.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<5f", 2, 10, 20, 30, 40))
        self.assertEqual(self.values(m, "--inputs", weights, "--input", "x=1 2 3 4"), [[12, 24, 36, 48]])
        weights.write_bytes(weights.read_bytes()[:-1])
        out = self.krafla("run", m, "-d", "cpu", "--inputs", weights, "--input", "x=1 2 3 4", code=3)
        self.assertIn("'y'", out.stderr)
        # Dimensions from minor to major, and two bytes for a truth value that is not 0.
        square = self.file("square.hlo", "HloModule m\nENTRY main {\n  ROOT x = s32[2,3] parameter(0)\n}\n")
        fortran = self.file("f.npy", npy([1, 4, 2, 5, 3, 6], "(2, 3)", "<i4", "i", True))
        self.assertEqual(self.values(square, "--input", f"x=@{fortran}"), [[[1, 2, 3], [4, 5, 6]]])

    def test_results_as_json(self):
        m = self.file("m.hlo", "HloModule m\nENTRY main {\n  x = f32[3] parameter(0)\n  z = f32[] constant(0)\n"
                      "  b = f32[3] broadcast(z), dimensions={}\n  d = f32[3] divide(x, b)\n  c = c64[3] complex(x, d)\n"
                      "  p = pred[3] compare(x, b), direction=GT\n  ROOT t = (f32[3], c64[3], pred[3], f32[]) tuple(d, c, p, z)\n}\n")
        values = self.values(m, "--input", "x=1 0 -1")
        self.assertEqual(values, [["inf", "nan", "-inf"], [[1, "inf"], [0, "nan"], [-1, "-inf"]], [True, False, False], 0])
        out = self.krafla("run", m, "--input", "x=1 0 -1", "-d", "cpu", "--json", "--save", self.folder / "o.npz")
        line = json.loads(out.stdout.splitlines()[2])
        self.assertEqual((line["name"], line["file"]), ("out0002", str(self.folder / "o.npz")))
        self.assertEqual(len(zipfile.ZipFile(self.folder / "o.npz").namelist()), 4)

    def test_model_folders_bring_their_arguments(self):
        out = self.krafla("run", MODELS / "mlp-tiny", "-d", "cpu")
        self.assertIn("inputs.npz", out.stderr)
        given = self.krafla("run", MODELS / "mlp-tiny/module.hlo", "--inputs", MODELS / "mlp-tiny/inputs.npz", "-d", "cpu")
        self.assertEqual(out.stdout, given.stdout)
        out = self.krafla("run", MODELS / "tp-mlp-8-tiny", "-d", "cpu")
        self.assertIn("8 devices", out.stderr)
        (self.folder / "saved_model.pb").write_bytes(b"\x08\x01")
        self.assertIn("a TensorFlow SavedModel", self.krafla("run", self.folder, "-d", "cpu", code=3).stderr)
        self.assertIn("no model folder", self.krafla("run", MODELS, "-d", "cpu", code=3).stderr)

    def test_a_folder_with_a_module_alone(self):
        self.file("module.hlo", AXPY)
        for command in (("run", "--random"), ("bench", "--iters", "1"), ("inspect",), ("explain",), ("opt",),
                        ("profile", "--no-roof", "--runs", "1")):
            self.krafla(command[0], self.folder, *command[1:], *(() if command == ("opt",) else ("-d", "cpu")))

    def test_sizes_that_a_module_leaves_open(self):
        m = self.file("open.mlir", OPEN)
        given = ("--input", "x=1 2 3 4 5 6 7 8", "--input", "b=1 1 1 1")
        for shape in ("x=2,4", "0=2x4"):
            self.assertEqual(self.values(m, "--shape", shape, *given), [[[2, 3, 4, 5], [6, 7, 8, 9]]])
        for command in (("run", m, "--random"), ("opt", m), ("bench", m, "-d", "cpu"), ("inspect", m, "-d", "cpu"),
                        ("explain", m, "-d", "cpu"), ("profile", m, "-d", "cpu", "--no-roof"),
                        ("compare", m, "cpu", "cpu", "--pairs", "0")):
            out = self.krafla(*command, code=3)
            self.assertIn("Argument 0 (x) is f32[?,4]: the size of dimension 0 is not known", out.stderr)
            self.assertIn("--shape 'x=1,4'", out.stderr)
            self.krafla(*command, "--shape", "x=3,4", **({"env": {**os.environ, "KRAFLA_DEVICE": "cpu"}}))
        for shape in ("x", "=3", "x=3,", "x=3,-4", "x=a"):
            self.krafla("run", m, "--shape", shape, "--random", code=2)
        out = self.krafla("run", m, "--shape", "y=3,4", "--random", code=3)
        self.assertIn("the arguments are: 0 (x) f32[?,4], 1 (b) f32[4]", out.stderr)

    def test_sizes_of_the_arrays_that_are_given(self):
        m = self.file("open.mlir", OPEN)
        x = self.file("x.npy", npy(range(8), "(2, 4)"))
        b = npy([1, 1, 1, 1], "(4,)")
        for name in ("x", "0", ""):
            given = f"{name}=@{x}" if name else f"@{x}"
            self.assertEqual(self.values(m, "--input", given, "--input", "b=1 1 1 1"), [[[1, 2, 3, 4], [5, 6, 7, 8]]])
        self.assertEqual(self.values(m, "--input", "f32[1,4]=1 2 3 4", "--input", "f32[4]=1 1 1 1"), [[[2, 3, 4, 5]]])
        for names in (("x", "b"), ("arr_0", "arr_1")):
            with zipfile.ZipFile(self.folder / "in.npz", "w") as archive:
                for name, array in zip(names, (x.read_bytes(), b)):
                    archive.writestr(f"{name}.npy", array)
            out = self.krafla("run", m, "--inputs", self.folder / "in.npz", "-d", "cpu")
            self.assertIn("{5,6,7,8}", out.stdout)
            self.assertIn("shapes of the arrays given:", out.stderr)
        # What is given by --shape goes first, and what does not fit is said as before.
        wide = self.file("wide.npy", npy(range(6), "(2, 3)"))
        self.assertIn("f32[?,4]", self.krafla("run", m, "--input", f"@{wide}", "--input", "b=1 1 1 1", "-d", "cpu", code=3).stderr)

    def test_standard_input_everywhere(self):
        for command in (("run", "--random"), ("opt",), ("bench", "--iters", "1"), ("inspect",), ("explain",),
                        ("profile", "--no-roof", "--runs", "1")):
            device = () if command == ("opt",) else ("-d", "cpu")
            self.krafla(command[0], "-", *command[1:], *device, input=AXPY)

    def test_random_arguments(self):
        # Variances are not negative.
        out = self.krafla("run", MODELS / "resnet18-tiny", "--random", "-d", "cpu")
        self.assertNotIn("nan", out.stdout)
        self.assertNotIn("NaN", out.stderr)
        out = self.krafla("run", MODELS / "resnet18-tiny", "--random", "--random-range", "-1", "1", "-d", "cpu", "-q")
        self.assertIn("Every floating-point result is NaN. --random-range", out.stderr)
        m = self.file("m.hlo", "HloModule m\nENTRY main {\n  x = bf16[200] parameter(0)\n  y = c128[50] parameter(1)\n"
                      "  z = f64[50] real(y)\n  ROOT t = (bf16[200], f64[50]) tuple(x, z)\n}\n")
        for values in self.values(m, "--random", "--random-range", "2", "3"):
            self.assertTrue(all(2 <= v <= 3 for v in values) and len(set(values)) > 10)
        self.krafla("run", "--random", "--random-range", "-3", "-2", m, "-d", "cpu", code=0)  # the module behind it
        self.krafla("run", m, "--random", "--random-range", "3", "2", code=2)
        self.krafla("run", m, "--random-range", "2", "3", code=2)

    def test_files_of_another_kind(self):
        rows = ((b"\x3c\x00\x00\x00\x38\x00ML\xefR\x0dStableHLO", "jax.export.deserialize"), (b"GGUF\x03\x00\x00\x00", "GGUF"),
                (b"PK\x03\x04\x14\x00archive/data.pkl", "torch.onnx.export"), (b"\x00\x00\x00\x00TFL3", "TensorFlow Lite"))
        for number, (content, says) in enumerate(rows):
            for command in (("run", "--random"), ("inspect",), ("opt",)):
                path = self.file(f"model{number}", content)
                self.assertIn(says, self.krafla(command[0], path, *command[1:], code=3).stderr)

    def test_inspect(self):
        m = self.file("m.hlo", AXPY)
        text = self.krafla("inspect", m, "-d", "cpu").stdout
        for says in ("x.3", "f32[4]", "16 bytes", "multiply 1", "on cpu: 3 of 3 instructions run there"):
            self.assertIn(says, text)
        line = json.loads(self.krafla("inspect", m, "-d", "cpu", "--json").stdout)
        self.assertEqual(line["inputs"][1], {"name": "x.3", "shape": "f32[4]", "type": "f32", "dimensions": [4], "bytes": 16,
                                             "names": ["1", "x", "params['x']"]})
        self.assertEqual(line["outputs"], [{"shape": "f32[4]", "type": "f32", "dimensions": [4], "bytes": 16}])
        self.assertEqual(line["operators"]["parameter"], 3)
        self.assertEqual(line["instructions_on_device"], line["instructions_compiled"])
        # What leaves sizes open says which.
        m = self.file("open.mlir", "module { func.func public @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n"
                      "  %0 = stablehlo.add %x, %x : tensor<?x3xf32>\n  return %0 : tensor<?x3xf32> } }\n")
        self.assertIn("f32[?,3]", self.krafla("inspect", m, "-d", "cpu", code=3).stdout)
        self.assertIn("f32[2,3]", self.krafla("inspect", m, "-d", "cpu", "--shape", "0=2,3").stdout)
        line = json.loads(self.krafla("inspect", m, "-d", "cpu", "--json", code=3).stdout)
        self.assertEqual(line, {"inputs": [{"name": "x", "type": "f32", "dimensions": [None, 3]}], "open": True})
        self.krafla("inspect", m, "-d", "cpu", "--shape", "0=2,4", code=3)
        line = json.loads(self.krafla("inspect", MODELS / "tp-mlp-8-tiny", "-d", "cpu*8", "--json").stdout)
        self.assertGreater(line["partitions"], 1)


if __name__ == "__main__":
    unittest.main()
