// SPDX-License-Identifier: Apache-2.0
// Every f64 formula, as formulas.h has those of f32.
#pragma once

#include "numerics/f64_exp_log.h"  // IWYU pragma: export
#include "numerics/f64_special.h"  // IWYU pragma: export
#include "numerics/f64_trig.h"     // IWYU pragma: export
