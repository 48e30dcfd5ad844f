#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that has to hold before a release, stage by stage. A stage that fails does not stop the others; at the end a
# table says what each did and how long it took. What a stage printed is in build/gate/STAGE.log.
#
#   scripts/gate.sh                       every stage
#   scripts/gate.sh format tidy release   these stages, in this order
#   scripts/gate.sh --ci                  those that .ci/run adds to scripts/test.sh, which is the stage release
#   scripts/gate.sh --list                the stages, and what they check
#
# KRAFLA_GATE_UNTIL, when set, is a time in seconds since 1970 (date +%s) after which no stage begins: where minutes are
# counted, those that are left are skipped, and say so.
#
# Exit: 0 no stage failed, 1 one did, 2 wrong usage.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# name | in --ci | what it checks
stages=(
  'format|ci|every C++ file is as clang-format 19 writes it'
  'layering|ci|includes go one way, files are within their limits'
  'release||preset release: the build, and every test'
  'docs|ci|names in documents exist; needs the command of release'
  'tidy||clang-tidy 19 over src, tools and plugins, by .clang-tidy'
  'no-vulkan|ci|preset no-vulkan: the build, and every test'
  'fuzz||each fuzzer for KRAFLA_FUZZ_SECONDS (60)'
  'no-onednn||preset no-onednn: the build, and every test'
  'dev||preset dev: each file alone, with debug information and benchmarks'
  'clang||preset clang: the build with clang 19, and every test'
  'asan||preset asan: every test under the address and undefined-behaviour sanitizers'
  'tsan||preset tsan: the tests with threads under the thread sanitizer'
  'new_op|ci|adding an operation takes the places that docs/adding-an-op.md names'
  'runtime|ci|the libraries for apps that load compiled models alone, beside the whole one'
  'wheel||the Python wheel, installed and tried in a clean environment'
  'cliffs||times beside XLA:CPU, against bench/cliffs/baseline.json'
)
skip() { echo "$1"; exit 77; }  # of a stage, which is a process of its own

