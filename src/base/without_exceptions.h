// SPDX-License-Identifier: Apache-2.0
// The boundary of the library: functions called from outside return errors and never throw.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/host_memory.h"
#include "krafla/status.h"

namespace krafla {

// f(), whose small allocations (large ones are checked where they are made) may fail: no exception leaves the API.
template <typename F>
auto WithoutExceptions(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  } catch (const std::system_error& e) {
    return ResourceExhausted("The system refused a thread, a lock or a file: {}.", e.what());
  } catch (const std::exception& e) { return Internal("An exception reached the API: {}.", e.what()); }
  return ResourceExhausted("The host has no memory left for this; the process may have {} bytes in all.",
                           HostMemoryLimit());
}

}  // namespace krafla
