// SPDX-License-Identifier: Apache-2.0
#include "ir/opcode.h"

#include <unordered_map>

namespace krafla {
namespace {

using namespace type_set;  // NOLINT: the words of ops.def
using namespace op_trait;  // NOLINT

constexpr double Exact = 0;
constexpr double Bound = -1;
constexpr double Ulp(double n) { return n; }

constexpr OpInfo kOps[] = {
#define KRAFLA_OP(Enum, hlo, stablehlo, arity, types, attrs, rule, traits, tier, budget, doc) \
  {Opcode::Enum, hlo, stablehlo, arity, types, #attrs, traits, Lowering::k##tier, budget, doc},
#include "ir/ops.def"
};

// The kind of a row says what its operation has: a row of the wrong kind would run nowhere, or not for every type.
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, types, ...) \
  static_assert(((types) & kComplex) == 0, hlo " takes complex numbers, which KRAFLA_COMPLEX_FORMULA is for");
#define KRAFLA_COMPLEX_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, types, ...) \
  static_assert(((types) & kComplex) != 0, hlo " takes no complex numbers: it is a KRAFLA_FORMULA");
// The remainder has loops of its own on the CPU: long division does not fit vectors.
#define KRAFLA_ELEMENTWISE(Enum, hlo, stablehlo, arity, types, attributes, rule, traits, tier, budget, doc) \
  static_assert(Lowering::k##tier == Lowering::kDirect || Opcode::Enum == Opcode::kRemainder,               \
                hlo " is not made of a few instructions: it is a KRAFLA_FORMULA");
#include "ir/ops.def"

}  // namespace

bool type_set::Contains(uint32_t set, ElementType t) {
  if (t == ElementType::kPred) return set & kPred;
  if (IsSigned(t)) return set & kSigned;
  if (IsUnsigned(t)) return set & kUnsigned;
  if (IsFloat(t)) return set & kFloat;
  if (IsComplex(t)) return set & kComplex;
  if (t == ElementType::kToken) return set & kToken;
  if (t == ElementType::kTuple) return set & kTuple;
  return false;
}

std::span<const OpInfo> AllOps() { return kOps; }

const OpInfo& GetOpInfo(Opcode opcode) { return kOps[static_cast<std::size_t>(opcode)]; }

std::optional<Opcode> OpcodeFromName(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::unordered_map<std::string_view, Opcode>();
    for (const OpInfo& info : kOps) map->emplace(info.name, info.opcode);
    return map;
  }();
  auto it = by_name->find(name);
  if (it == by_name->end()) return std::nullopt;
  return it->second;
}

}  // namespace krafla
