#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# JAX's own tests through krafla's PJRT plugin.
#
#   scripts/jax_tests.sh JAX_CHECKOUT [SUITE...]        # SUITE as nn_test; default: the list below
#
# JAX_CHECKOUT holds tests/ and jax/_src at the tag of the installed jaxlib. Environment:
#   PYTHON                   the interpreter, with jax, pytest, pytest-xdist, absl-py and hypothesis (python3)
#   KRAFLA_PJRT_LIBRARY      libpjrt_krafla.so (build/release/libpjrt_krafla.so)
#   KRAFLA_DEVICE            the device: vulkan:"llvmpipe", cpu, vulkan:0*4 ...
#   KRAFLA_JAX_RESULTS       folder for SUITE.xml, logs and the table (build/jax-tests)
#   KRAFLA_JAX_BASELINE      results of another plugin to compare with
#   KRAFLA_JAX_TEST_TIMEOUT, _SAMPLE, _SEED, _DUT     see tests/python/jax_suite_plugin.py
#   JAX_NUM_GENERATED_CASES  cases a generated test has (1)
# PJRT_NAMES_AND_LIBRARY_PATHS, where it is set, names another plugin to test in place of krafla's.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
checkout=$(cd "$1" && pwd); shift
suites=("$@")
if [ ${#suites[@]} = 0 ]; then
  suites=(nn_test fft_test dtypes_test lax_control_flow_test linalg_test random_lax_test lax_scipy_test
          lax_autodiff_test lax_test api_test lax_numpy_test pmap_test shard_map_test pjit_test)
fi
python=${PYTHON:-python3}
results=${KRAFLA_JAX_RESULTS:-$root/build/jax-tests}
mkdir -p "$results"
export PYTHONPATH=$root/tests/python${PYTHONPATH:+:$PYTHONPATH}
if [ -z "${PJRT_NAMES_AND_LIBRARY_PATHS:-}" ]; then
  export PYTHONPATH=$root/python:$PYTHONPATH
  export KRAFLA_PJRT_LIBRARY=${KRAFLA_PJRT_LIBRARY:-$root/build/release/libpjrt_krafla.so}
fi
export JAX_PLATFORMS=${JAX_PLATFORMS:-vulkan,cpu} JAX_NUM_GENERATED_CASES=${JAX_NUM_GENERATED_CASES:-1}
export PYTHONDONTWRITEBYTECODE=1 KRAFLA_JAX_TEST_SOURCES=$checkout
cd "$checkout"
for suite in "${suites[@]}"; do
  # A worker process of its own, so that a crash or a test over its time ends that test only.
  "$python" -m pytest -q -p xdist -p jax_suite_plugin -n 1 --max-worker-restart=10000 -p no:cacheprovider \
    --junitxml="$results/$suite.xml" -o junit_logging=no --tb=short "tests/$suite.py" \
    >"$results/$suite.log" 2>&1 || true
  tail -1 "$results/$suite.log" | sed "s/^/$suite: /"
done
"$python" "$root/tests/python/jax_suite_report.py" "$results" \
  ${KRAFLA_JAX_BASELINE:+--baseline "$KRAFLA_JAX_BASELINE"} >"$results/table.md"
cat "$results/table.md"
