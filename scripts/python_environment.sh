#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Python environment below .cache with the packages of a list, and prints its interpreter. Does nothing where the
# environment is there and the list is as it was.
#
#   scripts/python_environment.sh jax      JAX for the tests: tests/python/requirements.txt
#   scripts/python_environment.sh onnx     ONNX and ONNX Runtime for the tests of the importer: tests/onnx/requirements.txt
#   scripts/python_environment.sh site     the generator of the documents' site: docs/requirements.txt
#   scripts/python_environment.sh portable a compiler for other machines, and what makes wheels: cmake/portable/requirements.txt
#   PYTHON names the interpreter that the environment is made from (python3); it has to be 3.11 or later.
#
# Exit: 0 it is there, 1 it could not be made, with the reason; 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  jax) list=tests/python/requirements.txt ;;
  onnx) list=tests/onnx/requirements.txt ;;
  site) list=docs/requirements.txt ;;
  portable) list=cmake/portable/requirements.txt ;;
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "python_environment.sh: '${1:-}' is not an environment (try --help)" >&2; exit 2 ;;
esac
name=$1 folder=$PWD/.cache/$1 base=${PYTHON:-python3}
fail() { echo "python_environment.sh: the environment '$name' could not be made: $1" >&2; exit 1; }

# The list is copied in last, so an environment that was interrupted is made again.
if cmp -s "$list" "$folder/requirements.txt" && "$folder/bin/python" -c '' 2>/dev/null; then
  echo "$folder/bin/python"
  exit 0
fi
"$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || fail "$base is not a Python of version 3.11 or later."
echo "python_environment.sh: installing the packages of $list into .cache/$name" >&2
"$base" -m venv --clear "$folder" >&2 || fail "$base has no venv module (the package python3-venv)."
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 60 --only-binary :all: \
  -r "$list" >&2 || fail "pip could not install the packages of $list. Is the package index reachable?"
cp "$list" "$folder/requirements.txt"
echo "$folder/bin/python"
