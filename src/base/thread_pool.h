// SPDX-License-Identifier: Apache-2.0
// A pool for short parallel loops. Every worker owns a fixed part of the range, which keeps data in the same core's
// cache from one loop to the next; one that finishes early takes chunks of the others' parts.
//
// A loop never depends on a worker: the calling thread takes all chunks that no one else has taken, takes back the
// calls of workers that have not started by then, and waits only for those that are in the middle of a chunk. Workers
// look for the next loop for some 20 us before they sleep. Where workers come late, as on a machine that is busy with
// something else, nobody spins, and for a while loops run on the calling thread alone
// (docs/decisions/0011-own-threads.md).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

#include "krafla/status.h"

namespace krafla {

class ThreadPool {
 public:
  // Runs task(0) .. task(tasks - 1), at once where it can, and returns when all have ended: threads that belong to
  // someone else. May be called by several threads.
  using RunTasks = std::function<void(int tasks, const std::function<void(int)>& task)>;

  static constexpr int kMaxThreads = 256;
  // KRAFLA_THREADS, a number from 1 to kMaxThreads, else 0; INVALID_ARGUMENT for anything else. Clients ask before
  // there is a pool.
  static Result<int> ThreadsAskedFor();
  // ThreadsAskedFor, else the processors that this process may use.
  static int DefaultThreads();

  struct Options {
    int threads = 0;          // with the calling one; 0: DefaultThreads()
    RunTasks run_tasks = {};  // if set, the pool has no threads of its own
    // For tests: called on a worker's thread when it has woken, before it takes its call.
    std::function<void(int worker)> on_wake = {};
  };
  explicit ThreadPool(Options options);
  explicit ThreadPool(int threads = 0) : ThreadPool(Options{.threads = threads}) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // False: they are those of Options::run_tasks.
  bool owns_threads() const { return !run_tasks_; }

  // Calls fn(begin, end, worker) over disjoint chunks that cover [0, count), each of at least `grain` but the last;
  // worker < threads(), and no two calls with one worker number run at once. Runs on the calling thread alone when
  // count <= grain, inside another loop, or while another thread has the pool. A grain is some 5 to 10 us of work.
  template <typename F>
  void ParallelFor(int64_t count, int64_t grain, F&& fn) {
    if (count <= 0) return;
    if (count <= grain || threads_ == 1) {
      fn(int64_t{0}, count, CurrentWorker());
      return;
    }
    using Function = std::remove_reference_t<F>;
    grain = grain < 1 ? 1 : grain;
    Run(count, grain, static_cast<double>(count / grain) * kGrainNanoseconds, &Call<Function>, Address(fn));
  }

  // The same over items that take `nanoseconds` each, however long that is.
  template <typename F>
  void ParallelItems(int64_t count, double nanoseconds, F&& fn) {
    const auto grain = static_cast<int64_t>(kLeastGrainNanoseconds / std::max(nanoseconds, 1.0));
    if (grain > 1) ParallelFor(count, grain, fn);
    else ParallelParts(count, static_cast<double>(count) * nanoseconds, fn);
  }

  // The same over few parts that take long: `nanoseconds` for all of them on one thread.
  template <typename F>
  void ParallelParts(int64_t parts, double nanoseconds, F&& fn) {
    if (parts <= 0) return;
    if (parts == 1 || threads_ == 1) {
      fn(int64_t{0}, parts, CurrentWorker());
      return;
    }
    using Function = std::remove_reference_t<F>;
    Run(parts, 1, nanoseconds, &Call<Function>, Address(fn));
  }

  // What has happened so far; for tests and measurements.
  struct Counts {
    int64_t shared = 0;      // loops that called workers
    int64_t alone = 0;       // loops that could have, but ran on the calling thread
    int64_t calls = 0;       // of workers
    int64_t taken_back = 0;  // calls whose worker had not started when the loop was done
    int64_t late = 0;        // loops whose workers came late
    int64_t sleeps = 0;      // times that a caller slept until a worker had ended its chunk
    int asleep = 0;          // workers that sleep now
  };
  Counts counts() const;

 private:
  using Body = void (*)(void* context, int64_t begin, int64_t end, int worker);
  static constexpr double kGrainNanoseconds = 7000, kLeastGrainNanoseconds = 5000;
  struct Shared;

  template <typename Function>
  static void Call(void* context, int64_t begin, int64_t end, int worker) {
    (*static_cast<Function*>(context))(begin, end, worker);
  }
  template <typename Function>
  static void* Address(Function& fn) {
    return const_cast<void*>(static_cast<const void*>(&fn));
  }
  // The number that this thread has in a loop of this pool; 0 outside.
  int CurrentWorker() const;
  void Run(int64_t count, int64_t grain, double nanoseconds, Body body, void* context);
  bool CallWorkers(int workers, double nanoseconds);
  void Join(int workers, std::chrono::steady_clock::time_point called);
  void WorkerLoop(int worker);

  int threads_;
  RunTasks run_tasks_;
  std::function<void(int)> on_wake_;
  std::unique_ptr<Shared> shared_;
};

// The pool that all executables of this process share where nobody asks for another. oneDNN is called with one thread a
// call, and what it computes is cut into parts (docs/decisions/0011-own-threads.md).
ThreadPool& SharedThreadPool();

}  // namespace krafla
