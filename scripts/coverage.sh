#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The share of the lines of src, tools and plugins that the tests run: by room, and in all.
#
#   scripts/coverage.sh                    every test
#   scripts/coverage.sh -R '^(base|ir)$'   what is given goes to ctest
#
# Builds the preset coverage, which takes longer than release. What earlier runs counted is forgotten.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
mkdir -p build/coverage
find build/coverage -name '*.gcda' -delete
# A failing test does not make the number worthless; the exit code says so.
code=0
scripts/test.sh --preset coverage "$@" || code=1
python3 scripts/coverage.py build/coverage
exit $code
