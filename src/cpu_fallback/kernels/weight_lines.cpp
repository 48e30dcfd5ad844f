// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/weight_lines.h"

#include <hwy/targets.h>

namespace krafla::cpu {

bool HasBf16Products() {
#if HWY_ARCH_X86_64
  // Highway has a set with these for processors of AMD's, and another one for those of Intel's that have half precision
  // too (table_dot.cpp).
  static const bool has = (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512vbmi2");
  return has;
#else
  return false;
#endif
}

bool HasFastBf16Products() {
#if HWY_ARCH_X86_64
  static const bool has = HasBf16Products() && !__builtin_cpu_is("intel");
  return has;
#else
  return false;
#endif
}

}  // namespace krafla::cpu
