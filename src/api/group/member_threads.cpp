// SPDX-License-Identifier: Apache-2.0
#include "api/group/member_threads.h"

#include <chrono>

namespace krafla {
namespace {

// Longer than a program does anything else between two runs, shorter than anybody looks at the threads of a process.
constexpr std::chrono::milliseconds kStays{200};

}  // namespace

MemberThreads::~MemberThreads() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    for (Worker& w : workers_) w.called.notify_one();
  }
  for (Worker& w : workers_)
    if (w.thread.joinable()) w.thread.join();
}

void MemberThreads::Work(std::size_t number) {
  std::unique_lock lock(mutex_);
  Worker& self = workers_[number];
  while (self.called.wait_for(lock, kStays, [&] { return self.has_work || ends_; }) && self.has_work) {
    const std::function<void(std::size_t)>& body = *body_;
    lock.unlock();
    body(number + 1);
    lock.lock();
    self.has_work = false;
    if (--running_ == 0) done_.notify_one();
  }
  self.lives = false;
}

void MemberThreads::Run(std::size_t members, const std::function<void(std::size_t member)>& body,
                        const std::function<void(std::size_t member, const std::system_error& error)>& refused) {
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    while (workers_.size() + 1 < members) workers_.emplace_back();
  }
  for (std::size_t w = 0; w + 1 < members; ++w) {
    Worker& worker = workers_[w];
    std::unique_lock lock(mutex_);
    worker.has_work = true;
    ++running_;
    if (worker.lives) {
      worker.called.notify_one();
      continue;
    }
    lock.unlock();
    if (worker.thread.joinable()) worker.thread.join();  // it has ended
    try {
      worker.lives = true;
      worker.thread = std::thread([this, w] { Work(w); });
    } catch (const std::system_error& error) {
      lock.lock();
      worker.lives = worker.has_work = false;
      --running_;
      lock.unlock();
      refused(w + 1, error);
    }
  }
  body(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0; });
  body_ = nullptr;
}

}  // namespace krafla
