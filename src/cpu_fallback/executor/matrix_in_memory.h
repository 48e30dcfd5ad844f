// SPDX-License-Identifier: Apache-2.0
// An operand that is computed (plan::DotKernel) by nothing more than finding where it lies: as the matrix of the expert
// that rows name, which products can read as it is.
#pragma once

#include <optional>
#include <span>

#include "cpu_fallback/executor/element_place.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class MatrixInMemory {
 public:
  // Of a program over batches and two more dimensions, the lines the last one if `is_rhs`. Nothing where elements are
  // not those of an array of this type, at equal distances along each of the two.
  static std::optional<MatrixInMemory> Make(const plan::ElementProgram& program, bool is_rhs, ElementType type);

  // In elements.
  int64_t line_stride() const { return line_stride_; }
  int64_t depth_stride() const { return depth_stride_; }
  int64_t frame_bytes() const { return place_.frame_bytes(); }
  // Sets `memory`, of frame_bytes, up for any number of batches.
  void Start(std::byte* memory, std::span<std::byte* const> bindings) const { place_.Start(memory, bindings); }
  // Where the matrix of a batch begins.
  const std::byte* Find(std::byte* memory, std::span<const int64_t> batch, std::span<std::byte* const> bindings) const;

 private:
  ElementPlace place_;  // where the matrix of a batch begins
  int buffer_ = 0, width_ = 1;
  int64_t line_stride_ = 1, depth_stride_ = 1;
};

}  // namespace krafla::cpu
