# SPDX-License-Identifier: Apache-2.0
"""From a checkpoint's tensors to the arrays that the exported programs take, quantised where that is asked for.

A product x @ w has one of these forms, by what lies in the file under its name:

  NAME        [in, out], floats
  NAME.int8   [in, out], int8; NAME.scale [out], one for a column: the product is scaled
  NAME.int8   [in, out], int8; NAME.scale [in / 32, out], one for 32 rows: the weights are scaled
  NAME.int4   [in / 2, out], uint8: byte r of a column holds rows 2r (low nibble) and 2r + 1 (high), each plus 8;
              NAME.scale [in / 32, out]

  NAME.f4     [in / 2, out], uint8: pairs as int4's, of the bits of f4e2m1fn; NAME.scale [in / 32, out]

Where the checkpoint has its own groups, these are as long as it has them, and NAME.zero, int8 like the scales, is taken from
the integers before they are scaled, if there are zero points.

The matrices of a layer's experts have one more dimension in front, the experts, in the array and in the scales. What a router
multiplies with stays in floats.

The embedding is [vocabulary, width] and the head of a model that has no other; quantised it is int8 with a scale a row,
NAME.scale [vocabulary]. Of a checkpoint that has it in blocks they stay what they are: a product's, [width, vocabulary].
"""
from __future__ import annotations

from typing import Callable

import ml_dtypes
import numpy as np

from checkpoint import Blocks, Checkpoint
from config import Config, Experts, Layer
from fields import CheckpointError, shortened

GROUP = 32
FORMS = ("float32", "bfloat16", "float16", "int8", "int4", "stored")
FLOATS = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def quantise(w: np.ndarray, bits: int, group: int, kept: np.dtype = np.dtype(np.float32)) -> Blocks:
    """Of a matrix [rows, columns]: each group of a row in steps of its own. The value of the largest magnitude becomes
    exactly the lowest integer where there are 4 bits (as GGML's q4_0 does, which uses all 16), else plus or minus 127. `kept` is the type in which the scales
    will be stored."""
    rows, columns = w.shape
    parts = np.asarray(w, np.float32).reshape(rows, columns // group, group)
    largest = np.take_along_axis(parts, np.abs(parts).argmax(-1)[..., None], -1)
    scales = (largest / -8 if bits == 4 else np.abs(largest) / 127).astype(kept).astype(np.float32)
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)
    low, high = (-8, 7) if bits == 4 else (-127, 127)
    values = np.clip(np.rint(parts * inverse), low, high).astype(np.int8)
    return Blocks(values.reshape(rows, columns), scales[..., 0], bits)


def pack(nibbles: np.ndarray) -> np.ndarray:
    """[in, out] from 0 to 15: two rows to a byte."""
    nibbles = nibbles.astype(np.uint8)
    return nibbles[0::2] | (nibbles[1::2] << 4)


