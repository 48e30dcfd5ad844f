// SPDX-License-Identifier: Apache-2.0
// Which element an index of a program names, computed at a point of the program.
#pragma once

#include <optional>
#include <span>

#include "cpu_fallback/executor/block_program.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class ElementPlace {
 public:
  // Nothing where it cannot be compiled. The index is a number of 32 bits that is not negative.
  static std::optional<ElementPlace> Make(plan::ElementProgram program, plan::IndexId index);

  int64_t frame_bytes() const { return program_.frame_bytes(); }
  // Sets `memory`, of frame_bytes, up for any number of points.
  void Start(std::byte* memory, std::span<std::byte* const> bindings) const { program_.Start(memory, bindings); }
  int64_t At(std::byte* memory, std::span<const int64_t> point) const;

 private:
  BlockProgram program_;  // result: the element
};

}  // namespace krafla::cpu
