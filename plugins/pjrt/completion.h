// SPDX-License-Identifier: Apache-2.0
// Something that happens once: a run or a copy that ends, well or with an error.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "krafla/status.h"
#include "plugins/pjrt/move_only_function.h"

namespace krafla::pjrt {

// Any thread may call anything.
class Completion {
 public:
  using Callback = MoveOnlyFunction<void(const Status* error)>;

  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  static const std::shared_ptr<Completion>& AlreadyDone();

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Once done; null for success.
  const Status* error() const { return error_ ? &*error_ : nullptr; }

  // Runs the callbacks, with no lock held. False if it had happened before.
  bool Finish(std::optional<Status> error = std::nullopt);
  void Wait() const;
  // Runs `callback` once done: at once, on this thread, when it is.
  void Then(Callback callback);

 private:
  std::atomic<bool> done_ = false;
  std::optional<Status> error_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Callback> callbacks_;
};

// Finishes with an error what its owner forgot: a promise is kept on every way out.
class Promise {
 public:
  Promise() : completion_(std::make_shared<Completion>()) {}
  explicit Promise(std::shared_ptr<Completion> completion) : completion_(std::move(completion)) {}
  Promise(Promise&&) = default;
  Promise& operator=(Promise&&) = delete;
  ~Promise();

  const std::shared_ptr<Completion>& completion() const { return completion_; }
  void Keep(Result<> outcome);

 private:
  std::shared_ptr<Completion> completion_;
};

}  // namespace krafla::pjrt
