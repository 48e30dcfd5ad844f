// SPDX-License-Identifier: Apache-2.0
// The threads that the CPU's kernels run on. All of them are the pool's: oneDNN is called with one thread a call, and
// what it computes is cut into parts (docs/decisions/0011-own-threads.md).
#pragma once

#include "base/thread_pool.h"

namespace krafla {

// The pool that all executables of this process share where nobody asks for another.
ThreadPool& SharedThreadPool();

}  // namespace krafla
