// SPDX-License-Identifier: Apache-2.0
#include "api/group/device_group.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <stop_token>
#include <system_error>
#include <unordered_map>

#include "api/back_ends.h"
#include "api/feature_names.h"
#include "api/group/device_links.h"
#include "api/group/member_threads.h"
#include "api/group/reduction_combiner.h"
#include "base/index.h"
#include "base/run_limit.h"
#include "collectives/rendezvous.h"
#include "evaluator/evaluator.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "passes/spmd/spmd_partitioner.h"

namespace krafla {
namespace {

constexpr int64_t kMaxGroup = 1024;  // each is a thread

// What the instructions between devices mean for this grid. Programs compiled apart, for devices that differ, have the
// same instructions in the same order, so that the n-th of one is the n-th of another.
class Exchanges {
 public:
  static Result<Exchanges> Make(const Module& module, const DeviceGrid& grid) {
    Exchanges out;
    for (const Instruction* i : InOrder(module)) {
      Exchange exchange;
      if (std::holds_alternative<CollectiveAttributes>(i->attributes())) {
        std::shared_ptr<const Combiner> combiner;
        if (!i->called().empty()) { KRAFLA_ASSIGN(combiner, out.CombinerOf(*i->called(0))); }
        KRAFLA_ASSIGN(exchange.collective, Collective::Make(*i, grid, std::move(combiner)));
      } else if (i->attr<ChannelAttributes>().is_host_transfer) {
        return Unimplemented("{}: Transfers to and from the host are not supported.", Describe(*i));
      } else {
        KRAFLA_ASSIGN(exchange.pairs, DevicePairs(*i, grid));
        exchange.channel = i->attr<ChannelAttributes>().channel_id.value_or(0);
        exchange.what = Format("{} '{}'", OpcodeName(i->opcode()), i->name());
        const Shape& data = i->opcode() == Opcode::kSend ? i->operand(0)->shape() : i->shape().tuple_elements()[0];
        for (const Shape* leaf : TupleLeaves(data)) {
          if (leaf->IsDynamic())
            return Unimplemented("{}: Arrays with dynamic dimensions cannot be sent.", Describe(*i));
          if (leaf->IsArray()) exchange.sizes.push_back(leaf->byte_size());
        }
      }
      out.exchanges_.push_back(std::move(exchange));
    }
    return out;
  }

  // Which exchange each instruction of a program is.
  static std::unordered_map<const Instruction*, std::size_t> Number(const Module& module) {
    std::unordered_map<const Instruction*, std::size_t> out;
    for (const Instruction* i : InOrder(module)) out.emplace(i, out.size());
    return out;
  }

  std::size_t size() const { return exchanges_.size(); }
  const Collective* collective(std::size_t number) const { return exchanges_[number].collective.get(); }
  // The instructions themselves, by number.
  static std::vector<const Instruction*> Of(const Module& module) { return InOrder(module); }

  Result<> Run(std::size_t number, Opcode opcode, int64_t device, Rendezvous& rendezvous,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) const {
    const Exchange& e = exchanges_[number];
    if (e.collective != nullptr) return rendezvous.Meet(device, *e.collective, {operands, results});
    for (auto [source, target] : e.pairs) {
      if (opcode == Opcode::kSend && source == device)
        return rendezvous.Send({e.channel, source, target}, operands, e.sizes, e.what);
      if (opcode == Opcode::kRecvDone && target == device)
        return rendezvous.Receive({e.channel, source, target}, results, e.sizes, e.what);
    }
    // Whom nobody sends to receives zeros, as in a collective-permute.
    for (std::size_t k = 0; k < results.size() && k < e.sizes.size(); ++k)
      if (e.sizes[k] > 0) std::memset(results[k], 0, At(e.sizes[k]));
    return {};
  }

 private:
  struct Exchange {
    std::unique_ptr<const Collective> collective;  // or a send or recv-done:
    std::vector<std::pair<int64_t, int64_t>> pairs;
    int64_t channel = 0;
    std::vector<int64_t> sizes;  // bytes of the leaves
    std::string what;
  };

  static std::vector<const Instruction*> InOrder(const Module& module) {
    std::vector<const Instruction*> out;
    for (const auto& c : module.computations())
      for (const auto& i : c->instructions())
        if (IsExchange(i->opcode())) out.push_back(i.get());
    return out;
  }

