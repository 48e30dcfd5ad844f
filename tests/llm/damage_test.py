#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/llm with folders and files that are damaged or lie: each ends with a sentence, not with a traceback.

    damage_test.py [SEED [COUNT]]     the same seed makes the same damage; COUNT of each kind

What is damaged still may be right: exit codes are 0 (it was), 1 (a sentence on standard error) or 2 (wrong usage).
"""
import contextlib
import copy
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples/llm"
sys.path[:0] = [str(EXAMPLE)]

import checkpoints  # noqa: E402
import export  # noqa: E402
import fields  # noqa: E402
import generate  # noqa: E402
import gguf_writer  # noqa: E402
import packed  # noqa: E402
import vocabularies  # noqa: E402

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 60
# What stands where something else should.
VALUES = [None, True, False, 0, -1, 1, 2, 3, 7, 64, 1.5, -0.5, 8.0, 1e308, 1e-320, 1 << 31, 1 << 64, -(1 << 63), "", "a", "64", "\0", "default",
          "\ud800", [], [1], ["a"], [[]], [0] * 8, [1.0] * 8, {}, {"a": 1}, {"content": 1}, {"type": "yarn"}, {"rope_type": "linear"}]
KINDS = ("default", "dynamic", "linear", "llama3", "yarn", "longrope", "su", "factors", "proportional", 5)


def shards_of(arrays):
    """A safetensors file's bytes."""
    with tempfile.NamedTemporaryFile() as file:
        checkpoints.write_safetensors(pathlib.Path(file.name), arrays)
        return pathlib.Path(file.name).read_bytes()


def whole_folder(name, method=None):
    """The files of a checkpoint, by name."""
    config, arrays = copy.deepcopy(checkpoints.MODELS[name]), checkpoints.tensors_of(name)
    if method:
        config["quantization_config"], arrays, _ = packed.pack(method, arrays)
    tokenizer = {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}, "chat_template": vocabularies.CHATML}
    objects = {"config.json": config, "tokenizer_config.json": tokenizer, "generation_config.json": {"eos_token_id": [1, 2]},
               "model.safetensors.index.json": {"weight_map": dict.fromkeys(arrays, "model.safetensors")}}
    return ({file: json.dumps(o).encode() for file, o in objects.items()} |
            {"model.safetensors": shards_of(arrays), "tokenizer.json": vocabularies.llama3().to_str().encode()})


