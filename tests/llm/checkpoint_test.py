#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/llm: what is read of a checkpoint before programs are made of it. No device and no program of krafla's."""
import io
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "examples/llm")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import tokenizers  # noqa: E402

import chat  # noqa: E402
import checkpoint  # noqa: E402
import checkpoints  # noqa: E402
import config as configuration  # noqa: E402
import export  # noqa: E402
import gguf_tokenizer  # noqa: E402
import gguf_writer  # noqa: E402
import packed  # noqa: E402
import vocabularies  # noqa: E402
import weights  # noqa: E402

# Pieces of which texts are put together that tokenizers are tried on.
PIECES = ["hello", "Hello", "HELLO", "World's", "don't", "DON'T", "naïve", "größe", "漢字", "かな", "русский", "עברית", "हिन्दी", "😀", "👩‍👧",
          "e\u0301", "ﬁ", "ǅ", "İ", "0", "12", "1234567", "٣٤", "½", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000",
          "\u200b", "\ufeff", "\x00", "\x1b", "\u2581", "_", "...", "!?", "//", "--", "$5", "(a)", "\u2019s", "\u202e", "x" * 30,
          "snake_case", "CamelCase", "HTTPServer", "iPhone", "3.14", "1,000", "\ue000", "\U0010ffff", "<0x41>"]


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def test_activations_are_those_of_the_checkpoint(self):
        """Integers say nothing of them; scales of another type do, which bfloat16 would round."""
        for method in ("gptq", "awq", "compressed", "compressed8", None):
            quantisation, tensors = {}, checkpoints.tensors_of("qwen3")
            if method is not None:
                quantisation, tensors, _ = packed.pack(method, tensors)
                quantisation = {"quantization_config": quantisation}
            wide = [k for k, v in tensors.items() if v.dtype == np.float32]
            narrow = [k for k, v in tensors.items() if v.dtype == np.float16]  # scales
            for changed, expected in (([], False), (wide, method is None), (wide + narrow, True)):
                with self.subTest(f"{method} {len(changed)}"):
                    folder = self.root / f"types-{method}-{len(changed)}"
                    folder.mkdir(exist_ok=True)
                    (folder / "config.json").write_text(json.dumps(checkpoints.MODELS["qwen3"] | quantisation))
                    checkpoints.write_safetensors(folder / "model.safetensors", {
                        k: v.astype(ml_dtypes.bfloat16) if k in changed else v for k, v in tensors.items()})
                    self.assertEqual(export.is_bfloat16(checkpoint.open_checkpoint(folder)), expected)
        for kind, expected in (("F32", False), ("BF16", True), ("Q8_0", False)):
            path = self.root / f"types-{kind}.gguf"
            gguf_writer.write(path, checkpoints.MODELS["llama2"], checkpoints.tensors_of("llama2"), kind=kind)
            self.assertEqual(export.is_bfloat16(checkpoint.open_checkpoint(path)), expected, kind)

    def test_tensors_without_a_place(self):
        tensors = checkpoints.tensors_of("llama2") | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
        config = checkpoints.MODELS["llama2"] | {"num_hidden_layers": 1}
        (self.root / "config.json").write_text(json.dumps(config))
        for more, expected in (({}, 9), ({"model.layers.0.self_attn.q_norm.weight": np.ones(16, np.float32)}, 10)):
            checkpoints.write_safetensors(self.root / "model.safetensors", tensors | more)
            opened = checkpoint.open_checkpoint(self.root)
            weights.load(opened, configuration.read_config(config), "stored", "float32")
            self.assertEqual(len(opened.unused()), expected, opened.unused())
        for name in checkpoints.MODELS:  # those that are what they say have none
            folder = self.root / name
            checkpoints.write(name, folder)
            opened = checkpoint.open_checkpoint(folder)
            weights.load(opened, configuration.read_config(opened.config), "stored", "float32")
            self.assertEqual(opened.unused(), [], name)

    def test_layers_with_windows(self):
        """Where config.json does not list them, by transformers 5's configuration classes."""
        windows = {"use_sliding_window": True, "sliding_window": 9}
        for name, change, expected in (("qwen2", {"max_window_layers": 2}, "0011"), ("qwen2_moe", {"max_window_layers": 3}, "1010"),
                                       ("qwen3", {"max_window_layers": 0}, "1111"), ("qwen3_moe", {"max_window_layers": 9}, "1111"),
                                       ("smollm3", {"no_rope_layers": [1, 0, 0, 1]}, "0110"), ("gemma2", {}, "1010"),
                                       ("gemma3", {"sliding_window_pattern": 3}, "1101"), ("gpt_oss", {"layer_types": None}, "1010"),
                                       ("mistral", {}, "1111"), ("llama2", {}, "0000")):
            found = configuration.read_config(checkpoints.MODELS[name] | windows | {"num_hidden_layers": 4} | change)
            self.assertEqual("".join("01"[layer.window is not None] for layer in found.layers), expected, name)

    def test_what_a_file_leaves_out(self):
        """The classes' own values; the mixtures' too."""
        some = {k: checkpoints.MODELS["qwen3_moe"][k] for k in (
            "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_experts", "num_experts_per_tok",
            "moe_intermediate_size")} | {"num_attention_heads": 8}
        found = configuration.read_config(some | {"model_type": "qwen3_moe"})
        self.assertEqual((found.kv_heads, found.head_size, found.activation, found.layers[0].window), (4, 8, "silu", None))
        found = configuration.read_config(some | {"model_type": "gpt_oss"})
        self.assertEqual((found.kv_heads, found.head_size, found.layers[0].window, found.layers[1].window), (8, 64, 128, None))
        self.assertAlmostEqual(found.layers[0].rope.factor, 0.1 * math.log(32) + 1)  # yarn's
        self.assertAlmostEqual(found.layers[0].rope.frequencies[-1] * 32, 150000 ** (-62 / 64))

    def test_attention_to_what_follows_is_refused(self):
        with self.assertRaisesRegex(checkpoint.CheckpointError, "to what follows"):
            configuration.read_config(checkpoints.MODELS["gemma3"] | {"use_bidirectional_attention": True})
        with self.assertRaisesRegex(checkpoint.CheckpointError, r"'cohere2' \(Cohere2ForCausalLM\)"):
            configuration.read_config({"model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"]})


