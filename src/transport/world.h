// SPDX-License-Identifier: Apache-2.0
// The processes of one program: who they are, what they exchange, and how all of them end when one does.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "krafla/status.h"
#include "transport/bootstrap.h"
#include "transport/connect.h"
#include "transport/engine.h"
#include "transport/mesh.h"
#include "transport/shared_windows.h"

namespace krafla::transport {

struct WorldOptions {
  // How long processes wait for each other while they come together, and whoever gives no other limit.
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
  // "auto": processes of one machine share memory, others take the engine that the bootstrap brings, or sockets.
  // "shared", "sockets", "gloo", "mpi": this one for all.
  std::string transport = "auto";
  // This process's devices, for people ("vulkan:0*2"), how many there are, and how many there may be at most.
  std::string devices;
  int device_count = 1, slots = 1;
};

class World {
 public:
  // INVALID_ARGUMENT where builds or numbers of processes differ.
  static Result<std::shared_ptr<World>> Create(std::unique_ptr<Bootstrap> bootstrap, const WorldOptions& options,
                                               std::shared_ptr<Engine> engine = nullptr);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return mesh_->rank(); }
  int size() const { return mesh_->size(); }
  std::chrono::milliseconds time_limit() const { return options_.time_limit; }
  // "rank 2 on host node1 (process 4711)"
  const std::string& name(int rank) const { return mesh_->name(rank); }
  // How many devices a rank has at most. Slots of all ranks are numbered one after the other.
  int slots(int rank) const { return ranks_[static_cast<std::size_t>(rank)].slots; }
  int device_count(int rank) const { return ranks_[static_cast<std::size_t>(rank)].device_count; }
  // "cpu*2", as that rank has it.
  const std::string& devices(int rank) const { return ranks_[static_cast<std::size_t>(rank)].devices; }

  // Whether all ranks share memory.
  bool is_near() const {
    return std::ranges::all_of(ranks_, [this](const RankInfo& r) { return r.IsNear(ranks_[0]); });
  }
  // Null where no other process shares memory with this one.
  SharedWindows* windows() { return windows_.get(); }
  // A device's number in the windows; nothing where its rank does not share them.
  std::optional<std::size_t> WindowOf(int rank, int slot) const;

  // Bytes from and to other ranks, by the engine where there is one.
  Result<> Exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives, const Patience& patience);
  Mesh& mesh() { return *mesh_; }
  // An array outside of any program, over the connection of the two ranks. `number`: what sender and receiver call it;
  // arrays of one number come in order. Send returns at once, and `owner` keeps the bytes.
  Result<> Send(int rank, int64_t number, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  Result<> Receive(int rank, int64_t number, std::span<std::byte> bytes, const Patience& patience);
  // "shared", "sockets", "gloo", "mpi": what messages between other than co-located ranks take.
  const std::string& transport() const { return transport_; }

  // What every one of `ranks` gives, in their order; `name` is the same for all, and used once.
  Result<std::vector<std::string>> AllGather(std::span<const int> ranks, std::string_view name, std::string_view own,
                                             const Patience& patience);
  // 0, 1, 2, .. for these ranks: they count what they do together.
  int64_t NextNumber(std::span<const int> ranks);

 private:
  World() = default;
  Result<> Greet(Bootstrap& bootstrap);
  Result<> Connect(Bootstrap& bootstrap);
  Result<> ShareMemory(std::span<const int> connections);
  bool Shares(int a, int b) const {
    return ranks_[static_cast<std::size_t>(a)].IsNear(ranks_[static_cast<std::size_t>(b)]);
  }
  const std::string& NameOf(int rank) const { return ranks_[static_cast<std::size_t>(rank)].name; }

  WorldOptions options_;
  int rank_ = 0;
  std::vector<RankInfo> ranks_;
  std::string transport_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<SharedWindows> windows_;
  std::shared_ptr<Engine> launcher_;
  // The engine of messages, whose waits the mesh's thread ends.
  std::shared_ptr<Engine> TheEngine() {
    std::lock_guard lock(mutex_);
    return engine_;
  }
  void SetEngine(std::shared_ptr<Engine> engine) {
    std::lock_guard lock(mutex_);
    engine_.swap(engine);
  }
  std::mutex mutex_;  // of what follows
  std::shared_ptr<Engine> engine_;
  std::map<std::vector<int>, int64_t> numbers_;
};

}  // namespace krafla::transport
