// SPDX-License-Identifier: Apache-2.0
#include "base/subnormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace krafla {

namespace {

#if defined(__x86_64__)

constexpr uint32_t kZeros = 0x8040;  // of MXCSR: results and arguments

bool AreZeros() { return (_mm_getcsr() & kZeros) == kZeros; }
void Set(Subnormals::As as) {
  const uint32_t now = _mm_getcsr();
  const uint32_t then = as == Subnormals::As::kZeros ? now | kZeros : now & ~kZeros;
  if (now != then) _mm_setcsr(then);
}

#else

bool AreZeros() { return false; }
void Set(Subnormals::As) {}

#endif

}  // namespace

Subnormals::As Subnormals::OfThisThread() { return AreZeros() ? As::kZeros : As::kNumbers; }

Subnormals::Subnormals(As as) : before_(OfThisThread()) { Set(as); }
Subnormals::~Subnormals() { Set(before_); }

}  // namespace krafla
