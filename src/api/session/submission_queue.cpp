// SPDX-License-Identifier: Apache-2.0
#include "api/session/submission_queue.h"

#include <utility>

#include "base/without_exceptions.h"

namespace krafla {

void Submission::State::Work() {
  Result<> result = WithoutExceptions([&]() -> Result<> {
    const RunLimit limit{deadline, stop.get_token()};
    KRAFLA_TRY(limit.Check());
    return run(limit);
  });
  follows.reset();
  if (done) done(result);
  // What they hold is the caller's, who may free it once the run is done.
  run = {};
  done = {};
  const std::lock_guard lock(mutex);
  outcome = std::move(result);
  ended.notify_all();
}

bool Submission::IsDone() const {
  const std::lock_guard lock(state_->mutex);
  return state_->outcome.has_value();
}

Result<> Submission::Wait() const {
  KRAFLA_TRY(state_->made_in.Check("The submission"));
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->outcome.has_value(); });
  return *state_->outcome;
}

std::optional<Result<>> Submission::WaitFor(std::chrono::nanoseconds time) const {
  if (Result<> is_here = state_->made_in.Check("The submission"); !is_here) return is_here;
  std::unique_lock lock(state_->mutex);
  // A longer time than the clock can count is for ever.
  constexpr std::chrono::hours kLongest{24 * 365};
  state_->ended.wait_for(lock, std::min<std::chrono::nanoseconds>(time, kLongest),
                         [&] { return state_->outcome.has_value(); });
  return state_->outcome;
}

void Submission::Cancel() const { state_->stop.request_stop(); }

SubmissionQueue::~SubmissionQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  added_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<> SubmissionQueue::Add(std::shared_ptr<Submission::State> state) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(state));
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error& e) {
    waiting_.pop_back();
    return ResourceExhausted("The system has no thread for submissions: {}.", e.what());
  }
  added_.notify_one();
  return {};
}

void SubmissionQueue::Work() {
  for (;;) {
    std::shared_ptr<Submission::State> next;
    {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next->Work();
  }
}

}  // namespace krafla