  // Most reductions of a program are the same sum.
  Result<std::shared_ptr<const Combiner>> CombinerOf(const Computation& c) {
    const Instruction& root = *c.root();
    const bool plain = c.instructions().size() == 3 && root.operand_count() == 2 &&
                       root.operand(0) != root.operand(1) && HasTrait(root.opcode(), op_trait::kCommutative);
    if (!plain) return MakeCombiner(c);
    std::shared_ptr<const Combiner>& cached = combiners_[{root.opcode(), root.shape().element_type()}];
    if (cached == nullptr) { KRAFLA_ASSIGN(cached, MakeCombiner(c)); }
    return cached;
  }

  std::vector<Exchange> exchanges_;
  std::map<std::pair<Opcode, ElementType>, std::shared_ptr<const Combiner>> combiners_;
};

// Lets go of a mutex while it lives.
class OthersTurn {
 public:
  explicit OthersTurn(std::mutex* turn) : turn_(turn) {
    if (turn_ != nullptr) turn_->unlock();
  }
  ~OthersTurn() {
    if (turn_ != nullptr) turn_->lock();
  }
  OthersTurn(const OthersTurn&) = delete;
  OthersTurn& operator=(const OthersTurn&) = delete;

 private:
  std::mutex* turn_;
};

class Group final : public GroupExecutable {
 public:
  static Result<std::unique_ptr<GroupExecutable>> Make(std::span<const std::shared_ptr<Client>> clients,
                                                       std::unique_ptr<Module> module, SpmdShardings shardings,
                                                       const CompileOptions& options,
                                                       const GroupOptions& group_options) {
    const DeviceGrid grid{module->replica_count, module->num_partitions};
    auto out = std::make_unique<Group>();
    out->grid_ = grid;
    out->shardings_ = std::move(shardings);
    out->rendezvous_ = std::make_unique<Rendezvous>(grid.size(), Rendezvous::Options{group_options.time_limit});
    std::map<Client*, std::size_t> programs;  // by client: which member was compiled for it
    out->members_.resize(At(grid.size()));
    for (int64_t d = 0; d < grid.size(); ++d) {
      Client* client = clients[At(d)].get();
      Member& m = out->members_[At(d)];
      m.device = d;
      m.group = out.get();
      m.host.replica = grid.replica(d);
      m.host.partition = grid.partition(d);
      m.host.replica_count = grid.replicas;
      m.host.num_partitions = grid.partitions;
      m.host.exchange = [&m](const Instruction& i, std::span<const std::byte* const> operands,
                             std::span<std::byte* const> results) { return m.Exchange(i, operands, results); };
      auto [it, added] = programs.emplace(client, At(d));
      if (!added) {
        const Member& like = out->members_[it->second];
        m.numbers = like.numbers;
        m.turn = like.turn;
        KRAFLA_ASSIGN(m.executable, like.executable->Another(&m.host, grid.size()));
        continue;
      }
      KRAFLA_ASSIGN(m.executable, client->Compile(module->Clone(), options));
      KRAFLA_TRY(m.executable->Join(&m.host, grid.size()));
      m.turn = client->device().runs_one_at_a_time ? std::make_shared<std::mutex>() : nullptr;
      const Module* own = m.executable->module();
      if (own == nullptr) return Internal("Device {} has not kept the program that it was given for a group.", d);
      m.numbers = std::make_shared<const std::unordered_map<const Instruction*, std::size_t>>(Exchanges::Number(*own));
      if (d == 0) {
        KRAFLA_ASSIGN(out->exchanges_, Exchanges::Make(*own, grid));
      } else if (m.numbers->size() != out->exchanges_.size()) {
        return Internal("Devices 0 and {} were given programs of {} and {} exchanges.", d, out->exchanges_.size(),
                        m.numbers->size());
      }
    }
    KRAFLA_TRY(out->Link(clients, options));
    return out;
  }

  int64_t device_count() const override { return grid_.size(); }
  const CompileReport& report() const override { return members_[0].executable->report(); }
  const EntryInterface& interface() const override { return members_[0].executable->interface(); }
  const std::vector<Shape>& arguments() const override { return members_[0].executable->arguments(); }
  const std::vector<Shape>& results() const override { return members_[0].executable->results(); }
  const Module& module() const override { return *members_[0].executable->module(); }  // Make has looked
  const std::vector<std::string>& parameter_shardings() const override { return shardings_.parameters; }
  const std::vector<std::string>& result_shardings() const override { return shardings_.results; }

