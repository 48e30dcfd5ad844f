// SPDX-License-Identifier: Apache-2.0
// How a limit reaches into work that takes long: the thread that begins a run says under which limit, the threads that
// help it know too, and loops ask between their pieces. Loops that were interrupted leave any values behind, so only
// those ask whose values are no addresses; whoever began asks at the end.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/run_limit.h"

namespace krafla {

class LimitedWork {
 public:
  // Of this thread, until the end of its life. A limit that cannot be reached costs nothing.
  explicit LimitedWork(const RunLimit& limit);
  ~LimitedWork();
  LimitedWork(const LimitedWork&) = delete;
  LimitedWork& operator=(const LimitedWork&) = delete;

  // The error, where some loop was interrupted.
  Result<> Outcome() const { return is_over_.load(std::memory_order_relaxed) ? limit_.Check() : Result<>(); }

 private:
  friend bool IsInterrupted();
  friend Result<> CheckInterrupted();
  friend class HelpedWork;

  const RunLimit& limit_;
  LimitedWork* before_;
  std::atomic<bool> is_over_{false};
};

// The work of another thread, on a thread that helps with it.
class HelpedWork {
 public:
  static LimitedWork* OfThisThread();
  explicit HelpedWork(LimitedWork* work);
  ~HelpedWork();
  HelpedWork(const HelpedWork&) = delete;
  HelpedWork& operator=(const HelpedWork&) = delete;

 private:
  LimitedWork* before_;
};

// Whether the work of this thread is to end: looks at the clock where there is a limit.
bool IsInterrupted();
// The same as an error: CANCELLED or DEADLINE_EXCEEDED.
Result<> CheckInterrupted();

// For loops of short iterations: asks only after a certain amount of work.
class InterruptionPoll {
 public:
  // Whether to end now, before `operations` scalar operations more.
  bool Ends(int64_t operations = 1) {
    left_ -= operations;
    return left_ < 0 && Ask();
  }
  // How many scalar operations pass between two looks: some tenths of a millisecond. Loops that cannot be left in the
  // middle take pieces of this size.
  static constexpr int64_t kPiece = int64_t{1} << 17;

 private:
  bool Ask();
  int64_t left_ = kPiece;
};

}  // namespace krafla