def places(value, at=()):
    """The paths of all values within one of JSON's."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def with_value(value, place, new):
    out = copy.deepcopy(value)
    inner = out
    for key in place[:-1]:
        inner = inner[key]
    if new is KeyError and isinstance(inner, dict):
        del inner[place[-1]]
    else:
        inner[place[-1]] = None if new is KeyError else new
    return out


def damaged_json(rng, text, more=()):
    """One value of it is another, or gone; or one of the keys `more` is added."""
    value = json.loads(text)
    new = rng.choice([*VALUES, KeyError])
    if more and rng.random() < 0.5:
        return json.dumps(value | {rng.choice(more): None if new is KeyError else new}).encode()
    return json.dumps(with_value(value, rng.choice(list(places(value))), new)).encode()


def damaged_bytes(rng, data, most):
    """Of the first `most` bytes: some flipped, or the file cut within them, or some put in between."""
    most = min(most, len(data))
    at = rng.randrange(most + 1)
    way = rng.randrange(4)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + bytes(rng.choice((0, 255, rng.randrange(256))) for _ in range(rng.choice((1, 8)))) + data[at:]
    out = bytearray(data)
    for i in range(at, min(at + rng.choice((1, 1, 4, 8)), len(out))):
        out[i] = rng.choice((0, 255, 127, out[i] ^ 1 << rng.randrange(8)))
    return bytes(out)


def damaged_header(rng, data):
    """A safetensors file of which the header says something else."""
    length = int.from_bytes(data[:8], "little")
    header = damaged_json(rng, data[8:8 + length])
    return len(header).to_bytes(8, "little") + header + data[8 + length:]


def damaged_rope(rng, config):
    names = [n for n in fields.ROPE if not n.endswith("attention")]
    rope = {"rope_type": rng.choice(KINDS), "factor": 2.0, "original_max_position_embeddings": 32, "low_freq_factor": 1, "high_freq_factor": 4,
            "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "factors": [1.0] * 8}
    for _ in range(rng.randrange(4)):
        rope[rng.choice(names)] = rng.choice(VALUES)
    where = rng.choice(("rope_scaling", "rope_parameters"))
    return config | {where: {"full_attention": rope, "sliding_attention": rng.choice((rope, 5))} if rng.random() < 0.2 else rope}


class Damage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name)
        cls.codes = {0: 0, 1: 0, 2: 0}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()
        print(f"seed {SEED}: {cls.codes[0]} were taken, {cls.codes[1]} refused by a sentence, {cls.codes[2]} are wrong usage",
              file=sys.stderr)

    def ends_well(self, main, arguments, what):
        """In this process: an exception that comes out would be a traceback of the program."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        begun = time.process_time()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments)
        except SystemExit as end:
            code = end.code
        except BaseException:
            self.fail(f"{what}: {traceback.format_exc()}")
        said = err.getvalue()
        self.assertIn(code, (0, 1, 2), f"{what}: {said}")
        self.assertNotIn("Traceback", said, what)
        if code == 1:  # after what it says of its progress
            self.assertRegex(said.splitlines()[-1] if main is export.main else said, "^(export|generate): .", what)
        self.assertLess(time.process_time() - begun, 20, what)
        self.codes[code] += 1
        return code

    def folder(self, files):
        with tempfile.TemporaryDirectory(dir=self.root) as path:
            for name, data in files.items():
                (pathlib.Path(path) / name).write_bytes(data)
            yield pathlib.Path(path)

    def export(self, files, what):
        for path in self.folder(files):
            self.ends_well(export.main, [str(path), str(path / "out"), "--context", "8", "--prefill", "4"], what)

    def test_configurations(self):
        for i, name in enumerate(checkpoints.MODELS):
            rng, files = random.Random(f"{SEED} configurations {i}"), whole_folder(name)
            for n in range(COUNT // 6):
                config = files["config.json"]
                if (n + i) % 3 == 2:
                    config = json.dumps(damaged_rope(rng, json.loads(config))).encode()
                else:
                    config = damaged_json(rng, config, list(fields.CONFIG))
                self.export(files | {"config.json": config}, f"{name}: {config.decode()}")

    def test_other_files(self):
        files = whole_folder("llama2")
        for n in range(COUNT):
            rng = random.Random(f"{SEED} files {n}")
            name = rng.choice(list(files))
            way = rng.randrange(4)
            if way == 0:
                changed = {k: v for k, v in files.items() if k != name}
            elif way == 1 and name.endswith(".json"):
                changed = files | {name: damaged_json(rng, files[name])}
            elif way == 1:
                changed = files | {name: damaged_header(rng, files[name])}
            else:
                changed = files | {name: damaged_bytes(rng, files[name], 600 if name.endswith("config.json") else 1 << 16)}
            self.export(changed, f"files {n}: {name}, way {way}")

    def test_packed_matrices(self):
        for i, method in enumerate(packed.METHODS):
            files = whole_folder("gpt_oss" if method == "mxfp4" else "qwen3", method)
            for n in range(COUNT // 6):
                rng = random.Random(f"{SEED} packed {i} {n}")
                if n % 3 == 0:
                    config = json.loads(files["config.json"])
                    config["quantization_config"] = json.loads(damaged_json(rng, json.dumps(config["quantization_config"]),
                                                                            list(fields.QUANTISATION)))
                    changed = files | {"config.json": json.dumps(config).encode()}
                else:
                    changed = files | {"model.safetensors": damaged_header(rng, files["model.safetensors"])}
                self.export(changed, f"{method} {n}")

    def test_gguf_files(self):
        for i, (name, kind) in enumerate((("llama2", "F32"), ("gpt2", "F16"), ("gemma2", "Q8_0"), ("phi3", "Q4_0"), ("mixtral", "BF16"))):
            vocabulary = vocabularies.gguf_vocabulary(vocabularies.llama2() if i % 2 else vocabularies.gpt2(), "" if i % 2 else "gpt-2")
            path = self.root / "whole.gguf"
            gguf_writer.write(path, checkpoints.MODELS[name], checkpoints.tensors_of(name), kind=kind, tokenizer=vocabulary)
            whole = path.read_bytes()
            for n in range(COUNT // 3):
                rng = random.Random(f"{SEED} gguf {name} {n}")
                path.write_bytes(damaged_bytes(rng, whole, rng.choice((1200, len(whole) if n % 4 == 0 else 40000))))
                self.ends_well(export.main, [str(path), str(self.root / "out"), "--context", "8", "--prefill", "4"], f"{name} {n}")

    def test_exported_folders(self):
        for source in self.folder(whole_folder("llama2")):
            self.assertEqual(self.ends_well(export.main, [str(source), str(source / "out"), "--context", "8", "--prefill", "4"], "whole"), 0)
            files = {p.name: p.read_bytes() for p in (source / "out").iterdir()}
        for n in range(COUNT):
            rng = random.Random(f"{SEED} exported {n}")
            name = rng.choice(("model.json", "model.json", "model.json", *files))
            if name == "model.json" and n % 4:
                changed = files | {name: damaged_json(rng, files[name])}
            elif name == "weights.safetensors" and n % 2:
                changed = files | {name: damaged_header(rng, files[name])}
            elif n % 5 == 0:
                changed = {k: v for k, v in files.items() if k != name}
            else:
                changed = files | {name: damaged_bytes(rng, files[name], 1 << 14)}
            for path in self.folder(changed):
                how = rng.choice((["--prompt", "Once"], ["--tokens", "1,2,3,4,5"], ["--chat", "Hello", "--temperature", "0.8"]))
                self.ends_well(generate.main, [str(path), *how, "--max-tokens", "2", "--device", "cpu", "--threads", "1"],
                               f"exported {n}: {name} {how}")

    def test_as_programs(self):
        """What the functions above stand for."""
        for path in self.folder(whole_folder("llama2") | {"config.json": b'{"model_type": ["llama"]}'}):
            runs = [([EXAMPLE / "export.py", path, path / "out"], 1, "has model_type ['llama']"),
                    ([EXAMPLE / "export.py", path, "--prefill", "a"], 2, "usage"),
                    ([EXAMPLE / "generate.py", path, "--tokens", "1"], 1, "has no model.json"),
                    ([EXAMPLE / "generate.py", path, "--tokens", "1", "--seed", "-1"], 2, "--seed is"),
                    ([EXAMPLE / "generate.py", path], 2, "usage")]
            for command, code, words in runs:
                done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr) if code == 1 else None


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
