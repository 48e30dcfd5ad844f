// SPDX-License-Identifier: Apache-2.0
// An operand that is computed (plan::DotKernel) out of arrays at places that a run knows, the same ones for all
// elements, as of the layer that a loop is at, or for all of a batch, as of a row's expert: the places are found once a
// run, or once a batch, and what reads the operand sees arrays that begin there, as of a program without the loop.
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
  // The same for the places of each of the first `batch_rank` dimensions' points, which the program is without
  // afterwards. Nothing where they depend on no number that is read, or are not all that differs between batches.
  static std::optional<OperandBases> TakeBatchesOutOf(plan::ElementProgram& program, int batch_rank);

  int64_t frame_bytes() const { return frame_bytes_; }
  // `bindings`, and behind them where the new buffers begin, of a batch if there are such. `memory`: of frame_bytes.
  Bindings Find(std::span<std::byte* const> bindings, std::byte* memory, std::span<const int64_t> batch = {}) const;

 private:
  // `shared`: a bit for each dimension along which places may differ.
  static std::optional<OperandBases> TakeOut(plan::ElementProgram& program, uint64_t shared);

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
