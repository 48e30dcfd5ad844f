// SPDX-License-Identifier: Apache-2.0
#include "base/subnormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace krafla {

#if defined(__x86_64__)

namespace {

constexpr uint32_t kZeros = 0x8040;  // of MXCSR: results and arguments

void Set(Subnormals::As as) {
  const uint32_t now = _mm_getcsr();
  const uint32_t then = as == Subnormals::As::kZeros ? now | kZeros : now & ~kZeros;
  if (now != then) _mm_setcsr(then);
}

}  // namespace

Subnormals::As Subnormals::OfThisThread() { return (_mm_getcsr() & kZeros) == kZeros ? As::kZeros : As::kNumbers; }

Subnormals::Subnormals(As as) : before_(OfThisThread()) { Set(as); }
Subnormals::~Subnormals() { Set(before_); }

#else

Subnormals::As Subnormals::OfThisThread() { return As::kNumbers; }
Subnormals::Subnormals(As) : before_(As::kNumbers) {}
Subnormals::~Subnormals() = default;

#endif

}  // namespace krafla
