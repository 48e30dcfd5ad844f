// SPDX-License-Identifier: Apache-2.0
// Memory of a run that lies over other memory of it. A run reads its inputs until its end, and writes its outputs from
// its beginning on.
#pragma once

#include <span>
#include <vector>

#include "krafla/aligned_bytes.h"
#include "krafla/session.h"
#include "krafla/span.h"

namespace krafla {

// The inputs of a run, as copies where an output lies over one, so that a state may be written where it was read.
// Allocates for these alone, and where there are more than 64 outputs.
class InputsApart {
 public:
  // INVALID_ARGUMENT where two outputs lie over each other.
  static Result<InputsApart> Of(Span<InputBytes> inputs, Span<OutputBytes> outputs);
  // Valid as long as what was given, and this.
  Span<InputBytes> span() const { return copies_.empty() ? given_ : Span<InputBytes>(apart_); }

 private:
  explicit InputsApart(Span<InputBytes> given) : given_(given) {}
  void Copy(std::size_t i);

  Span<InputBytes> given_;
  std::vector<InputBytes> apart_;
  std::vector<AlignedBytes> copies_;
};

}  // namespace krafla
