// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/host_threads.h"

namespace krafla {

ThreadPool& SharedThreadPool() {
  static ThreadPool* pool = new ThreadPool();  // never destroyed: threads may outlive main's locals
  return *pool;
}

}  // namespace krafla
