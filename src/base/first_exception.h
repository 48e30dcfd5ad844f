// SPDX-License-Identifier: Apache-2.0
// What the first of several threads has thrown that work for one caller, as memory that the host did not have: it is
// thrown on the caller's thread when all of them have left.
#pragma once

#include <atomic>
#include <exception>
#include <utility>

namespace krafla {

class FirstException {
 public:
  // In a catch block, on any thread.
  void Keep() {
    if (!is_there_.exchange(true)) exception_ = std::current_exception();
  }
  // On any thread: whether there is one, so that what is left had better not begin.
  bool IsThere() const { return is_there_.load(std::memory_order_relaxed); }
  // When all threads have left. It may be used again.
  void Throw() {
    if (!IsThere()) [[likely]]
      return;
    is_there_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(exception_, nullptr));
  }

 private:
  std::atomic<bool> is_there_{false};
  std::exception_ptr exception_;
};

}  // namespace krafla
