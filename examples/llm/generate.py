#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text from a language model that export.py wrote, by krafla: no JAX. Needs numpy, and tokenizers or sentencepiece.

    generate.py MODEL --prompt "Once upon a time" [--device vulkan] [--max-tokens 100]
    generate.py MODEL --chat                       a conversation; an empty line or Ctrl-D ends it
    generate.py MODEL --tokens 1,15,7              tokens in, tokens out: no tokenizer

The text goes to standard output as it is made, everything else to standard error. Exit: 0, 1 an error, 130 Ctrl-C.
"""
from __future__ import annotations

import argparse
import dataclasses
import io
import mmap
import os
import pathlib
import re
import signal
import sys
import time
from typing import Iterator, Sequence

import numpy as np

import chat
import fields
import krafla
import text
from fields import CheckpointError, Values

# Of the arrays in the weights' file: krafla's name, and what numpy can hold the bits in without other packages.
TYPES = {"F32": ("f32", np.float32), "F16": ("f16", np.float16), "BF16": ("bf16", np.uint16), "I8": ("s8", np.int8),
         "U8": ("u8", np.uint8)}
CACHE_BITS = {"float32": ("f32", np.float32), "bfloat16": ("bf16", np.uint16), "float16": ("f16", np.float16)}
SIZES = {name: np.dtype(bits).itemsize for name, (_, bits) in TYPES.items()}
FORMAT = 1


@dataclasses.dataclass
class Sampling:
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Program:
    """What model.json says of one."""
    file: str
    inputs: list[str]
    outputs: list[str]
    donated: list[str]


class Description:
    """model.json, and the objects within it."""

    def __init__(self, folder: pathlib.Path):
        path = folder / "model.json"
        given = fields.read_json(path)
        if not given:
            raise CheckpointError(f"{folder} has no model.json; export.py makes such folders.")
        whole = Values(given, fields.MODEL, str(path))
        if whole.get("format") != FORMAT:
            raise CheckpointError(f"{path} has format {whole.get('format')}; this program reads {FORMAT}.")
        self.context, self.vocabulary = whole.get("context"), whole.get("vocabulary")
        self.stop, self.tokenizer = whole.get("stop"), whole.get("tokenizer")
        self.weights = whole.object("weights", fields.MODEL_WEIGHTS).get("file")
        self.cache = whole.object("cache", fields.MODEL_CACHE)
        programs = whole.object("programs", fields.MODEL_PROGRAMS)
        listed = [Values(p, fields.MODEL_PROGRAM, programs.where) for p in programs.get("prefill")]
        self.prefills = {p.get("length"): self._program(p) for p in listed}
        self.decode, self.sample = (self._program(programs.object(p, fields.MODEL_PROGRAM)) for p in ("decode", "sample"))
        around = whole.object("chat", fields.MODEL_CHAT) if whole.get("chat") is not None else None
        parts = {name: around.get(name) for name in fields.MODEL_CHAT} if around else None
        self.chat = {name: part for name, part in parts.items() if part is not None} if parts else None

    @staticmethod
    def _program(values: Values) -> Program:
        return Program(*(values.get(name) for name in ("file", "inputs", "outputs", "donated")))


class LanguageModel:
    """The programs of a folder on a device, with the weights, and the caches of one text."""

    def __init__(self, folder: pathlib.Path, device: str = "", threads: int = 0, enable: Sequence[str] = ()):
        self.folder, self.enable = folder, enable
        self.description = Description(folder)
        self.context = self.description.context
        self.client = krafla.Client(device, threads=threads)
        self.weights = self._read_weights(folder / self.description.weights)
        self.prefills = self.description.prefills
        self.loaded: dict[str, krafla.Model] = {}
        self.reset()

    def reset(self) -> None:
        name, bits = CACHE_BITS[self.description.cache.get("type")]
        shape, count = self.description.cache.get("shape"), self.description.cache.get("count")
        self._check_caches(name, shape, count)
        zeros = np.zeros(shape, bits)
        self.state = {f"cache.{i}": self.client.put(zeros, type=name) for i in range(count)}
        self.fed: list[int] = []  # whose keys and values the caches hold

    def _check_caches(self, name: str, shape: list[int], count: int) -> None:
        """Before so much memory is taken: that the program for one token has such caches."""
        what = self.description.decode
        tensors = {n: t for n, t in zip(what.inputs, self._program(what).inputs, strict=True) if n.startswith("cache.")}
        wrong = next((n for n, t in tensors.items() if (t.type, list(t.shape)) != (name, shape)), None)
        if wrong or set(tensors) != {f"cache.{i}" for i in range(count)}:
            raise CheckpointError(f"{self.folder / what.file} has other caches than model.json says: {len(tensors)} for {count}, or "
                                  f"others than {name}{shape}.")

    def _read_weights(self, path: pathlib.Path) -> dict[str, krafla.Buffer]:
        """A CPU reads them where the file is mapped, other devices get a copy."""
        entries, offset = fields.safetensors_header(path, SIZES)
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data = np.frombuffer(mapped, np.uint8, offset=offset)
        out = {}
        for name, entry in entries.items():
            kind, bits = TYPES[entry.dtype]
            array = data[entry.begin:entry.end].view(bits).reshape(entry.shape)
            out["weights." + name] = self.client.put(array, type=kind, share=True)
        return out

    def _program(self, what: Program) -> krafla.Model:
        if what.file not in self.loaded:
            path = self.folder / what.file
            if not path.is_file():
                raise CheckpointError(f"There is no file {path}, which model.json names.")
            model = self.client.load(path, enable=self.enable)
            if (len(model.inputs), len(model.outputs)) != (len(what.inputs), len(what.outputs)):
                raise CheckpointError(f"{path} has {len(model.inputs)} inputs and {len(model.outputs)} outputs; model.json names "
                                      f"{len(what.inputs)} and {len(what.outputs)}.")
            token = dict(zip(what.outputs, model.outputs)).get("token")
            if token is None or (token.type, token.shape) != ("s32", (1,)):
                raise CheckpointError(f"{path} gives no token, by the names of its outputs in model.json.")
            self.loaded[what.file] = model
        return self.loaded[what.file]

    def _run(self, what: Program, **given) -> None:
        """Runs on the state and these arrays; the results become the state."""
        arrays = self.weights | self.state | given
        missing = next((n for n in what.inputs if n not in arrays), None)
        if missing is not None:
            raise CheckpointError(f"{self.folder / 'model.json'} has the input {fields.shortened(missing)} of {what.file}, which "
                                  "neither the weights nor the other programs have.")
        inputs = [arrays[n] for n in what.inputs]
        donated = [i for i, n in enumerate(what.inputs) if n in what.donated]
        self.state |= zip(what.outputs, self._program(what).run_buffers(*inputs, donate=donated))

    def load_all(self) -> None:
        for what in (*self.prefills.values(), self.description.decode):
            self._program(what)

    def feed(self, tokens: list[int]) -> int:
        """Brings the caches to the end of this text: what they have of it already stays. Gives how many were computed."""
        if not tokens:
            raise ValueError("There are no tokens to begin with.")
        if len(tokens) > self.context:
            raise ValueError(f"The text has {len(tokens)} tokens; the model was exported for {self.context} "
                             "(export.py --context).")
        wrong = [t for t in tokens if not 0 <= t < self.description.vocabulary]
        if wrong:
            raise ValueError(f"The token {wrong[0]} is not below {self.description.vocabulary}, the vocabulary's size.")
        at = 0
        while at < min(len(self.fed), len(tokens) - 1) and self.fed[at] == tokens[at]:
            at += 1
        first = at
        while at < len(tokens):
            rest = len(tokens) - at
            fitting = sorted(n for n in (1, *self.prefills) if at + n <= self.context)
            length = next((n for n in fitting if n >= rest), fitting[-1])
            count = min(length, rest)
            part = np.zeros(length, np.int32)
            part[:count] = tokens[at:at + count]
            self.fed = self.fed[:at]
            if length == 1:
                self._run(self.description.decode, token=part, position=np.int32(at))
            else:
                self._run(self.prefills[length], tokens=part, count=np.int32(count), position=np.int32(at))
            at += count
            self.fed = tokens[:at]
        self.state["token"].wait()
        return len(tokens) - first

    def tokens(self, sampling: Sampling, most: int) -> Iterator[int]:
        """What follows the text that was fed, at most so many, and no more than fit the context."""
        chosen = {"seed": np.uint32(sampling.seed), "temperature": np.float32(sampling.temperature),
                  "top_k": np.int32(sampling.top_k), "top_p": np.float32(sampling.top_p)}
        options = {name: self.client.put(value) for name, value in chosen.items()}
        for i in range(most):
            if sampling.temperature > 0:
                self._run(self.description.sample, **options)
            token = self.state["token"]
            yield int(token.numpy()[0])
            if i + 1 == most or len(self.fed) == self.context:
                return
            self.fed = [*self.fed, int(token.numpy()[0])]
            self._run(self.description.decode)


class Conversation:
    def __init__(self, parts: dict | None):
        if parts is None:
            raise ValueError("The model has no chat template that is known; take --prompt.")
        self.parts, self.messages = parts, []

    def say(self, role: str, content: str) -> None:
        if role not in self.parts:
            raise ValueError(f"The model's conversations have no messages of the role '{role}'.")
        self.messages.append((role, content.strip()))

    def text(self) -> str:
        return chat.written(self.parts, self.messages, True)


class Interruption:
    """Ctrl-C while a token is made ends the text after it, so that the caches are whole."""

    def __enter__(self) -> Interruption:
        self.came = False
        self.before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_signal) -> None:
        self.came = True

    def __exit__(self, *_error) -> None:
        signal.signal(signal.SIGINT, self.before)


def answer(model: LanguageModel, prompt: list[int], tokens, sampling: Sampling, most: int) -> str:
    """Writes what follows the prompt, and gives it."""
    started = time.perf_counter()
    computed = model.feed(prompt)
    begun = time.perf_counter()
    stream = text.Stream(tokens, prompt) if tokens is not None else None
    whole, count = "", 0
    stops = set(model.description.stop)

    def write(piece: str) -> None:
        nonlocal whole
        whole += piece
        sys.stdout.write(piece)
        sys.stdout.flush()
    with Interruption() as interruption:
        for token in model.tokens(sampling, most):
            count += 1
            if token in stops:
                break
            write(stream.add(token) if stream is not None else f"{',' if count > 1 else ''}{token}")
            if interruption.came:
                break
    if stream is not None:
        write(stream.rest())
    write("\n")
    took = time.perf_counter() - begun
    rate = f"{computed / (begun - started):.1f} tokens/s" if computed else "nothing new"
    print(f"prefill: {computed} tokens in {begun - started:.3f} s, {rate}; decode: {count} tokens in {took:.3f} s, "
          f"{(count - 1) / took if count > 1 else 0:.1f} tokens/s on {model.client.device}", file=sys.stderr)
    if interruption.came:
        raise KeyboardInterrupt
    return whole


def converse(model: LanguageModel, tokens, sampling: Sampling, most: int, system: str | None) -> None:
    conversation = Conversation(model.description.chat)
    if system is not None:
        conversation.say("system", system)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline().strip()
        if not line:
            return
        conversation.say("user", line)
        try:
            said = answer(model, tokens.encode(conversation.text()), tokens, sampling, most)
            conversation.say("assistant", said)
        except KeyboardInterrupt:  # ends the answer; the question is forgotten with it
            conversation.messages.pop()


def numbers_of(listed: str) -> list[int]:
    if not re.fullmatch(r"-?[0-9]{1,18}(,-?[0-9]{1,18})*", listed):
        raise argparse.ArgumentTypeError(f"'{listed}' is no list of whole numbers with commas between.")
    return [int(t) for t in listed.split(",")]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="generate.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=pathlib.Path, help="a folder that export.py wrote")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", help="the beginning of a text; '-' reads it from standard input")
    what.add_argument("--chat", nargs="?", const="", metavar="MESSAGE", help="one message, or a conversation")
    what.add_argument("--tokens", type=numbers_of, metavar="N,..",
                      help="the beginning as tokens; tokens are written, too")
    parser.add_argument("--show-tokens", action="store_true", help="the prompt's tokens, on standard error")
    parser.add_argument("--system", help="what a conversation begins with")
    parser.add_argument("--device", default="", help="cpu, vulkan, vulkan:1, .. (the best)")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU's kernels (one a processor)")
    parser.add_argument("--enable", default=[], metavar="NAME,..", type=lambda text: text.split(","),
                        help="features of krafla's, as of the command krafla")
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the likeliest token, always (0)")
    parser.add_argument("--top-k", type=int, default=0, metavar="N", help="of the N likeliest tokens; 0: of all (0)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P",
                        help="of the fewest likeliest tokens that have P of the probability (1)")
    parser.add_argument("--seed", type=int, help="the same seed makes the same text (another one each time)")
    given = parser.parse_args(arguments)
    if not given.temperature >= 0 or given.top_k < 0 or not 0 < given.top_p <= 1 or given.max_tokens < 1:
        parser.error("--temperature and --top-k are at least 0, --top-p is above 0 and at most 1, --max-tokens at least 1.")
    if 0 < given.temperature < fields.LEAST or given.top_k >= 1 << 31:
        parser.error("--temperature is 0 or what float32 holds, and --top-k below 2147483648.")
    if given.seed is not None and not 0 <= given.seed < 1 << 32:
        parser.error("--seed is a whole number from 0 to 4294967295.")
    if given.seed is None:
        given.seed = int.from_bytes(os.urandom(4), "little")
    return given


def run(given: argparse.Namespace) -> None:
    def encoded(prompt: str, prefix: list[int]) -> list[int]:
        out = prefix + tokens.encode(prompt)
        if given.show_tokens:
            print("tokens: " + ",".join(map(str, out)), file=sys.stderr)
        return out
    model = LanguageModel(given.model, given.device, given.threads, given.enable)
    sampling = Sampling(given.temperature, given.top_k, given.top_p, given.seed)
    model.load_all()
    if given.tokens is not None:
        answer(model, given.tokens, None, sampling, given.max_tokens)
        return
    if model.description.tokenizer is None:
        raise ValueError("The model has no tokenizer; take --tokens.")
    tokens = text.Tokens(given.model, model.description.tokenizer)
    if given.prompt is not None:
        prompt = sys.stdin.read() if given.prompt == "-" else given.prompt
        answer(model, encoded(prompt, tokens.prefix), tokens, sampling, given.max_tokens)
    elif given.chat:
        conversation = Conversation(model.description.chat)
        for role, content in (("system", given.system), ("user", given.chat)):
            if content is not None:
                conversation.say(role, content)
        answer(model, encoded(conversation.text(), []), tokens, sampling, given.max_tokens)
    else:
        converse(model, tokens, sampling, given.max_tokens, given.system)


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper):  # what is no UTF-8 is refused where texts become tokens
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        run(given)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who reads has what they want
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (krafla.Error, ValueError, OSError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
