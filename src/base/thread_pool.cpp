// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace krafla {

namespace {

// The number of the worker that this thread is, while it runs a chunk; -1 outside.
thread_local int current_worker = -1;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr auto kSpinTime = std::chrono::microseconds(20);
constexpr int kPausesPerLook = 64;  // between looks at the clock

// Spins until ready() or the spin time is over; returns ready().
template <typename Ready>
bool Spin(Ready&& ready) {
  for (int i = 0; i < kPausesPerLook; ++i) {
    if (ready()) return true;
    Pause();
  }
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return ready();
}

struct alignas(64) Part {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

struct Loop {
  std::array<Part, ThreadPool::kMaxThreads>* parts;
  int workers;
  int64_t chunk;
  void (*body)(void*, int64_t, int64_t, int);
  void* context;
};

void RunLoop(void* loop_pointer, int worker) {
  const Loop& loop = *static_cast<const Loop*>(loop_pointer);
  const int before = current_worker;
  current_worker = worker;
  for (int i = 0; i < loop.workers; ++i) {
    Part& part = (*loop.parts)[static_cast<std::size_t>((worker + i) % loop.workers)];
    while (part.next.load(std::memory_order_relaxed) < part.end) {
      const int64_t begin = part.next.fetch_add(loop.chunk, std::memory_order_relaxed);
      if (begin >= part.end) break;
      loop.body(loop.context, begin, std::min(begin + loop.chunk, part.end), worker);
    }
  }
  current_worker = before;
}

}  // namespace

struct ThreadPool::Shared {
  // Where one worker waits: a rise of `calls` is a loop to run.
  struct alignas(64) Seat {
    std::atomic<uint32_t> calls{0};
    std::atomic<bool> asleep{false};
  };

  std::mutex in_use;  // held by the thread whose loop runs
  std::array<Part, kMaxThreads> parts;

  // Own threads only.
  std::array<Seat, kMaxThreads> seats;
  alignas(64) std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  Task task = nullptr;
  void* context = nullptr;
  std::vector<std::thread> threads;

  void Call(int worker) {
    Seat& seat = seats[static_cast<std::size_t>(worker)];
    seat.calls.fetch_add(1, std::memory_order_seq_cst);
    if (seat.asleep.load(std::memory_order_seq_cst)) seat.calls.notify_one();
  }
};

int ThreadPool::DefaultThreads() {
  if (const char* text = std::getenv("KRAFLA_THREADS")) {
    int threads = 0;
    const char* end = text + std::strlen(text);
    auto [parsed, error] = std::from_chars(text, end, threads);
    if (error == std::errc() && parsed == end && threads >= 1 && threads <= kMaxThreads) return threads;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

ThreadPool::ThreadPool(int threads, Fork fork)
    : threads_(std::clamp(threads, 1, kMaxThreads)), fork_(fork), shared_(std::make_unique<Shared>()) {
  if (fork_ != nullptr) return;
  for (int worker = 1; worker < threads_; ++worker) shared_->threads.emplace_back([this, worker] { WorkerLoop(worker); });
}

ThreadPool::~ThreadPool() {
  shared_->stop.store(true);
  for (std::size_t i = 0; i < shared_->threads.size(); ++i) shared_->Call(static_cast<int>(i) + 1);
  for (std::thread& thread : shared_->threads) thread.join();
}

int ThreadPool::CurrentWorker() { return std::max(current_worker, 0); }

void ThreadPool::Run(int64_t count, int64_t grain, Body body, void* context) {
  grain = std::max<int64_t>(grain, 1);
  // Each worker gets a grain at least: a second one for the rest of a grain would cost more than it saves.
  const int workers = static_cast<int>(std::min<int64_t>(threads_, count / grain));
  if (workers < 2 || current_worker >= 0 || !shared_->in_use.try_lock()) {
    body(context, 0, count, CurrentWorker());
    return;
  }
  std::lock_guard<std::mutex> lock(shared_->in_use, std::adopt_lock);
  // Four chunks a worker: what is left to share out when one of them is held up.
  const int64_t chunk = std::max(grain, (count + 4 * workers - 1) / (4 * workers));
  const int64_t share = (count + workers - 1) / workers;
  for (int w = 0; w < workers; ++w) {
    Part& part = shared_->parts[static_cast<std::size_t>(w)];
    part.next.store(std::min(w * share, count), std::memory_order_relaxed);
    part.end = std::min((w + 1) * share, count);
  }
  Loop loop{&shared_->parts, workers, chunk, body, context};
  if (fork_ != nullptr) {
    fork_(workers, RunLoop, &loop);
  } else {
    RunOwnThreads(workers, RunLoop, &loop);
  }
}

void ThreadPool::RunOwnThreads(int workers, Task task, void* context) {
  Shared& s = *shared_;
  s.task = task;
  s.context = context;
  s.running.store(workers - 1, std::memory_order_relaxed);
  for (int worker = 1; worker < workers; ++worker) s.Call(worker);
  task(context, 0);
  auto done = [&] { return s.running.load(std::memory_order_acquire) == 0; };
  // A worker that the system has put aside may take long: do not take its processor from it.
  while (!Spin(done)) std::this_thread::yield();
}

void ThreadPool::WorkerLoop(int worker) {
  Shared& s = *shared_;
  Shared::Seat& seat = s.seats[static_cast<std::size_t>(worker)];
  uint32_t seen = 0;
  while (true) {
    auto called = [&] { return seat.calls.load(std::memory_order_seq_cst) != seen; };
    if (!Spin(called)) {
      seat.asleep.store(true, std::memory_order_seq_cst);
      while (!called()) seat.calls.wait(seen, std::memory_order_seq_cst);
      seat.asleep.store(false, std::memory_order_relaxed);
    }
    ++seen;  // one call at a time: the next comes after `running` has fallen
    if (s.stop.load(std::memory_order_relaxed)) return;
    s.task(s.context, worker);
    s.running.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace krafla
