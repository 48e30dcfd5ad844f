#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# JAX's own tests of several processes through krafla's PJRT plugin, and through JAX's CPU back end
# with its gloo collectives beside it.
#
#   scripts/jax_multiprocess.sh JAX_CHECKOUT [SUITE...]     # SUITE as pjit_test; default: all
#
# JAX_CHECKOUT holds tests and jax/_src at the tag of the installed jaxlib. Environment:
#   PYTHON               the interpreter, with jax and absl-py (that of scripts/python_environment.sh jax)
#   KRAFLA_PJRT_LIBRARY  libpjrt_krafla.so (build/release/libpjrt_krafla.so)
#   KRAFLA_DEVICE        what each process has: cpu, vulkan:llvmpipe, cpu*2 (cpu)
#   KRAFLA_PROCESSES     how many processes (2 4)
#   KRAFLA_JAX_CONTROL   1: JAX's own CPU back end in place of krafla
#   KRAFLA_JAX_RESULTS   folder for logs (build/jax-multiprocess)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 2; }
case $1 in -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;; esac
checkout=$(cd "$1" && pwd); shift
suites=("$@")
if [ ${#suites[@]} = 0 ]; then
  for file in "$checkout"/tests/multiprocess/*_test.py; do suites+=("$(basename "$file" .py)"); done
fi
python=${PYTHON:-$("$root/scripts/python_environment.sh" jax)}
results=${KRAFLA_JAX_RESULTS:-$root/build/jax-multiprocess}
export KRAFLA_JAX_TEST_SOURCES=$checkout PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$root/tests/python/multiprocess:$root/python${PYTHONPATH:+:$PYTHONPATH}
export KRAFLA_PJRT_LIBRARY=${KRAFLA_PJRT_LIBRARY:-$root/build/release/libpjrt_krafla.so} KRAFLA_DEVICE=${KRAFLA_DEVICE:-cpu}
arguments=()
if [ "${KRAFLA_JAX_CONTROL:-0}" = 1 ]; then
  export JAX_PLATFORMS=cpu
  what="XLA:CPU, gloo"
  case $KRAFLA_DEVICE in *\**) export JAX_NUM_CPU_DEVICES=${KRAFLA_DEVICE#*\*} ;; esac
  arguments=(--cpu_collectives_implementation=gloo)
else
  export JAX_PLATFORMS=vulkan,cpu
  what="krafla, $KRAFLA_DEVICE"
fi
for n in ${KRAFLA_PROCESSES:-2 4}; do
  for suite in "${suites[@]}"; do
    folder=$results/$suite-$n
    mkdir -p "$folder"
    TEST_UNDECLARED_OUTPUTS_DIR=$folder timeout "${KRAFLA_JAX_TEST_TIMEOUT:-300}" "$python" \
      "$checkout/tests/multiprocess/$suite.py" --num_processes="$n" "${arguments[@]}" >"$folder/log" 2>&1 || true
    "$python" "$root/tests/python/multiprocess/summary.py" "$what" "$suite" "$n" "$folder"
  done
done
