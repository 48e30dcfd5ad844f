// SPDX-License-Identifier: Apache-2.0
// What a caller wants compiled for: the fields that concern us of XLA's CompileOptionsProto
// (xla/pjrt/proto/compile_options.proto) and DeviceAssignmentProto (xla/xla_data.proto).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla::pjrt {

// Replica r, partition p of a program runs on device ids[r * partitions + p].
struct DeviceAssignment {
  int64_t replicas = 1, partitions = 1;
  std::vector<int64_t> ids;  // empty: none is given
};

struct ProgramOptions {
  DeviceAssignment assignment;
  int64_t device_ordinal = -1;
  bool portable = false;  // runs on any one device, named with each run
  // Of the overrides krafla_enable and krafla_disable, names separated by commas (CompileOptions).
  std::set<std::string> enabled, disabled;
};

// INVALID_ARGUMENT for what is not such a message, and for counts that contradict each other.
Result<ProgramOptions> ParseProgramOptions(std::string_view bytes);
std::string SerializeDeviceAssignment(const DeviceAssignment& assignment);

}  // namespace krafla::pjrt
