// SPDX-License-Identifier: Apache-2.0
// Steps of the compiler's loops, counted in each thread, so that tests can bound by a count what they may not time.
#pragma once

#include <cstdint>

namespace krafla {

namespace work_internal {
inline thread_local int64_t steps = 0;
}

inline void CountWork(int64_t steps) { work_internal::steps += steps; }
inline int64_t CountedWork() { return work_internal::steps; }

}  // namespace krafla
