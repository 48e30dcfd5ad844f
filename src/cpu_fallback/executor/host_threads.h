// SPDX-License-Identifier: Apache-2.0
// The threads of this process. Where oneDNN brings OpenMP's, our loops run on those too: two sets of spinning threads
// on the same cores would take them from each other.
#pragma once

#include "base/thread_pool.h"

namespace krafla {

// The pool that all executables of this process share.
ThreadPool& SharedThreadPool();
// What oneDNN may use when the calling thread makes or runs one of its primitives.
void UseHostThreads(int threads);

}  // namespace krafla
