// SPDX-License-Identifier: Apache-2.0
// What an elementwise operation should give: the C library in double for f32 and narrower types, an ULP of which is
// 2^-29 of one of f32, and in long double (64 bits of mantissa on x86-64, 113 on others) for f64.
#pragma once

#include "ir/opcode.h"

namespace krafla::accuracy {

struct Truth {
  Opcode opcode;
  double budget;         // ULP of f32; -1: the row of ops.def
  double double_budget;  // ULP of f64
  double (*unary)(double);
  long double (*long_unary)(long double);
  double (*binary)(double, double);
  long double (*long_binary)(long double, long double);
};

const Truth* FindTruth(Opcode opcode);  // null: none is known
// Of an operation that has one: every formula of ops.def, and what accuracy_truth.cpp adds.
const Truth& TruthOf(Opcode opcode);

}  // namespace krafla::accuracy
