// SPDX-License-Identifier: Apache-2.0
// The parts that FindBlockFn is put together from: each answers for its own ops and types, null otherwise.
#pragma once

#include "cpu_fallback/kernels/block_ops.h"

namespace krafla::cpu {

BlockFn FindFloatBlock(const BlockKey& key);      // direct ops of f32 and f64
BlockFn FindIntegerBlock(const BlockKey& key);    // s32 u32 s64 u64
BlockFn FindPredicateBlock(const BlockKey& key);  // compare, select, ops on preds, is-finite
BlockFn FindConvertBlock(const BlockKey& key);    // convert, round, wrap, encode, decode, reduce-precision
BlockFn FindFormulaBlock(const BlockKey& key);    // what numerics/formulas.h defines

BlockFn FindFormatBlock(const BlockKey& key);    // round, encode, decode of any narrow float, slowly
ConvertFn FindFormatWiden(ElementType storage);  // floats of a byte
ConvertFn FindFormatNarrow(ElementType storage);

}  // namespace krafla::cpu
