#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lints with clang-tidy 19, by .clang-tidy. What it finds is an error.
#
#   scripts/tidy.sh               the sources of src, tools and plugins that differ from the last commit
#   scripts/tidy.sh FILE.cpp ...  these
#   scripts/tidy.sh --all         all of them, in the batches that they are compiled in
#
# Exit: 0 nothing was found, 1 something was, 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/.."
all=no files=()
for argument; do
  case "$argument" in
    -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --all) all=yes ;;
    -*) echo "tidy.sh: unknown argument '$argument' (try --help)" >&2; exit 2 ;;
    *) [ -e "$argument" ] || { echo "tidy.sh: there is no file $argument" >&2; exit 2; }
       files+=("$(realpath --relative-to=. "$argument")") ;;
  esac
done
program=clang-tidy-19
if ! command -v "$program" >/dev/null; then
  echo "tidy.sh: $program is not installed; scripts/setup.sh --test installs it" >&2
  exit 1
fi

# clang-tidy reads no precompiled header of g++, so the compile commands are those of a build by clang without them. Batches
# (docs/decisions/0010-batches.md) parse what their files share once: a fifth of the time.
if [ $all = yes ]; then
  folder=build/tidy unity=ON
else
  folder=build/tidy-files unity=OFF
  if [ ${#files[@]} = 0 ]; then
    mapfile -t files < <({ git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; } |
      grep -E '^(src|tools|plugins)/.*\.cpp$' || true)
    [ ${#files[@]} -gt 0 ] || { echo "no source of src, tools or plugins differs from the last commit"; exit 0; }
  fi
fi
cmake --preset clang -B $folder -DCMAKE_UNITY_BUILD=$unity -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DKRAFLA_TESTS=OFF \
  -DKRAFLA_EXAMPLES=OFF >/dev/null
# The shaders that sources include.
cmake --build $folder --target krafla_shaders >/dev/null
if [ $all = yes ]; then
  # Volk and VMA are somebody else's.
  mapfile -t files < <(sed -nE 's/^ *"file": "(.*)",?$/\1/p' $folder/compile_commands.json | grep -vE '/(vma|volk)\.cpp$' | sort -u)
fi
code=0
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$program" -p $folder --quiet 2>/dev/null || code=1
[ $code = 0 ] && echo "${#files[@]} files, nothing found"
exit $code
