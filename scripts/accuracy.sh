#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The worst error of every elementary function, in ULP, and where it is: all 2^32 f32 numbers, all f16 and bf16 numbers,
# samples of f64 and of pairs. Minutes on many cores, about half an hour on two.
#
#   scripts/accuracy.sh                       all of it, on every core
#   scripts/accuracy.sh --stride 7            every 7th f32 number
#   scripts/accuracy.sh --ops tan,power --types f32 --json FILE
set -euo pipefail
case "${1:-}" in
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
here=$(cd "$(dirname "$0")/.." && pwd)
cmake -S "$here" --preset release -DKRAFLA_TESTS=ON >/dev/null
cmake --build "$here/build/release" --target accuracy_sweep >/dev/null
threads=$(nproc)
exec "$here/build/release/tests/numerics/accuracy_sweep" --threads "$threads" "$@"
