#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/llm: checkpoints of each family in, the right tokens out, from Python and from C++.

    llm_test.py GENERATE DEVICE...     GENERATE is the program of examples/llm/generate.cpp, or '-' where there is none

What is right was recorded from the package transformers (reference.py).
"""
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples/llm"
sys.path[:0] = [str(EXAMPLE)]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import chat  # noqa: E402
import checkpoint  # noqa: E402
import checkpoints  # noqa: E402
import config as configuration  # noqa: E402
import export  # noqa: E402
import generate  # noqa: E402
import gguf_file  # noqa: E402
import gguf_writer  # noqa: E402
import packed  # noqa: E402
import text  # noqa: E402
import vocabularies  # noqa: E402
import weights  # noqa: E402

GENERATE, DEVICES = sys.argv[1], sys.argv[2:]
REFERENCE = json.loads((HERE / "reference.json").read_text())
PROMPT, STEPS = checkpoints.PROMPT, 12
CLOSE = 2e-4  # of logits that are about 1: sums of some hundred products in float32, in another order


def exported(folder, **options):
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    export.export(checkpoint.open_checkpoint(folder), out, **{"context": 64, "lengths": (8, 16)} | options)
    return out


def greedy(model, prompt, count, sampling=generate.Sampling()):
    model.feed(list(prompt))
    logits = model.state["logits"].numpy()
    return logits, list(model.tokens(sampling, count))


def run_python(folder, *arguments, stdin=None):
    """What generate.py writes, and says."""
    out, err, before = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin or "")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = generate.main([str(folder), *arguments])
    finally:
        sys.stdin = before
    out.flush()
    return code, out.buffer.getvalue().decode(), err.getvalue()


def run_cpp(folder, *arguments, stdin=None):
    done = subprocess.run([GENERATE, str(folder), *arguments], input=stdin, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def make(self, name, vocabulary=None, **options):
        """A folder; with a vocabulary, also its tokenizer and a chat template."""
        folder = self.root / f"{name}-{self.id().rsplit('.', 1)[-1]}"
        checkpoints.write(name, folder, **options)
        if vocabulary is not None:
            vocabularies.KINDS[vocabulary]().save(str(folder / "tokenizer.json"))
            (folder / "tokenizer_config.json").write_text(json.dumps(
                {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}, "chat_template": vocabularies.CHATML}))
        return folder

    def both(self, folder, *arguments, stdin=None):
        """Runs both programs on all devices; gives what all of them write, and what one of them says."""
        whole = {}
        for device in DEVICES:
            whole["python", device] = run_python(folder, *arguments, "--device", device, stdin=stdin)
            if GENERATE != "-":
                whole["cpp", device] = run_cpp(folder, *arguments, "--device", device, stdin=stdin)
        for who, (code, _, said) in whole.items():
            self.assertEqual(code, 0, f"{who}: {said}")
        self.assertEqual(len({out for _, out, _ in whole.values()}), 1, whole)
        return next(iter(whole.values()))[1:]


class Families(Test):
    def test_all_are_what_transformers_computes(self):
        for name, expected in REFERENCE["models"].items():
            with self.subTest(name):
                out = exported(self.make(name, shards=2 if name == "qwen3" else 1))
                model = generate.LanguageModel(out, DEVICES[0])
                logits, tokens = greedy(model, PROMPT, STEPS)
                self.assertLess(np.abs(logits - expected["logits"]).max(), CLOSE)
                self.assertEqual(tokens, expected["tokens"])
                # The same text again, with what the caches have of it.
                self.assertEqual(greedy(model, PROMPT, STEPS)[1], expected["tokens"])

    def test_configurations_as_transformers_5_writes_them(self):
        for name, saved in REFERENCE["configs"].items():
            with self.subTest(name):
                self.assertEqual(configuration.read_config(saved), configuration.read_config(checkpoints.MODELS[name]))

    def test_what_a_configuration_leaves_out(self):
        differences = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
                       "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}
        found = configuration.read_config({"model_type": "gemma3", "text_config": differences})
        self.assertEqual((found.heads, found.kv_heads, found.head_size, found.vocabulary, found.positions), (8, 4, 256, 262208, 131072))
        whole, local = found.layers[5], found.layers[0]
        self.assertEqual((whole.window, local.window), (None, 1024))
        self.assertAlmostEqual(whole.rope.frequencies[1] * 8, 1e6 ** (-1 / 128))
        self.assertAlmostEqual(local.rope.frequencies[1], 1e4 ** (-1 / 128))
        # Classes that do not look at the key have no windows.
        self.assertIsNone(configuration.read_config({**checkpoints.MODELS["llama2"], "sliding_window": 8}).layers[0].window)

    def test_configurations_that_are_wrong(self):
        for wrong in ({"rope_theta": -5}, {"rms_norm_eps": "x"}, {"hidden_size": 65}, {"rope_scaling": {"rope_type": "linear", "factor": 0}},
                      {"rope_scaling": {"rope_type": "linear", "factor": "two"}}, {"rope_scaling": {"rope_type": "yarn", "factor": None}},
                      {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1,
                                        "original_max_position_embeddings": 8192}},
                      {"model_type": "mistral", "sliding_window": -1}, {"model_type": "mistral", "sliding_window": 2.5}):
            with self.subTest(str(wrong)), self.assertRaises(checkpoint.CheckpointError):
                configuration.read_config({**checkpoints.MODELS["llama2"], **wrong})

    def test_python_and_cpp_agree_on_all_devices(self):
        for name in ("llama3", "gemma3", "gpt2"):
            with self.subTest(name):
                out = exported(self.make(name))
                tokens, said = self.both(out, "--tokens", ",".join(map(str, PROMPT)), "--max-tokens", str(STEPS))
                self.assertEqual(tokens.strip(), ",".join(map(str, REFERENCE["models"][name]["tokens"])))
                self.assertRegex(said, r"prefill: 23 tokens in .* decode: 12 tokens in .*tokens/s on")

    def test_a_text_that_changes_is_computed_from_there_on(self):
        model = generate.LanguageModel(exported(self.make("llama2")), DEVICES[0])
        greedy(model, PROMPT, STEPS)
        other = PROMPT[:9] + [5, 6, 7]
        self.assertEqual(model.feed(other), 3)
        again = generate.LanguageModel(model.folder, DEVICES[0])
        self.assertEqual(again.feed(other), len(other))
        np.testing.assert_allclose(model.state["logits"].numpy(), again.state["logits"].numpy(), atol=CLOSE)

    def test_the_caches_are_filled_to_their_end(self):
        out = exported(self.make("llama2"), context=30, lengths=(8, 16))
        prompt = (PROMPT * 2)[:27]  # 16 + 8 + 3, of which no program's length fits the last
        tokens, _ = self.both(out, "--tokens", ",".join(map(str, prompt)), "--max-tokens", "100")
        self.assertEqual(len(tokens.split(",")), 4)
        wide = generate.LanguageModel(exported(self.make("llama2")), DEVICES[0])
        self.assertEqual([int(t) for t in tokens.split(",")], greedy(wide, prompt, 4)[1])


class Forms(Test):
    def dequantised(self, arrays):
        """By the sentences of weights.py."""
        out = {}
        for name, array in arrays.items():
            base = name.rsplit(".", 1)[0]
            scale = arrays.get(base + ".scale")
            if name.endswith(".scale"):
                continue
            if name.endswith(".int4"):
                array = np.stack([(array & 15).astype(np.int8) - 8, (array >> 4).astype(np.int8) - 8], -2)
                array = array.reshape(*array.shape[:-3], -1, array.shape[-1])
            if name.endswith((".int4", ".int8")):
                wide, scale = array.astype(np.float32), scale.astype(np.float32)
                if base in ("embedding", "positions"):
                    out[base] = (wide * np.repeat(scale, wide.shape[0] // scale.shape[0], 0)).T if scale.ndim == 2 else wide * scale[:, None]
                elif scale.ndim == wide.ndim - 1:
                    out[base] = wide * scale[..., None, :]
                else:
                    out[base] = wide * np.repeat(scale, wide.shape[-2] // scale.shape[-2], -2)
            else:
                out[name] = array.astype(np.float32)
        return out

    def logits(self, folder, name, arrays):
        """Of float32 weights, by JAX."""
        import jax.numpy as jnp

        import decoder
        network = configuration.read_config(checkpoints.MODELS[name])
        prefill, _ = decoder.programs(network, jnp.float32)
        cache = [jnp.zeros((64, network.kv_heads, network.head_size))] * (2 * len(network.layers))
        tokens = np.zeros(32, np.int32)
        tokens[:len(PROMPT)] = PROMPT
        return np.asarray(prefill(arrays, cache, tokens, np.int32(len(PROMPT)), np.int32(0))[1])

    def test_quantised_weights_are_used_as_stored(self):
        for name, form in (("llama2", "int8"), ("qwen2", "int4"), ("llama_biases", "int4"), ("gpt2", "int8"),
                           ("gemma2", "bfloat16"), ("llama3", "float16"), ("mixtral", "int8"), ("qwen2_moe", "int4")):
            with self.subTest(f"{name} {form}"):
                folder = self.make(name)
                out = exported(folder, form=form, activations="float32")
                arrays = checkpoint.read_safetensors(out / "weights.safetensors")
                self.assertEqual(any(k.endswith(form) for k in arrays), form in ("int8", "int4"))
                expected = self.logits(folder, name, self.dequantised(arrays))
                found, _ = greedy(generate.LanguageModel(out, DEVICES[0]), PROMPT, 1)
                self.assertLess(np.abs(found - expected).max(), CLOSE)
                # And near what the weights were.
                error = np.std(found - REFERENCE["models"][name]["logits"]) / np.std(found)
                self.assertLess(error, {"int8": 0.05, "int4": 0.5, "bfloat16": 0.03, "float16": 0.003}[form])

    def test_packed_checkpoints(self):
        """Weights that were quantised by others are used as they are stored."""
        for method in packed.METHODS:
            name = "gpt_oss" if method == "mxfp4" else "qwen3"
            with self.subTest(method):
                quantisation, tensors, plain = packed.pack(method, checkpoints.tensors_of(name))
                both = []
                for kind, arrays, config in (("packed", tensors, {"quantization_config": quantisation}), ("plain", plain, {})):
                    folder = self.root / f"{method}-{kind}"
                    folder.mkdir()
                    (folder / "config.json").write_text(json.dumps(checkpoints.MODELS[name] | config))
                    checkpoints.write_safetensors(folder / "model.safetensors", arrays)
                    opened = checkpoint.open_checkpoint(folder)
                    for key in plain:
                        if key in opened.tensors:
                            np.testing.assert_array_equal(opened.numbers(key), plain[key], err_msg=f"{method} {key}")
                    out = exported(folder, form="stored", activations="float32")
                    both.append(greedy(generate.LanguageModel(out, DEVICES[0]), PROMPT, STEPS))
                    if kind == "packed" and method != "gptq_order":
                        ending = {"gptq8": ".int8", "compressed8": ".int8", "mxfp4": ".f4"}.get(method, ".int4")
                        stored = checkpoint.read_safetensors(out / "weights.safetensors")
                        self.assertTrue(any(k.endswith(ending) for k in stored), stored.keys())
                        # Zero points are there where they are not the middle of the range.
                        self.assertEqual(any(k.endswith(".zero") for k in stored),
                                         method not in ("gptq", "compressed", "mxfp4"))
                (logits, tokens), (expected, expected_tokens) = both
                # Scales of these random matrices are f16 in the file, and rounded no further.
                self.assertLess(np.abs(logits - expected).max(), CLOSE)
                self.assertEqual(tokens, expected_tokens)

    def test_activations_of_16_bits(self):
        for kind in ("bfloat16", "float16"):
            folder = self.make("qwen3", dtype=ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16)
            model = generate.LanguageModel(exported(folder, activations=kind), DEVICES[0])
            found, _ = greedy(model, PROMPT, 3)
            error = np.std(found - REFERENCE["models"]["qwen3"]["logits"]) / np.std(found)
            self.assertLess(error, {"bfloat16": 0.05, "float16": 0.01}[kind])
            self.assertEqual(model.description.cache.get("type"), kind)

    def test_quantising_is_within_half_a_step(self):
        w = checkpoints.numbers("w", (5, 64), 1.0)
        w[2, :32] = 0
        eight, four = weights.quantise(w, 8, 64), weights.quantise(w, 4, 32)
        self.assertLess((np.abs(eight.numbers() - w) / eight.scales.repeat(64, 1)).max(), 0.5001)
        steps = np.abs(four.scales).repeat(32, 1)
        # The other end of the range has seven steps, not eight: what lies there is at most a step off.
        self.assertLess((np.abs(four.numbers() - w) / np.where(steps > 0, steps, 1)).max(), 1.0001)
        self.assertTrue((four.numbers()[2, :32] == 0).all())


class Gguf(Test):
    def open(self, name, **options):
        path = self.root / f"{name}.gguf"
        gguf_writer.write(path, checkpoints.MODELS[name], checkpoints.tensors_of(name), **options)
        return path

    def test_families_are_those_of_the_folders(self):
        for name in ("llama2", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "gemma", "gpt2", "phi3", "phi3_long",
                     "phi3_mini", "granite", "olmo2"):
            with self.subTest(name):
                vocabulary = vocabularies.gguf_vocabulary(vocabularies.gpt2(), "gpt-2")
                opened = checkpoint.open_checkpoint(self.open(name, tokenizer=vocabulary))
                out = self.root / f"gguf-{name}"
                export.export(opened, out, context=64, lengths=(32,))
                logits, tokens = greedy(generate.LanguageModel(out, DEVICES[0]), PROMPT, STEPS)
                self.assertLess(np.abs(logits - REFERENCE["models"][name]["logits"]).max(), CLOSE)
                self.assertEqual(tokens, REFERENCE["models"][name]["tokens"])

    def test_tensors_are_those_of_the_folders(self):
        for name in checkpoints.MODELS:
            opened = gguf_file.open_gguf(self.open(name))
            expected = {k.removeprefix("transformer."): w for k, w in checkpoints.tensors_of(name).items()}
            if name == "gpt_oss":
                expected = self.experts_apart(expected)
            self.assertEqual(set(opened.tensors), set(expected))
            for key, w in expected.items():
                np.testing.assert_allclose(opened.numbers(key), w, atol=1e-6, err_msg=f"{name} {key}")

    def experts_apart(self, tensors):
        """By expert, and gate and up of each."""
        out = {}
        for key, w in tensors.items():
            if ".experts." not in key:
                out[key] = w
                continue
            base = key.removesuffix("_bias")
            down, gate, up = base, base.replace("gate_up_proj", "gate_proj"), base.replace("gate_up_proj", "up_proj")
            parts = {down: w} if base.endswith("down_proj") else {gate: w[..., 0::2], up: w[..., 1::2]}
            for name, part in parts.items():
                out |= {name + "_bias": part} if base != key else {f"{name}.{e}": part[e].T for e in range(len(part))}
        return out

    def test_layers_of_smollm3(self):
        """Every fourth one has no positions, whatever a file says."""
        folder = checkpoints.MODELS["smollm3"] | {"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0]}
        opened = checkpoint.open_checkpoint(self.open("smollm3"))
        found, expected = (configuration.read_config(c) for c in (opened.config, folder))
        self.assertEqual(dataclasses.replace(found, norm_epsilon=expected.norm_epsilon), expected)

    def test_gpt_oss_is_that_of_the_folder(self):
        """But for the limit, which a file does not have."""
        name = "gpt_oss"
        opened = checkpoint.open_checkpoint(self.open(name))
        folder = checkpoint.open_checkpoint(self.make(name))
        found, expected = (configuration.read_config(c.config) for c in (opened, folder))
        self.assertAlmostEqual(found.norm_epsilon, expected.norm_epsilon, places=12)  # a float there
        self.assertEqual(dataclasses.replace(found, gate_limit=expected.gate_limit, norm_epsilon=expected.norm_epsilon),
                         expected)
        arrays, whole = (weights.load(c, expected, "float32", "float32") for c in (opened, folder))
        self.assertEqual(arrays.keys(), whole.keys())
        for key in whole:
            np.testing.assert_array_equal(arrays[key], whole[key], err_msg=key)

    def test_blocks_are_what_the_package_gguf_makes_of_them(self):
        for _, (kind, per, size, read) in gguf_file.TYPES.items():
            if per == 1:
                continue
            with self.subTest(kind):
                raw = np.frombuffer(bytes.fromhex(REFERENCE["blocks"][kind]["bytes"]), np.uint8)
                found = read(raw, (2, per))
                found = found.numbers() if isinstance(found, checkpoint.Blocks) else found
                expected = np.array(REFERENCE["blocks"][kind]["values"], np.float32).reshape(2, per)
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)

    def test_stored_blocks_stay_as_they_are(self):
        for kind, ending in (("Q8_0", ".int8"), ("Q4_0", ".int4")):
            with self.subTest(kind):
                out = self.root / f"stored-{kind}"
                vocabulary = vocabularies.gguf_vocabulary(vocabularies.llama3(), "llama-bpe")
                opened = checkpoint.open_checkpoint(self.open("llama2", kind=kind, tokenizer=vocabulary))
                export.export(opened, out, context=64, lengths=(32,))
                arrays = checkpoint.read_safetensors(out / "weights.safetensors")
                self.assertIn("layers.0.qkv" + ending, arrays)
                wide = Forms.dequantised(self, arrays)
                expected = opened.numbers("model.layers.1.mlp.down_proj.weight").T
                np.testing.assert_array_equal(wide["layers.1.down"], expected)
                np.testing.assert_array_equal(wide["embedding"], opened.numbers("model.embed_tokens.weight"))
                found, _ = greedy(generate.LanguageModel(out, DEVICES[0]), PROMPT, 1)
                expected = Forms.logits(self, out, "llama2", wide)
                self.assertLess(np.abs(found - expected).max(), CLOSE)

    def test_vocabularies(self):
        import tokenizers
        for kind, pre in (("gpt2", "gpt-2"), ("llama3", "llama-bpe"), ("smollm", "smollm"), ("llama2", "")):
            with self.subTest(kind):
                original = vocabularies.KINDS[kind]()
                path = self.open("llama2", tokenizer=vocabularies.gguf_vocabulary(original, pre))
                opened = checkpoint.open_checkpoint(path)
                made = tokenizers.Tokenizer.from_str(opened.tokenizer)
                for sample in vocabularies.SAMPLES:
                    self.assertEqual(made.encode(sample).ids, original.encode(sample).ids, sample)
                    self.assertEqual(made.decode(made.encode(sample).ids), original.decode(original.encode(sample).ids))
                self.assertEqual(opened.tokenizer_config.get("chat_template"), vocabularies.CHATML)


class Texts(Test):
    def test_cpp_cuts_texts_as_the_packages_do(self):
        for kind in (*vocabularies.KINDS, "sentencepiece"):
            # Bytes of no character are written in ways of their own: the model never chooses a byte alone.
            folder = self.make("llama2", None if kind == "sentencepiece" else kind, silent=range(1, 264))
            if kind == "sentencepiece":
                (folder / "tokenizer.model").write_bytes(vocabularies.sentencepiece_model())
            out = exported(folder)
            description = json.loads((out / "model.json").read_text())["tokenizer"]
            tokens = text.Tokens(out, description)
            for sample in vocabularies.SAMPLES:
                expected = tokens.prefix + tokens.encode(sample)
                if GENERATE == "-" or not expected:
                    continue
                with self.subTest(f"{kind} {sample!r}"):
                    arguments = ("--prompt", sample, "--max-tokens", "6", "--device", DEVICES[0], "--show-tokens")
                    code, written, said = run_cpp(out, *arguments)
                    self.assertEqual(code, 0, said)
                    self.assertEqual(said.split("\n")[0], "tokens: " + ",".join(map(str, expected)))
                    self.assertEqual(written, run_python(out, *arguments)[1])
            shutil.rmtree(folder)

    def test_streams_have_whole_characters(self):
        for kind in vocabularies.KINDS:
            folder = self.root / kind
            folder.mkdir()
            vocabularies.KINDS[kind]().save(str(folder / "tokenizer.json"))
            tokens = text.Tokens(folder, {"kind": "tokenizers", "file": "tokenizer.json", "prefix": [], "special": {}})
            for sample in ("größe 漢字 and 😀🎉 emoji", "the quick brown fox"):
                before, after = tokens.encode("say: "), tokens.encode(sample)
                stream = text.Stream(tokens, before)
                pieces = [stream.add(t) for t in after] + [stream.rest()]
                self.assertNotIn("\ufffd", "".join(pieces))
                self.assertEqual("".join(pieces).strip(), sample, kind)

    def test_conversations(self):
        import jinja2
        folder = self.make("llama2", "llama3")
        out = exported(folder)
        description = generate.Description(out)
        self.assertEqual(description.chat["user"], ["<|user|>\n", "<|end|>\n"])
        conversation = generate.Conversation(description.chat)
        messages = [("system", "Be brief."), ("user", " Is it? "), ("assistant", "It is."), ("user", "So?")]
        for message in messages:
            conversation.say(*message)
        template = jinja2.Environment().from_string(vocabularies.CHATML)
        self.assertEqual(conversation.text(), template.render(
            messages=[{"role": r, "content": c} for r, c in messages], bos_token="<|begin|>", add_generation_prompt=True))
        written, said = self.both(out, "--chat", "--max-tokens", "7", "--system", "Be brief.",
                                  stdin="How are you?\nAnd now?\n\n")
        self.assertEqual(said.count("prefill"), 2)
        self.both(out, "--chat", "Hello there", "--max-tokens", "5")
        for place, thought in (("first", ["e", " "]), ("last", ["the", ""])):  # of what the network says, when it says it
            described = json.loads((out / "model.json").read_text())
            described["chat"] |= {"system_in": place, "system": ["<<", ">>"], "thought": thought}
            (out / "model.json").write_text(json.dumps(described))
            self.both(out, "--chat", "--max-tokens", "7", "--system", "Be brief.",
                      stdin="How are you?\nAnd now?\n\n")

    def test_templates(self):
        each = "{% for m in messages %}{{ '[' + m['role'] + ':' + m['content'] + ']' }}{% endfor %}"
        ask = "{% if add_generation_prompt %}{{ '[assistant:' }}{% endif %}"
        tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        default = "{% if messages[0]['role'] != 'system' %}{{ '[system:You help.]' }}{% endif %}"
        none = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        parts, _ = chat.parts_of(default + each + ask, tokens)
        self.assertEqual((parts["begin_alone"], parts["begin"]), ("[system:You help.]", ""))
        parts, _ = chat.parts_of("{{ bos_token }}" + none + each + ask, tokens)
        self.assertNotIn("system", parts)
        self.assertEqual((parts["begin"], parts["user"], parts["assistant"], parts["ask"]),
                         ("<s>", ["[user:", "]"], ["[assistant:", "]"], "[assistant:"))
        for wrong in ("{{ messages | length }}" + each + ask, "{% for", each.replace("m['content']", "m['content'] | upper"),
                      each + "{{ messages[0]['content'] }}", "{{ [].__class__ }}", "always the same"):
            self.assertEqual(chat.parts_of(wrong, tokens)[0], None, wrong)

    def test_stops(self):
        folder = self.make("llama2", "llama3")
        first = REFERENCE["models"]["llama2"]["tokens"]
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [first[3], 1]}))
        tokens, _ = self.both(exported(folder), "--tokens", ",".join(map(str, PROMPT)))
        self.assertEqual(tokens.strip(), ",".join(map(str, first[:3])))

    def test_control_c_ends_the_text(self):
        if GENERATE == "-":
            programs = []
        else:
            programs = [[GENERATE]]
        programs.append([sys.executable, str(EXAMPLE / "generate.py")])
        changed = checkpoints.MODELS | {"long": checkpoints.MODELS["llama2"] | {"max_position_embeddings": 8192}}
        checkpoints.MODELS, before = changed, checkpoints.MODELS
        try:
            out = exported(self.make("long"), context=8192)
        finally:
            checkpoints.MODELS = before
        for program in programs:
            with subprocess.Popen([*program, str(out), "--tokens", "1,2,3", "--max-tokens", "8000", "--device", "cpu"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
                begin = running.stdout.read(3)
                running.send_signal(signal.SIGINT)
                rest, said = running.communicate(timeout=60)
            self.assertEqual(running.returncode, 130, said)
            self.assertRegex(said, "decode: [0-9]+ tokens")
            self.assertLess(len((begin + rest).split(",")), 7000)
            self.assertNotIn("Traceback", said)


class Sampling(Test):
    def test_who_may_be_chosen(self):
        """The tokens that 300 seeds choose, against a sort on the host."""
        out = exported(self.make("llama2"))
        logits = np.sort(checkpoints.numbers("logits", (checkpoints.VOCABULARY,), 2.0))[::-1].copy()
        order = np.random.default_rng(1).permutation(logits.size)
        shuffled = np.empty_like(logits)
        shuffled[order] = logits  # order[i] is the i-th likeliest
        shares = np.exp(logits.astype(np.float64))
        for device in DEVICES:
            model = generate.LanguageModel(out, device)
            for temperature, top_k, top_p in ((1.0, 0, 1.0), (1.0, 5, 1.0), (0.5, 0, 0.6), (2.0, 40, 0.5), (1.0, 1, 1.0)):
                model.state["logits"] = model.client.put(shuffled)
                model.state["position"] = model.client.put(np.int32(7))
                p = shares ** (1 / temperature)
                if top_k:
                    p[top_k:] = 0
                p /= p.sum()
                kept = int(np.searchsorted(np.cumsum(p), top_p - 1e-9)) + 1 if top_p < 1 else int((p > 0).sum())
                chosen = []
                for seed in range(300 if device == DEVICES[0] else 12):
                    options = generate.Sampling(temperature, top_k, top_p, seed)
                    chosen.append(next(model.tokens(options, 1)))
                ranks = np.argsort(order)[chosen]
                self.assertLess(ranks.max(), kept, (device, temperature, top_k, top_p))
                if device == DEVICES[0]:  # the likeliest is chosen as often as it should be, within 4.5 deviations
                    share = p[0] / p[:kept].sum()
                    deviation = np.sqrt(share * (1 - share) / 300)
                    self.assertLess(abs((ranks == 0).mean() - share), 4.5 * deviation + 1e-9)

    def test_seeds_make_the_same_text_everywhere(self):
        out = exported(self.make("llama2"))
        arguments = ("--tokens", "3,4,5", "--max-tokens", "12", "--temperature", "0.9", "--top-k", "50", "--top-p", "0.95")
        first, _ = self.both(out, *arguments, "--seed", "7")
        self.assertEqual(first, self.both(out, *arguments, "--seed", "7")[0])
        self.assertNotEqual(first, self.both(out, *arguments, "--seed", "8")[0])
        best, _ = self.both(out, "--tokens", "3,4,5", "--max-tokens", "12")
        self.assertEqual(best, self.both(out, "--tokens", "3,4,5", "--max-tokens", "12", "--temperature", "0.7", "--top-k",
                                         "1", "--seed", "9")[0])


class Refused(Test):
    def says(self, words, path, *arguments):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            code = export.main([str(path), str(self.root / "refused"), *arguments])
        self.assertEqual(code, 1)
        self.assertIn(words, err.getvalue())

    def test_checkpoints(self):
        folder = self.make("llama2")
        self.says("There is no checkpoint", self.root / "nothing")
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[:-8])
        self.says("lies at bytes", folder)
        (folder / "model.safetensors").write_bytes(whole[:7])
        self.says("is no safetensors file", folder)
        (folder / "model.safetensors").write_bytes(b"\xff" * 64)
        self.says("is no safetensors file", folder)
        (folder / "model.safetensors").write_bytes(whole)
        for change, words in (({"model_type": "bert"}, "model_type 'bert'"), ({"hidden_size": "64"}, "hidden_size '64'"),
                              ({"hidden_size": 32}, "by config.json it is"),
                              ({"num_key_value_heads": 3}, "do not divide them"),
                              ({"rope_scaling": {"type": "spiral", "factor": 2}}, "'spiral'"),
                              ({"rope_scaling": {"type": "longrope", "factor": 2}}, "has no original_max"),
                              ({"partial_rotary_factor": 1.5}, "partial_rotary_factor 1.5"),
                              ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantised by 'bitsandbytes'"),
                              ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "GPTQ to 3 bits"),
                              ({"quantization_config": {"quant_method": "awq", "version": "gemv"}}, "version 'gemv'"),
                              ({"hidden_act": "mish"}, "'mish'")):
            (folder / "config.json").write_text(json.dumps(checkpoints.MODELS["llama2"] | change))
            self.says(words, folder)

    def test_gguf_files(self):
        path = self.root / "whole.gguf"
        gguf_writer.write(path, checkpoints.MODELS["llama2"], checkpoints.tensors_of("llama2"))
        whole, cut = path.read_bytes(), self.root / "cut.gguf"
        for size in (0, 3, 20, 100, 500, len(whole) - 100):
            cut.write_bytes(whole[:size])
            self.says(str(cut), cut)
        cut.write_bytes(whole[:8] + b"\xff" * 8 + whole[16:])  # a count of tensors
        self.says(str(cut), cut)
        gguf_writer.write(path, checkpoints.MODELS["olmo2"], checkpoints.tensors_of("olmo2"),
                          extra={"olmo2.attention.sliding_window": 8})
        self.says("OLMo 3", path)

    def test_models(self):
        out = exported(self.make("llama2"))
        programs = [run_python] + ([run_cpp] if GENERATE != "-" else [])
        for run in programs:
            for arguments, words in ((("--prompt", "a"), "has no tokenizer"), (("--tokens", "1,999"), "999 is not below 512"),
                                     (("--tokens", ",".join(["1"] * 99)), "99 tokens")):
                code, _, said = run(out, *arguments, "--device", DEVICES[0])
                self.assertEqual(code, 1, said)
                self.assertIn(words, said)
            code, _, said = run(self.root, "--tokens", "1")
            self.assertEqual(code, 1)
            self.assertIn("model.json", said)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    unittest.main(argv=sys.argv[:1], verbosity=1)
