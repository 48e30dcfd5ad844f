// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/table_dot.h"

#include <gtest/gtest.h>

namespace krafla::cpu {
namespace {

// Files that choose their instruction sets are compiled for these, whatever other kernels are compiled for.
TEST(TableDot, IsThereWhereTheProcessorHasIt) {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool has = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi2");
#else
  const bool has = false;
#endif
  for (const ElementType scales : {ElementType::kF32, ElementType::kF16, ElementType::kBF16})
    for (const TableKind kind : {TableKind::kProducts, TableKind::kDifferences, TableKind::kQuotients})
      for (const TableForm form : {TableForm::kColumnPairs, TableForm::kRowPairs, TableForm::kWords})
        EXPECT_EQ(FindTableDot(scales, kind, form) != nullptr, has);
  EXPECT_EQ(FindTableDot(ElementType::kS8, TableKind::kProducts, TableForm::kWords), nullptr);
}

}  // namespace
}  // namespace krafla::cpu
