// SPDX-License-Identifier: Apache-2.0
// HLO's indices and sizes are signed; a subscript is not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krafla {

// The subscript of an index that is known not to be negative.
inline std::size_t At(int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace krafla
