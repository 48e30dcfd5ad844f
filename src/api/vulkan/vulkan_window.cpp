// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_window.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "krafla/aligned_bytes.h"

namespace krafla {
namespace {

constexpr uint64_t kProbeBytes = 4096;

// Copies between a buffer of the device and the window, and waits.
Result<> CopyOnDevice(const std::shared_ptr<vk::Device>& device, const std::shared_ptr<vk::Buffer>& from,
                      uint64_t from_offset, const std::shared_ptr<vk::Buffer>& to, uint64_t to_offset) {
  KRAFLA_ASSIGN(auto program,
                vk::Program::Create(device, {vk::ProgramBuffer::Fixed(from), vk::ProgramBuffer::Fixed(to)}, {},
                                    {vk::Copy{{0, from_offset, kProbeBytes}, {1, to_offset, kProbeBytes}}}));
  return program->Run({});
}

}  // namespace

Result<std::unique_ptr<VulkanWindow>> VulkanWindow::Create(std::span<const std::shared_ptr<vk::Device>> devices,
                                                           uint64_t bytes, PathKind kind) {
  auto out = std::make_unique<VulkanWindow>();
  out->devices_.assign(devices.begin(), devices.end());
  bytes = std::max(bytes, kProbeBytes);
  if (kind == PathKind::kHostImport) KRAFLA_TRY(out->ImportPages(bytes));
  else
    KRAFLA_TRY(out->ShareOfFirst(bytes, kind == PathKind::kDmaBuf ? vk::SharedBy::kDmaBuf : vk::SharedBy::kOpaqueFd));
  return out;
}

Result<> VulkanWindow::ShareOfFirst(uint64_t size, vk::SharedBy shared) {
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const auto same = static_cast<std::size_t>(std::ranges::find(devices_, devices_[d]) - devices_.begin());
    std::shared_ptr<vk::Buffer> made;
    if (same < d) {
      made = buffers_[same];
    } else if (d == 0) {
      KRAFLA_ASSIGN(made, devices_[0]->AllocateShared(size, shared));
    } else {
      KRAFLA_ASSIGN(made, devices_[d]->ImportShared(*buffers_[0], shared));
    }
    buffers_.push_back(std::move(made));
  }
  return {};
}

Result<> VulkanWindow::ImportPages(uint64_t bytes) {
  uint64_t alignment = kAlignment;
  for (const auto& device : devices_) {
    const uint32_t own = device->profile().limits.host_import_alignment;
    if (!device->profile().features.external_memory_host || own == 0)
      return Unimplemented("{} imports no host pages.", device->profile().name);
    alignment = std::max<uint64_t>(alignment, own);
  }
  const auto size = static_cast<uint64_t>(RoundUp(static_cast<int64_t>(bytes), static_cast<int64_t>(alignment)));
  std::shared_ptr<AlignedBytes> pages;
  try {
    pages = std::make_shared<AlignedBytes>(static_cast<std::size_t>(size + alignment), false);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("The host has no memory for a window of {} bytes between devices.", size);
  }
  const auto begin = reinterpret_cast<uintptr_t>(pages->data());
  std::byte* first = pages->data() + ((begin + alignment - 1) / alignment * alignment - begin);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const auto same = static_cast<std::size_t>(std::ranges::find(devices_, devices_[d]) - devices_.begin());
    if (same < d) {
      buffers_.push_back(buffers_[same]);
      continue;
    }
    KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> made, devices_[d]->ImportHost(first, size, pages));
    buffers_.push_back(std::move(made));
  }
  return {};
}

vk::BufferBinding VulkanWindow::At(std::size_t device, uint64_t offset) const {
  return {buffers_[device].get(), offset};
}

Result<> VulkanWindow::Probe() {
  std::vector<std::byte> sent(kProbeBytes), got(kProbeBytes);
  for (std::size_t from = 0; from < devices_.size(); ++from) {
    for (std::size_t b = 0; b < sent.size(); ++b) sent[b] = static_cast<std::byte>(b * 7 + from * 31 + (b >> 8));
    KRAFLA_ASSIGN(auto source, devices_[from]->Allocate(kProbeBytes, vk::MemoryKind::kDevice, "a probe of a link"));
    KRAFLA_TRY(devices_[from]->Upload(*source, 0, sent));
    KRAFLA_TRY(CopyOnDevice(devices_[from], source, 0, buffers_[from], 0));
    for (std::size_t to = 0; to < devices_.size(); ++to) {
      KRAFLA_ASSIGN(auto target, devices_[to]->Allocate(kProbeBytes, vk::MemoryKind::kDevice, "a probe of a link"));
      KRAFLA_TRY(CopyOnDevice(devices_[to], buffers_[to], 0, target, 0));
      KRAFLA_TRY(devices_[to]->Download(*target, 0, got));
      if (got != sent)
        return Unimplemented("Bytes that {} wrote did not reach {}.", devices_[from]->profile().name,
                             devices_[to]->profile().name);
    }
  }
  return {};
}

}  // namespace krafla
