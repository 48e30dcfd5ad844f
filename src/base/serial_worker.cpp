// SPDX-License-Identifier: Apache-2.0
#include "base/serial_worker.h"

#include <chrono>
#include <new>
#include <system_error>
#include <utility>

namespace krafla {
namespace {

// Longer than a program does anything else between two pieces of work, shorter than anybody looks at the threads of a
// process.
constexpr std::chrono::milliseconds kWorkerStays{200};

Result<> Done(const std::function<Result<>()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) { return ResourceExhausted("There is no memory left on the host."); }
}

}  // namespace

SerialWorker::~SerialWorker() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    called_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

uint64_t SerialWorker::Post(std::function<Result<>()> work) {
  std::unique_lock lock(mutex_);
  work_.push_back(std::move(work));
  const uint64_t number = ++posted_;
  if (lives_) {
    called_.notify_one();
    return number;
  }
  if (thread_.joinable()) thread_.join();  // it has ended
  try {
    thread_ = std::thread([this] { Work(); });
    id_ = thread_.get_id();
    lives_ = true;
    return number;
  } catch (const std::system_error&) { lives_ = false; }
  const std::function<Result<>()> own = std::move(work_.back());
  work_.pop_back();
  lock.unlock();
  Result<> outcome = Done(own);
  lock.lock();
  Ended(std::move(outcome));
  return number;
}

void SerialWorker::Ended(Result<> outcome) {
  ++ended_;
  if (!outcome && outcome_) outcome_ = std::move(outcome);
  done_.notify_all();
}

void SerialWorker::Work() {
  std::unique_lock lock(mutex_);
  while (called_.wait_for(lock, kWorkerStays, [&] { return !work_.empty() || ends_; }) && !work_.empty()) {
    const std::function<Result<>()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    Result<> outcome = Done(work);
    lock.lock();
    Ended(std::move(outcome));
  }
  lives_ = false;
}

Result<> SerialWorker::Wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_ >= number; });
  return outcome_;
}

void SerialWorker::Begin() {
  std::lock_guard lock(mutex_);
  outcome_ = {};
}

bool SerialWorker::IsThisThread() const {
  std::lock_guard lock(mutex_);
  return lives_ && std::this_thread::get_id() == id_;
}

uint64_t SerialWorker::Posted() const {
  std::lock_guard lock(mutex_);
  return posted_;
}

}  // namespace krafla
