// SPDX-License-Identifier: Apache-2.0
// What runs exchange with the host while they run: infeed, outfeed, and send and recv on host channels. Each is a queue
// of items, an item being the arrays of one transfer, tuples flattened depth first. Every wait ends: with an item, with
// DEADLINE_EXCEEDED after the limit, or with CANCELLED after Cancel. Any thread may call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/run_limit.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

class HostTransfers {
 public:
  using Item = std::vector<Literal>;
  using Limit = std::chrono::milliseconds;

  // How long a run waits for the host: for an item, or for room.
  static constexpr Limit kRunLimit = std::chrono::seconds(60);
  // What a run may leave in a queue before it waits until the host has taken some.
  static constexpr int64_t kQueueBytes = int64_t{1} << 30;

  explicit HostTransfers(Limit run_limit = kRunLimit, int64_t queue_bytes = kQueueBytes)
      : run_limit_(run_limit), queue_bytes_(queue_bytes) {}
  // Of a program whose host neither gives nor takes anything: what a run gives is dropped, and to take something that
  // is not there already is FAILED_PRECONDITION at once.
  static std::shared_ptr<HostTransfers> WithoutHost();

  // The host's side.
  void PushInfeed(Item item);
  Result<Item> PopOutfeed(Limit limit);
  void PushToDevice(int64_t channel, Item item);
  Result<Item> PopFromDevice(int64_t channel, Limit limit);
  // Ends all waits, and those to come until Reset.
  void Cancel();
  // Empties the queues and forgets a Cancel.
  void Reset();
  // Items that nobody has taken, in all queues.
  int64_t waiting() const;

  // The run's side. Items that do not fit `shape` are INVALID_ARGUMENT, and are gone.
  Result<Literal> TakeInfeed(const Shape& shape, const RunLimit& limit = kUnlimited);
  Result<> GiveOutfeed(const Literal& value, const RunLimit& limit = kUnlimited);
  Result<Literal> TakeFromHost(int64_t channel, const Shape& shape, const RunLimit& limit = kUnlimited);
  Result<> GiveToHost(int64_t channel, const Literal& value, const RunLimit& limit = kUnlimited);

 private:
  enum class Kind : uint8_t { kInfeed, kOutfeed, kToDevice, kFromDevice };
  using Key = std::pair<Kind, int64_t>;
  struct Queue {
    std::deque<Item> items;
    int64_t bytes = 0;
  };

  void Push(Key key, Item item);
  Result<Item> Pop(Key key, Limit wait, const RunLimit& limit);
  Result<Literal> Take(Key key, const Shape& shape, const RunLimit& limit);
  Result<> Give(Key key, const Literal& value, const RunLimit& limit);
  // Until `ready` holds, the transfers are cancelled or `wait` has passed: whether it holds. With the lock held.
  template <typename Ready>
  Result<bool> WaitUntil(std::unique_lock<std::mutex>& lock, Limit wait, const RunLimit& limit, Ready ready);

  const Limit run_limit_;
  const int64_t queue_bytes_;
  bool has_host_ = true;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Queue> queues_;
  bool cancelled_ = false;
};

}  // namespace krafla
