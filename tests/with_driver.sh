#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# with_driver.sh MANIFEST COMMAND...: runs a command with the Vulkan driver of a manifest and no other. Exit 77, with the
# reason, where the driver is not there.
set -u
if [ ! -e "$1" ]; then
  echo "skipped: the Vulkan driver $1 is not there (scripts/setup.sh --test fetches SwiftShader)"
  exit 77
fi
export VK_DRIVER_FILES=$1
shift
exec "$@"
