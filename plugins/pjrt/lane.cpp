// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/lane.h"

#include <utility>

namespace krafla::pjrt {
namespace {

// Several lanes get a job at the same place of their order, or two such jobs could wait for each other.
std::mutex& OrderOfGroups() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

// The lanes of one group job: one runs it when all have come, the others wait until it is done.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t missing = 0;
  bool over = false;
  Lane::Job job;
};

}  // namespace

Lane::Lane(std::shared_ptr<Client> client) : client_(std::move(client)), worker_([this] { Work(); }) {}

Lane::~Lane() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    job_or_turn_.notify_all();
  }
  worker_.join();
}

void Lane::Post(Job job, WhenFull when_full) {
  std::unique_lock lock(mutex_);
  // A job that posts another must not wait for itself.
  if (when_full == WhenFull::kWait && std::this_thread::get_id() != worker_.get_id())
    room_.wait(lock, [this] { return jobs_.size() < kMaxWaiting; });
  jobs_.push_back(std::move(job));
  if (!taken_) job_or_turn_.notify_one();
}

void Lane::PostToAll(std::span<Lane* const> lanes, Job job, WhenFull when_full) {
  if (lanes.size() == 1) return lanes[0]->Post(std::move(job), when_full);
  auto meeting = std::make_shared<Meeting>();
  meeting->missing = lanes.size();
  meeting->job = std::move(job);
  std::lock_guard order(OrderOfGroups());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool first = i == 0;
    auto work = [meeting, first] {
      std::unique_lock lock(meeting->mutex);
      --meeting->missing;
      meeting->changed.notify_all();
      if (!first) return meeting->changed.wait(lock, [&] { return meeting->over; });
      meeting->changed.wait(lock, [&] { return meeting->missing == 0; });
      lock.unlock();
      meeting->job.work();
      lock.lock();
      meeting->over = true;
      meeting->changed.notify_all();
    };
    auto tell = [meeting, first] {
      if (first && meeting->job.tell) meeting->job.tell();
    };
    lanes[i]->Post({std::move(work), std::move(tell)}, when_full);
  }
}

Lane::Turn Lane::TryEnter() {
  std::lock_guard lock(mutex_);
  if (taken_ || entering_ > 0 || !jobs_.empty()) return Turn();
  taken_ = true;
  return Turn(this);
}

Lane::Turn Lane::Enter() {
  std::unique_lock lock(mutex_);
  ++entering_;
  turn_.wait(lock, [this] { return !taken_; });
  --entering_;
  taken_ = true;
  return Turn(this);
}

void Lane::Leave() {
  std::lock_guard lock(mutex_);
  taken_ = false;
  if (entering_ > 0) {
    turn_.notify_one();
  } else if (!jobs_.empty() || ending_) {
    job_or_turn_.notify_one();
  }
}

void Lane::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    job_or_turn_.wait(lock, [this] { return !taken_ && entering_ == 0 && (!jobs_.empty() || ending_); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    taken_ = true;
    room_.notify_one();
    lock.unlock();
    job.work();
    lock.lock();
    taken_ = false;
    if (entering_ > 0) turn_.notify_one();
    lock.unlock();
    if (job.tell) job.tell();
    job = {};
    lock.lock();
  }
}

}  // namespace krafla::pjrt
