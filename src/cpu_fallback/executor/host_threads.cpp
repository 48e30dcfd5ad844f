// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/host_threads.h"

#include <dlfcn.h>

namespace krafla {

namespace {

// The two functions of GNU OpenMP (and of LLVM's, which has them too) that a team takes. They are looked up, not linked:
// whether they are there, and whose they are, is up to the oneDNN that was found.
struct OpenMp {
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  Parallel parallel = nullptr;
  int (*thread_num)() = nullptr;
  void (*set_num_threads)(int) = nullptr;

  bool Found() const { return parallel != nullptr && thread_num != nullptr && set_num_threads != nullptr; }
  static const OpenMp& Get() {
    static const OpenMp found = [] {
      OpenMp out;
#ifdef KRAFLA_HAVE_ONEDNN
      out.parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
      out.thread_num = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
      out.set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
#endif
      return out;
    }();
    return found;
  }
};

struct Team {
  ThreadPool::Task task;
  void* context;
};

// A team may be smaller than asked for (inside another one); the pool's loops do not mind.
void ForkOnOpenMp(int workers, ThreadPool::Task task, void* context) {
  const OpenMp& omp = OpenMp::Get();
  Team team{task, context};
  omp.parallel(
      [](void* pointer) {
        const Team& t = *static_cast<const Team*>(pointer);
        t.task(t.context, OpenMp::Get().thread_num());
      },
      &team, static_cast<unsigned>(workers), 0);
}

}  // namespace

ThreadPool& SharedThreadPool() {
  // Never destroyed: other threads may still use it while the process ends.
  static ThreadPool* pool = new ThreadPool(ThreadPool::DefaultThreads(), OpenMp::Get().Found() ? &ForkOnOpenMp : nullptr);
  return *pool;
}

void UseHostThreads(int threads) {
  // A setting of the calling thread alone.
  if (OpenMp::Get().Found()) OpenMp::Get().set_num_threads(threads);
}

}  // namespace krafla