stage_format() { scripts/format.sh --check; }
stage_layering() { python3 tests/layering_test.py; }
stage_release() { scripts/test.sh; }
stage_docs() {
  cmake --preset release >/dev/null && cmake --build --preset release --target krafla &&
    python3 tests/docs/docs_test.py build/release/krafla && python3 tests/docs/readme_test.py build/release/krafla
}
stage_tidy() { scripts/tidy.sh --all; }
stage_no_vulkan() { scripts/test.sh --preset no-vulkan; }
stage_no_onednn() { scripts/test.sh --preset no-onednn; }
stage_dev() { scripts/test.sh --preset dev; }
stage_clang() { scripts/test.sh --preset clang; }
stage_asan() { scripts/test.sh --preset asan; }
# The others find no race, and the networks take hours.
stage_tsan() { scripts/test.sh --preset tsan --without-jax -R '^(base|threads|cpu_fallback|collectives|transport|api|pjrt)$'; }
# Programs in each form that a fuzzer reads, in build/fuzz/seeds/FORM.
fuzz_seeds() {
  local seeds=build/fuzz/seeds file form
  rm -rf $seeds
  mkdir -p $seeds/{hlo,proto,mlir,mlirbc,onnx,krafla}
  build/fuzz/tests/fuzz/random_module --write $seeds/hlo --seed 1 --count 60 >/dev/null || return 1
  mv $seeds/hlo/*.pb $seeds/proto/ && rm -f $seeds/hlo/*.npz || return 1
  cp tests/regress/*.hlo $seeds/hlo/ || return 1
  local python
  if python=$(scripts/python_environment.sh onnx); then "$python" tests/onnx/backend_test.py --write $seeds/onnx || return 1; fi
  for form in mlir mlirbc; do
    for file in tests/models/*/module.$form; do cp "$file" "$seeds/$form/$(basename "$(dirname "$file")").$form"; done
  done
  for file in $seeds/hlo/*.hlo; do  # but those for several devices
    build/fuzz/krafla compile "$file" -o "$seeds/krafla/$(basename "$file" .hlo).krafla" -q 2>/dev/null || true
  done
}
stage_fuzz() {
  local pair fuzzer failed=()
  cmake --preset fuzz >/dev/null && cmake --build --preset fuzz && fuzz_seeds || return 1
  for pair in hlo_text:hlo hlo_proto:proto stablehlo_text:mlir stablehlo_bytecode:mlirbc program:hlo onnx:onnx \
      compiled_model:krafla; do
    fuzzer=${pair%:*}
    echo "== ${fuzzer}_fuzz"
    mkdir -p "build/fuzz/corpus/$fuzzer"
    # New inputs go to the first folder, so that the next run goes on from there.
    "build/fuzz/tests/fuzz/${fuzzer}_fuzz" -max_len=16384 -max_total_time="${KRAFLA_FUZZ_SECONDS:-60}" -timeout=30 \
      -rss_limit_mb=4096 -artifact_prefix="build/fuzz/$fuzzer-" "build/fuzz/corpus/$fuzzer" "build/fuzz/seeds/${pair#*:}" ||
      failed+=("$fuzzer")
  done
  echo "7 fuzzers, ${#failed[@]} with findings ${failed[*]}"
  [ ${#failed[@]} = 0 ]
}
stage_new_op() {
  [ -e build/release/CTestTestfile.cmake ] || skip 'build/release is not configured (stage release does that)'
  ctest --test-dir build/release -N -R '^new_op$' | grep -q 'Total Tests: 1' || skip 'build/release has no test new_op'
  ctest --test-dir build/release -R '^new_op$' --output-on-failure
}
stage_runtime() {
  [ -x build/release/examples/frames ] || skip 'build/release has no examples (stage release builds them)'
  cmake --preset runtime >/dev/null && cmake --build --preset runtime &&
    tests/runtime_only.sh build/release/krafla build/runtime/libkrafla.so build/release/examples/frames &&
    cmake --preset runtime-vulkan >/dev/null && cmake --build --preset runtime-vulkan &&
    tests/runtime_only.sh build/release/krafla build/runtime-vulkan/libkrafla.so build/release/examples/frames vulkan
}
stage_wheel() {
  local python=${PYTHON:-python3}
  "$python" -c 'import scikit_build_core' 2>/dev/null || skip "$python has no scikit-build-core"
  PYTHON=$python scripts/wheel.sh
}
stage_cliffs() {
  local python
  python=$(scripts/python_environment.sh jax) || skip 'JAX could not be installed'
  cmake --preset release >/dev/null && cmake --build --preset release --target pjrt_krafla || return 1
  "$python" bench/cliffs --baseline bench/cliffs/baseline.json
}

find_stage() { local row; for row in "${stages[@]}"; do [ "${row%%|*}" = "$1" ] && return 0; done; return 1; }
chosen=()
for argument; do
  case "$argument" in
    -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --list)
      for row in "${stages[@]}"; do
        IFS='|' read -r name ci what <<<"$row"
        printf '%-10s %-3s %s\n' "$name" "$ci" "$what"
      done
      exit 0 ;;
    --ci) for row in "${stages[@]}"; do [[ $row == *'|ci|'* ]] && chosen+=("${row%%|*}"); done ;;
    *) find_stage "$argument" || { echo "gate.sh: there is no stage '$argument' (try --list)" >&2; exit 2; }
       chosen+=("$argument") ;;
  esac
done
[ ${#chosen[@]} -gt 0 ] || for row in "${stages[@]}"; do chosen+=("${row%%|*}"); done

mkdir -p build/gate
table=() code=0
for name in "${chosen[@]}"; do
  log=build/gate/$name.log began=$SECONDS note=''
  if [ "$(date +%s)" -lt "${KRAFLA_GATE_UNTIL:-99999999999}" ]; then
    ("stage_${name//-/_}") >"$log" 2>&1 </dev/null
  else
    (skip "not begun: the time of KRAFLA_GATE_UNTIL had passed") >"$log"
  fi
  case $? in
    0) result=passed; note=$(tail -n 1 "$log") ;;
    77) result=skipped; note=$(tail -n 1 "$log") ;;
    *) result=FAILED code=1; note=$log ;;
  esac
  minutes=$(awk -v s=$((SECONDS - began)) 'BEGIN { printf "%.1f", s / 60 }')
  table+=("$(printf '%-10s %-8s %8s  %s' "$name" "$result" "$minutes" "${note:0:100}")")
  echo "${table[-1]}"
  [ $result != FAILED ] || tail -n 40 "$log" | sed 's/^/    /'
done
printf '\n%-10s %-8s %8s  %s\n' stage result minutes note
printf '%s\n' "${table[@]}"
exit $code
