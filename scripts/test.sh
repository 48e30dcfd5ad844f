#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, and runs every test: on the CPU, on lavapipe and on SwiftShader.
#
#   scripts/test.sh            KRAFLA_CORPUS and KRAFLA_MODELS, when set, add their cases to the run
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  '') ;;
  -h|--help) sed -n '3,5p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "test.sh: unknown argument '$1' (try --help)" >&2; exit 2 ;;
esac

scripts/setup.sh --test
cmake --preset release -DKRAFLA_TESTS=ON >/dev/null
cmake --build --preset release
export KRAFLA_CACHE_DIR="$PWD/.cache/krafla-test"
ctest --preset release
