#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the documents' site in build/site: the .md files of the repository and their pictures by mkdocs, the public
# headers by doxygen. It is read from the folder: build/site/index.html, build/site/api/index.html. Broken links are
# errors.
#
#   scripts/site.sh
#
# Needs doxygen (scripts/setup.sh --test); installs mkdocs into .cache/site, by docs/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  '') ;;
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "site.sh: unknown argument '$1' (try --help)" >&2; exit 2 ;;
esac
command -v doxygen >/dev/null || { echo "site.sh: doxygen is not installed; scripts/setup.sh --test installs it" >&2; exit 1; }
python=$(scripts/python_environment.sh site)
# Some public headers are written when krafla is configured.
cmake --preset release >/dev/null
rm -rf build/site build/site-sources
mkdir -p build/site-sources
git ls-files -z --cached --others --exclude-standard -- '*.md' '*.png' 'LICENSE' | xargs -0 cp --parents -t build/site-sources
"$python" -m mkdocs build --quiet --strict
doxygen Doxyfile
echo "build/site/index.html ($(find build/site -name '*.html' | wc -l) pages)"
