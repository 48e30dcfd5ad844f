// SPDX-License-Identifier: Apache-2.0
// What this process may have of the host's memory. Linux promises more than there is and ends a process that believes
// it, so large allocations ask here first.
#pragma once

#include <cstdint>

namespace krafla {

// The smallest of the machine's memory with its swap, the control group's limit and the address-space limit. Read once.
uint64_t HostMemoryLimit();

// Whether that many bytes more can be had: within the limit, and no more than the system has left now.
bool HostHasRoom(uint64_t bytes);

}  // namespace krafla
