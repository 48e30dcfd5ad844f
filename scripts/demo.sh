#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds krafla, and runs a real network on the best device found (lavapipe where there is no GPU), with its
# answers checked. Arguments go to `krafla demo`, e.g. scripts/demo.sh -d cpu; --yes, first, to setup.sh: it asks
# nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --yes ]; then shift; scripts/setup.sh --yes; else scripts/setup.sh; fi
cmake --preset release -DKRAFLA_TESTS=OFF >/dev/null
cmake --build --preset release --target krafla
exec build/release/krafla demo "$@"
