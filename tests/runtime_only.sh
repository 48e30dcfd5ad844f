#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# runtime_only.sh KRAFLA LIBRARY FRAMES [vulkan]: the C example FRAMES on networks that KRAFLA compiles ahead of time, with its own
# library and with LIBRARY, one of preset runtime: both give the same first result, to four digits, on the CPU and on
# Vulkan, or, of a library without the CPU back end, on Vulkan. What is no compiled model is refused. The last lines say how large the library is.
set -u
krafla=$1 library=$2 frames=$3 only=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Whatever library the program was linked with.
ahead=$(cd "$(dirname "$library")" && pwd)/libkrafla.so.0

# first LIBRARY: the first number that the example gives with it, or none where it refuses the model. A crash is an
# error.
first() {
  LD_PRELOAD=$1 "$frames" "$work/m.krafla" 2 "$device" >"$work/output" 2>"$work/error"
  local code=$?
  if [ $code -ge 126 ]; then
    echo "$name on $device: the example ended with $code, with ${1:-its own library}" >&2
    cat "$work/error" >&2
    return 1
  fi
  sed -n 's/.*the first output begins with //p' "$work/output"
}
compared=0
devices='cpu vulkan'
"$krafla" run "$here/cli/add.hlo" -d vulkan --random >/dev/null 2>&1
if [ $? = 4 ]; then
  if [ -n "$only" ]; then echo "no Vulkan device: nothing was compared"; exit 77; fi
  devices=cpu
  echo "no Vulkan device: the CPU alone"
fi
devices=${only:-$devices}
for folder in "$here"/models/*/; do
  name=$(basename "$folder")
  # Those for several devices, and those whose state the example cannot give, end here; the count below is what matters.
  "$krafla" compile "$folder" -o "$work/m.krafla" -q 2>/dev/null || continue
  for device in $devices; do
    own=$(first '') || exit 1
    [ -n "$own" ] || continue
    other=$(first "$ahead") || exit 1
    # Sums come in another order where oneDNN makes them.
    awk -v a="$own" -v b="$other" 'BEGIN { d = a - b; if (d < 0) d = -d; m = a < 0 ? -a : a; exit !(b != "" && (a == b || d <= 1e-4 * m + 1e-6)) }' || {
      echo "$name on $device: $own, and $other with $library"; cat "$work/error"; exit 1; }
    compared=$((compared + 1))
  done
done
least=20
[ -z "$only" ] || least=15
[ $compared -ge $least ] || { echo "only $compared results could be compared"; exit 1; }
message=$(LD_PRELOAD=$ahead "$frames" "$here/cli/add.hlo" 1 "${devices##* }" 2>&1)
case $message in *KRAFLA_RUNTIME_ONLY*) ;; *) echo "HLO text was not refused: $message"; exit 1 ;; esac
if [ -n "$only" ]; then
  message=$(LD_PRELOAD=$ahead "$frames" "$work/m.krafla" 1 cpu 2>&1)
  case $message in *'without the CPU back end'*) ;; *) echo "The device cpu was not refused: $message"; exit 1 ;; esac
fi
strip -s -o "$work/stripped" "$ahead"
echo "$compared results are the same"
echo "stripped: $(stat -c %s "$work/stripped") bytes"
