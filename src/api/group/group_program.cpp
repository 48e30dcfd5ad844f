// SPDX-License-Identifier: Apache-2.0
#include "api/group/group_program.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <stop_token>
#include <system_error>
#include <unordered_map>

#include "api/back_ends.h"
#include "api/group/device_links.h"
#include "api/group/exchanges.h"
#include "api/group/member_threads.h"
#include "base/index.h"
#include "base/run_limit.h"
#include "base/serial_worker.h"
#include "collectives/rendezvous.h"
#include "evaluator/evaluator.h"

namespace krafla {
namespace {

// One thread at a time has it. No mutex is held for it: its thread passes it on and takes it back within the lock of
// the executable that it runs, and had taken it before that lock. std::binary_semaphore would be it; libstdc++'s may
// sleep on though it was released (GCC's bug 104928).
class Turn {
 public:
  void lock() {
    std::unique_lock held(mutex_);
    passed_.wait(held, [this] { return !is_taken_; });
    is_taken_ = true;
  }
  void unlock() {
    {
      const std::lock_guard held(mutex_);
      is_taken_ = false;
    }
    passed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable passed_;
  bool is_taken_ = false;
};

// Lets others have a turn while it lives.
class OthersTurn {
 public:
  explicit OthersTurn(Turn* turn) : turn_(turn) {
    if (turn_ != nullptr) turn_->unlock();
  }
  ~OthersTurn() {
    if (turn_ != nullptr) turn_->lock();
  }
  OthersTurn(const OthersTurn&) = delete;
  OthersTurn& operator=(const OthersTurn&) = delete;

 private:
  Turn* turn_;
};

class Group final : public GroupExecutable {
 public:
  static Result<std::unique_ptr<GroupExecutable>> Make(std::span<const Seat> seats, std::shared_ptr<Client> spare,
                                                       std::shared_ptr<transport::World> world, std::string program,
                                                       std::unique_ptr<Module> module, SpmdShardings shardings,
                                                       const CompileOptions& options,
                                                       const GroupOptions& group_options) {
    auto out = std::make_unique<Group>();
    out->grid_ = {module->replica_count, module->num_partitions};
    out->shardings_ = std::move(shardings);
    out->name_ = module->name();
    out->program_ = std::move(program);
    Rendezvous::Options waits{group_options.time_limit};
    if (world != nullptr) {
      std::vector<SpanningExchange::Place> places;
      for (const Seat& seat : seats) places.push_back({seat.place.rank, seat.place.slot});
      out->spanning_ = std::make_unique<SpanningExchange>(std::move(world), std::move(places), waits.time_limit);
      waits.alone = out->spanning_->Ranks().size() < 2;
    }
    out->rendezvous_ = std::make_unique<Rendezvous>(out->grid_.size(), waits);
    for (int64_t d = 0; d < out->grid_.size(); ++d)
      if (seats[At(d)].client != nullptr) out->local_.push_back(d);
    KRAFLA_TRY(out->CompileMembers(seats, *module, options));
    if (out->local_.empty()) { KRAFLA_ASSIGN(out->spectator_, spare->Compile(std::move(module), options)); }
    if (out->local_.size() == seats.size()) KRAFLA_TRY(out->Link(seats, options));
    else out->paths_.assign(out->exchanges_.size(), PathKind::kHost);
    return out;
  }

  int64_t device_count() const override { return grid_.size(); }
  std::span<const int64_t> local_devices() const override { return local_; }
  const CompileReport& report() const override { return First().report(); }
  const EntryInterface& interface() const override { return First().interface(); }
  const std::vector<Shape>& arguments() const override { return First().arguments(); }
  const std::vector<Shape>& results() const override { return First().results(); }
  const Module& module() const override { return *First().module(); }  // Make has looked
  const std::vector<std::string>& parameter_shardings() const override { return shardings_.parameters; }
  const std::vector<std::string>& result_shardings() const override { return shardings_.results; }

