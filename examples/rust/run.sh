#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles and runs affine.rs.    run.sh FOLDER_OF_LIBKRAFLA PROGRAM_TO_MAKE
set -euo pipefail
if ! command -v rustc >/dev/null; then
  echo "Skipped: rustc is not installed (package rustc)."
  exit 77
fi
rustc --edition 2021 -O -L "$1" -C link-arg=-Wl,-rpath,"$1" -o "$2" "$(dirname "$0")/affine.rs"
"$2"
