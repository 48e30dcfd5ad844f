#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Own tests of libraries over JAX, under XLA's CPU back end and under krafla, and where the two differ.
#
#   scripts/jax_clients.sh SOURCES [LIBRARY[=SHARE]...]
#
# SOURCES holds equinox, diffrax, lineax, optimistix, optax, flax, jaxopt, numpyro, ott and tinygp with their tests, of the
# versions that are installed; keras, haiku, mjx, distrax, dynamax, chex and jraph have theirs in their packages. LIBRARY is
# one of these; default: those of the list below, each with the share of its tests that it gives, some minutes by XLA.
# Environment:
#   PYTHON               the interpreter, with the libraries, pytest and pytest-xdist (python3)
#   KRAFLA_PJRT_LIBRARY  libpjrt_krafla.so (build/release/libpjrt_krafla.so)
#   KRAFLA_DEVICE        the device (cpu); the tests get two virtual devices on it
#   KRAFLA_JAX_RESULTS   folder for the results (build/jax-clients): xla/, and one by the device's name beside it
#   KRAFLA_JAX_TEST_TIMEOUT, KRAFLA_JAX_TEST_SAMPLE   see tests/python/jax_suite_plugin.py; a sample here holds for every library
# XLA's results are made where they are not there yet, with the same share.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
sources=$(cd "$1" && pwd); shift
libraries=("$@")
[ ${#libraries[@]} != 0 ] ||
  libraries=(equinox=0.5 diffrax=0.1 lineax=0.03 optax=0.1 flax=0.1 keras=0.03 haiku=0.08 mjx=0.2)
python=${PYTHON:-python3}
device=${KRAFLA_DEVICE:-cpu}
results=${KRAFLA_JAX_RESULTS:-$root/build/jax-clients}
ours=$results/$(printf %s "$device" | tr -c 'A-Za-z0-9*' _)
mkdir -p "$results/xla" "$ours"
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
export PYTHONDONTWRITEBYTECODE=1 KERAS_BACKEND=jax KRAFLA_JAX_TEST_TIMEOUT=${KRAFLA_JAX_TEST_TIMEOUT:-300}
path=$root/tests/python${PYTHONPATH:+:$PYTHONPATH}

# The folder that the tests of a library are run in, and the tests.
place() {
  case $1 in
    equinox | lineax | optimistix | jaxopt | ott | tinygp) cd "$sources/$1"; tests=(tests) ;;
    diffrax | numpyro) cd "$sources/$1"; tests=(test) ;;
    optax) cd "$sources/$1"; tests=(optax) ;;
    flax) cd "$sources/$1"; tests=(tests) ;;
    haiku) cd "$packages"; tests=(haiku/_src) ;;
    keras) cd "$packages"; tests=(keras/src) ;;
    mjx) cd "$packages"; tests=(mujoco/mjx/_src) ;;
    distrax | dynamax | chex | jraph) cd "$packages"; tests=("$1") ;;
    *) echo "$1 is no library that this script knows." >&2; exit 2 ;;
  esac
}

# run LIBRARY SHARE FOLDER: a worker process of its own, so that a crash or a test over its time ends that test only.
run() (
  place "$1"
  export KRAFLA_JAX_TEST_SAMPLE=$2
  "$python" -m pytest -q -p xdist -p jax_suite_plugin -n 1 --max-worker-restart=10000 -p no:cacheprovider \
    -o python_files='test_*.py *_test.py' --continue-on-collection-errors --junitxml="$3/$1.xml" -o junit_logging=no \
    --tb=short "${tests[@]}" >"$3/$1.log" 2>&1 || true
  tail -1 "$3/$1.log" | sed "s/^/$(basename "$3") $1: /"
)

for library in "${libraries[@]}"; do
  name=${library%%=*}
  share=${library#"$name"}
  share=${KRAFLA_JAX_TEST_SAMPLE:-${share#=}}
  if ! [ -e "$results/xla/$name.$share" ]; then
    PYTHONPATH=$path JAX_PLATFORMS=cpu run "$name" "${share:-1}" "$results/xla"
    rm -f "$results/xla/$name".[01]*
    : >"$results/xla/$name.$share"
  fi
  PYTHONPATH=$root/python:$path JAX_PLATFORMS=vulkan,cpu KRAFLA_DEVICE="$device*2" \
    KRAFLA_PJRT_LIBRARY=${KRAFLA_PJRT_LIBRARY:-$root/build/release/libpjrt_krafla.so} run "$name" "${share:-1}" "$ours"
done
"$python" "$root/tests/python/jax_suite_report.py" "$ours" --baseline "$results/xla" --differences >"$ours/table.md"
cat "$ours/table.md"