  Result<> SetArguments(int64_t device, std::span<const Literal* const> arguments) override {
    KRAFLA_ASSIGN(Member * member, MemberOf(device));
    return member->executable->SetArguments(arguments);
  }
  Result<std::vector<Literal>> Results(int64_t device) override {
    KRAFLA_ASSIGN(Member * member, MemberOf(device));
    return member->executable->Results();
  }

  void SetLimit(const RunLimit* limit) override { limit_ = limit; }
  Result<> Execute() override {
    return OnAllDevices([this](std::size_t d) { return members_[d].executable->Execute(); });
  }

  Result<std::vector<DeviceBuffers>> RunOnBuffers(std::vector<std::vector<DeviceArgument>> arguments) override {
    if (arguments.size() != members_.size())
      return InvalidArgument("The program runs on {} devices of this process, arguments were given for {}.",
                             members_.size(), arguments.size());
    std::vector<DeviceBuffers> results(members_.size());
    KRAFLA_TRY(OnAllDevices([&](std::size_t d) -> Result<> {
      KRAFLA_ASSIGN(results[d], members_[d].executable->RunOnBuffers(std::move(arguments[d])));
      return {};
    }));
    return results;
  }

  std::string path() const override {
    if (spanning_ != nullptr && spanning_->Ranks().size() > 1 && exchanges_.size() > 0)
      return spanning_->world().transport();
    std::map<PathKind, int> counts;
    for (const PathKind kind : paths_) ++counts[kind];
    std::string out;
    for (const auto& [kind, count] : counts)
      out += counts.size() == 1 ? std::string(NameOf(kind))
                                : Format("{}{} {}", out.empty() ? "" : ", ", count, NameOf(kind));
    return out;
  }
  int64_t exchange_host_bytes() const override { return rendezvous_->host_bytes(); }
  ExchangeTimes exchange_times() const override {
    ExchangeTimes out;
    for (const Member& m : members_) {
      out.waited_ms += m.times.waited_ms / static_cast<double>(members_.size());
      out.on_lane_ms += m.times.on_lane_ms / static_cast<double>(members_.size());
    }
    return out;
  }

  std::string PlacementLine() const override {
    const std::string here = spanning_ == nullptr ? ""
                                                  : Format(", {} of them on {} by {}", local_.size(),
                                                           spanning_->world().name(spanning_->world().rank()),
                                                           spanning_->world().transport());
    return Format("{} devices ({} replicas, {} partitions){}, each: {}", grid_.size(), grid_.replicas, grid_.partitions,
                  here, First().PlacementLine());
  }

 private:
  struct Member final : DeviceExchange, ExchangeLane {
    int64_t device = 0;
    Group* group = nullptr;
    EvaluatorHost host;
    ExchangeTimes times;
    std::unique_ptr<SerialWorker> lane = std::make_unique<SerialWorker>();
    std::unique_ptr<Executable> executable;
    std::shared_ptr<const std::unordered_map<const Instruction*, std::size_t>> numbers;
    // Virtual devices of one device take turns: one has it until it waits for others or is done.
    std::shared_ptr<Turn> turn;

