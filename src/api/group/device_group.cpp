// SPDX-License-Identifier: Apache-2.0
#include "api/group/device_group.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include "api/feature_names.h"
#include "api/group/cuts_by_bytes.h"
#include "api/group/device_links.h"
#include "api/group/group_program.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/hlo_text/lexer.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "passes/spmd/spmd_partitioner.h"

namespace krafla {
namespace {

constexpr int64_t kMaxGroup = 1024;  // each is a thread

// "vulkan:\"a*b\"*4" at the last star outside quotes: the device and how often.
Result<std::pair<std::string, int64_t>> SplitCount(std::string_view part) {
  std::size_t star = part.rfind('*');
  if (star == part.npos || part.ends_with('"')) return std::pair{std::string(part), int64_t{1}};
  std::string_view digits = part.substr(star + 1);
  int64_t count = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1 || count > kMaxGroup)
    return InvalidArgument("'{}': The number of virtual devices after the * must be 1 to {}.", part, kMaxGroup);
  return std::pair{std::string(part.substr(0, star)), count};
}

// Of all that the program computes, and nothing of where it was written. What custom calls are given may be an address
// in each process.
std::string FingerprintOf(const Module& module) {
  const auto is_of_custom_calls = [](const Instruction& i) {
    return !i.users().empty() &&
           std::ranges::all_of(i.users(), [](const Instruction* u) { return u->opcode() == Opcode::kCustomCall; });
  };
  uint64_t hash = 0;
  const auto add = [&](std::string_view text) {
    hash = hash * 0x9e3779b97f4a7c15 + std::hash<std::string_view>()(text);
  };
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions()) {
      add(OpcodeName(i->opcode()));
      add(i->shape().ToString());
      if (i->opcode() == Opcode::kCustomCall) {
        add(i->attr<CustomCallAttributes>().target);
      } else if (i->opcode() != Opcode::kConstant) {
        add(PrintInstruction(*i, {.metadata = false}));
      } else if (!is_of_custom_calls(*i)) {
        const std::span<const std::byte> bytes = i->literal().bytes();
        add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      }
    }
  return Format("{:016x}", hash);
}

}  // namespace

Result<std::shared_ptr<DeviceGroup>> DeviceGroup::Create(std::string_view selector, const ClientOptions& options) {
  std::shared_ptr<DeviceGroup> out(new DeviceGroup());
  std::map<std::string, std::shared_ptr<Client>> clients;
  std::string part;
  bool quoted = false;
  for (std::size_t i = 0; i <= selector.size(); ++i) {
    if (i < selector.size() && selector[i] == '"') quoted = !quoted;
    if (i < selector.size() && (selector[i] != ',' || quoted)) {
      part += selector[i];
      continue;
    }
    if (part.empty() && !selector.empty())
      return InvalidArgument("'{}' names no device before or after a comma.", selector);
    KRAFLA_ASSIGN(auto counted, SplitCount(part));
    std::shared_ptr<Client>& client = clients[counted.first];
    if (client == nullptr) { KRAFLA_ASSIGN(client, Client::Create(counted.first, options)); }
    // Two names of one device are one client.
    for (const auto& [name, other] : clients)
      if (other != nullptr && other->device().selector == client->device().selector) client = other;
    if (out->size() + counted.second > kMaxGroup)
      return InvalidArgument("'{}' names more than {} devices.", selector, kMaxGroup);
    for (int64_t n = 0; n < counted.second; ++n) out->members_.push_back(client);
    part.clear();
  }
  return out;
}

Result<> DeviceGroup::Join(std::shared_ptr<transport::World> world) {
  if (world->device_count(world->rank()) != local_size())
    return Internal("A group of {} devices was announced as one of {}.", local_size(),
                    world->device_count(world->rank()));
  world_ = std::move(world);
  return {};
}

int64_t DeviceGroup::size() const {
  if (world_ == nullptr) return local_size();
  int64_t out = 0;
  for (int r = 0; r < world_->size(); ++r) out += world_->device_count(r);
  return out;
}

bool DeviceGroup::CanHave(int64_t devices) const {
  const int64_t own = size();
  return devices <= own || own == 1 || (world_ != nullptr && own == world_->size() && devices % own == 0);
}

// The first `count` devices, in the order of ranks. Where each rank has one and the program needs more, each makes as
// many virtual ones of it.
std::vector<GlobalPlace> DeviceGroup::PlacesOf(int64_t count) const {
  std::vector<GlobalPlace> out;
  const int ranks = world_ == nullptr ? 1 : world_->size();
  const bool multiplies = size() == ranks && count > size();
  for (int r = 0; r < ranks; ++r) {
    const int64_t own = multiplies ? count / ranks : world_ == nullptr ? local_size() : world_->device_count(r);
    for (int64_t d = 0; d < own && std::ssize(out) < count; ++d) out.push_back({r, static_cast<int>(d)});
  }
  return out;
}