class Writer:
    """Collects the arrays of the weights' file."""

    def __init__(self, form: str, activations: str):
        self.form, self.activations, self._options = form, FLOATS[activations], (form, activations)
        self.dtype = FLOATS.get(form, self.activations)  # of what is not quantised
        # Of scales for groups: as GGML has them, if that needs no rounding.
        self.scales = np.dtype(np.float16 if self.activations != ml_dtypes.bfloat16 else ml_dtypes.bfloat16)
        self.arrays: dict[str, np.ndarray] = {}

    def vector(self, name: str, value: np.ndarray) -> None:
        """Norms and biases: small, and as precise as the checkpoint has them."""
        self.arrays[name] = np.asarray(value, np.float32)

    def product(self, name: str, w: np.ndarray | Blocks) -> None:
        """`w` is [out, in], as checkpoints have it."""
        out, inputs = w.shape
        form = self.form
        if form == "stored":
            form = {8: "blocks", 4: "blocks"}[w.bits] if isinstance(w, Blocks) else "plain"
        if form == "blocks":
            self.blocks(name, w)
        elif form == "int8":
            wide = w.numbers() if isinstance(w, Blocks) else w
            whole = quantise(wide, 8, inputs)
            self.arrays[name + ".int8"] = np.ascontiguousarray(whole.values.T)
            self.arrays[name + ".scale"] = whole.scales[:, 0].astype(np.float32)
        elif form == "int4" and inputs % GROUP == 0:
            is_it = isinstance(w, Blocks) and w.bits == 4
            self.blocks(name, w if is_it else quantise(w.numbers() if isinstance(w, Blocks) else w, 4, GROUP,
                                                            self.scales))
        else:  # also what no group of 32 divides
            wide = w.numbers() if isinstance(w, Blocks) else w
            self.arrays[name] = np.ascontiguousarray(np.asarray(wide, self.plain(wide)).T)

    def experts(self, name: str, matrices: list[np.ndarray | Blocks]) -> None:
        """Products of each expert's."""
        parts = []
        for w in matrices:
            one = Writer(*self._options)
            one.product(name, w)
            parts.append(one.arrays)
        for key in parts[0]:
            self.arrays[key] = np.stack([arrays[key] for arrays in parts])

    def plain(self, array: np.ndarray) -> np.dtype:
        """The type of what is not quantised. Stored numbers keep theirs where they are widened to the activations'."""
        is_wider = self.activations == np.float32 and array.dtype in [np.dtype(d) for d in FLOATS.values()]
        return array.dtype if self.form == "stored" and is_wider else self.dtype

    def exact(self, scales: np.ndarray) -> np.ndarray:
        """Scales in half of their bytes, where that rounds none of them or the activations are as narrow."""
        with np.errstate(over="ignore"):
            narrow = scales.astype(self.scales)
        is_rounded = self.activations == np.float32 and (narrow.astype(np.float32) != scales).any()
        return scales.astype(np.float32) if is_rounded else narrow

    def blocks(self, name: str, w: Blocks) -> None:
        values = np.ascontiguousarray(w.values.T)
        if w.is_f4:
            self.arrays[name + ".f4"] = pack(values)
        elif w.bits == 4:
            self.arrays[name + ".int4"] = pack(values + 8)
        else:
            self.arrays[name + ".int8"] = values
        self.arrays[name + ".scale"] = np.ascontiguousarray(self.exact(w.scales).T)
        if w.zeros is not None:
            self.arrays[name + ".zero"] = np.ascontiguousarray(w.zeros.T)

    def rows(self, name: str, table: np.ndarray | Blocks) -> None:
        """A table of which rows are read: embeddings, and positions. Blocks lie as those of a product do, which the head may
        be: the other way around, with scales along what a product sums, it would take the time of ten heads."""
        if isinstance(table, Blocks) and self.form == "stored":
            return self.blocks(name, table)
        wide = table.numbers() if isinstance(table, Blocks) else table
        if self.form in ("int8", "int4"):
            whole = quantise(wide, 8, wide.shape[1])
            self.arrays[name + ".int8"], self.arrays[name + ".scale"] = whole.values, whole.scales[:, 0].astype(np.float32)
        else:
            self.arrays[name] = np.ascontiguousarray(np.asarray(wide, self.plain(wide)))


def _joined(parts: list) -> np.ndarray | Blocks:
    """One matrix of several that take the same input; as floats where they are quantised in different ways."""
    if all(isinstance(p, Blocks) for p in parts) and len({(p.bits, p.scales.shape[1], p.is_f4)
                                                              for p in parts}) == 1:
        zeros = None
        if any(p.zeros is not None for p in parts):
            zeros = np.concatenate([np.zeros(p.scales.shape, np.int8) if p.zeros is None else p.zeros for p in parts])
        return Blocks(np.concatenate([p.values for p in parts]), np.concatenate([p.scales for p in parts]), parts[0].bits,
                      zeros, parts[0].is_f4)
    wide = [p.numbers() if isinstance(p, Blocks) else p for p in parts]
    return np.concatenate([np.asarray(p, np.float32) for p in wide] if len({p.dtype for p in wide}) > 1 else wide)


