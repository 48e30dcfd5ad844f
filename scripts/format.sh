#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C++ file of the repository with clang-format 19, by .clang-format.
#
#   scripts/format.sh            rewrites what is not formatted
#   scripts/format.sh --check    changes nothing; prints the first differences, and fails if there are any
set -euo pipefail
cd "$(dirname "$0")/.."
options=(-i)
case "${1:-}" in
  '') ;;
  --check) options=(--dry-run --Werror --ferror-limit=20) ;;
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "format.sh: unknown argument '$1' (try --help)" >&2; exit 2 ;;
esac
program=clang-format-19
if ! command -v "$program" >/dev/null; then
  echo "format.sh: $program is not installed; scripts/setup.sh --test installs it" >&2
  exit 1
fi
# Tables of macros (.def) are laid out by hand.
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.h' |
  xargs -0 -n 40 -P "$(nproc)" "$program" "${options[@]}"
