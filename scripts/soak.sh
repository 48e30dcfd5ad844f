#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs, compiles, devices, groups, threads and failures, again and again in one process for each device (the CPU, lavapipe,
# SwiftShader where it is there), and fails where memory, descriptors, mappings or threads grow.
#
#   scripts/soak.sh [SECONDS]                 for each device; 3600 if not said
#   scripts/soak.sh 600 --json                one JSON line a device
#   scripts/soak.sh 600 -d vulkan:1           this device alone
#
# Exit: 0 nothing grows, 1 something does or goes wrong, 2 wrong usage.
set -euo pipefail
usage() { echo "soak.sh: $1 (try --help)" >&2; exit 2; }
seconds='' json=() device=''
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --json) json=(--json) ;;
    -d) [ $# -ge 2 ] || usage "-d takes a device"; device=$2; shift ;;
    [1-9]*) [ -z "$seconds" ] && [[ $1 =~ ^[0-9]{1,8}$ ]] || usage "'$1' is no number of seconds"; seconds=$1 ;;
    *) usage "unknown argument '$1'" ;;
  esac
  shift
done
here=$(cd "$(dirname "$0")/.." && pwd)
[ -f "$here/build/release/CMakeCache.txt" ] || cmake -S "$here" --preset release -DKRAFLA_TESTS=ON >/dev/null
cmake --build "$here/build/release" --target soak >/dev/null

code=0
soak() {  # DEVICE
  local said=0
  "$here/build/release/tests/soak/soak" "$here/tests/models" --seconds "${seconds:-3600}" -d "$1" ${json[@]+"${json[@]}"} || said=$?
  # A device that was asked for by name has to be there.
  case $said in
    0) ;;
    77) [ -z "$device" ] || code=1 ;;
    *) code=1 ;;
  esac
}
if [ -n "$device" ]; then
  soak "$device"
else
  swiftshader="$here/.cache/swiftshader/vk_swiftshader_icd.json"
  soak cpu
  soak vulkan:llvmpipe
  if [ -e "$swiftshader" ]; then
    VK_DRIVER_FILES=$swiftshader soak vulkan
  else
    echo "skipped: SwiftShader, which scripts/setup.sh --test fetches" >&2
  fi
fi
exit $code