def _check(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if tuple(shape) != expected:
        raise CheckpointError(f"The tensor {shortened(name)} is {list(shape)}; by config.json it is {list(expected)}.")


class _Tensors:
    """Tensors below the prefix that this checkpoint's names have, with the shapes that the configuration asks for."""

    def __init__(self, checkpoint: Checkpoint, first: str):
        found = [name for name in checkpoint.tensors if name == first or name.endswith("." + first)]
        if not found:
            raise CheckpointError(f"The checkpoint has no tensor {first!r}, with any prefix.")
        # With pictures there are several models in a file; the language model's says so.
        found.sort(key=lambda name: ("vision" in name, len(name)))
        self.checkpoint, self.prefix = checkpoint, found[0][:-len(first)]

    def has(self, name: str) -> bool:
        return self.prefix + name in self.checkpoint

    def matrix(self, name: str, *shape: int) -> np.ndarray | Blocks:
        out = self.checkpoint.floats(self.prefix + name)
        _check(self.prefix + name, out.shape, shape)
        return out

    def vector(self, name: str, *shape: int) -> np.ndarray:
        out = self.checkpoint.numbers(self.prefix + name)
        _check(self.prefix + name, out.shape, shape)
        return out


def _head(checkpoint: Checkpoint, config: Config, prefix: str, out: Writer) -> None:
    if config.is_tied:
        return
    for name in ("lm_head.weight", prefix.removesuffix("model.") + "lm_head.weight"):
        if name in checkpoint:
            w = checkpoint.floats(name)
            _check(name, w.shape, (config.vocabulary, config.width))
            return out.product("head", w)
    raise CheckpointError("The checkpoint has no lm_head.weight, and config.json does not say tie_word_embeddings.")


def _gated(t: _Tensors, source: str, inner: int, width: int, names: tuple[str, str, str]) -> tuple:
    """Gate and up as one matrix, and down."""
    gate, up, down = (f"{source}{n}.weight" for n in names)
    return _joined([t.matrix(gate, inner, width), t.matrix(up, inner, width)]), t.matrix(down, width, inner)


def _experts(t: _Tensors, config: Config, experts: Experts, source: str, name: str, out: Writer) -> None:
    d = config.width
    at, parts = source + "mlp.", ("gate_proj", "up_proj", "down_proj")
    if config.family == "mixtral":
        at, parts = source + "block_sparse_moe.", ("w1", "w3", "w2")
    out.vector(name + "router", t.vector(at + "gate.weight", experts.count, d).T)
    both = [_gated(t, f"{at}experts.{e}.", experts.inner, d, parts) for e in range(experts.count)]
    out.experts(name + "experts.gate_up", [gate_up for gate_up, _ in both])
    out.experts(name + "experts.down", [down for _, down in both])
    if experts.shared:
        gate_up, down = _gated(t, at + "shared_expert.", experts.shared, d, parts)
        out.product(name + "shared.gate_up", gate_up)
        out.product(name + "shared.down", down)
        out.vector(name + "shared_gate", t.vector(at + "shared_expert_gate.weight", 1, d).T)


def _gpt_oss_experts(t: _Tensors, config: Config, experts: Experts, source: str, name: str, out: Writer) -> None:
    """The rows of gate and up lie in turns, but for those of a GGUF file, which has them apart. Plain matrices are
    [experts, in, out], packed ones an expert each, [out, in]."""
    d, inner, at = config.width, experts.inner, source + "mlp."
    out.vector(name + "router", t.vector(at + "router.weight", experts.count, d).T)
    out.vector(name + "router.bias", t.vector(at + "router.bias", experts.count))
    apart = np.concatenate([np.arange(0, 2 * inner, 2), np.arange(1, 2 * inner, 2)])
    matrices = [("gate_up", "gate_up_proj", d, 2 * inner, apart), ("down", "down_proj", inner, d, np.arange(d))]
    if t.has(at + "experts.gate_proj.0"):
        both = [f"{at}experts.{part}" for part in ("gate_proj", "up_proj")]
        out.experts(name + "experts.gate_up", [_joined([t.matrix(f"{b}.{e}", inner, d) for b in both])
                                               for e in range(experts.count)])
        out.vector(name + "experts.gate_up.bias", np.concatenate([t.vector(b + "_bias", experts.count, inner) for b in both], 1))
        del matrices[0]
    for ours, theirs, columns, rows, order in matrices:
        source_name = f"{at}experts.{theirs}"
        if t.has(source_name + ".0"):
            parts = [t.matrix(f"{source_name}.{e}", rows, columns) for e in range(experts.count)]
        else:
            parts = [w.T for w in t.matrix(source_name, experts.count, columns, rows)]
        out.experts(f"{name}experts.{ours}", [w[order] for w in parts])
        out.vector(f"{name}experts.{ours}.bias", t.vector(source_name + "_bias", experts.count, rows)[:, order])


def _inner(t: _Tensors, config: Config, source: str, name: str, out: Writer) -> None:
    """The one feed-forward part."""
    d, inner = config.width, config.inner
    if config.family == "phi3":
        out.product(name + "gate_up", t.matrix(source + "mlp.gate_up_proj.weight", 2 * inner, d))
        out.product(name + "down", t.matrix(source + "mlp.down_proj.weight", d, inner))
    else:
        gate_up, down = _gated(t, source + "mlp.", inner, d, ("gate_proj", "up_proj", "down_proj"))
        out.product(name + "gate_up", gate_up)
        out.product(name + "down", down)
    if t.has(source + "mlp.gate_proj.bias"):
        out.vector(name + "gate_up.bias", np.concatenate([t.vector(f"{source}mlp.{p}.bias", inner)
                                                          for p in ("gate_proj", "up_proj")]))


def _attention(t: _Tensors, config: Config, source: str, name: str, out: Writer) -> None:
    size = config.head_size
    q, kv = config.heads * size, config.kv_heads * size
    parts = [("q_proj", q), ("k_proj", kv), ("v_proj", kv)]
    if config.family == "phi3":
        parts = [("qkv_proj", q + 2 * kv)]
    out.product(name + "qkv", _joined([t.matrix(f"{source}self_attn.{p}.weight", n, config.width) for p, n in parts]))
    if t.has(f"{source}self_attn.{parts[0][0]}.bias"):
        out.vector(name + "qkv.bias", np.concatenate([t.vector(f"{source}self_attn.{p}.bias", n) for p, n in parts]))
    out.product(name + "out", t.matrix(source + "self_attn.o_proj.weight", config.width, q))
    if config.has_head_norms or config.has_whole_norms:
        for part, count in (("q", q), ("k", kv)):
            out.vector(f"{name}{part}_norm", t.vector(f"{source}self_attn.{part}_norm.weight",
                                                      count if config.has_whole_norms else size))
    if config.has_sinks:
        out.vector(name + "sinks", t.vector(source + "self_attn.sinks", config.heads))


def _llama_layer(t: _Tensors, config: Config, layer: Layer, source: str, name: str, out: Writer) -> None:
    """Of Llama and all families that have its names."""
    _attention(t, config, source, name, out)
    if layer.experts is None:
        _inner(t, config, source, name, out)
    else:
        (_gpt_oss_experts if config.family == "gpt_oss" else _experts)(t, config, layer.experts, source, name, out)
    for ours, theirs in (("out", "self_attn.o_proj"), ("down", "mlp.down_proj")):
        if t.has(f"{source}{theirs}.bias"):
            out.vector(f"{name}{ours}.bias", t.vector(f"{source}{theirs}.bias", config.width))
    norms = {"attention_norm": "input_layernorm", "inner_norm": "post_attention_layernorm"}
    if config.has_post_norms:
        norms = {"attention_norm": "input_layernorm", "attention_post_norm": "post_attention_layernorm",
                 "inner_norm": "pre_feedforward_layernorm", "inner_post_norm": "post_feedforward_layernorm"}
    for ours, theirs in norms.items():
        if config.has_pre_norms or ours.endswith("post_norm"):
            out.vector(name + ours, t.vector(f"{source}{theirs}.weight", config.width))


def _gpt2_layer(t: _Tensors, config: Config, _: Layer, source: str, name: str, out: Writer) -> None:
    """Its matrices are [in, out]; a GGUF file has been turned to that by its reader."""
    d, inner = config.width, config.inner
    for ours, theirs, columns, rows in (("qkv", "attn.c_attn", d, 3 * d), ("out", "attn.c_proj", d, d),
                                        ("up", "mlp.c_fc", d, inner), ("down", "mlp.c_proj", inner, d)):
        w = t.vector(f"{source}{theirs}.weight", columns, rows)
        out.product(name + ours, w.T)
        out.vector(f"{name}{ours}.bias", t.vector(f"{source}{theirs}.bias", rows))
    for ours, theirs in (("attention_norm", "ln_1"), ("inner_norm", "ln_2")):
        out.vector(name + ours, t.vector(f"{source}{theirs}.weight", d))
        out.vector(f"{name}{ours}.bias", t.vector(f"{source}{theirs}.bias", d))


def load(checkpoint: Checkpoint, config: Config, form: str, activations: str,
         progress: Callable[[int, int], None] = lambda done, total: None) -> dict[str, np.ndarray]:
    """All arrays of the weights' file, by name."""
    out = Writer(form, activations)
    gpt2 = config.family == "gpt2"
    t = _Tensors(checkpoint, "wte.weight" if gpt2 else "embed_tokens.weight")
    out.rows("embedding", t.matrix("wte.weight" if gpt2 else "embed_tokens.weight", config.vocabulary, config.width))
    if gpt2:
        out.rows("positions", t.matrix("wpe.weight", config.positions, config.width))
    for i, layer in enumerate(config.layers):
        progress(i, len(config.layers))
        (_gpt2_layer if gpt2 else _llama_layer)(t, config, layer, f"h.{i}." if gpt2 else f"layers.{i}.", f"layers.{i}.", out)
    out.vector("norm", t.vector("ln_f.weight" if gpt2 else "norm.weight", config.width))
    if gpt2:
        out.vector("norm.bias", t.vector("ln_f.bias", config.width))
    _head(checkpoint, config, t.prefix, out)
    return out.arrays
