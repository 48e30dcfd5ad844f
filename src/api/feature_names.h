// SPDX-License-Identifier: Apache-2.0
// The names of CompileOptions::disabled and enabled.
#pragma once

#include <string_view>

#include "api/client.h"
#include "passes/pipeline.h"

namespace krafla {

// What CompileOptions::enabled may hold.
inline constexpr std::string_view kCooperativeMatrices = "coopmat";
inline constexpr std::string_view kFlexibleMatrices = "coopmat2";
inline constexpr std::string_view kFastFunctions = "fast-functions";
inline constexpr std::string_view kIntDot = "int-dot";
inline constexpr std::string_view kDeviceSums = "device-sums";
inline constexpr std::string_view kOverlapAll = "overlap-all";
inline constexpr std::string_view kDotsByTurns = "dots-by-turns";

// Of CompileOptions::disabled, what is neither of a device nor a pass nor a path.
inline constexpr std::string_view kSecondQueue = "second-queue";
inline constexpr std::string_view kOfAllDevices[] = {"fusion", "loops", "overlap", "row-groups", kSecondQueue, "tuned"};

// INVALID_ARGUMENT, with those that there are, for a name that is neither a device feature, nor one of all devices, nor
// a path between devices, nor a pass, and for one to enable
// that is none of those above: everything else is on wherever the device has it.
Result<> CheckDisabledName(std::string_view name);
Result<> CheckEnabledName(std::string_view name);

// What the partitioner (PartitionModule) is asked for by these names.
PassOptions PartitionOptions(const std::set<std::string>& disabled, const std::set<std::string>& enabled);

// All of both.
Result<> CheckFeatureNames(const CompileOptions& options);

}  // namespace krafla
