// SPDX-License-Identifier: Apache-2.0
// Who may use a client, which takes one thread at a time: jobs in the order in which they were posted, on a thread of
// their own, and callers who find it idle or wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "api/client.h"

namespace krafla::pjrt {

class Lane {
 public:
  struct Job {
    std::move_only_function<void()> work;  // with the turn
    std::move_only_function<void()> tell;  // afterwards, without it: runs the callbacks of whoever waits
  };
  // Posting waits while so many jobs have not begun: what they hold (arguments, results' names) is bounded.
  static constexpr std::size_t kMaxWaiting = 64;

  explicit Lane(std::shared_ptr<Client> client);
  // Runs what was posted, then ends.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // For who has the turn only.
  Client& client() { return *client_; }
  const std::shared_ptr<Client>& shared_client() const { return client_; }
  const DeviceDescription& device() const { return client_->device(); }

  enum class WhenFull { kWait, kPostAnyway };
  void Post(Job job, WhenFull when_full = WhenFull::kWait);
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
  // The turn, before all jobs that have not begun.
  Turn Enter();

 private:
  void Leave();
  void Work();

  std::shared_ptr<Client> client_;
  std::mutex mutex_;
  std::condition_variable job_or_turn_;  // the worker waits here
  std::condition_variable room_;         // who posts waits here
  std::condition_variable turn_;         // who enters waits here
  std::deque<Job> jobs_;
  bool taken_ = false;
  int entering_ = 0;
  bool ending_ = false;
  std::thread worker_;
};

}  // namespace krafla::pjrt
