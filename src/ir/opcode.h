// SPDX-License-Identifier: Apache-2.0
// Opcodes and their facts, all read from ops.def.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "krafla/element_type.h"

namespace krafla {

enum class Opcode : uint8_t {
#define KRAFLA_OP(Enum, ...) Enum,
#include "ir/ops.def"
};

// Sets of element types (OpInfo::types).
namespace type_set {
inline constexpr uint32_t kPred = 1, kSigned = 2, kUnsigned = 4, kFloat = 8, kComplex = 16, kToken = 32, kTuple = 64;
inline constexpr uint32_t kInt = kSigned | kUnsigned, kNumeric = kInt | kFloat | kComplex;
inline constexpr uint32_t kAny = kNumeric | kPred | kToken | kTuple;
bool Contains(uint32_t set, ElementType type);
}  // namespace type_set

namespace op_trait {
inline constexpr uint32_t kElementwise = 1;  // result element i from operand elements i
inline constexpr uint32_t kCommutative = 2;
inline constexpr uint32_t kAssociative = 4;  // up to rounding
inline constexpr uint32_t kContraction = 8;
inline constexpr uint32_t kCollective = 16;
inline constexpr uint32_t kSideEffect = 32;  // never removed, merged or reordered
inline constexpr uint32_t kCalls = 64;       // may have called computations
inline constexpr uint32_t kControl = 128;
inline constexpr uint32_t kDataMovement = 256;  // result elements are operand elements, unchanged
inline constexpr uint32_t kAsyncStart = 512;
inline constexpr uint32_t kAsyncDone = 1024;
}  // namespace op_trait

// How an op reaches a device (docs/adding-an-op.md).
enum class Lowering : uint8_t {
  kDirect,        // a handful of SPIR-V instructions, guards included
  kFormula,       // a template in numerics/formulas.h
  kFamily,        // a kernel of its own
  kDataMovement,  // an index map
  kExpanded,      // rewritten to other ops before planning
  kStructural,    // no work of its own
  kCollective,    // between devices
  kHost,          // the host does it
  kDynamic,       // run-time sizes
};

struct OpInfo {
  Opcode opcode;
  std::string_view name;
  std::string_view stablehlo_name;
  int arity;
  uint32_t types;
  std::string_view attributes;  // name of the struct
  uint32_t traits;
  Lowering lowering;
  double ulp;  // f32 budget; 0 exact; negative: an error bound that depends on the problem
  std::string_view doc;
};

std::span<const OpInfo> AllOps();
const OpInfo& GetOpInfo(Opcode opcode);
inline std::string_view OpcodeName(Opcode opcode) { return GetOpInfo(opcode).name; }
std::optional<Opcode> OpcodeFromName(std::string_view hlo_name);
inline bool HasTrait(Opcode opcode, uint32_t trait) { return (GetOpInfo(opcode).traits & trait) != 0; }
// For code that asks about a few opcodes; a view of all of them is a switch.
inline bool IsOneOf(Opcode opcode, std::initializer_list<Opcode> set) {
  for (Opcode o : set)
    if (o == opcode) return true;
  return false;
}
inline bool IsElementwise(Opcode opcode) { return HasTrait(opcode, op_trait::kElementwise); }

}  // namespace krafla
