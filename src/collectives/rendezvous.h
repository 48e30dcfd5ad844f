// SPDX-License-Identifier: Apache-2.0
// Where the devices of one process meet. Each device runs on a thread of its own and calls from there. A device waits
// until all members of its group have come, no longer than the time limit; then each does its share of the work, or
// the last one does it for all, and all leave when it is done.
//
// No device waits for what cannot happen: when a device fails, when the time limit passes, or when no device is left
// that could still do something, the run is broken off, and every wait ends with an error that says who was missing
// where. Those that are at work elsewhere hear of it by a stop token.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "collectives/collective.h"
#include "krafla/status.h"

namespace krafla {

class Rendezvous {
 public:
  struct Options {
    std::chrono::milliseconds time_limit = std::chrono::seconds(60);  // of one wait
    bool alone = true;                                                // no device of another process may still come
  };
  // A place where messages from one device to another wait, in order.
  struct Channel {
    int64_t number = 0, source = 0, target = 0;
    auto operator<=>(const Channel&) const = default;
  };

  Rendezvous(int64_t devices, Options options) : options_(options), devices_(static_cast<std::size_t>(devices)) {}

  // Before a run: every device is at work, what was left of the last run is forgotten. No device may be in a call.
  // The token asks whoever is at work elsewhere to stop once the run is broken off.
  std::stop_token Begin();

  // What the last member to come does for all of `group`, given what they brought in the order of ranks.
  using Together = std::function<Result<>(int group, std::span<const Contribution> members)>;

  // Does `device`'s part of a collective over the host's bytes, or `together` where it is given. `own` must stay valid
  // until it returns. With `together` the device must be in a group.
  Result<> Meet(int64_t device, const Collective& collective, const Contribution& own,
                const Together* together = nullptr);

  // Copies the bytes and returns; waits only while kMaxQueued messages are on their way already.
  // `what` names the instruction in errors.
  Result<> Send(const Channel& channel, std::span<const std::byte* const> leaves, std::span<const int64_t> sizes,
                std::string_view what);
  Result<> Receive(const Channel& channel, std::span<std::byte* const> leaves, std::span<const int64_t> sizes,
                   std::string_view what);

  // The device waits for those of other processes in `what`, where `bytes` are exchanged; and no longer.
  void EnterElsewhere(int64_t device, std::string_view what, int64_t bytes);
  void ReturnFromElsewhere(int64_t device);

  // The device's part of the run is over. An error ends the run of all.
  void Leave(int64_t device, const Result<>& outcome);
  // Why the run was broken off: the first error.
  std::optional<Status> failure() const;
  // Asks as the token does, without a reason of its own: the first who hears of it gives one when it leaves.
  void RequestStop();
  // Of operands, results and messages that instructions of the CPU have read or written here, in all runs.
  int64_t host_bytes() const { return host_bytes_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kMaxQueued = 4;

 private:
  enum class State : uint8_t { kRunning, kWaiting, kFinished, kFailed };
  struct Device {
    State state = State::kRunning;
    std::string waits_in;            // kWaiting: the instruction
    std::optional<Channel> channel;  // kWaiting in a send or recv-done
  };
  struct Meeting {
    std::vector<Contribution> members;
    std::vector<bool> here;
    std::size_t arrived = 0, done = 0;
    bool is_complete = false;  // all are here
    std::optional<Status> error;
  };
  using Message = std::vector<std::vector<std::byte>>;

  // Waits until `done` holds. With the lock held; what makes `done` true must also set this device to kRunning.
  template <typename Done, typename Missing>
  Result<> Wait(std::unique_lock<std::mutex>& lock, int64_t device, std::string what, std::optional<Channel> channel,
                Done done, Missing missing);
  Result<> Share(std::unique_lock<std::mutex>& lock, Meeting& meeting, const Together& work, int group,
                 std::size_t shares);
  bool NobodyRuns() const;
  void BreakOff(Status status);  // wakes everybody
  std::string Whereabouts(std::span<const int64_t> devices) const;
  Device& At(int64_t device) { return devices_[static_cast<std::size_t>(device)]; }

  const Options options_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<Device> devices_;
  std::optional<Status> failure_;
  std::stop_source stop_;
  std::atomic<int64_t> host_bytes_ = 0;
  // Those that not all have come to, by collective and group.
  std::map<std::pair<const Collective*, int>, std::shared_ptr<Meeting>> open_;
  std::map<Channel, std::deque<Message>> messages_;
};

}  // namespace krafla