Result<std::vector<Seat>> DeviceGroup::SeatsOf(const std::vector<GlobalPlace>& places, int64_t count) const {
  if (std::ssize(places) != count)
    return InvalidArgument("The program is for {} devices, and places are given for {}.", count, places.size());
  std::vector<Seat> out;
  const int ranks = world_ == nullptr ? 1 : world_->size(), own = world_ == nullptr ? 0 : world_->rank();
  for (const GlobalPlace& place : places) {
    const int slots = place.rank < 0 || place.rank >= ranks ? 0
                      : world_ == nullptr                   ? kMaxGroup
                                                            : world_->slots(place.rank);
    if (place.slot < 0 || place.slot >= slots)
      return InvalidArgument(
          "Rank {} can have {} devices, and the program needs one more of it; -d names as many as it needs, such as cpu*{}.",
          place.rank, slots, place.slot + 1);
    const auto slot = std::min(static_cast<std::size_t>(place.slot), members_.size() - 1);
    out.push_back({place, place.rank == own ? members_[slot] : nullptr});
  }
  return out;
}

std::string DeviceGroup::selector() const {
  std::string out;
  if (world_ != nullptr) {
    for (int r = 0; r < world_->size(); ++r) out += (r == 0 ? "" : ",") + world_->devices(r);
    return out;
  }
  for (std::size_t i = 0, n = 0; i < members_.size(); i += n) {
    for (n = 1; i + n < members_.size() && members_[i + n] == members_[i];) ++n;
    out += Format("{}{}", i == 0 ? "" : ",", members_[i]->device().selector);
    if (n > 1) out += Format("*{}", n);
  }
  return out;
}

Result<std::unique_ptr<GroupExecutable>> DeviceGroup::Compile(std::unique_ptr<Module> module,
                                                              const CompileOptions& options,
                                                              const GroupOptions& group_options) {
  KRAFLA_TRY(CheckFeatureNames(options));
  const int64_t r = module->replica_count, p = module->num_partitions;
  if (!module->optimised.empty() && r * p > 1)
    return Unimplemented("The compiled model '{}' is for one device, not for {}.", module->name(), r * p);
  if (r < 1 || p < 1 || r > kMaxGroup || p > kMaxGroup || r * p > kMaxGroup)
    return InvalidArgument("A program of {} replicas and {} partitions cannot run: a group has 1 to {} devices.", r, p,
                           kMaxGroup);
  if (group_options.places.empty() && !CanHave(r * p))
    return InvalidArgument("The program is for {} devices ({} replicas, {} partitions), but {} names {}.", r * p, r, p,
                           selector(), size());
  KRAFLA_ASSIGN(const std::vector<Seat> seats,
                SeatsOf(group_options.places.empty() ? PlacesOf(r * p) : group_options.places, r * p));
  std::string program = world_ == nullptr ? "" : FingerprintOf(*module);
  // Before anything looks at the module's interface: it becomes that of one device.
  SpmdShardings shardings;
  if (p > 1) {
    KRAFLA_TRY(Verify(*module));
    PassOptions pass_options = PartitionOptions(options.disabled, options.enabled);
    if (const ShardingObserver& inspect = group_options.inspect_sharding) {
      pass_options.inspect_sharding = [&inspect](std::string_view config, std::string_view sharding) {
        return inspect(hlo_text::ConfigBytes(config), sharding);
      };
    }
    const CutsByBytes custom(group_options.custom_cuts);
    pass_options.custom_partitioner = &custom;
    KRAFLA_ASSIGN(std::optional<SpmdShardings> made, PartitionModule(*module, pass_options));
    if (made) {
      shardings = std::move(*made);
      const std::string passes[] = {"dce"};
      KRAFLA_TRY(RunPasses(*module, passes, pass_options));
    }
  }
  CompileOptions own_options = options;
  own_options.for_group = true;
  return MakeGroupProgram(seats, members_[0], world_, std::move(program), std::move(module), std::move(shardings),
                          own_options, group_options);
}

std::vector<std::string> DeviceGroup::TakeValidationMessages() {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < members_.size(); ++d) {
    if (std::find(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(d), members_[d]) !=
        members_.begin() + static_cast<std::ptrdiff_t>(d))
      continue;
    for (std::string& m : members_[d]->TakeValidationMessages()) out.push_back(std::move(m));
  }
  return out;
}

}  // namespace krafla