class Vocabularies(unittest.TestCase):
    def texts(self):
        rng = random.Random(3)
        return ["".join(rng.choice(PIECES) + rng.choice(("", " ")) for _ in range(rng.randrange(1, 9))) for _ in range(200)] + PIECES

    def open(self, meta, name="model.gguf"):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / name
        gguf_writer.write(path, checkpoints.MODELS["llama2"], checkpoints.tensors_of("llama2"), tokenizer=meta)
        return path

    def test_words(self):
        """By each pattern, beside a tokenizer that has it."""
        split = {"type": "Split", "behavior": "Isolated", "invert": False}
        for pre in ("gpt-2", "starcoder", "dbrx", "qwen2", "tekken", "gpt-4o"):
            pattern = gguf_tokenizer.PATTERNS[pre]
            original = json.loads(vocabularies.gpt2().to_str())
            whole = original["pre_tokenizer"]
            if pattern == gguf_tokenizer.DIGITS:
                whole = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, whole]}
            elif pattern is not None:
                whole = {"type": "Sequence", "pretokenizers": [split | {"pattern": {"Regex": pattern}}, whole | {"use_regex": False}]}
            original |= {"pre_tokenizer": whole, "normalizer": {"type": "NFC"} if pre == "qwen2" else None}
            original["model"]["ignore_merges"] = pre in gguf_tokenizer.WHOLE_WORDS
            original = tokenizers.Tokenizer.from_str(json.dumps(original))
            made = tokenizers.Tokenizer.from_str(checkpoint.open_checkpoint(self.open(
                vocabularies.gguf_vocabulary(vocabularies.gpt2(), pre))).tokenizer)
            for text in self.texts():
                ids = original.encode(text).ids
                self.assertEqual(made.encode(text).ids, ids, f"{pre} {text!r}")
                self.assertEqual(made.decode(ids), original.decode(ids), f"{pre} {text!r}")

    def test_pieces(self):
        """SentencePiece's own, with and without the space in front."""
        import sentencepiece
        for begins in (True, False):
            made = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(vocabularies.TEXTS), model_writer=made, vocab_size=450, model_type="bpe", byte_fallback=True,
                character_coverage=1.0, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=begins,
                minloglevel=2)
            model = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
            ids = range(model.vocab_size())
            kinds = [2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1 for i in ids]
            opened = checkpoint.open_checkpoint(self.open({
                "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [model.id_to_piece(i) for i in ids],
                "tokenizer.ggml.scores": [model.get_score(i) for i in ids], "tokenizer.ggml.token_type": kinds,
                "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_space_prefix": begins}))
            tokenizer = tokenizers.Tokenizer.from_str(opened.tokenizer)
            for text in self.texts():
                expected = model.encode(text)
                self.assertEqual(tokenizer.encode(text, add_special_tokens=False).ids, expected, repr(text))
                self.assertEqual(tokenizer.decode(expected), model.decode(expected), repr(text))

    def test_a_tokenizer_beside_the_file(self):
        path = self.open(vocabularies.gguf_vocabulary(vocabularies.gpt2(), "unheard-of"))
        with self.assertRaisesRegex(checkpoint.CheckpointError, "words as of 'unheard-of'"):
            checkpoint.open_checkpoint(path)
        (path.parent / "tokenizer.json").write_text(vocabularies.gpt2().to_str())
        self.assertIsNone(checkpoint.open_checkpoint(path).tokenizer)
        (path.parent / "out").mkdir()
        self.assertEqual(export.write_tokenizer(path.parent / "out", checkpoint.open_checkpoint(path))[0]["kind"], "tokenizers")


