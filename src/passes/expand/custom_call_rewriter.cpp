// SPDX-License-Identifier: Apache-2.0
// Custom calls that name something HLO has an operation for: "TopK" (XLA: topk_rewriter.cc) and LAPACK's triangular
// solve, which JAX writes for the CPU platform (jaxlib/cpu/lapack_kernels.h).
#include <charconv>
#include <string_view>

#include "ir/custom_call.h"
#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// The comparator of a TopK, if it has one, must say "greater" of its first two parameters.
bool TakesLargest(const Instruction& call) {
  if (call.called().empty()) return true;
  const Computation& f = *call.called(0);
  const Instruction* root = f.root();
  return root->opcode() == Opcode::kCompare && f.parameters().size() >= 2 &&
         root->attr<CompareAttributes>().direction == ComparisonDirection::kGt &&
         root->operand(0) == f.parameters()[0] && root->operand(1) == f.parameters()[1];
}

Result<Instruction*> ToTopK(Instruction* i) {
  if (i->operand_count() != 1 || !i->operand(0)->shape().IsArray() || i->operand(0)->shape().rank() == 0 ||
      !TakesLargest(*i))
    return nullptr;
  if (i->shape().tuple_elements().size() != 2) return nullptr;
  const Shape& values = i->shape().tuple_elements()[0];
  if (!values.IsArray() || values.rank() == 0) return nullptr;
  TopKAttributes attributes;
  attributes.k = values.dim(values.rank() - 1);
  Rewriter rewrite(*i);
  auto out = rewrite.Infer(Opcode::kTopK, {i->operand(0)}, attributes);
  return out && Shape::Compatible((*out)->shape(), i->shape()) ? *out : nullptr;
}

// "uplo = 76 : ui8" in a configuration gives 'L'.
std::optional<char> Letter(std::string_view config, std::string_view key) {
  for (std::size_t at = config.find(key); at != std::string_view::npos; at = config.find(key, at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(config[at - 1])) || config[at - 1] == '_')) continue;
    std::size_t n = at + key.size();
    while (n < config.size() && (config[n] == ' ' || config[n] == '=' || config[n] == '"')) ++n;
    int value = 0;
    auto [end, error] = std::from_chars(config.data() + n, config.data() + config.size(), value);
    if (error == std::errc() && value > 0 && value < 128) return static_cast<char>(value);
  }
  return std::nullopt;
}

Result<Instruction*> ToTriangularSolve(Instruction* i) {
  const std::string& config = i->metadata().backend_config;
  auto side = Letter(config, "side"), uplo = Letter(config, "uplo"), diag = Letter(config, "diag"),
       trans = Letter(config, "trans_x");
  if (i->operand_count() != 2 || !side || !uplo || !diag || !trans) return nullptr;
  TriangularSolveAttributes attributes;
  attributes.left_side = *side == 'L';
  attributes.lower = *uplo == 'L';
  attributes.unit_diagonal = *diag == 'U';
  attributes.transpose_a = *trans == 'T'   ? TriangularTranspose::kTranspose
                           : *trans == 'C' ? TriangularTranspose::kAdjoint
                                           : TriangularTranspose::kNoTranspose;
  Rewriter rewrite(*i);
  auto out = rewrite.Infer(Opcode::kTriangularSolve, {i->operand(0), i->operand(1)}, attributes);
  return out && Shape::Compatible((*out)->shape(), i->shape()) ? *out : nullptr;
}

}  // namespace

Result<bool> CustomCallRewriter(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kCustomCall, [](Instruction* i) -> Result<Instruction*> {
    switch (CustomCallTargetOf(*i)) {
#define KRAFLA_LAPACK_SOLVE(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
      return ToTriangularSolve(i);
      case CustomCallTarget::kTopK: return ToTopK(i);
#define KRAFLA_CUSTOM_CALL(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_LAPACK_SOLVE(Enum, name)
#define KRAFLA_COMPUTATION(Enum, name)
#define KRAFLA_DECOMPOSITION(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
      case CustomCallTarget::kPadToStatic:
      case CustomCallTarget::kSliceToDynamic:
      case CustomCallTarget::kUnknown: return nullptr;
    }
    KRAFLA_UNREACHABLE();
  });
}

}  // namespace krafla
