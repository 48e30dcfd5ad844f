// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/host_threads.h"

namespace krafla {

ThreadPool& SharedThreadPool() {
  // Never destroyed: other threads may still use it while the process ends.
  static ThreadPool* pool = new ThreadPool();
  return *pool;
}

}  // namespace krafla
