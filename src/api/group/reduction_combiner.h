// SPDX-License-Identifier: Apache-2.0
// A reduction computation as the CPU's vector loops: what all-reduce and reduce-scatter combine with.
#pragma once

#include <memory>

#include "collectives/collective.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// `computation`: of two scalars of one type, which gives a scalar of that type.
Result<std::shared_ptr<const Combiner>> MakeCombiner(const Computation& computation);

}  // namespace krafla