    // work(n) of the n-th device of this process.
    void Run(std::size_t number, const std::function<Result<>(std::size_t number)>& work) {
      Result<> outcome;
      try {
        lane->Begin();
        std::unique_lock<Turn> own;
        if (turn != nullptr) own = std::unique_lock(*turn);
        outcome = work(number);
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
      const InPlace in_place(*this);
      KRAFLA_TRY(in_place.Ready());
      const Rendezvous::Together together = [&](int g, std::span<const Contribution> members) {
        return group->links_->Run(collective, g, members, *group->limit_);
      };
      return group->rendezvous_->Meet(device, collective, {.operands = {}, .results = {}, .on_device = &places},
                                      &together);
    }

    // An exchange, on the lane or where it stands. There it follows those that are on the lane, and others have their
    // turn meanwhile.
    class InPlace {
     public:
      explicit InPlace(Member& member)
          : member_(member),
            on_lane_(member.lane->IsThisThread()),
            others_(on_lane_ ? nullptr : member.turn.get()),
            ready_(on_lane_ ? Result<>() : member.lane->WaitForAll()) {}
      ~InPlace() {
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start_;
        (on_lane_ ? member_.times.on_lane_ms : member_.times.waited_ms) += took.count();
      }
      InPlace(const InPlace&) = delete;
      InPlace& operator=(const InPlace&) = delete;
      const Result<>& Ready() const { return ready_; }

     private:
      Member& member_;
      const bool on_lane_;
      const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
      const OthersTurn others_;
      const Result<> ready_;
    };

    uint64_t Start(std::function<Result<>()> exchange) override { return lane->Post(std::move(exchange)); }
    Result<> Await(uint64_t number) override {
      const auto start = std::chrono::steady_clock::now();
      const OthersTurn others(turn.get());
      Result<> done = lane->Wait(number);
      times.waited_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      return done;
    }
    void GiveUp(const Result<>& why) override {
      group->rendezvous_->Leave(device, why);
      const OthersTurn others(turn.get());
      (void)lane->WaitForAll();
    }

    // Called within Run, on its thread or on the lane.
    Result<> Exchange(const Instruction& i, std::span<const std::byte* const> operands,
                      std::span<std::byte* const> results) {
      auto it = numbers->find(&i);
      if (it == numbers->end()) return Internal("{} is not an instruction of this program.", Describe(i));
      const InPlace in_place(*this);
      KRAFLA_TRY(in_place.Ready());
      return group->exchanges_.Run(it->second, i.opcode(), device,
                                   {*group->rendezvous_, group->spanning_.get(), group->stop_}, operands, results);
    }
  };

  const Executable& First() const { return members_.empty() ? *spectator_ : *members_[0].executable; }

  Result<> CompileMembers(std::span<const Seat> seats, const Module& module, const CompileOptions& options) {
    std::map<Client*, std::size_t> programs;  // by client: which member was compiled for it
    members_.resize(local_.size());
    for (std::size_t n = 0; n < local_.size(); ++n) {
      const int64_t d = local_[n];
      Client* client = seats[At(d)].client.get();
      Member& m = members_[n];
      m.device = d;
      m.group = this;
      m.host.replica = grid_.replica(d);
      m.host.partition = grid_.partition(d);
      m.host.replica_count = grid_.replicas;
      m.host.num_partitions = grid_.partitions;
      m.host.lane = &m;
      m.host.exchange = [&m](const Instruction& i, std::span<const std::byte* const> operands,
                             std::span<std::byte* const> results) { return m.Exchange(i, operands, results); };
      const auto here = static_cast<int64_t>(local_.size());
      auto [it, added] = programs.emplace(client, n);
      if (!added) {
        const Member& like = members_[it->second];
        m.numbers = like.numbers;
        m.turn = like.turn;
        KRAFLA_ASSIGN(m.executable, like.executable->Another(&m.host, here));
        continue;
      }
      KRAFLA_ASSIGN(m.executable, client->Compile(module.Clone(), options));
      KRAFLA_TRY(m.executable->Join(&m.host, here));
      m.turn = client->device().runs_one_at_a_time ? std::make_shared<Turn>() : nullptr;
      const Module* own = m.executable->module();
      if (own == nullptr) return Internal("Device {} has not kept the program that it was given for a group.", d);
      m.numbers = std::make_shared<const std::unordered_map<const Instruction*, std::size_t>>(Exchanges::Number(*own));
      if (n == 0) {
        KRAFLA_ASSIGN(exchanges_, Exchanges::Make(*own, grid_));
      } else if (m.numbers->size() != exchanges_.size()) {
        return Internal("Devices {} and {} were given programs of {} and {} exchanges.", local_[0], d,
                        exchanges_.size(), m.numbers->size());
      }
    }
    return {};
  }

