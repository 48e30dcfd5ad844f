// SPDX-License-Identifier: Apache-2.0
// A thread that does what it is given, one after the other, while the one who gives goes on. It starts with the first
// piece of work and goes when none comes for a while.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "krafla/status.h"

namespace krafla {

class SerialWorker {
 public:
  SerialWorker() = default;
  ~SerialWorker();
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  // Gives the number of the work: 1, 2, ... Where no thread can be started it is done before this returns.
  uint64_t Post(std::function<Result<>()> work);
  // Waits until the work of that number, and so all before it, has ended. The first error since the last Begin.
  Result<> Wait(uint64_t number);
  // Waits for all that was posted.
  Result<> WaitForAll() { return Wait(Posted()); }
  // Forgets errors. Nothing may be under way.
  void Begin();
  // Whether the caller runs on the worker's thread.
  bool IsThisThread() const;

 private:
  uint64_t Posted() const;
  void Work();
  void Ended(Result<> outcome);  // of one piece, with the lock held

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable called_, done_;
  std::thread thread_;
  std::thread::id id_;  // of the thread that lives
  bool lives_ = false, ends_ = false;
  std::deque<std::function<Result<>()>> work_;
  uint64_t posted_ = 0, ended_ = 0;
  Result<> outcome_;
};

}  // namespace krafla
