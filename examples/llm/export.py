#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model's checkpoint as programs for krafla: StableHLO with its weights beside it. Needs JAX.

    export.py CHECKPOINT OUT [--weights int4] [--context 2048] ...

CHECKPOINT is a folder with config.json and *.safetensors, or a GGUF file, of the families that docs/llm.md lists, also
quantised by GPTQ, AWQ or compressed-tensors. OUT becomes a folder that generate.py and generate.cpp run:

    model.json            which file is what: inputs and outputs of the programs by name, shapes, tokens, chat
    prefill_N.mlirbc      N tokens into the caches
    decode.mlirbc         one token
    sample.mlirbc         temperature, top-k and top-p
    weights.safetensors   arguments of the first two
    tokenizer.json, tokenizer.model
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import sys
from typing import Sequence

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.export  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import chat  # noqa: E402
import decoder  # noqa: E402
import sampling  # noqa: E402
import text  # noqa: E402
import weights  # noqa: E402
from checkpoint import Checkpoint, open_checkpoint, write_safetensors  # noqa: E402
from config import Config, read_config  # noqa: E402
from fields import CONFIG, TEXT, CheckpointError, Field, Values  # noqa: E402

FORMAT = 1


def name_of(path) -> str:
    """Of an argument or result: its keys and indices with dots between them."""
    return ".".join(str(getattr(p, "key", getattr(p, "idx", getattr(p, "name", "")))) for p in path)


