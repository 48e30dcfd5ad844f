#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compiled_models.sh KRAFLA DEVICE...: compiles the recorded networks ahead of time, then loads and checks them, in other
# processes, on each device. Those for several devices have no compiled form: they are named.
set -u
krafla=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiled=0
for folder in "$here"/models/*/; do
  name=$(basename "$folder")
  [ -f "$folder/meta.json" ] || continue
  mkdir "$work/$name"
  for file in "$folder"/*; do
    case $file in */module.*) ;; *) ln -s "$file" "$work/$name/" ;; esac
  done
  if ! "$krafla" compile "$folder" -o "$work/$name/module.krafla" -q 2>"$work/error"; then
    # Named by what they say themselves, and not by a list of theirs.
    grep -qE 'replica|partition' "$work/error" || { cat "$work/error"; exit 1; }
    echo "for several devices: $name"
    rm -r "${work:?}/$name"
    continue
  fi
  # Partitioned by the command and not by the program.
  grep -q '"num_partitions": [2-9]' "$folder/meta.json" && { echo "for several devices: $name"; rm -r "${work:?}/$name"; continue; }
  compiled=$((compiled + 1))
done
rm -f "$work/error"
[ $compiled -gt 20 ] || { echo "only $compiled networks were compiled"; exit 1; }
for device in "$@"; do
  if [ "$device" != cpu ]; then
    "$krafla" run "$here/cli/add.hlo" -d "$device" --random >/dev/null 2>&1
    [ $? != 4 ] || { echo "no device fits $device"; continue; }
  fi
  "$krafla" check "$work" --form krafla -d "$device" || exit 1
done
