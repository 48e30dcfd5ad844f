// SPDX-License-Identifier: Apache-2.0
// Row groups of a VulkanExecutable: the kernels of a block as launches at other places, block after block. What lies
// between them has the memory of one block, so that a block waits for the one before; blocks are as large as fills the
// device (RowsTuning).
#include "api/vulkan/vulkan_executable.h"
#include "base/checked_math.h"
#include "plan/step_runner.h"

namespace krafla {
namespace {

int64_t BlockCount(const plan::RowGroupStep& group) { return Product(group.grid); }

// The place of a block in the grid, whose last dimension goes fastest.
Dims PlaceOfBlock(const plan::RowGroupStep& group, int64_t block) {
  Dims out(group.grid.size(), 0);
  for (std::size_t d = group.grid.size(); d-- > 0;) {
    out[d] = block % group.grid[d];
    block /= group.grid[d];
  }
  return out;
}

}  // namespace

uint64_t VulkanExecutable::CountPlaces() {
  uint64_t bytes = 0;
  plan::ForEachStep(plan_, [&](const plan::Step& step) {
    const auto* group = std::get_if<plan::RowGroupStep>(&step);
    if (group == nullptr || group->place.size == 0) return;
    places_[group] = bytes;
    bytes += static_cast<uint64_t>(BlockCount(*group)) * kSliceAlignment;
  });
  return bytes;
}

Result<> VulkanExecutable::UploadPlaces() {
  for (const auto& [group, begin] : places_) {
    const int64_t blocks = BlockCount(*group);
    std::vector<std::byte> bytes(static_cast<std::size_t>(blocks) * kSliceAlignment);
    for (int64_t block = 0; block < blocks; ++block) {
      const Dims place = PlaceOfBlock(*group, block);
      for (std::size_t d = 0; d < place.size(); ++d) {
        const auto at = static_cast<int32_t>(place[d]);
        std::memcpy(bytes.data() + static_cast<std::size_t>(block) * kSliceAlignment + d * sizeof(at), &at, sizeof(at));
      }
    }
    KRAFLA_TRY(device_->Upload(*buffers_[kConstants], places_offset_ + begin, bytes));
  }
  return {};
}

plan::LaunchStep VulkanExecutable::LaunchOfBlock(const plan::RowGroupStep& group, const plan::BlockLaunch& launch,
                                                 int64_t block, uint64_t places) {
  plan::LaunchStep out = launch;
  const Dims place = PlaceOfBlock(group, block);
  for (std::size_t b = 0; b < out.bindings.size(); ++b) {
    if (out.bindings[b].allocation == group.place.allocation)
      out.bindings[b].offset += static_cast<int64_t>(places) + block * static_cast<int64_t>(kSliceAlignment);
    for (std::size_t d = 0; d < place.size(); ++d) out.bindings[b].offset += place[d] * launch.strides[b][d];
  }
  return out;
}

template <typename Visit>
Result<> VulkanExecutable::ForEachBlockLaunch(const plan::RowGroupStep& group, Visit visit) {
  const auto found = places_.find(&group);
  const uint64_t places = found != places_.end() ? found->second : 0;
  std::vector<std::vector<int>> rows(group.launches.size());
  for (int64_t block = 0; block < BlockCount(group); ++block)
    for (std::size_t l = 0; l < group.launches.size(); ++l)
      KRAFLA_TRY(visit(LaunchOfBlock(group, group.launches[l], block, places), rows[l]));
  return {};
}

void VulkanExecutable::AddBlocks(const plan::RowGroupStep& group, Pending& pending) {
  (void)ForEachBlockLaunch(group, [&](const plan::LaunchStep& launch, std::vector<int>& rows) -> Result<> {
    AddLaunch(launch, pending, &rows);
    return {};
  });
}

// A kernel that the device does not take is run by the host, for each block anew.
Result<> VulkanExecutable::AddRowGroup(const plan::RowGroupStep& group, Pending& pending, NodeList& nodes) {
  return ForEachBlockLaunch(group, [&](const plan::LaunchStep& launch, std::vector<int>& rows) -> Result<> {
    if (emitted_[static_cast<std::size_t>(launch.kernel)]) {
      AddLaunch(launch, pending, &rows);
      return {};
    }
    KRAFLA_TRY(Flush(pending, nodes));
    if (rows.empty()) rows.push_back(AddRow(launch, nullptr));
    nodes.steps.push_back(HostNodeOf(launch, rows.front()));
    return {};
  });
}

}  // namespace krafla
