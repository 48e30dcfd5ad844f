#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_models.sh KRAFLA DEVICE [FLAGS...]: the recorded networks of this folder, and those that KRAFLA_MODELS names; or of
# this folder those alone that KRAFLA_NETWORKS names, separated by spaces. Exit 77, with a reason, where the device is not there.
set -u
krafla=$1 device=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
if [ "$device" != cpu ]; then
  "$krafla" run "$here/cli/add.hlo" -d "$device" --random >/dev/null 2>&1
  if [ $? = 4 ]; then
    echo "skipped: no device fits $device"
    exit 77
  fi
fi
# KRAFLA_EXPECT_COOPMAT=1: these networks are to run through cooperative matrices, and say so.
if [ "${KRAFLA_EXPECT_COOPMAT:-}" = 1 ]; then
  for network in int8-mlp-tiny int8-cnn-tiny; do
    if ! "$krafla" check "$here/models/$network" -d "$device" --json "$@" | grep -q '"cooperative_matrix_launches":[1-9]'; then
      echo "$network ran without cooperative matrices on $device"
      exit 1
    fi
  done
fi
if [ -n "${KRAFLA_NETWORKS:-}" ]; then
  networks=()
  for network in $KRAFLA_NETWORKS; do networks+=("$here/models/$network"); done
  exec "$krafla" check "${networks[@]}" -d "$device" "$@"
fi
exec "$krafla" check "$here/models" "$here/../examples/digits/model" ${KRAFLA_MODELS:+"$KRAFLA_MODELS"} -d "$device" "$@"
