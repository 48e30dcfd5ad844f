// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/completion.h"

namespace krafla::pjrt {

const std::shared_ptr<Completion>& Completion::AlreadyDone() {
  static const std::shared_ptr<Completion>& done = *new std::shared_ptr<Completion>([] {
    auto completion = std::make_shared<Completion>();
    completion->Finish();
    return completion;
  }());
  return done;
}

bool Completion::Finish(std::optional<Status> error) {
  std::vector<Callback> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (done()) return false;
    error_ = std::move(error);
    callbacks.swap(callbacks_);
    done_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  // A callback may drop the last reference to this: nothing of it is touched from here on.
  const std::optional<Status> own = callbacks.empty() || !error_ ? std::nullopt : error_;
  for (Callback& callback : callbacks) callback(own ? &*own : nullptr);
  return true;
}

void Completion::Wait() const {
  if (done()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done(); });
}

void Completion::Then(Callback callback) {
  if (!done()) {
    std::lock_guard lock(mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(error());
}

Promise::~Promise() {
  if (completion_ != nullptr)
    completion_->Finish(Status(StatusCode::kInternal, "The work was dropped before it was done."));
}

void Promise::Keep(Result<> outcome) {
  if (outcome) {
    completion_->Finish();
  } else {
    completion_->Finish(std::move(outcome).error());
  }
  completion_.reset();
}

}  // namespace krafla::pjrt
