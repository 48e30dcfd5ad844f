#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# with_driver.sh MANIFEST[:MANIFEST] COMMAND...: runs a command with the Vulkan drivers of these manifests and no other.
# Exit 77, with the reason, where one is not there.
set -u
IFS=: read -ra manifests <<< "$1"
for manifest in "${manifests[@]}"; do
  if [ ! -e "$manifest" ]; then
    echo "skipped: the Vulkan driver $manifest is not there (scripts/setup.sh --test fetches SwiftShader)"
    exit 77
  fi
done
export VK_DRIVER_FILES=$1
shift
exec "$@"
