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

Lane::Lane(std::shared_ptr<Client> client)
    : client_(std::move(client)), worker_([this] { Work(); }), watcher_([this] { Watch(); }) {}

Lane::~Lane() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    job_or_turn_.notify_all();
  }
  worker_.join();
  {
    std::lock_guard lock(mutex_);
    watch_ending_ = true;
    watched_or_end_.notify_all();
  }
  watcher_.join();
}

bool Lane::IsOwnThread() const {
  return std::this_thread::get_id() == worker_.get_id() || std::this_thread::get_id() == watcher_.get_id();
}

void Lane::Post(Job job, WhenFull when_full) {
  std::unique_lock lock(mutex_);
  if (when_full == WhenFull::kWait) WaitForRoom(lock);
  jobs_.push_back(std::move(job));
  if (!taken_) job_or_turn_.notify_one();
}

// A callback that posts a job must not wait for itself.
void Lane::WaitForRoom(std::unique_lock<std::mutex>& lock) {
  if (!IsOwnThread()) room_.wait(lock, [this] { return jobs_.size() < kMaxWaiting && watched_.size() < kMaxWaiting; });
}

void Lane::PostToAll(std::span<Lane* const> lanes, Job job, WhenFull when_full) {
  if (lanes.size() == 1) return lanes[0]->Post(std::move(job), when_full);
  auto meeting = std::make_shared<Meeting>();
  meeting->missing = lanes.size();
  meeting->job = std::move(job);
  // Not with the order's lock, which a callback of a full lane may want.
  for (Lane* lane : lanes) {
    std::unique_lock lock(lane->mutex_);
    if (when_full == WhenFull::kWait) lane->WaitForRoom(lock);
  }
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
    lanes[i]->Post({std::move(work), std::move(tell)}, WhenFull::kPostAnyway);
  }
}

Lane::Turn Lane::TryEnter() {
  std::lock_guard lock(mutex_);
  if (taken_ || !jobs_.empty() || watched_.size() >= kMaxWaiting) return Turn();
  taken_ = true;
  return Turn(this);
}

void Lane::Leave() {
  std::lock_guard lock(mutex_);
  taken_ = false;
  if (!jobs_.empty() || ending_) job_or_turn_.notify_one();
}

void Lane::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    job_or_turn_.wait(lock, [this] { return !taken_ && (!jobs_.empty() || ending_); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    taken_ = true;
    room_.notify_one();
    lock.unlock();
    job.work();
    lock.lock();
    taken_ = false;
    lock.unlock();
    if (job.tell) job.tell();
    job = {};
    lock.lock();
  }
}

void Lane::FinishAfter(Waits waits, std::shared_ptr<Completion> done) {
  std::lock_guard lock(mutex_);
  watched_.push_back({std::move(waits), std::move(done)});
  watched_or_end_.notify_one();
}

void Lane::Watch() {
  std::unique_lock lock(mutex_);
  while (true) {
    watched_or_end_.wait(lock, [this] { return !watched_.empty() || watch_ending_; });
    if (watched_.empty()) return;
    // It counts as long as it is waited for.
    Watched next = std::move(watched_.front());
    lock.unlock();
    std::optional<Status> error;
    for (const auto& wait : next.waits) {
      if (Result<> outcome = wait(); !outcome && !error) error = std::move(outcome).error();
    }
    lock.lock();
    watched_.pop_front();
    room_.notify_one();
    lock.unlock();
    next.done->Finish(std::move(error));
    next = {};
    lock.lock();
  }
}

}  // namespace krafla::pjrt
