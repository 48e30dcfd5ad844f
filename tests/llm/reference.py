#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the packages transformers and torch make of the checkpoints, as reference.json beside this file.

    reference.py        needs torch, transformers (5.24 made the file that is there) and gguf; no part of the tests
"""
import json
import pathlib
import tempfile

import gguf
import numpy as np
import torch
import transformers

import checkpoints
import gguf_writer
import vocabularies

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 12
# Of blocks: where their floats of 16 bits lie.
SCALES = {"Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,),
          "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "MXFP4": ()}


def greedy(model, prompt):
    """The logits after the prompt, and the likeliest tokens one after the other; the whole sequence anew each time."""
    tokens, first, margin = list(prompt), None, float("inf")
    for _ in range(STEPS):
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0, -1].float()
        best = torch.topk(logits, 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        first = logits if first is None else first
        tokens.append(int(best.indices[0]))
    return {"logits": [float(f"{x:.7g}") for x in first.tolist()], "tokens": tokens[len(prompt):], "margin": margin}


def load(folder, **options):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **options)
    wrong = [k for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[k]]
    assert not wrong, (folder, {k: info[k] for k in wrong})
    return model.eval()


def blocks(kind):
    """Two blocks of random bits with scales that are no NaN, and what the package gguf makes of them."""
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    raw = np.random.Generator(np.random.PCG64(size)).integers(0, 256, (2, size), dtype=np.uint8)
    for at in SCALES[kind]:
        raw[:, at:at + 2] = np.array([[0.011], [-0.3]], np.float16).view(np.uint8)
    numbers = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    return {"bytes": raw.tobytes().hex(), "values": [float(f"{x:.9g}") for x in numbers.reshape(-1).tolist()]}


def check_writer(name, folder, expected):
    """The files of gguf_writer are what llama.cpp's converter writes, as transformers reads them."""
    gguf_writer.write(folder / "model.gguf", checkpoints.MODELS[name], checkpoints.tensors_of(name),
                      tokenizer=vocabularies.gguf_vocabulary(vocabularies.gpt2(), "gpt-2"))
    # Of the file's values it does not take all: windows, caps and the size of heads are from config.json.
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file="model.gguf", dtype=torch.float32, attn_implementation="eager",
        config=transformers.AutoConfig.from_pretrained(folder)).eval()
    found = greedy(model, checkpoints.PROMPT)
    worst = np.abs(np.array(found["logits"]) - expected["logits"]).max()
    print(f"{name} from GGUF: logits differ by {worst:.1e}")


def main():
    out = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "models": {}, "configs": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for name in checkpoints.MODELS:
            folder = pathlib.Path(scratch) / name
            checkpoints.write(name, folder)
            out["models"][name] = greedy(load(folder), checkpoints.PROMPT)
            transformers.AutoConfig.from_pretrained(folder).save_pretrained(folder / "saved")
            out["configs"][name] = json.loads((folder / "saved/config.json").read_text())
            print(name, out["models"][name]["tokens"], round(out["models"][name]["margin"], 4))
            if name in ("llama2", "qwen2", "qwen3", "gpt2", "gemma3", "gemma2", "phi3", "phi3_mini"):
                check_writer(name, folder, out["models"][name])
    out["blocks"] = {kind: blocks(kind) for kind in SCALES}
    (HERE / "reference.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