  Result<> SetArguments(int64_t device, std::span<const Literal* const> arguments) override {
    KRAFLA_TRY(CheckDevice(device));
    return members_[At(device)].executable->SetArguments(arguments);
  }
  Result<std::vector<Literal>> Results(int64_t device) override {
    KRAFLA_TRY(CheckDevice(device));
    return members_[At(device)].executable->Results();
  }

  void SetLimit(const RunLimit* limit) override { limit_ = limit; }
  Result<> Execute() override {
    return OnAllDevices([this](std::size_t d) { return members_[d].executable->Execute(); });
  }

  Result<std::vector<std::vector<std::shared_ptr<DeviceBuffer>>>> RunOnBuffers(
      std::vector<std::vector<DeviceArgument>> arguments) override {
    if (arguments.size() != members_.size())
      return InvalidArgument("The program runs on {} devices, arguments were given for {}.", members_.size(),
                             arguments.size());
    std::vector<std::vector<std::shared_ptr<DeviceBuffer>>> results(members_.size());
    KRAFLA_TRY(OnAllDevices([&](std::size_t d) -> Result<> {
      KRAFLA_ASSIGN(results[d], members_[d].executable->RunOnBuffers(std::move(arguments[d])));
      return {};
    }));
    return results;
  }

  std::string path() const override {
    std::map<PathKind, int> counts;
    for (const PathKind kind : paths_) ++counts[kind];
    std::string out;
    for (const auto& [kind, count] : counts)
      out += counts.size() == 1 ? std::string(NameOf(kind))
                                : Format("{}{} {}", out.empty() ? "" : ", ", count, NameOf(kind));
    return out;
  }
  int64_t exchange_host_bytes() const override { return rendezvous_->host_bytes(); }

  std::string PlacementLine() const override {
    return Format("{} devices ({} replicas, {} partitions), each: {}", grid_.size(), grid_.replicas, grid_.partitions,
                  members_[0].executable->PlacementLine());
  }

 private:
  struct Member final : DeviceExchange {
    int64_t device = 0;
    Group* group = nullptr;
    EvaluatorHost host;
    std::unique_ptr<Executable> executable;
    std::shared_ptr<const std::unordered_map<const Instruction*, std::size_t>> numbers;
    // Virtual devices of one device take turns: one has it until it waits for others or is done.
    std::shared_ptr<std::mutex> turn;

    void Run(const std::function<Result<>(std::size_t device)>& work) {
      Result<> outcome;
      try {
        std::unique_lock<std::mutex> lock;
        if (turn != nullptr) lock = std::unique_lock(*turn);
        outcome = work(At(device));
      } catch (const std::bad_alloc&) { outcome = ResourceExhausted("There is no memory left on the host."); }
      group->rendezvous_->Leave(device, outcome);
    }

    bool Takes(const Instruction& i) const override {
      const auto it = numbers->find(&i);
      if (it == numbers->end() || group->paths_[it->second] == PathKind::kHost) return false;
      // Who is in no group gets zeros, or an error.
      return group->exchanges_.collective(it->second)->GroupOf(device) >= 0;
    }
    Result<> Run(const Instruction& i, const DevicePlaces& places) override {
      const Collective& collective = *group->exchanges_.collective(numbers->at(&i));
      const OthersTurn others(turn.get());
      const Rendezvous::Together together = [&](int g, std::span<const Contribution> members) {
        return group->links_->Run(collective, g, members, *group->limit_);
      };
      return group->rendezvous_->Meet(device, collective, {.operands = {}, .results = {}, .on_device = &places},
                                      &together);
    }

    // Called within Run, on its thread.
    Result<> Exchange(const Instruction& i, std::span<const std::byte* const> operands,
                      std::span<std::byte* const> results) {
      auto it = numbers->find(&i);
      if (it == numbers->end()) return Internal("{} is not an instruction of this program.", Describe(i));
      const OthersTurn others(turn.get());
      return group->exchanges_.Run(it->second, i.opcode(), device, *group->rendezvous_, operands, results);
    }
  };

