// SPDX-License-Identifier: Apache-2.0
// One launch of one kernel with buffers of its own, awaited: for what asks a device a question, not for programs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "krafla/status.h"
#include "vk_runtime/device.h"
#include "vk_runtime/pipeline.h"

namespace krafla::vk {

// Bindings 0, 1, ... of `kernel` hold `inputs`, the one after them takes `output`, whose bytes it holds before. `name`
// is for reports.
Result<> RunOnce(const std::shared_ptr<Device>& device, const KernelCode& kernel, std::span<const uint32_t, 3> grid,
                 std::span<const std::span<const std::byte>> inputs, std::span<std::byte> output,
                 std::span<const uint32_t> push, const std::string& name);

}  // namespace krafla::vk