  // The best path of each exchange; without one that the devices have, bytes go through the host.
  Result<> Link(std::span<const Seat> seats, const CompileOptions& options) {
    std::vector<std::shared_ptr<Client>> clients;
    for (const Seat& seat : seats) clients.push_back(seat.client);
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

  // Ranks that run different programs would wait for what never comes, or take other bytes for theirs.
  Result<> AgreeOnProgram() {
    if (spanning_ == nullptr || local_.empty() || std::exchange(has_agreed_, true)) return {};
    const std::vector<int> ranks = spanning_->Ranks();
    if (ranks.size() < 2) return {};
    transport::World& world = spanning_->world();
    return spanning_->Agree(Format("program {} of {} ranks", world.NextNumber(ranks), ranks.size()),
                            Format("{}\n{}", program_, name_), limit_->stop);
  }

  // work(n) for each device of this process, each on a thread. When one fails, the others are broken off wherever they
  // are, and its error is returned.
  Result<> OnAllDevices(const std::function<Result<>(std::size_t number)>& work) {
    if (spanning_ != nullptr)
      if (std::optional<Status> failure = spanning_->world().mesh().failure()) return Failure(std::move(*failure));
    KRAFLA_TRY(AgreeOnProgram());
    if (members_.empty()) return {};
    stop_ = rendezvous_->Begin();
    const RunLimit limit = {limit_->deadline, stop_};
    const std::stop_callback stopped(limit_->stop, [this] { rendezvous_->RequestStop(); });
    for (Member& m : members_) m.executable->SetLimit(&limit);
    threads_.Run(
        members_.size(), [&](std::size_t n) { members_[n].Run(n, work); },
        [this](std::size_t n, const std::system_error& e) {
          rendezvous_->Leave(members_[n].device,
                             ResourceExhausted("No thread could be started for device {}: {}.", local_[n], e.what()));
        });
    for (Member& m : members_) m.executable->SetLimit(&kUnlimited);
    std::optional<Status> failure = rendezvous_->failure();
    if (!failure) return {};
    // The other processes are out of step with this one from here on.
    if (spanning_ != nullptr && spanning_->Ranks().size() > 1) {
      transport::World& world = spanning_->world();
      world.mesh().Fail(
          Status(failure->code(), Format("{} has failed: {}", world.name(world.rank()), failure->message())));
    }
    return Failure(std::move(*failure));
  }

  Result<Member*> MemberOf(int64_t device) {
    if (device < 0 || device >= grid_.size())
      return InvalidArgument("There is no device {} in a group of {}.", device, grid_.size());
    for (Member& m : members_)
      if (m.device == device) return &m;
    return InvalidArgument("Device {} is not one of this process's.", device);
  }

  DeviceGrid grid_;
  SpmdShardings shardings_;
  std::string name_, program_;
  std::vector<int64_t> local_;                  // devices of this process, in order
  std::unique_ptr<SpanningExchange> spanning_;  // null: one process
  std::unique_ptr<Executable> spectator_;       // of a process without a device of the program
  std::stop_token stop_;                        // of this run
  bool has_agreed_ = false;
  Exchanges exchanges_;
  std::unique_ptr<Rendezvous> rendezvous_;
  MemberThreads threads_;
  std::vector<PathKind> paths_;         // of the exchanges
  std::unique_ptr<DeviceLinks> links_;  // null: the host
  std::vector<Member> members_;
  const RunLimit* limit_ = &kUnlimited;  // of the next run
};

}  // namespace

Result<std::unique_ptr<GroupExecutable>> MakeGroupProgram(std::span<const Seat> seats, std::shared_ptr<Client> spare,
                                                          std::shared_ptr<transport::World> world, std::string program,
                                                          std::unique_ptr<Module> module, SpmdShardings shardings,
                                                          const CompileOptions& options,
                                                          const GroupOptions& group_options) {
  return Group::Make(seats, std::move(spare), std::move(world), std::move(program), std::move(module),
                     std::move(shardings), options, group_options);
}

}  // namespace krafla
