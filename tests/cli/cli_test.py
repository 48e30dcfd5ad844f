#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: exit codes, where output goes, what errors say."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import address_space  # noqa: E402

KRAFLA = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MLP = ROOT / "tests/models/mlp-tiny"

ADD = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n"


def krafla(*args, **kwargs):
    return subprocess.run([KRAFLA, *map(str, args)], capture_output=True, text=True, timeout=120, **kwargs)


def has_vulkan():
    return "vulkan:" in krafla("devices").stdout


class CliTest(unittest.TestCase):
    def module(self, text):
        f = tempfile.NamedTemporaryFile("wb", suffix=".hlo", delete=False)
        f.write(text if isinstance(text, bytes) else text.encode())
        f.close()
        self.addCleanup(os.unlink, f.name)
        return f.name

    def test_version_and_help(self):
        self.assertEqual(krafla("--version").returncode, 0)
        out = krafla("--help")
        self.assertEqual(out.returncode, 0)
        for command in ("devices", "doctor", "run", "check", "bench", "profile", "explain", "compare", "opt", "ops", "demo"):
            self.assertIn(command, out.stdout)

    def test_compiled_models_are_written_through_links(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "real").write_bytes(b"")
            (folder / "link").symlink_to(folder / "real")
            os.mkfifo(folder / "pipe")
            reader = subprocess.Popen(["cat", folder / "pipe"], stdout=subprocess.PIPE)
            for name in ("link", "pipe"):
                self.assertEqual(krafla("compile", self.module(ADD), "-o", folder / name).returncode, 0)
            self.assertTrue((folder / "link").is_symlink())
            self.assertTrue((folder / "pipe").is_fifo())
            self.assertEqual((folder / "real").read_bytes(), reader.communicate(timeout=60)[0])
            self.assertTrue((folder / "real").read_bytes().startswith(b"\x89KRAFLA"))

    def test_weights_beside_a_compiled_model(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "m.hlo").write_text(ADD.replace("f32[4]", "f32[2048]").replace("add(x, x)", "add(x, w)").replace(
                "  ROOT", "  w = f32[2048] parameter(1)\n  ROOT"))
            header = b'{"w":{"dtype":"F32","shape":[2048],"data_offsets":[0,8192]}}'
            weights = struct.pack("<2048f", *range(2048))
            (folder / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + weights)
            (folder / "x.bin").write_bytes(struct.pack("<2048f", *[1] * 2048))
            made = krafla("compile", "m.hlo", "-o", "m.krafla", "--weights", "w.safetensors", "--weights-out", "m.safetensors", "--json", cwd=folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual(json.loads(made.stdout)["weights_out"]["bytes"], (folder / "m.safetensors").stat().st_size)
            self.assertLess((folder / "m.krafla").stat().st_size, 8192)
            run = ("run", folder / "m.krafla", "-d", "cpu", "--input", f"x=@{folder / 'x.bin'}", "--save", folder / "out.npz")
            self.assertEqual(krafla(*run).returncode, 0)
            with zipfile.ZipFile(folder / "out.npz") as out:
                self.assertEqual(out.read(out.namelist()[0])[-8192:], struct.pack("<2048f", *range(1, 2049)))
            self.assertTrue((folder / "m.safetensors").read_bytes().endswith(weights))
            for wrong in ("m.krafla", "w.safetensors", "m.hlo", "a/b"):
                self.assertNotEqual(krafla("compile", "m.hlo", "-o", "m.krafla", "--weights", "w.safetensors", "--weights-out", wrong, cwd=folder).returncode, 0)
            (folder / "m.safetensors").unlink()
            missing = krafla(*run)
            self.assertEqual(missing.returncode, 3, missing.stderr)
            self.assertIn("m.safetensors", missing.stderr)

    def test_numbers_that_are_none(self):
        m = self.module(ADD)
        for wrong in ("nan", "-nan", "x"):
            self.assertEqual(krafla("run", m, "-d", "cpu", "--random", "--time-limit", wrong).returncode, 2)
            self.assertEqual(krafla("bench", m, "-d", "cpu", "--min-time", wrong).returncode, 2)
        self.assertEqual(krafla("run", m, "-d", "cpu", "--random", "--time-limit", "60").returncode, 0)

    def test_profiles_of_devices(self):
        devices = [line for line in krafla("devices", "--json").stdout.splitlines() if "vulkan:" in line]
        if not devices:
            self.skipTest("no Vulkan device")
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "profile.json"
            profile.write_text(devices[0])
            opt = ("opt", self.module(ADD), "--stage", "spirv", "--profile")
            self.assertEqual(krafla(*opt, profile).returncode, 0)
            done = krafla(*opt, folder)
            self.assertNotIn("bug", done.stderr)
            self.assertEqual(done.returncode, 3, done.stderr)

    def test_modules_that_check_themselves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "sums.mlir"
            path.write_text("""
func.func @right() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_eq_const %1, dense<[2.0, 4.0]> : tensor<2xf32>
  func.return
}
// -----
func.func @wrong() {
  %0 = stablehlo.constant dense<3> : tensor<i32>
  check.expect_eq_const %0, dense<4> : tensor<i32>
  func.return
}
""")
            for where in (path, folder):
                out = krafla("check", where, "-d", "cpu")
                self.assertEqual(out.returncode, 1, out.stderr)
                self.assertIn("sums.mlir#wrong", out.stdout)
                self.assertIn("got 3, expected 4", out.stdout)
                self.assertTrue(out.stdout.endswith("1 passed, 1 failed, 0 skipped\n"), out.stdout)

    def test_usage_errors_exit_2(self):
        self.assertEqual(krafla().returncode, 2)
        self.assertEqual(krafla("frobnicate").returncode, 2)
        self.assertEqual(krafla("run").returncode, 2)
        out = krafla("run", self.module(ADD), "-d", "cpu", "--random", "--disable", "nonsense")
        self.assertEqual(out.returncode, 2)
        self.assertIn("nonsense", out.stderr)
        self.assertEqual(krafla("run", self.module(ADD), "-d", "toaster", "--random").returncode, 2)

    def test_conflicts_exit_2(self):
        m = self.module(ADD)
        for options in (("--random", "--inputs", "x.npz"), ("--random", "--input", "f32[4]=1 2 3 4"),
                        ("--input", "f32[4]=1 2 3 4", "--seed", "3")):
            self.assertEqual(krafla("run", m, "-d", "cpu", *options).returncode, 2, options)
        for options in (("--disable", "nonsense"), ("-d", "toaster", "--stage", "plan"), ("--stage", "spirv", "-d", "cpu")):
            out = krafla("opt", m, *options)
            self.assertEqual(out.returncode, 2, (options, out.stderr))
        self.assertEqual(krafla("bench", m, "-d", "cpu", "--iters", "-3").returncode, 2)
        with tempfile.TemporaryDirectory() as empty:
            for command in ("check", "bench"):
                out = krafla(command, empty, "-d", "cpu")
                self.assertEqual(out.returncode, 2, out.stdout)
                self.assertIn("no recorded case", out.stderr)

    def test_unknown_commands_are_named(self):
        out = krafla("rum", "m.hlo")
        self.assertEqual(out.returncode, 2)
        self.assertIn("'rum'; did you mean run?", out.stderr)
        self.assertIn("no command 'frobnicate'", krafla("frobnicate").stderr)
        self.assertIn("bench", krafla("help").stdout)
        self.assertIn("--partitions", krafla("help", "run").stdout)

    def test_things_that_are_no_files(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            npz = self.npz(4)
            for path in (folder, "/dev/zero", "/proc/self/mem", pipe, "/nonexistent/m"):
                for command in (("run", path, "--random", "-d", "cpu"), ("opt", path), ("bench", path, "-d", "cpu"),
                                ("run", self.module(ADD), "--inputs", path, "-d", "cpu")):
                    out = krafla(*command)
                    expected = (2, 3) if command == ("bench", folder, "-d", "cpu") else (3,)
                    self.assertIn(out.returncode, expected, (command, out.stderr))
                    self.assertTrue(out.stderr.startswith("krafla: "), out.stderr)
            for out in ("/proc/nope", "/dev/null/x", "/proc/x/y"):
                self.assertEqual(krafla("opt", self.module(ADD), "--stage", "spirv", "-o", out).returncode, 3 if has_vulkan() else 4)
                self.assertEqual(krafla("opt", self.module(ADD), "-o", out).returncode, 3)
                done = krafla("run", self.module(ADD), "-d", "cpu", "--inputs", npz, "--save", out)
                self.assertEqual(done.returncode, 3, done.stderr)

    def test_a_pipe_at_the_cache_hangs_nobody(self):
        if not has_vulkan():
            self.skipTest("no Vulkan device")
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "KRAFLA_CACHE_DIR": folder}
            run = lambda: krafla("run", self.module(ADD), "-d", "vulkan", "--random", env=env)
            self.assertEqual(run().returncode, 0)
            made = os.listdir(folder)
            self.assertTrue(made)
            for name in made:
                os.unlink(os.path.join(folder, name))
                os.mkfifo(os.path.join(folder, name))
            # What a process that was killed left behind.
            old, young = (os.path.join(folder, f"pipelines-x.bin.{n}.0.tmp") for n in (1, 2))
            for path in (old, young):
                open(path, "w").close()
            os.utime(old, (0, 0))
            out = run()
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertFalse(os.path.exists(old))
            self.assertTrue(os.path.exists(young))

    def test_results_that_cannot_be_written(self):
        for command in (("run", self.module(ADD), "-d", "cpu", "--random"), ("opt", self.module(ADD)), ("opt", "--list-passes"),
                        ("check", MLP, "-d", "cpu"), ("bench", MLP, "-d", "cpu", "--iters", "1"),
                        ("profile", MLP, "-d", "cpu", "--runs", "1", "--no-roof"), ("devices",), ("ops", "-d", "cpu"),
                        ("ops", "--md")):
            with open("/dev/full", "w") as full:
                out = subprocess.run([KRAFLA, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(out.returncode, 3, (command, out.stderr))
            self.assertIn("Standard output cannot be written", out.stderr)

    def test_runs_end(self):
        infeed = self.module("HloModule m\nENTRY e {\n t = token[] after-all()\n ROOT r = (f32[4], token[]) infeed(t)\n}\n")
        out = krafla("run", infeed, "-d", "cpu", "--random")
        self.assertEqual(out.returncode, 3, out.stderr)
        self.assertIn("no host feeds it", out.stderr)
        forever = self.module("HloModule m\nc {\n p = s32[] parameter(0)\n ROOT r = pred[] compare(p, p), direction=EQ\n}\n"
                              "b {\n p = s32[] parameter(0)\n ROOT r = s32[] add(p, p)\n}\n"
                              "ENTRY e {\n x = s32[] parameter(0)\n ROOT w = s32[] while(x), condition=c, body=b\n}\n")
        for command in (("run", forever, "--random"), ("bench", forever)):
            out = krafla(*command, "-d", "cpu", "--time-limit", "0.2")
            self.assertEqual(out.returncode, 4, out.stderr)
            self.assertIn("deadline", out.stderr)
        if "vulkan" in krafla("devices").stdout:
            # More work than any device does in the time, given to it piece by piece.
            long = self.module("HloModule m\nb {\n p = (s32[], f32[1024,1024]) parameter(0)\n"
                               " i = s32[] get-tuple-element(p), index=0\n o = s32[] constant(1)\n n = s32[] add(i, o)\n"
                               " x = f32[1024,1024] get-tuple-element(p), index=1\n"
                               " d = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               " ROOT r = (s32[], f32[1024,1024]) tuple(n, d)\n}\n"
                               "c {\n p = (s32[], f32[1024,1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                               " e = s32[] constant(10000000)\n ROOT r = pred[] compare(i, e), direction=LT\n}\n"
                               "ENTRY e {\n z = s32[] constant(0)\n x = f32[1024,1024] parameter(0)\n"
                               " t = (s32[], f32[1024,1024]) tuple(z, x)\n"
                               " ROOT w = (s32[], f32[1024,1024]) while(t), condition=c, body=b\n}\n")
            out = krafla("run", long, "--random", "-d", "vulkan", "--time-limit", "0.2")
            self.assertEqual(out.returncode, 4, out.stderr)
            self.assertIn("deadline", out.stderr)

    def test_nothing_falls_back_silently(self):
        nothing = {**os.environ, "VK_DRIVER_FILES": "/nonexistent/icd.json"}
        nothing.pop("KRAFLA_DEVICE", None)
        nothing.pop("KRAFLA_VALIDATE", None)
        m = self.module(ADD)
        out = krafla("run", m, "--random", env=nothing)
        if "vulkan" in krafla("devices").stdout or "loader" in out.stderr or "river" in out.stderr:
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertIn("as there is no Vulkan device (", out.stderr)
        self.assertEqual(krafla("run", m, "--random", "--strict", env=nothing).returncode, 4)
        self.assertEqual(krafla("run", m, "--random", env={**nothing, "KRAFLA_VALIDATE": "true"}).returncode, 4)
        out = krafla("run", m, "--random", env={**os.environ, "KRAFLA_VALIDATE": "maybe", "KRAFLA_DEVICE": ""})
        self.assertEqual(out.returncode, 2, out.stderr)
        self.assertIn("'maybe'", out.stderr)

    def npz(self, count, name="x"):
        """An archive of one array of `count` floats, packed."""
        f = tempfile.NamedTemporaryFile(suffix=".npz", delete=False)
        self.addCleanup(os.unlink, f.name)
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}"
        header += " " * (64 - (len(header) + 11) % 64) + "\n"
        with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z, z.open(name + ".npy", "w") as entry:
            entry.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            for _ in range(0, count * 4, 1 << 20):
                entry.write(bytes(min(1 << 20, count * 4)))
        return f.name

    def test_arguments_are_looked_at_first(self):
        m = self.module(ADD)
        out = krafla("run", m, "-d", "cpu")
        self.assertEqual(out.returncode, 3)
        self.assertIn("takes 1 arguments: x f32[4]; 0 were given", out.stderr)
        self.assertNotIn("instructions on", out.stderr)  # nothing was compiled
        out = krafla("run", m, "-d", "cpu", "--input", "f64[4]=1 2 3 4")
        self.assertIn("Argument 0 (x): expected f32[4], got f64[4].", out.stderr)
        self.assertNotIn("instructions on", out.stderr)
        # A megabyte that unpacks to a gigabyte: its header is enough.
        def limit():
            address_space.limit(KRAFLA, 600 << 20)
        bomb = self.npz(1 << 28)
        self.assertLess(os.path.getsize(bomb), 2 << 20)
        out = krafla("run", m, "-d", "cpu", "--inputs", bomb, preexec_fn=limit)
        self.assertEqual(out.returncode, 3, out.stderr)
        self.assertIn("expected f32[4], got f32[268435456]", out.stderr)
        npy = tempfile.NamedTemporaryFile(suffix=".npy")
        self.assertIn("numpy.savez", krafla("run", m, "-d", "cpu", "--inputs", npy.name).stderr)

    def test_run_takes_folders_and_standard_input(self):
        out = krafla("run", MLP, "-d", "cpu", "--random")
        self.assertEqual(out.returncode, 0, out.stderr)
        out = krafla("run", "-", "-d", "cpu", "--input", "f32[4]=1 2 3 4", "--json", input=ADD)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(json.loads(out.stdout), {"result": 0, "shape": "f32[4]", "value": [2, 4, 6, 8]})

    def test_names_of_any_length_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in (names := {"n" * 251 + ".npz", "ü" * 125 + ".npz"}):
                krafla("run", self.module(ADD), "-d", "cpu", "--random", "--save", os.path.join(folder, name), "-q")
            self.assertEqual(set(os.listdir(folder)), names)

    def test_a_zero_keeps_its_sign(self):
        out = krafla("run", self.module(ADD), "-d", "cpu", "--input", "x=-0 0,-0.0, -1", "--json").stdout
        self.assertIn("[-0.0, 0, -0.0, -2]", json.dumps(json.loads(out)))

    def test_no_such_device_exits_4(self):
        self.assertEqual(krafla("run", self.module(ADD), "-d", "vulkan:97", "--random").returncode, 4)

    def test_run_prints_results(self):
        out = krafla("run", self.module(ADD), "-d", "cpu", "--input", "f32[4]=1 2 3 4")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("{2,4,6,8}", out.stdout)
        self.assertIn("1/1 instructions on cpu", out.stderr)

    def test_bad_modules_exit_3(self):
        text = (MLP / "module.hlo").read_text()
        bad = {
            "truncated": text[: len(text) // 2],
            "binary": bytes(range(256)) * 8,
            "empty": "",
            "huge": ADD.replace("f32[4]", "f32[4611686018427387904,16]"),
            "wrong type": ADD.replace("f32[4] add", "s32[4] add"),
            "unknown op": ADD.replace("add(", "sum("),
            "undefined": ADD.replace("(x, x)", "(x, y)"),
        }
        for name, module in bad.items():
            with self.subTest(name):
                out = krafla("run", self.module(module), "-d", "cpu", "--random")
                self.assertEqual(out.returncode, 3, out.stderr)
                self.assertTrue(out.stderr.startswith("krafla: "), out.stderr)
        out = krafla("run", self.module(bad["unknown op"]), "-d", "cpu", "--random")
        self.assertIn(":4:", out.stderr)
        self.assertIn("sum", out.stderr)

    def test_several_devices(self):
        gather = self.module("HloModule m\nENTRY main {\n  id = u32[] replica-id()\n  x = u32[1] reshape(id)\n"
                             "  ROOT r = u32[3] all-gather(x), replica_groups={}, dimensions={0}\n}\n")
        for device in ("cpu*3", "cpu", "cpu*2,cpu", "cpu*4"):
            out = krafla("run", gather, "-d", device, "--replicas", 3)
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertEqual(out.stdout.splitlines(), [f"device {d}: u32[3] {{0,1,2}}" for d in range(3)])
            self.assertIn("3 replicas", out.stderr)
        self.assertEqual(krafla("run", gather, "-d", "cpu*2", "--replicas", 3).returncode, 3)
        self.assertEqual(krafla("run", gather, "-d", "cpu*0", "--replicas", 3).returncode, 2)
        out = krafla("bench", ROOT / "tests/models/ring-attention-4-tiny", "-d", "cpu*4", "--iters", "3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(json.loads(out.stdout.splitlines()[0])["device"], "cpu*4")

    def test_missing_file_exits_3(self):
        self.assertEqual(krafla("run", "/nonexistent/module.hlo", "-d", "cpu").returncode, 3)

    def test_check(self):
        out = krafla("check", MLP, "-d", "cpu")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(out.stdout.strip().splitlines()[-1], "1 passed, 0 failed, 0 skipped")
        lines = [json.loads(line) for line in krafla("check", MLP, "-d", "cpu", "--json").stdout.splitlines()]
        self.assertEqual(lines[-1], {"passed": 1, "failed": 0, "skipped": 0})
        line = lines[0]
        for key in ("case", "device", "status", "reason", "max_abs", "max_rel", "max_ulp", "placed_on_device",
                    "instructions", "compile_ms", "run_ms"):
            self.assertIn(key, line)

    def test_a_wrong_answer_exits_1(self):
        # The recorded answers of one network against another module of the same signature.
        with tempfile.TemporaryDirectory() as d:
            for f in MLP.iterdir():
                data = f.read_bytes()
                if f.name == "module.hlo":
                    data = data.replace(b"maximum(Arg_0.1", b"minimum(Arg_0.1")
                (pathlib.Path(d) / f.name).write_bytes(data)
            out = krafla("check", d, "-d", "cpu")
            self.assertEqual(out.returncode, 1, out.stdout)
            self.assertIn("1 failed", out.stdout)

    def test_bench_json(self):
        out = krafla("bench", MLP, "-d", "cpu", "--iters", "3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        line = json.loads(out.stdout.splitlines()[0])
        for key in ("case", "device", "compile_ms", "first_ms", "median_ms", "min_ms", "p90_ms", "p99_ms", "peak_bytes",
                    "kernels", "launches"):
            self.assertIn(key, line)

    def test_bench_of_collectives(self):
        out = krafla("bench", "--collectives", "-d", "cpu*4", "--sizes", "8:1K", "--ops", "all-reduce,all-to-all", "--iters",
                     "2", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        rows = [json.loads(line) for line in out.stdout.splitlines()]
        self.assertEqual([r["collective"] for r in rows], 5 * ["copy", "all-reduce", "all-to-all"])
        self.assertEqual(rows[-1]["bytes"], 1024)
        for row in rows:
            self.assertEqual(row["wrong"], 0)
            self.assertEqual((row["path"], row["host_bytes"] > 0), ("", False) if row["collective"] == "copy" else ("host", True))
        for wrong in (("-d", "cpu"), ("-d", "cpu*2", "--sizes", "1M:8"), ("-d", "cpu*2", "--sizes", "x"),
                      ("-d", "cpu*2", "--ops", "all")):
            self.assertEqual(krafla("bench", "--collectives", *wrong).returncode, 2, wrong)
        self.assertEqual(krafla("bench").returncode, 2)
        self.assertEqual(krafla("bench", "--sizes", "8", MLP).returncode, 2)

    def test_links_are_tried(self):
        rows = [json.loads(line) for line in krafla("devices", "--links", "--json").stdout.splitlines()]
        self.assertIn({"from": "cpu", "to": "cpu", "path": "host", "works": True, "refused": ""}, rows)
        for row in rows:
            self.assertEqual(row["works"], row["refused"] == "")
        if has_vulkan():
            self.assertIn("one-device", [r["path"] for r in rows if r["from"] == "vulkan:0" and r["to"] == "vulkan:0" and r["works"]])

    def test_doctor(self):
        out = krafla("doctor")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("No problem was found.", out.stdout)
        out = krafla("doctor", "--json", env=os.environ | {"KRAFLA_THREADS": "1"})
        lines = [json.loads(line) for line in out.stdout.splitlines()]
        self.assertIn({"about": "environment", "state": "fine", "says": "KRAFLA_THREADS=1"}, lines)
        self.assertIn("cpu", {line["about"] for line in lines})
        self.assertNotIn("problem", {line["state"] for line in lines})
        if has_vulkan():
            self.assertIn("vulkan:0", {line["about"] for line in lines})
            # A cache that is a file is a problem, and is said.
            with tempfile.NamedTemporaryFile() as file:
                out = krafla("doctor", env=os.environ | {"KRAFLA_CACHE_DIR": file.name})
                self.assertEqual(out.returncode, 1)
                self.assertIn("! cache", out.stdout)

    def test_profile(self):
        for device in ("cpu", "vulkan") if has_vulkan() else ("cpu",):
            with tempfile.TemporaryDirectory() as folder:
                trace, page = pathlib.Path(folder) / "t.json", pathlib.Path(folder) / "p.html"
                out = krafla("profile", MLP, "-d", device, "--runs", "2", "--trace", trace, "--html", page)
                self.assertEqual(out.returncode, 0, out.stderr)
                self.assertIn("its steps, measured one by one", out.stdout)
                events = json.loads(trace.read_text())["traceEvents"]
                self.assertIn("X", {e["ph"] for e in events})
                self.assertIn("<script>", page.read_text())
                self.assertNotIn("PROFILE_DATA", page.read_text())
            out = krafla("profile", MLP, "-d", device, "--runs", "1", "--json", "--no-roof")
            run, *steps = map(json.loads, out.stdout.splitlines())
            self.assertGreater(run["run_ms"], 0)
            self.assertIn("dot", {step["family"] for step in steps})
        for by in ("instruction", "op", "source", "family"):
            self.assertEqual(krafla("profile", MLP, "-d", "cpu", "--by", by, "--no-roof").returncode, 0)
        self.assertEqual(krafla("profile", MLP, "-d", "cpu", "--by", "colour").returncode, 2)
        self.assertEqual(krafla("profile", MLP, "-d", "cpu", "--html", "/no/such/folder/p.html", "--no-roof").returncode, 3)
        out = krafla("profile", ROOT / "tests/models", "-d", "cpu")
        self.assertEqual(out.returncode, 3)
        self.assertIn("this command is about one module", out.stderr)

    def test_opt(self):
        for stage in ("parsed", "optimized", "plan"):
            out = krafla("opt", MLP / "module.hlo", "--stage", stage)
            self.assertEqual(out.returncode, 0, out.stderr)
        out = krafla("opt", ROOT / "tests/models/tp-mlp-auto-8-tiny/module.hlo", "--stage", "partitioned",
                     "--partitions", "8")
        self.assertRegex(out.stdout, r"// \d+ arrays are put together, \d+ bytes a device\n")
        gathers = self.module("""HloModule gathers, num_partitions=4
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[16] parameter(0), sharding={devices=[4]<=[4]} ROOT r = f32[16] sort(x), dimensions={0}, to_apply=less }
""")
        out = krafla("opt", gathers, "--stage", "partitioned")
        self.assertIn("puts f32[16] together: 48 bytes a device", out.stdout)
        self.assertIn("// 1 arrays are put together, 48 bytes a device", out.stdout)
        self.assertEqual(krafla("opt", "-", "--stage", "parsed", input=out.stdout).returncode, 0)
        by_turns = self.module("""HloModule by_turns, num_partitions=2
ENTRY e {
  x = f32[2048,1024] parameter(0), sharding={devices=[2,1]<=[2]}
  w = f32[1024,4096] parameter(1), sharding={devices=[1,2]<=[2]}
  ROOT y = f32[2048,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[1,2]<=[2]}
}
""")
        for enabled, made in (((), "all-gather("), (("--enable", "dots-by-turns"), "collective-permute(")):
            out = krafla("opt", by_turns, "--stage", "partitioned", *enabled)
            self.assertRegex(out.stdout, re.escape(made), out.stderr)
            self.assertEqual("all-gather(" in out.stdout, not enabled)
        self.assertEqual(krafla("opt", by_turns, "--enable", "nonsense").returncode, 2)
        out = krafla("opt", "--list-passes")
        self.assertIn("dce", out.stdout)
        self.assertEqual(krafla("opt", MLP / "module.hlo", "--passes", "nonsense").returncode, 3)
        out = krafla("opt", MLP / "module.hlo", "--passes", "dce,cse", "--stage", "plan")
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_what_means_nothing_is_an_error(self):
        m = self.module(ADD)
        for name in ("nonsense", "fp16", "fusion"):
            out = krafla("run", m, "-d", "cpu", "--random", "--enable", name)
            self.assertEqual(out.returncode, 2, (name, out.stderr))
            self.assertIn(name, out.stderr)
        self.assertEqual(krafla("run", m, "-d", "cpu", "--random", "--enable", "coopmat").returncode, 0)
        for variable, bad, good in (("KRAFLA_THREADS", "many", "2"), ("KRAFLA_THREADS", "0", ""), ("KRAFLA_JIT", "yes", "0")):
            for command in (("run", m, "-d", "cpu", "--random"), ("devices",)):
                out = krafla(*command, env={**os.environ, variable: bad})
                self.assertEqual(out.returncode, 2, (variable, bad, command, out.stderr))
                self.assertIn(variable, out.stderr)
                self.assertEqual(krafla(*command, env={**os.environ, variable: good}).returncode, 0, (variable, good))
        if has_vulkan():
            out = krafla("devices", env={**os.environ, "KRAFLA_VALIDATE": "maybe"})
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn("KRAFLA_VALIDATE", out.stderr)

    def test_probes_say_what_a_driver_does(self):
        if "vulkan:" not in krafla("devices").stdout:
            self.skipTest("no Vulkan device")
        out = krafla("devices", "--probe", "--json")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        for line in out.stdout.splitlines():
            device = json.loads(line)
            self.assertEqual(list(device["probes"]), ["denorm_nan", "subgroup_shuffle", "coopmat_layout", "bda_16byte"])
            for probe in device["probes"].values():
                self.assertTrue(probe.get("not_asked") or all(a["right"] for a in probe["answers"]))
            for name, rate in device["rates"].items():
                self.assertTrue(rate.get("missing") or rate["value"] > 0, name)
        self.assertIn("a NaN compared with itself: different", krafla("devices", "--probe").stdout)

    def test_devices_say_how_many_threads(self):
        out = krafla("devices", env={**os.environ, "KRAFLA_THREADS": "3"})
        self.assertIn("3 threads", out.stdout)
        out = krafla("devices", "--json", env={**os.environ, "KRAFLA_THREADS": "3"})
        self.assertEqual([line.get("threads") for line in map(json.loads, out.stdout.splitlines())][-1], 3)
        if hasattr(os, "sched_setaffinity"):
            one = {min(os.sched_getaffinity(0))}
            nothing = {k: v for k, v in os.environ.items() if k != "KRAFLA_THREADS"}
            out = krafla("devices", env=nothing, preexec_fn=lambda: os.sched_setaffinity(0, one))
            self.assertIn("1 threads", out.stdout)

    def test_opt_is_what_is_compiled(self):
        # A custom call of krafla's own with operands that it does not take.
        wrong = self.module("HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n"
                            "  ROOT r = f32[4] custom-call(x), custom_call_target=\"TopK\"\n}\n")
        for command in (("run", wrong, "-d", "cpu", "--random"), ("opt", wrong)):
            out = krafla(*command)
            self.assertEqual(out.returncode, 3, (command, out.stdout, out.stderr))
            self.assertIn("TopK", out.stderr)
        if not has_vulkan():
            self.skipTest("no Vulkan device")
        rows = self.module("HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
                           "ENTRY main {\n  x = f32[64,512] parameter(0)\n  zero = f32[] constant(0)\n"
                           "  ROOT r = f32[64] reduce(x, zero), dimensions={1}, to_apply=add\n}\n")
        out = krafla("opt", rows, "--stage", "spirv", "-d", "vulkan", "--disable", "subgroup")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("reduce.workgroup_row", out.stdout)

    def test_gradients_of_attention(self):
        gradient = ROOT / "tests/models/attention-gradient-tiny/module.hlo"

        def dots_and_arena(*options):
            optimized, plan = (krafla("opt", gradient, "--stage", stage, "-d", "cpu", *options).stdout
                               for stage in ("optimized", "plan"))
            return optimized.count(" dot("), int(re.search(r"^arena (\d+)", plan, re.M).group(1))

        # Two heads of 2048 x 2048 scores take 32 MB, which are computed twice and never stored.
        self.assertEqual(dots_and_arena()[0], 7)
        self.assertLess(dots_and_arena()[1], 1 << 20)
        # Where blocks of rows do not run one after the other that would be of no use.
        self.assertEqual(dots_and_arena("--disable", "row-groups")[0], 6)

    def test_spirv_for_a_device_that_is_not_here(self):
        profile = ROOT / "tests/profiles/captured/navi31.json"
        # Without a driver too.
        none = {**os.environ, "VK_DRIVER_FILES": "/nonexistent", "KRAFLA_DEVICE": "cpu"}
        with tempfile.TemporaryDirectory() as folder:
            out = krafla("opt", MLP / "module.hlo", "--profile", profile, "--stage", "spirv", "-o", folder, env=none)
            self.assertEqual(out.returncode, 0, out.stderr)
            listed = json.loads((pathlib.Path(folder) / "kernels.json").read_text())
            self.assertIn("NAVI31", listed["device"])
            self.assertEqual(listed["on_cpu"], [])
            self.assertEqual({k["file"] for k in listed["kernels"]}, {p.name for p in pathlib.Path(folder).glob("*.spv")})
            for kernel in listed["kernels"]:
                words = (pathlib.Path(folder) / kernel["file"]).read_bytes()
                self.assertEqual(words[:4], b"\x03\x02\x23\x07")
                self.assertIn(kernel["subgroup_size"], (0, 32, 64))
                self.assertGreaterEqual(len(kernel["grids"]), 1)
                self.assertEqual([len(grid) for grid in kernel["grids"]], [3] * len(kernel["grids"]))
            dots = [k for k in listed["kernels"] if k["family"] == "dot"]
            self.assertTrue(dots and all(k["local_size"][0] > 1 for k in dots), listed)
        least = ROOT / "tests/profiles/min_vulkan11.json"
        out = krafla("opt", MLP / "module.hlo", "--profile", least, "--stage", "plan", env=none)
        self.assertEqual(out.returncode, 0, out.stderr)
        bad = self.module("{\"limits\": 3}")
        for path in (bad, "/nonexistent.json"):
            out = krafla("opt", MLP / "module.hlo", "--profile", path, "--stage", "spirv")
            self.assertEqual(out.returncode, 3, out.stderr)
            self.assertIn(str(path), out.stderr)
        self.assertEqual(krafla("opt", MLP / "module.hlo", "--profile", profile, "-d", "vulkan").returncode, 2)

    def test_ops_document_is_fresh(self):
        self.assertEqual(krafla("ops", "--md").stdout, (ROOT / "docs/ops.md").read_text())

    def test_ops_on_a_device(self):
        out = krafla("ops", "-d", "cpu", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        ops = {line["hlo"]: line for line in map(json.loads, out.stdout.splitlines())}
        self.assertIn("bf16", ops["add"]["on_device"].split())
        self.assertNotIn("f32", ops["popcnt"]["on_device"].split())
        self.assertNotIn("device", ops["tuple"])  # no work of its own

    def test_demo(self):
        out = krafla("demo", "-d", "cpu")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("PASSED", out.stdout)


if __name__ == "__main__":
    unittest.main()