def shape_of(array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def names_in(tree: dict) -> list[str]:
    return [name_of(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def write_program(path: pathlib.Path, function, arguments: dict, donated: tuple[str, ...], outputs) -> dict:
    """Exports `function`, whose parameters `arguments` names in their order and whose results `outputs` names. Gives
    what model.json says of it."""
    exported = jax.export.export(jax.jit(function, keep_unused=True, donate_argnames=donated))(*arguments.values())
    inputs = [n for key, tree in arguments.items() for n in names_in({key: tree})]
    if len(exported.module_kept_var_idx) != len(inputs):
        raise RuntimeError(f"JAX kept {len(exported.module_kept_var_idx)} of {len(inputs)} arguments.")
    results = jax.eval_shape(function, *arguments.values())
    path.write_bytes(exported.mlir_module_serialized)
    return {"file": path.name, "inputs": inputs,
            "outputs": [n for key, tree in zip(outputs, results, strict=True) for n in names_in({key: tree})],
            "donated": [n for d in donated for n in names_in({d: arguments[d]})]}


def cache_shapes(config: Config, context: int, dtype) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct((context, config.kv_heads, config.head_size), dtype)] * (2 * len(config.layers))


def write_programs(out: pathlib.Path, config: Config, arrays: dict, context: int, lengths: list[int], activations,
                   cache_type) -> dict:
    """The object "programs" of model.json."""
    prefill, decode = decoder.programs(config, jnp.dtype(activations))
    whole = jax.ShapeDtypeStruct((), jnp.int32)
    given = {"weights": {name: shape_of(a) for name, a in arrays.items()},
             "cache": cache_shapes(config, context, cache_type)}
    results = ("token", "logits", "position", "cache")
    programs: dict = {"prefill": []}
    for length in lengths:
        arguments = {**given, "tokens": jax.ShapeDtypeStruct((length,), jnp.int32), "count": whole, "position": whole}
        written = write_program(out / f"prefill_{length}.mlirbc", prefill, arguments, ("cache",), results)
        programs["prefill"].append({"length": length, **written})
    arguments = {**given, "token": jax.ShapeDtypeStruct((1,), jnp.int32), "position": whole}
    programs["decode"] = write_program(out / "decode.mlirbc", decode, arguments, ("cache",), results)
    real = jax.ShapeDtypeStruct((), jnp.float32)
    arguments = {"logits": jax.ShapeDtypeStruct((config.vocabulary,), jnp.float32), "position": whole,
                 "seed": jax.ShapeDtypeStruct((), jnp.uint32), "temperature": real, "top_k": whole, "top_p": real}
    programs["sample"] = write_program(out / "sample.mlirbc", sampling.sample, arguments, (),
                                       ("token",))
    return programs


def _sentencepiece(path: pathlib.Path, config: Values) -> dict:
    model, begins = text.sentencepiece_of(path), config.get("add_bos_token")
    special = {model.id_to_piece(i): i for i in range(model.vocab_size()) if model.is_control(i)}
    return {"kind": "sentencepiece", "file": "tokenizer.model", "prefix": [model.bos_id()] if begins and model.bos_id() >= 0 else [],
            "special": special}


def _tokenizers(path: pathlib.Path) -> dict:
    model = text.tokenizer_of(path)
    special = {t.content: i for i, t in model.get_added_tokens_decoder().items() if t.special}
    plain, whole = model.encode("a", add_special_tokens=False).ids, model.encode("a").ids
    prefix = whole[:len(whole) - len(plain)] if whole[len(whole) - len(plain):] == plain else []
    return {"kind": "tokenizers", "file": "tokenizer.json", "prefix": prefix, "special": special}


def write_tokenizer(out: pathlib.Path, checkpoint: Checkpoint) -> tuple[dict | None, str]:
    """What model.json says of the tokenizer, and why there is none."""
    json_file, model_file = checkpoint.folder / "tokenizer.json", checkpoint.folder / "tokenizer.model"
    if checkpoint.tokenizer is not None:
        (out / "tokenizer.json").write_text(checkpoint.tokenizer, encoding="utf-8")
    elif json_file.exists():
        shutil.copyfile(json_file, out / "tokenizer.json")
    elif model_file.exists():
        shutil.copyfile(model_file, out / "tokenizer.model")
        return _sentencepiece(out / "tokenizer.model", checkpoint.tokenizer_config), ""
    elif (checkpoint.folder / "vocab.json").exists() and (checkpoint.folder / "merges.txt").exists():
        text.byte_level_of(checkpoint.folder / "vocab.json", checkpoint.folder / "merges.txt").save(str(out / "tokenizer.json"))
    else:
        return None, f"{checkpoint.folder} has no tokenizer.json, tokenizer.model or vocab.json with merges.txt"
    return _tokenizers(out / "tokenizer.json"), ""


def stop_tokens(checkpoint: Checkpoint, tokenizer: dict | None) -> list[int]:
    """What ends a text, by all that the checkpoint says of it."""
    found = set()
    config = Values(checkpoint.config, CONFIG, checkpoint.where)
    for place in (checkpoint.generation_config, config, config.object("text_config", CONFIG)):
        given = place.get("eos_token_id")
        found |= set(given if isinstance(given, list) else [given])
    special = (tokenizer or {}).get("special", {})
    named = [checkpoint.tokenizer_config.get("eos_token"), "<|im_end|>", "<|eot_id|>", "<end_of_turn>",
             "<|endoftext|>", "<|end_of_text|>"]
    return sorted(found | {special[n] for n in named if n in special})


def write_chat(checkpoint: Checkpoint) -> tuple[dict | None, str]:
    config = checkpoint.tokenizer_config
    template = config.get("chat_template")
    beside = checkpoint.folder / "chat_template.jinja"
    if template is None and checkpoint.tokenizer is None and beside.exists():
        template = beside.read_text(encoding="utf-8", errors="replace")
    if isinstance(template, list):
        several = [Values(t, {"name": Field(TEXT, ""), "template": Field(TEXT)}, f"{config.where}, chat_template") for t in template]
        template = next((t.get("template") for t in several if t.get("name") == "default"), None)
    if template is None:
        return None, "the checkpoint has none"
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    return chat.parts_of(template, {name: config.get(name) for name in names if config.get(name)})


def is_bfloat16(checkpoint: Checkpoint) -> bool:
    """Of most of its tensors of floats, among which are the scales of matrices that are quantised: they would be rounded
    if they were of another type."""
    return sum(k == np.dtype(jnp.bfloat16) for k in checkpoint.float_types) > len(checkpoint.float_types) // 2


def export(checkpoint: Checkpoint, out: pathlib.Path, form: str = "stored", activations: str | None = None,
           context: int | None = None, lengths: Sequence[int] = (16, 64, 256), cache_type: str | None = None,
           say=lambda text: None) -> dict:
    """Writes the folder `out`, and gives what its model.json says."""
    config = read_config(checkpoint.config, checkpoint.where)
    if activations is None:
        activations = "bfloat16" if is_bfloat16(checkpoint) else "float32"
    context = min(context or min(config.positions, 4096), config.positions)
    lengths = sorted({n for n in lengths if n <= context})
    out.mkdir(parents=True, exist_ok=True)
    say(f"{config.family}, {len(config.layers)} layers, width {config.width}, {config.vocabulary} tokens")
    arrays = weights.load(checkpoint, config, form, activations,
                          lambda done, total: say(f"layer {done + 1} of {total}") if done % 8 == 0 else None)
    if unused := checkpoint.unused():
        say(f"{len(unused)} tensors of the checkpoint have no place in {config.family} and are left out: {', '.join(unused[:4])}"
            f"{', ..' if len(unused) > 4 else ''}")
    write_safetensors(out / "weights.safetensors", arrays)
    size = sum(a.nbytes for a in arrays.values())
    say(f"{size / 1e6:.1f} MB of weights; exporting {len(lengths) + 2} programs")
    cache = cache_type or activations
    programs = write_programs(out, config, arrays, context, lengths, activations, cache)
    tokenizer, why = write_tokenizer(out, checkpoint)
    if tokenizer is None:
        say(f"no tokenizer: {why}. generate takes tokens by --tokens.")
    parts, why = write_chat(checkpoint)
    if parts is None:
        say(f"no chat template: {why}.")
    shape = [context, config.kv_heads, config.head_size]
    model = {"format": FORMAT, "family": config.family, "vocabulary": config.vocabulary, "context": context,
             "activations": activations, "form": form, "weights": {"file": "weights.safetensors", "bytes": size},
             "cache": {"type": cache, "shape": shape, "count": 2 * len(config.layers)}, "programs": programs,
             "tokenizer": tokenizer, "stop": stop_tokens(checkpoint, tokenizer), "chat": parts}
    (out / "model.json").write_text(json.dumps(model, indent=1), encoding="utf-8")
    return model


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="export.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("checkpoint", help="a folder with config.json and safetensors, or a .gguf file")
    parser.add_argument("out", type=pathlib.Path, help="the folder to write")
    parser.add_argument("--weights", choices=weights.FORMS, default="stored", dest="form",
                        help="stored: as the checkpoint has them; int8: a scale a column; int4: a scale for 32 rows")
    parser.add_argument("--activations", choices=tuple(weights.FLOATS), help="the type that the network computes in "
                        "(bfloat16 where the checkpoint has that, else float32); sums are float32 in any case")
    parser.add_argument("--cache", choices=tuple(weights.FLOATS), help="the type of the caches (the activations')")
    parser.add_argument("--context", type=int, help="the most tokens of prompt and answer (the model's, up to 4096)")
    def numbers_of(listed: str) -> list[int]:
        return [int(n) for n in listed.split(",")]
    parser.add_argument("--prefill", type=numbers_of, default=[16, 64, 256],
                        metavar="N,..", help="how many tokens of a prompt are taken at once: a program each (16,64,256)")
    given = parser.parse_args(arguments)
    if (given.context is not None and given.context < 2) or any(n < 1 for n in given.prefill):
        parser.error("--context is at least 2, and --prefill are lengths of at least 1.")
    try:
        export(open_checkpoint(given.checkpoint), given.out, given.form, given.activations, given.context, given.prefill,
               given.cache, lambda text: print(f"export: {text}", file=sys.stderr))
    except (CheckpointError, OSError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
