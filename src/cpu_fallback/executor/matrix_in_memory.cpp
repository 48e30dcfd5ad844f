// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/matrix_in_memory.h"

#include <utility>

#include "base/index.h"

namespace krafla::cpu {

using plan::kNoNode;
using plan::Node;
using plan::NodeOp;

std::optional<MatrixInMemory> MatrixInMemory::Make(const plan::ElementProgram& program, bool is_rhs, ElementType type) {
  if (program.results.size() != 1) return std::nullopt;
  const Node& value = program.nodes[At(program.results[0])];
  if (value.op != NodeOp::kLoad || value.mask != kNoNode || value.storage != type) return std::nullopt;
  const plan::IndexSpace& space = program.space;
  // The place is a number of 32 bits.
  const auto range = space.RangeOf(value.index);
  if (range.lo < 0 || range.hi > INT32_MAX) return std::nullopt;
  const auto rank = static_cast<int>(space.dims().size());
  const int last = rank - 1, before = rank - 2;
  if (rank < 2) return std::nullopt;
  const auto lines = space.StrideAlong(value.index, is_rhs ? last : before),
             depth = space.StrideAlong(value.index, is_rhs ? before : last);
  // Else the library would move it first.
  if (lines.stride <= 0 || depth.stride <= 0 || (lines.stride != 1 && depth.stride != 1)) return std::nullopt;
  MatrixInMemory out;
  out.buffer_ = value.buffer, out.width_ = StorageBytes(type);
  out.line_stride_ = lines.stride, out.depth_stride_ = depth.stride;
  auto place = ElementPlace::Make(program, value.index);
  if (!place) return std::nullopt;
  out.place_ = std::move(*place);
  return out;
}

const std::byte* MatrixInMemory::Find(std::byte* memory, std::span<const int64_t> batch,
                                      std::span<std::byte* const> bindings) const {
  Dims origin(batch.begin(), batch.end());
  origin.push_back(0);
  origin.push_back(0);
  return bindings[At(buffer_)] + place_.At(memory, origin) * width_;
}

}  // namespace krafla::cpu
