# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers of each kind that published models have, trained here on a few sentences."""
import io
import json

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from checkpoints import VOCABULARY

TEXTS = ["The quick brown fox jumps over the lazy dog, and the dog does not mind.",
         "Once upon a time there was a compiler that made kernels for every device there is.",
         "A token is a piece of a word; a word may be one token or many. It's what they're for!",
         "In 1984 there were 128 kernels; in 2024 there are 65536.", "Ärger über größere Maße, naïve café, çà et là.",
         "def main():\n    return [x for x in range(10)]\n\n\nprint(main())\n"] * 4
# What tokenizers are tried on. The emoji and the Han letters are in no vocabulary.
SAMPLES = ["Once upon a time", " the  quick\tbrown   fox \n\n jumped", "It's 12345 o'clock, they'll say: WE'RE late!",
           "größe naïve Ǆ", "漢字 and 😀🎉 emoji", "", "a", "\n", "   ", "x" * 40, "foo<|end|>bar <|user|>hi", "<s>", "don't_stop(now)"]
SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
LLAMA3_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+")
CHATML = ("{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + '\n' + m['content'] | trim + '<|end|>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")


def train(tokenizer, **options):
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False, **options)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def with_begin(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    return tokenizer


def gpt2():
    out = tokenizers.Tokenizer(models.BPE())
    out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = decoders.ByteLevel()
    return train(out, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama3():
    out = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(tokenizers.Regex(LLAMA3_WORDS), "isolated")
    out.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    out.decoder = decoders.ByteLevel()
    return with_begin(train(out, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))


def smollm():
    out = tokenizers.Tokenizer(models.BPE())
    out.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)])
    out.decoder = decoders.ByteLevel()
    return train(out, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama2(legacy=True):
    """SentencePiece's pieces: spaces are marked, and what has no piece is bytes."""
    sentencepiece_bytes = [f"<0x{b:02X}>" for b in range(256)]
    out = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    out.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<unk>", *SPECIAL, *sentencepiece_bytes],
                                  show_progress=False)
    out.train_from_iterator([t.replace(" ", "\u2581") for t in TEXTS], trainer)
    data = json.loads(out.to_str())
    # The bytes are pieces, not names that a text could spell out.
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    out = tokenizers.Tokenizer.from_str(json.dumps(data))
    if legacy:
        out.pre_tokenizer = None
        out.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    out.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(content=" ", left=1)])
    out.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[
        ("<|begin|>", out.token_to_id("<|begin|>"))])
    return out


def gemma():
    out = llama2(legacy=False)
    out.normalizer = normalizers.Replace(" ", "\u2581")
    out.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    out.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return out


KINDS = {"gpt2": gpt2, "llama3": llama3, "smollm": smollm, "llama2": llama2, "llama2_first": lambda: llama2(False),
         "gemma": gemma}


def sentencepiece_model():
    """The bytes of a tokenizer.model."""
    import sentencepiece
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(t for t in TEXTS if t.isascii()), model_writer=out, vocab_size=VOCABULARY, model_type="bpe", byte_fallback=True,
        character_coverage=1.0, control_symbols=["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"],
        split_digits=True, minloglevel=2, normalization_rule_name="identity", remove_extra_whitespaces=False)
    return out.getvalue()


def gguf_vocabulary(tokenizer, pre):
    """A GGUF file's values for a tokenizer of bytes as letters (`pre` is a name like "llama-bpe") or of pieces ("")."""
    data = json.loads(tokenizer.to_str())
    by_number = {i: t for t, i in tokenizer.get_vocab(with_added_tokens=True).items()}
    tokens = [by_number[i] for i in range(len(by_number))]
    tokens += [f"[PAD{i}]" for i in range(len(tokens), VOCABULARY)]  # as the converter fills up the embedding's rows
    special = {t["content"] for t in data["added_tokens"]}
    kinds = [5 if t.startswith("[PAD") else 2 if t == "<unk>" else 3 if t in special else 6 if t.startswith("<0x") else 1 for t in tokens]
    out = {"tokenizer.ggml.model": "gpt2" if pre else "llama", "tokenizer.ggml.tokens": tokens,
           "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": tokens.index("<|begin|>"),
           "tokenizer.ggml.eos_token_id": tokens.index("<|end|>"),
           "tokenizer.ggml.add_bos_token": data["post_processor"] is not None and "SpecialToken" in json.dumps(data["post_processor"]),
           "tokenizer.chat_template": CHATML}
    if pre:
        return out | {"tokenizer.ggml.pre": pre, "tokenizer.ggml.merges": [" ".join(m) for m in data["model"]["merges"]]}
    # Pieces that were made later have lower scores.
    ranks = {"".join(m): -float(i) for i, m in enumerate(data["model"]["merges"])}
    return out | {"tokenizer.ggml.scores": [ranks.get(t, -1e4) for t in tokens]}
