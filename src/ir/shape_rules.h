// SPDX-License-Identifier: Apache-2.0
// Shape inference. Each row of ops.def names a rule; the rules live in shape_rules/, a file a class of op. A rule
// checks operands and attributes as XLA does and returns the result shape.
#pragma once

#include <span>
#include <vector>

#include "ir/attributes.h"
#include "ir/opcode.h"
#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla {

struct ComputationSignature {
  std::vector<Shape> parameters;
  Shape result;
};

// The most devices (replicas times partitions) that a module may name: what runs it keeps state for each.
inline constexpr int64_t kMaxDevices = int64_t{1} << 20;

struct ShapeRuleInput {
  Opcode opcode;
  std::span<const Shape* const> operands;
  const Attributes& attributes;
  std::span<const ComputationSignature> called = {};
  // What the text or the caller says the result is. Rules whose result cannot be told from the operands (parameter,
  // constant, convert, reshape, iota, rng, custom-call, dot with a preferred element type, ...) check and return it;
  // the others ignore it. Null where there is none.
  const Shape* declared = nullptr;
  // Of the module, for collectives whose groups are implicit.
  int64_t replica_count = 1, num_partitions = 1;
  // Whether these are the devices that the module is compiled for, and not what its text happens to say.
  bool device_counts_known = false;
};

// The result shape, in the row-major layout, with dynamic flags propagated. Errors: INVALID_ARGUMENT, a whole
// sentence that names the offending shapes or values and the limit; the caller adds the instruction.
Result<Shape> InferShape(const ShapeRuleInput& input);

}  // namespace krafla