  // The best path of each exchange; without one that the devices have, bytes go through the host.
  Result<> Link(std::span<const std::shared_ptr<Client>> clients, const CompileOptions& options) {
    paths_.assign(exchanges_.size(), PathKind::kHost);
    if (exchanges_.size() == 0) return {};
    std::vector<Executable*> executables;
    std::string_view kind;
    for (std::size_t d = 0; d < members_.size(); ++d) {
      executables.push_back(members_[d].executable.get());
      const std::string_view selector = clients[d]->device().selector;
      const std::string_view own = selector.substr(0, selector.find(':'));
      if (d > 0 && own != kind) return {};
      kind = own;
    }
    KRAFLA_ASSIGN(const BackEnd back_end, BackEndOf(kind));
    if (back_end.link == nullptr) return {};
    KRAFLA_ASSIGN(links_, back_end.link(executables, clients, options));
    if (links_ == nullptr) return {};
    const std::vector<const Instruction*> instructions = Exchanges::Of(module());
    for (std::size_t n = 0; n < instructions.size(); ++n) {
      const Collective* collective = exchanges_.collective(n);
      if (collective != nullptr) { KRAFLA_ASSIGN(paths_[n], links_->Prepare(*instructions[n], *collective)); }
    }
    KRAFLA_TRY(links_->Finish());
    if (std::ranges::all_of(paths_, [](PathKind p) { return p == PathKind::kHost; })) return {};
    for (Member& m : members_) m.executable->SetExchange(&m, "by " + path());
    return {};
  }

  // work(device), each on a thread. When one fails, the others are broken off wherever they are, and its error is
  // returned.
  Result<> OnAllDevices(const std::function<Result<>(std::size_t device)>& work) {
    const RunLimit limit = {limit_->deadline, rendezvous_->Begin()};
    const std::stop_callback stopped(limit_->stop, [this] { rendezvous_->RequestStop(); });
    for (Member& m : members_) m.executable->SetLimit(&limit);
    threads_.Run(
        members_.size(), [&](std::size_t d) { members_[d].Run(work); },
        [this](std::size_t d, const std::system_error& e) {
          rendezvous_->Leave(static_cast<int64_t>(d),
                             ResourceExhausted("No thread could be started for device {}: {}.", d, e.what()));
        });
    for (Member& m : members_) m.executable->SetLimit(&kUnlimited);
    if (std::optional<Status> failure = rendezvous_->failure()) return Failure(std::move(*failure));
    return {};
  }

  Result<> CheckDevice(int64_t device) const {
    if (device >= 0 && device < grid_.size()) return {};
    return InvalidArgument("There is no device {} in a group of {}.", device, grid_.size());
  }

  DeviceGrid grid_;
  SpmdShardings shardings_;
  Exchanges exchanges_;
  std::unique_ptr<Rendezvous> rendezvous_;
  MemberThreads threads_;
  std::vector<PathKind> paths_;         // of the exchanges
  std::unique_ptr<DeviceLinks> links_;  // null: the host
  std::vector<Member> members_;
  const RunLimit* limit_ = &kUnlimited;  // of the next run
};

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

}  // namespace

std::string_view NameOf(PathKind kind) {
  for (const PathName& p : kPathNames)
    if (p.kind == kind) return p.name;
  KRAFLA_UNREACHABLE();
}

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

std::string DeviceGroup::selector() const {
  std::string out;
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
  if (size() > 1 && r * p > size())
    return InvalidArgument("The program is for {} devices ({} replicas, {} partitions), but {} names {}.", r * p, r, p,
                           selector(), size());
  std::vector<std::shared_ptr<Client>> clients(members_.begin(), members_.begin() + std::min(r * p, size()));
  while (static_cast<int64_t>(clients.size()) < r * p) clients.push_back(clients[0]);
  // Before anything looks at the module's interface: it becomes that of one device.
  SpmdShardings shardings;
  if (p > 1) {
    KRAFLA_TRY(Verify(*module));
    PassOptions pass_options;
    pass_options.disabled = options.disabled;
    KRAFLA_ASSIGN(std::optional<SpmdShardings> made, PartitionModule(*module, pass_options));
    if (made) {
      shardings = std::move(*made);
      const std::string passes[] = {"dce"};
      KRAFLA_TRY(RunPasses(*module, passes, pass_options));
    }
  }
  CompileOptions own_options = options;
  own_options.for_group = true;
  return Group::Make(clients, std::move(module), std::move(shardings), own_options, group_options);
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
