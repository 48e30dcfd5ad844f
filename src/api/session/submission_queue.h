// SPDX-License-Identifier: Apache-2.0
// What a session was given to run later: one thread, which the first submission starts.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/made_in.h"
#include "base/run_limit.h"
#include "krafla/session.h"

namespace krafla {

struct Submission::State {
  MadeIn made_in;
  std::function<Result<>(const RunLimit&)> run;
  std::function<void(const Result<>&)> done;
  std::optional<RunLimit::Clock::time_point> deadline;
  std::stop_source stop;
  // The caller's own token stops it too.
  void Follow(const std::stop_token& token) {
    if (token.stop_possible()) follows.emplace(token, Stopper{&stop});
  }

  // Runs it, tells `done` and then those who wait.
  void Work();

  struct Stopper {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };
  std::optional<std::stop_callback<Stopper>> follows;
  mutable std::mutex mutex;
  mutable std::condition_variable ended;
  std::optional<Result<>> outcome;
};

class SubmissionQueue {
 public:
  SubmissionQueue() = default;
  SubmissionQueue(const SubmissionQueue&) = delete;
  SubmissionQueue& operator=(const SubmissionQueue&) = delete;
  ~SubmissionQueue();  // once all have run

  // RESOURCE_EXHAUSTED where the system has no thread for it.
  Result<> Add(std::shared_ptr<Submission::State> state);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::shared_ptr<Submission::State>> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace krafla
