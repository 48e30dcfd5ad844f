// SPDX-License-Identifier: Apache-2.0
// Every formula. Each is `template <class Ops> F Name(const Ops& o, F x)`: instantiated with ScalarOps it is the CPU's
// code, instantiated with an Ops that emits SPIR-V it is the shader's, and both give the same bits (ops_concept.h).
#pragma once

#include "numerics/formulas_basic.h"         // IWYU pragma: export
#include "numerics/formulas_exact.h"         // IWYU pragma: export
#include "numerics/formulas_exp.h"           // IWYU pragma: export
#include "numerics/formulas_formats.h"       // IWYU pragma: export
#include "numerics/formulas_int.h"           // IWYU pragma: export
#include "numerics/formulas_inverse_trig.h"  // IWYU pragma: export
#include "numerics/formulas_log.h"           // IWYU pragma: export
#include "numerics/formulas_pow.h"           // IWYU pragma: export
#include "numerics/formulas_trig.h"          // IWYU pragma: export
