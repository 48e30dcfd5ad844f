// SPDX-License-Identifier: Apache-2.0
// What a SPIR-V module asks of a device, read from its words and nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "device/device_profile.h"
#include "spirv_codegen/emit.h"

namespace krafla::spirv::testing {

// Bytes of all Workgroup variables together.
uint64_t SharedMemoryBytes(std::span<const uint32_t> words);

// Empty, or the first thing that `profile` does not offer: a capability, a float execution mode, a version, a limit.
std::string Unsupported(const EmittedKernel& kernel, const DeviceProfile& profile);

// Empty, or what is wrong with a dispatch: its grid, its push words.
std::string Unsupported(const EmittedDispatch& dispatch, const EmittedKernel& kernel, const DeviceProfile& profile);

// Empty, or the first load under a condition or in a loop whose place in memory is neither constant nor kept below a
// constant: for drivers that load where no lane is active (Workarounds::loads_without_lanes).
std::string UnboundedLoad(std::span<const uint32_t> words);

// Empty, or what spirv-val says for the newest Vulkan that the profile has.
std::string Validate(std::span<const uint32_t> words, const DeviceProfile& profile);

}  // namespace krafla::spirv::testing
