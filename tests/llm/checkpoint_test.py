#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/llm: what is read of a checkpoint before programs are made of it. No device and no program of krafla's."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "examples/llm")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import checkpoint  # noqa: E402
import checkpoints  # noqa: E402
import export  # noqa: E402
import gguf_writer  # noqa: E402
import packed  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
