// SPDX-License-Identifier: Apache-2.0
// What a program does, step by step, over slices of numbered buffers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace krafla::vk {

// In the descriptor model a launch's slices start at multiples of limits.min_storage_buffer_offset_alignment (at most
// 256 bytes) and are no larger than limits.max_storage_buffer_range.
struct BufferSlice {
  uint32_t buffer = 0;            // into the program's buffers
  uint64_t offset = 0, size = 0;  // bytes
  bool operator==(const BufferSlice&) const = default;
};

enum class Access : uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

struct Launch {
  uint32_t pipeline = 0;              // into the program's pipelines
  uint32_t grid[3] = {1, 1, 1};       // workgroups; a zero makes it a step that does nothing
  std::vector<BufferSlice> bindings;  // one a binding of the kernel
  std::vector<Access> access;         // of each binding; empty: every binding is read and written
  std::vector<uint32_t> push;         // at most kMaxPushWords
  // A word of a buffer of MemoryKind::kPredicate: where it is 0 when the launch's turn comes, the launch does nothing.
  std::optional<BufferSlice> predicate = {};
  double estimated_ms = 0;  // 0: not known, counted as nothing
  std::string name;         // for reports; empty: the pipeline's
};

struct Copy {
  BufferSlice from, to;  // equal sizes; may not overlap
  double estimated_ms = 0;
};

struct Fill {
  BufferSlice to;  // offset and size in whole words
  uint32_t word = 0;
};

using Step = std::variant<Launch, Copy, Fill>;

}  // namespace krafla::vk
