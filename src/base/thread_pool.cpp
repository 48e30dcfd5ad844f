// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/first_exception.h"
#include "base/interruption.h"
#include "base/processors.h"
#include "base/subnormals.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace krafla {

namespace {

using Clock = std::chrono::steady_clock;

// The loop that this thread is in the middle of.
struct Inside {
  const ThreadPool* pool = nullptr;
  int worker = 0;
};
thread_local Inside inside;

class InsideWhile {
 public:
  explicit InsideWhile(const Inside& loop) : before_(std::exchange(inside, loop)) {}
  ~InsideWhile() { inside = before_; }
  InsideWhile(const InsideWhile&) = delete;
  InsideWhile& operator=(const InsideWhile&) = delete;

 private:
  Inside before_;
};

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr auto kSpinTime = std::chrono::microseconds(20);
constexpr int kPausesPerLook = 64;  // between looks at the clock

// A worker that sleeps takes some 50 us to wake: less work than this is done by then.
constexpr double kWorthWaking = 50e3;
// A worker that has not started after this long is late: it has not got a processor.
constexpr auto kLate = std::chrono::microseconds(150);
// Loops that were over before a worker came, one after the other, that count as one that came late.
constexpr int kMisses = 4;
// After a late loop none are shared for this long; twice as long with each that follows, up to 2^kMostLate times.
constexpr auto kAloneAfterLate = std::chrono::milliseconds(2);
constexpr int kMostLate = 7;

// Spins until ready() or the spin time is over; returns ready().
template <typename Ready>
bool Spin(Ready&& ready) {
  for (int i = 0; i < kPausesPerLook; ++i) {
    if (ready()) return true;
    Pause();
  }
  const auto until = Clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (Clock::now() < until);
  return ready();
}

struct alignas(64) Part {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

// Where one worker waits and is called.
enum SeatState : uint32_t { kIdle, kCalled, kRunning };
struct alignas(64) Seat {
  std::atomic<uint32_t> state{kIdle};
  std::atomic<bool> asleep{false};   // the worker: `state` has to be notified
  std::atomic<bool> awaited{false};  // the caller: `state` has to be notified
};

}  // namespace

struct ThreadPool::Shared {
  std::atomic<bool> in_use{false};  // by the thread whose loop runs
  std::array<Part, kMaxThreads> parts;

  // The loop.
  int workers = 0;
  int64_t chunk = 1;
  Body body = nullptr;
  void* context = nullptr;
  // Of the thread whose loop it is.
  LimitedWork* work = nullptr;
  Subnormals::As subnormals = Subnormals::As::kNumbers;

  // Own threads only.
  std::array<Seat, kMaxThreads> seats;
  alignas(64) std::atomic<bool> stop{false};
  std::atomic<bool> may_spin{true};
  std::vector<std::thread> threads;

  // Of the thread that has the pool.
  int misses = 0, lateness = 0;
  Clock::time_point alone_until{};

  std::atomic<int64_t> shared_loops{0}, alone{0}, calls{0}, taken_back{0}, late{0}, sleeps{0};

  FirstException thrown;  // by a chunk

  // The chunks of worker's part, then those that are left of the others'.
  void RunChunks(const ThreadPool* pool, int worker) {
    const InsideWhile here({pool, worker});
    const HelpedWork helped(work);
    const Subnormals as_there(subnormals);
    try {
      for (int i = 0; i < workers && !thrown.IsThere(); ++i) {
        Part& part = parts[static_cast<std::size_t>((worker + i) % workers)];
        while (part.next.load(std::memory_order_relaxed) < part.end) {
          const int64_t begin = part.next.fetch_add(chunk, std::memory_order_relaxed);
          if (begin >= part.end) break;
          body(context, begin, std::min(begin + chunk, part.end), worker);
        }
      }
    } catch (...) { thrown.Keep(); }
  }

