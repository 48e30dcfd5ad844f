// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/block_ops.h"

#include "cpu_fallback/kernels/block_families.h"

namespace krafla::cpu {

BlockFn FindBlockFn(const BlockKey& key) {
  using plan::NodeOp;
  switch (key.op) {
    case NodeOp::kConstant:
    case NodeOp::kIndex:
    case NodeOp::kParam:
    case NodeOp::kLoad:
    case NodeOp::kBitcast: return nullptr;  // no arithmetic: the interpreter's own
    case NodeOp::kCompare: return FindPredicateBlock(key);
    case NodeOp::kConvert:
    case NodeOp::kRound:
    case NodeOp::kWrap:
    case NodeOp::kEncode:
    case NodeOp::kDecode:
    case NodeOp::kReducePrecision: return FindConvertBlock(key);
    case NodeOp::kHlo: break;
  }
  for (BlockFn (*find)(const BlockKey&) : {FindPredicateBlock, FindFloatBlock, FindIntegerBlock, FindFormulaBlock})
    if (BlockFn fn = find(key)) return fn;
  return nullptr;
}

}  // namespace krafla::cpu
