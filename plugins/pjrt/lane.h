// SPDX-License-Identifier: Apache-2.0
// The order of runs on one client: jobs one after the other as they were posted, on a thread of their own, and callers
// who find it idle. What devices do behind that is waited for by another thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "api/client.h"
#include "plugins/pjrt/completion.h"
#include "plugins/pjrt/move_only_function.h"

namespace krafla::pjrt {

class Lane {
 public:
  struct Job {
    MoveOnlyFunction<void()> work;  // with the turn
    MoveOnlyFunction<void()> tell;  // afterwards, without it: runs the callbacks of whoever waits
  };
  // Posting waits while so many jobs have not begun, or so many runs not ended: what they hold is bounded.
  static constexpr std::size_t kMaxWaiting = 64;

  explicit Lane(std::shared_ptr<Client> client);
  // Runs what was posted and waits for what was run, then ends.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Client& client() { return *client_; }
  const std::shared_ptr<Client>& shared_client() const { return client_; }
  const DeviceDescription& device() const { return client_->device(); }

  enum class WhenFull { kWait, kPostAnyway };
  void Post(Job job, WhenFull when_full = WhenFull::kWait);
  // Whether the caller is one of the lane's own threads, which must not wait for what the lane has yet to do.
  bool IsOwnThread() const;
  // One job that has the turn of several lanes at once. `lanes` holds each once.
  static void PostToAll(std::span<Lane* const> lanes, Job job, WhenFull when_full = WhenFull::kWait);

  // The turn, as long as it lives.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(Lane* lane) : lane_(lane) {}
    Turn(Turn&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (lane_ != nullptr) lane_->Leave();
    }
    explicit operator bool() const { return lane_ != nullptr; }

   private:
    Lane* lane_ = nullptr;
  };
  // The turn if nobody has it and nothing waits for it.
  Turn TryEnter();

  // Finishes `done` when all of `waits` have returned, in the order of the calls.
  using Waits = std::vector<std::function<Result<>()>>;
  void FinishAfter(Waits waits, std::shared_ptr<Completion> done);

 private:
  struct Watched {
    Waits waits;
    std::shared_ptr<Completion> done;
  };
  void Leave();
  void Work();
  void Watch();
  void WaitForRoom(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Client> client_;
  std::mutex mutex_;
  std::condition_variable job_or_turn_;     // the worker waits here
  std::condition_variable room_;            // who posts waits here
  std::condition_variable watched_or_end_;  // the watcher waits here
  std::deque<Job> jobs_;
  std::deque<Watched> watched_;
  bool taken_ = false;
  bool ending_ = false, watch_ending_ = false;
  std::thread worker_, watcher_;
};

}  // namespace krafla::pjrt