class Templates(unittest.TestCase):
    TALK = [("user", "A?"), ("assistant", "B."), ("user", "C?")]

    def test_what_ends_with_an_answer_is_another_matter(self):
        """Phi 3 ends with a token there, Qwen 3 thinks in the last answer, gpt-oss returns, SmolLM 3 marks what is said."""
        phi3 = ("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
                "{{ '<|assistant|>' if add_generation_prompt else eos_token }}")
        qwen3 = ("{% for m in messages %}{{ '[' + m.role + ']' + ('<think></think>' if m.role == 'assistant' and loop.last else '') + m.content }}"
                 "{% endfor %}{{ '[assistant]' if add_generation_prompt }}")
        gpt_oss = ("{{ '[system]' + strftime_now('%Y-%m-%d') + '<end>' }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('') }}"
                   "{% endif %}{{ '[' + m.role + ']' + m.content + ('<return>' if loop.last and not add_generation_prompt else '<end>') }}"
                   "{% endfor %}{{ '[assistant' if add_generation_prompt }}")
        smollm3 = ("{% for m in messages %}{% generation %}{{ '[' + m.role + ']' + m.content }}{% endgeneration %}{% endfor %}"
                   "{{ '[assistant]' if add_generation_prompt and tools is none }}")
        for name, template, expected in (
                ("phi3", phi3, "<|user|>A?<|end|><|assistant|>B.<|end|><|user|>C?<|end|><|assistant|>"),
                ("qwen3", qwen3, "[user]A?[assistant]B.[user]C?[assistant]"),
                ("gpt_oss", gpt_oss, "[system]2024-07-26<end>[user]A?<end>[assistant]B.<end>[user]C?<end>[assistant"),
                ("smollm3", smollm3, "[user]A?[assistant]B.[user]C?[assistant]")):
            parts, why = chat.parts_of(template, {"bos_token": "<s>", "eos_token": "</s>"})
            self.assertEqual(why, "", name)
            self.assertEqual(chat.written(parts, self.TALK, True), expected)
            self.assertEqual("system" in parts, name != "gpt_oss")

    def test_where_the_system_message_stands_in_a_question(self):
        """The first one as of Llama 2 and Gemma 3, the last one as of Mistral Nemo."""
        rest = "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}"
        told = "{% set told = messages[0].content + '; ' if messages[0].role == 'system' else '' %}"
        each = ("{% for m in rest %}{% if m.role == 'user' %}{{ '[Q]' + (told if loop.WHICH else '') + m.content + '[/Q]' }}"
                "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}")
        for place, expected in (("first", "<s>[Q]Rhyme; A?[/Q]B.</s>[Q]C?[/Q]"), ("last", "<s>[Q]A?[/Q]B.</s>[Q]Rhyme; C?[/Q]")):
            parts, why = chat.parts_of("{{ bos_token }}" + rest + told + each.replace("WHICH", place),
                                       {"bos_token": "<s>", "eos_token": "</s>"})
            self.assertEqual((why, parts.get("system_in")), ("", place))
            self.assertEqual(chat.written(parts, [("system", "Rhyme"), *self.TALK], True), expected)
            self.assertEqual(chat.written(parts, self.TALK, True), "<s>[Q]A?[/Q]B.</s>[Q]C?[/Q]")
        # Elsewhere it has no place that is known.
        strange = "{{ bos_token }}" + rest + told + each.replace("loop.WHICH", "loop.index0 == 2")
        self.assertNotIn("system", chat.parts_of(strange, {"bos_token": "<s>", "eos_token": "</s>"})[0])

    def test_what_is_thought_is_forgotten(self):
        """With the empty lines after it as of Qwen 3, without them as of DeepSeek R1, or not at all."""
        each = "{% for m in messages %}{{ '[' + m.role + ']' + m.content.split('</think>')[-1]STRIP }}{% endfor %}[assistant]"
        talk = [("user", "A?"), ("assistant", "<think>\nHm.\n</think>\n\nB."), ("user", "C?")]
        for strip, between in ((".lstrip('\n')", ""), ("", "\n\n")):
            parts, why = chat.parts_of(each.replace("STRIP", strip), {})
            self.assertEqual(why, "")
            self.assertEqual(chat.written(parts, talk, True), f"[user]A?[assistant]{between}B.[user]C?[assistant]")
            self.assertEqual(chat.written(parts, self.TALK, True), "[user]A?[assistant]B.[user]C?[assistant]")
        self.assertNotIn("thought", chat.parts_of(each.replace(".split('</think>')[-1]STRIP", ""), {})[0])

    def test_programs_that_fail(self):
        for template in ("{{ 1 / 0 }}", "{{ messages[9].content }}", "{{ messages.append }}", "{{ 'a' * 9 ** 99 }}", "{% generation %}",
                         "{{ strftime_now(5) }}", "{{ strftime_now() }}", "{% for i in range(999999999) %}{% endfor %}"):
            self.assertIsNone(chat.parts_of(template, {})[0], template)


if __name__ == "__main__":
    unittest.main()
