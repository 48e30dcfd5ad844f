// SPDX-License-Identifier: Apache-2.0
// What a program may put in the place of the process's own: where krafla's messages go, and where its memory is from.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "krafla/export.h"
#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

enum class LogLevel : int { kInfo = 1, kWarning = 2 };

// Called with whole sentences, by any thread, one call at a time; it must not call krafla. Without one nothing is
// logged: the library never writes to the standard streams. An empty function takes it away again.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void SetLogSink(LogSink sink);

// Where literals, arenas and scratch on the host are from: all that grows with a program's arrays. Small objects, and
// arrays of up to 64 bytes, are the C++ library's. `allocate` gives `size` bytes at a multiple of `alignment`, or null;
// `release` gets the same size and alignment. Any thread may call both.
struct ArrayAllocator {
  void* (*allocate)(std::size_t size, std::size_t alignment, void* user) = nullptr;
  void (*release)(void* data, std::size_t size, std::size_t alignment, void* user) = nullptr;
  void* user = nullptr;
};
// Before anything else of krafla is called: FAILED_PRECONDITION once a block was allocated. INVALID_ARGUMENT without
// both functions.
Result<> SetArrayAllocator(const ArrayAllocator& allocator);

}  // namespace krafla
KRAFLA_EXPORT_END
