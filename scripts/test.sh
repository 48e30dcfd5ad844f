#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, and runs every test: on the CPU, on lavapipe, on SwiftShader, and through JAX, which is installed into
# an environment of its own below .cache, as ONNX is. What is skipped is listed with its reason, of what failed its output is
# given without the cases that passed, and the last line has the counts.
#
#   scripts/test.sh                  everything
#   scripts/test.sh --preset asan    built by another preset of CMakePresets.json than release
#   scripts/test.sh --without-jax    without environments of Python: the tests that need JAX, pypjrt or ONNX are skipped
#   scripts/test.sh -R pattern ...   what else is given goes to ctest
#
# KRAFLA_CORPUS and KRAFLA_MODELS, when set, add their cases to the run.
# Exit: 0 all passed, 1 something failed, or JAX could not be installed and --without-jax was not given.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release jax=yes arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --preset) [ $# -ge 2 ] || { echo "test.sh: --preset takes a name (try --help)" >&2; exit 2; }; preset=$2; shift ;;
    --without-jax) jax=no ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

scripts/setup.sh --test
left_out=''
if [ $jax = no ]; then
  left_out='--without-jax was given'
elif [ -z "${KRAFLA_PYTHON:-}" ]; then
  KRAFLA_PYTHON=$(scripts/python_environment.sh jax) && export KRAFLA_PYTHON ||
    { unset KRAFLA_PYTHON; left_out='JAX could not be installed (the reason is above; --without-jax accepts this)'; }
fi
if [ $jax = yes ]; then
  scripts/python_environment.sh onnx >/dev/null || left_out='ONNX could not be installed (the reason is above; --without-jax accepts this)'
fi
cmake --preset "$preset" -DKRAFLA_TESTS=ON >/dev/null
cmake --build --preset "$preset"
export KRAFLA_CACHE_DIR="$PWD/.cache/krafla-test"
results=$PWD/build/$preset/test_results.xml code=0
rm -f "$results"
# What passed is kept whole in the results: it names the cases that a program skipped.
ctest --preset "$preset" --output-junit "$results" --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
  --parallel "$(nproc)" ${arguments[@]+"${arguments[@]}"} || code=1
if [ -n "$left_out" ]; then
  echo "not run: the tests that need JAX, pypjrt or ONNX, unless another Python has them: $left_out"
  [ $jax = no ] || code=1
fi
scripts/test_summary.py "$results" || code=1
exit $code
