// SPDX-License-Identifier: Apache-2.0
// The border: what every call from outside goes through before a function sees it, and what no exception passes.
#pragma once

#include <cstddef>
#include <exception>
#include <new>

#include "plugins/pjrt/error.h"

namespace krafla::pjrt {

// `needed`: how far the caller's struct must reach.
template <typename Args>
PJRT_Error* Enter(const char* name, Args* args, std::size_t needed, Result<> (*function)(Args&)) noexcept {
  try {
    if (args == nullptr) return NewError(InvalidArgument("{} was called with no arguments.", name).error());
    if (args->struct_size < needed)
      return NewError(
          InvalidArgument("{} was called with a struct of {} bytes; the fields it needs take {}. The caller "
                          "was built for an older version of the interface.",
                          name, args->struct_size, needed)
              .error());
    return ToError(function(*args));
  } catch (const std::bad_alloc&) {
    static PJRT_Error& out_of_memory =
        *NewError(Status(StatusCode::kResourceExhausted, "The host has no memory left."));
    return new (std::nothrow) PJRT_Error(out_of_memory);
  } catch (const std::exception& e) { return NewError(Internal("{} failed: {}.", name, e.what()).error()); }
}

// A slot that nothing stands behind.
PJRT_Error* UnimplementedSlot(const char* name) noexcept;

}  // namespace krafla::pjrt
