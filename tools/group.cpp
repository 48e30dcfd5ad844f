// SPDX-License-Identifier: Apache-2.0
// The devices of a command that runs programs of several devices, and of several processes.
#include <charconv>

#include "command.h"

namespace krafla::cli {

Result<std::shared_ptr<DeviceGroup>> OpenGroup(const DeviceOptions& options) {
  KRAFLA_ASSIGN(std::shared_ptr<DeviceGroup> group, DeviceGroup::Create(options.selector));
  ProcessOptions processes = options.processes;
  processes.time_limit = options.ToGroupOptions().time_limit;
  KRAFLA_TRY(JoinProcesses(*group, processes));
  if (group->world() != nullptr)
    Remark(Format("rank {} of {}: {} of {} devices, by {}", group->world()->rank(), group->world()->size(),
                  group->local_size(), group->size(), group->world()->transport()));
  return group;
}

Result<int64_t> AsRankZero(DeviceGroup& group, int64_t number) {
  if (group.world() == nullptr) return number;
  transport::World& world = *group.world();
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) ranks.push_back(r);
  const transport::Patience patience{transport::Clock::now() + world.time_limit()};
  KRAFLA_ASSIGN(const std::vector<std::string> all,
                world.AllGather(ranks, Format("number {}", world.NextNumber(ranks)), std::to_string(number), patience));
  int64_t out = 0;
  std::from_chars(all[0].data(), all[0].data() + all[0].size(), out);
  return out;
}

bool IsSpeaker(const DeviceGroup& group) { return group.world() == nullptr || group.world()->rank() == 0; }

}  // namespace krafla::cli
