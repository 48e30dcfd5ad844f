// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/run_once.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "vk_runtime/program.h"

namespace krafla::vk {

Result<> RunOnce(const std::shared_ptr<Device>& device, const KernelCode& kernel, std::span<const uint32_t, 3> grid,
                 std::span<const std::span<const std::byte>> inputs, std::span<std::byte> output,
                 std::span<const uint32_t> push, const std::string& name) {
  if (kernel.binding_count != inputs.size() + 1) {
    return InvalidArgument("The kernel '{}' has {} buffers; {} inputs and an output were given.", kernel.name,
                           kernel.binding_count, inputs.size());
  }
  KRAFLA_ASSIGN(auto pipelines, device->pipelines().Create(std::span(&kernel, 1)));
  std::vector<std::shared_ptr<Buffer>> held;
  std::vector<ProgramBuffer> buffers;
  Launch launch;
  auto add = [&](std::span<const std::byte> bytes, Access access) -> Result<> {
    KRAFLA_ASSIGN(auto buffer, device->Allocate(bytes.size(), MemoryKind::kDevice, "a buffer of the " + name));
    KRAFLA_TRY(device->Upload(*buffer, 0, bytes));
    launch.bindings.push_back({static_cast<uint32_t>(held.size()), 0, bytes.size()});
    launch.access.push_back(access);
    buffers.push_back(ProgramBuffer::Fixed(buffer));
    held.push_back(std::move(buffer));
    return {};
  };
  for (const std::span<const std::byte> input : inputs) KRAFLA_TRY(add(input, Access::kRead));
  KRAFLA_TRY(add(output, Access::kReadWrite));
  std::ranges::copy(grid, launch.grid);
  launch.push.assign(push.begin(), push.end());
  launch.name = name;
  KRAFLA_ASSIGN(auto program, Program::Create(device, std::move(buffers), std::move(pipelines), {std::move(launch)}));
  KRAFLA_TRY(program->Run({}));
  return device->Download(*held.back(), 0, output);
}

}  // namespace krafla::vk
