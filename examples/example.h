// SPDX-License-Identifier: Apache-2.0
// What the examples share: end with the error's text, or with a mark that the answer is wrong.
#pragma once

#include <krafla/krafla.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

template <typename T>
T Must(krafla::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().ToString().c_str());
    std::exit(1);
  }
  return std::move(*result);
}

inline void Expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong answer: %s\n", what);
  std::exit(1);
}

// A computation of two scalars: Scalars(F32, Add).
inline krafla::XlaComputation Scalars(krafla::PrimitiveType type,
                                      krafla::XlaOp (*op)(krafla::XlaOp, krafla::XlaOp, krafla::Span<int64_t>)) {
  krafla::XlaBuilder b("combine");
  krafla::Shape scalar = krafla::Shape::MakeScalar(type);
  op(Parameter(&b, 0, scalar, "x"), Parameter(&b, 1, scalar, "y"), {});
  return Must(b.Build());
}

// The device that the first argument names, else the best one here.
inline krafla::LocalClient ClientFor(int argc, char** argv) {
  return Must(krafla::LocalClient::Create(argc > 1 ? argv[1] : ""));
}