  void CameLate(Clock::time_point now) {
    late.fetch_add(1, std::memory_order_relaxed);
    misses = 0;
    alone_until = now + kAloneAfterLate * (1 << lateness);
    lateness = std::min(lateness + 1, kMostLate);
    may_spin.store(false, std::memory_order_relaxed);
  }
  void CameInTime() {
    misses = 0;
    if (lateness > 0) --lateness;
    if (lateness == 0) may_spin.store(true, std::memory_order_relaxed);
  }
};

Result<int> ThreadPool::ThreadsAskedFor() {
  const char* text = std::getenv("KRAFLA_THREADS");
  if (text == nullptr || *text == 0) return 0;
  int threads = 0;
  const char* end = text + std::strlen(text);
  auto [parsed, error] = std::from_chars(text, end, threads);
  if (error != std::errc() || parsed != end || threads < 1 || threads > kMaxThreads)
    return InvalidArgument("KRAFLA_THREADS is '{}'; say how many threads, from 1 to {}.", text, kMaxThreads);
  return threads;
}

int ThreadPool::DefaultThreads() {
  const int asked = ThreadsAskedFor().value_or(0);
  return asked > 0 ? asked : std::min(UsableProcessors(), kMaxThreads);
}

ThreadPool::ThreadPool(Options options)
    : threads_(std::clamp(options.threads > 0 ? options.threads : DefaultThreads(), 1, kMaxThreads)),
      run_tasks_(std::move(options.run_tasks)),
      on_wake_(std::move(options.on_wake)),
      shared_(std::make_unique<Shared>()) {
  if (run_tasks_) return;
  try {
    shared_->threads.reserve(static_cast<std::size_t>(threads_ - 1));
    for (int worker = 1; worker < threads_; ++worker)
      shared_->threads.emplace_back([this, worker] { WorkerLoop(worker); });
  } catch (const std::exception&) {
    // The system has no more threads: the pool does with those that it got.
  }
  threads_ = static_cast<int>(shared_->threads.size()) + 1;
}

ThreadPool::~ThreadPool() {
  shared_->stop.store(true);
  for (std::size_t i = 0; i < shared_->threads.size(); ++i) {
    Seat& seat = shared_->seats[i + 1];
    seat.state.store(kCalled);
    seat.state.notify_all();
  }
  for (std::thread& thread : shared_->threads) thread.join();
}

int ThreadPool::CurrentWorker() const { return inside.pool == this ? inside.worker : 0; }

ThreadPool::Counts ThreadPool::counts() const {
  const Shared& s = *shared_;
  int asleep = 0;
  for (int w = 1; w < threads_; ++w) asleep += s.seats[static_cast<std::size_t>(w)].asleep.load();
  return {s.shared_loops.load(), s.alone.load(),  s.calls.load(), s.taken_back.load(),
          s.late.load(),         s.sleeps.load(), asleep};
}

void ThreadPool::Run(int64_t count, int64_t grain, double nanoseconds, Body body, void* context) {
  Shared& s = *shared_;
  // Each worker gets a grain at least: a second one for the rest of a grain would cost more than it saves.
  const int workers = static_cast<int>(std::min<int64_t>(threads_, count / grain));
  if (workers < 2 || inside.pool != nullptr || s.in_use.exchange(true, std::memory_order_acquire)) {
    body(context, 0, count, CurrentWorker());
    return;
  }
  struct Release {
    std::atomic<bool>& flag;
    ~Release() { flag.store(false, std::memory_order_release); }
  } release{s.in_use};
  // Four chunks a worker: what is left to share out when one of them is held up.
  s.chunk = std::max(grain, (count + 4 * workers - 1) / (4 * workers));
  const int64_t share = (count + workers - 1) / workers;
  for (int w = 0; w < workers; ++w) {
    Part& part = s.parts[static_cast<std::size_t>(w)];
    part.next.store(std::min(w * share, count), std::memory_order_relaxed);
    part.end = std::min((w + 1) * share, count);
  }
  s.workers = workers;
  s.body = body;
  s.context = context;
  s.work = HelpedWork::OfThisThread();
  s.subnormals = Subnormals::OfThisThread();
  if (run_tasks_) {
    s.shared_loops.fetch_add(1, std::memory_order_relaxed);
    run_tasks_(workers, [this](int worker) { shared_->RunChunks(this, worker); });
    s.RunChunks(this, 0);  // nothing is left, unless the tasks were not all run
    s.thrown.Throw();
  } else if (CallWorkers(workers, nanoseconds)) {
    const Clock::time_point called = Clock::now();
    s.RunChunks(this, 0);
    Join(workers, called);
    s.thrown.Throw();
  } else {
    const InsideWhile here({this, 0});
    body(context, 0, count, 0);
  }
}

// False: the loop had better run on this thread alone.
bool ThreadPool::CallWorkers(int workers, double nanoseconds) {
  Shared& s = *shared_;
  const bool wait_out = s.lateness > 0 && Clock::now() < s.alone_until;
  int awake = 0;
  if (!wait_out)
    for (int w = 1; w < workers; ++w)
      awake += !s.seats[static_cast<std::size_t>(w)].asleep.load(std::memory_order_relaxed);
  if (wait_out || (awake == 0 && nanoseconds < kWorthWaking)) {
    s.alone.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  s.shared_loops.fetch_add(1, std::memory_order_relaxed);
  s.calls.fetch_add(workers - 1, std::memory_order_relaxed);
  for (int w = 1; w < workers; ++w) {
    Seat& seat = s.seats[static_cast<std::size_t>(w)];
    seat.state.store(kCalled, std::memory_order_seq_cst);
    if (seat.asleep.load(std::memory_order_seq_cst)) seat.state.notify_all();
  }
  return true;
}

void ThreadPool::Join(int workers, Clock::time_point called) {
  Shared& s = *shared_;
  const Clock::time_point finished = Clock::now();
  int missing = 0;
  bool slept = false;
  for (int w = 1; w < workers; ++w) {
    Seat& seat = s.seats[static_cast<std::size_t>(w)];
    uint32_t state = kCalled;
    if (seat.state.compare_exchange_strong(state, kIdle, std::memory_order_acq_rel)) {
      ++missing;
      continue;
    }
    const auto ended = [&] { return seat.state.load(std::memory_order_acquire) == kIdle; };
    if (s.may_spin.load(std::memory_order_relaxed) ? Spin(ended) : ended()) continue;
    // The system has put it aside in the middle of a chunk: it may need this processor.
    slept = true;
    seat.awaited.store(true, std::memory_order_seq_cst);
    while (seat.state.load(std::memory_order_seq_cst) != kIdle) seat.state.wait(kRunning, std::memory_order_seq_cst);
    seat.awaited.store(false, std::memory_order_relaxed);
    s.sleeps.fetch_add(1, std::memory_order_relaxed);
  }
  s.taken_back.fetch_add(missing, std::memory_order_relaxed);
  // A chunk takes its time: to wait for one is nothing unusual, to wait for as long as half of the loop took is.
  const Clock::time_point now = slept ? Clock::now() : finished;
  const auto half = (finished - called) / 2;
  if (now - finished > kLate && now - finished > half) {
    s.CameLate(now);
  } else if (missing == 0) {
    s.CameInTime();
  } else if (missing == workers - 1 && (finished - called > kLate || ++s.misses >= kMisses)) {
    s.CameLate(now);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  Shared& s = *shared_;
  Seat& seat = s.seats[static_cast<std::size_t>(worker)];
  while (true) {
    const auto called = [&] { return seat.state.load(std::memory_order_relaxed) == kCalled; };
    if (!(s.may_spin.load(std::memory_order_relaxed) ? Spin(called) : called())) {
      seat.asleep.store(true, std::memory_order_seq_cst);
      while (seat.state.load(std::memory_order_seq_cst) != kCalled) seat.state.wait(kIdle, std::memory_order_seq_cst);
      seat.asleep.store(false, std::memory_order_relaxed);
      if (on_wake_) on_wake_(worker);
    }
    if (s.stop.load(std::memory_order_acquire)) return;
    uint32_t state = kCalled;
    if (!seat.state.compare_exchange_strong(state, kRunning, std::memory_order_acq_rel)) continue;
    s.RunChunks(this, worker);
    seat.state.store(kIdle, std::memory_order_seq_cst);
    if (seat.awaited.load(std::memory_order_seq_cst)) seat.state.notify_all();
  }
}

ThreadPool& SharedThreadPool() {
  // Never destroyed: other threads may still use it while the process ends.
  static ThreadPool* pool = new ThreadPool();
  return *pool;
}

}  // namespace krafla
