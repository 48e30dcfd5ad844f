// SPDX-License-Identifier: Apache-2.0
// An operand that is computed (plan::DotKernel) out of arrays at places that a run knows, the same ones for all
// elements, as of the layer that a loop is at: the places are found once a run, and what reads the operand sees arrays
// that begin there, as of a program without the loop.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/executor/element_place.h"
#include "krafla/inline_vector.h"
#include "plan/element_program.h"

namespace krafla::cpu {

class OperandBases {
 public:
  using Bindings = InlineVector<std::byte*, 16>;

  // Takes these places out of the indices of `program`, which gets buffers behind those that it has. Nothing, and the
  // program as it is, where there are none.
  static std::optional<OperandBases> TakeOutOf(plan::ElementProgram& program);

  int64_t frame_bytes() const { return frame_bytes_; }
  // `bindings`, and behind them where the new buffers begin. `memory`: of frame_bytes.
  Bindings Find(std::span<std::byte* const> bindings, std::byte* memory) const;

 private:
  struct Base {
    int buffer = 0, width = 1;
    plan::IndexId index = 0;
    ElementPlace place;
  };
  std::vector<Base> bases_;
  Dims origin_;
  int64_t frame_bytes_ = 0;
};

}  // namespace krafla::cpu
