// SPDX-License-Identifier: Apache-2.0
// A pool for short parallel loops. Workers spin for about 20 us before they sleep, so that loops that follow each other
// closely cost a fraction of a microsecond to start. Every worker owns a fixed part of the range, which keeps data in
// the same core's cache from one loop to the next; one that finishes early takes chunks of the others' parts.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace krafla {

class ThreadPool {
 public:
  using Task = void (*)(void* context, int worker);
  // Runs task(context, w) for w in [0, workers) at once, one of them on the calling thread, and returns when all have.
  // For processes whose threads belong to another runtime (OpenMP).
  using Fork = void (*)(int workers, Task task, void* context);

  static constexpr int kMaxThreads = 256;
  // KRAFLA_THREADS where it is a number from 1 to kMaxThreads, else the processors that this process may use.
  static int DefaultThreads();

  // `threads` counts the calling thread. With `fork` the pool has no threads of its own.
  explicit ThreadPool(int threads = DefaultThreads(), Fork fork = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls fn(begin, end, worker) over disjoint chunks that cover [0, count), each of at least `grain` but the last;
  // worker < threads(), and no two calls with one worker number run at once. Runs on the calling thread alone when
  // count <= grain, inside another loop, or while another thread has the pool.
  template <typename F>
  void ParallelFor(int64_t count, int64_t grain, F&& fn) {
    if (count <= 0) return;
    if (count <= grain || threads_ == 1) {
      fn(int64_t{0}, count, CurrentWorker());
      return;
    }
    using Function = std::remove_reference_t<F>;
    Run(count, grain,
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<Function*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Body = void (*)(void* context, int64_t begin, int64_t end, int worker);
  struct Shared;

  static int CurrentWorker();
  void Run(int64_t count, int64_t grain, Body body, void* context);
  void RunOwnThreads(int workers, Task task, void* context);
  void WorkerLoop(int worker);

  int threads_;
  Fork fork_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace krafla
