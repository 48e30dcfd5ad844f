// SPDX-License-Identifier: Apache-2.0
// The threads of a group's members. To start one takes as long as a small collective: they stay for the next run, and
// go when none comes soon.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace krafla {

class MemberThreads {
 public:
  MemberThreads() = default;
  ~MemberThreads();
  MemberThreads(const MemberThreads&) = delete;
  MemberThreads& operator=(const MemberThreads&) = delete;

  // body(m) for each of `members`, each on a thread of its own, the first on the caller's; returns when all have.
  // refused(m, error) where no thread could be started. One call at a time.
  void Run(std::size_t members, const std::function<void(std::size_t member)>& body,
           const std::function<void(std::size_t member, const std::system_error& error)>& refused);

 private:
  struct Worker {
    std::thread thread;
    std::condition_variable called;
    bool lives = false, has_work = false;
  };
  void Work(std::size_t number);

  std::mutex mutex_;  // of what follows
  std::condition_variable done_;
  std::deque<Worker> workers_;  // of members 1, 2, ...
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::size_t running_ = 0;
  bool ends_ = false;
};

}  // namespace krafla
