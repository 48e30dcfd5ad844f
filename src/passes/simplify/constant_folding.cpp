// SPDX-License-Identifier: Apache-2.0
// Computes what depends on constants only, with the evaluator, as long as the result is small or no larger than the
// constants that it replaces. Constants whose elements are all the same become broadcasts of a scalar, and those that
// count 0, 1, 2, ... an iota: kernels then need no memory for them.
#include <cstring>

#include "evaluator/evaluator.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// Iotas and broadcasts are made into operands only up to this size, and results this small are always worth it.
constexpr int64_t kFoldedElements = 1024;

bool IsSplat(const Literal& literal) {
  auto bytes = literal.bytes();
  auto width = static_cast<std::size_t>(StorageBytes(literal.shape().element_type()));
  return bytes.size() <= width || std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

bool IsCount(const Literal& literal) {
  const Shape& shape = literal.shape();
  if (shape.rank() != 1 || !IsIntegral(shape.element_type()) || shape.dim(0) < 4) return false;
  auto width = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  // Past the range of the type a count would wrap; leave that to the arithmetic.
  if (width < 8 && BitWidth(shape.element_type()) < 32 && shape.dim(0) > (1 << (BitWidth(shape.element_type()) - 1)))
    return false;
  for (int64_t n = 0; n < shape.dim(0); ++n) {
    int64_t value = 0;
    std::memcpy(&value, literal.bytes().data() + static_cast<std::size_t>(n) * width, width);
    if (value != n) return false;
  }
  return true;
}

Instruction* SimplerConstant(Instruction* i) {
  const Shape& shape = i->shape();
  if (!shape.IsArray() || shape.rank() == 0 || shape.element_count() == 0 || shape.IsDynamic()) return nullptr;
  const Literal& literal = i->literal();
  Rewriter rewrite(*i);
  if (IsSplat(literal)) {
    auto scalar = Literal::Create(Shape::MakeScalar(shape.element_type()));
    if (!scalar) return nullptr;
    std::memcpy(scalar->bytes().data(), literal.bytes().data(), scalar->bytes().size());
    return rewrite.Splat(std::move(*scalar), shape.dims());
  }
  if (IsCount(literal)) {
    Shape plain = shape;
    plain.ClearLayout();
    return rewrite.Add(Opcode::kIota, std::move(plain), {}, IotaAttributes{0});
  }
  return nullptr;
}

class Folder {
 public:
  explicit Folder(const PassOptions& options) : options_(options), budget_(options.fold_module_work_limit) {}

  // What `i` computes, as a constant; null where it does not pay or cannot be known.
  Instruction* Fold(Instruction* i) {
    if (!MayFold(*i)) return nullptr;
    int64_t constant_bytes = 0, work = i->shape().element_count();
    for (const Instruction* operand : i->operands()) {
      if (operand->IsConstant()) constant_bytes += operand->shape().byte_size();
      else if (!IsSmallGenerator(*operand)) return nullptr;
      if (!operand->shape().IsArray()) return nullptr;
      work += operand->shape().element_count();
    }
    int64_t bytes = i->shape().byte_size();
    bool small = i->shape().element_count() <= kFoldedElements && bytes <= std::max<int64_t>(256, 4 * constant_bytes);
    bool no_growth = bytes <= constant_bytes;
    if (!small && !no_growth && !(bytes <= options_.fold_byte_limit && bytes <= 2 * constant_bytes)) return nullptr;
    int64_t limit = std::min(options_.fold_work_limit, budget_);
    if (work > limit) return nullptr;

    EvaluatorOptions evaluator;
    evaluator.work_limit = limit;
    std::vector<Literal> made(i->operand_count());
    std::vector<const Literal*> values;
    for (std::size_t n = 0; n < i->operand_count(); ++n) {
      const Instruction* operand = i->operand(n);
      if (operand->IsConstant()) {
        values.push_back(&operand->literal());
        continue;
      }
      auto value = Generate(*operand, evaluator);
      if (!value) return nullptr;
      made[n] = std::move(*value);
      values.push_back(&made[n]);
    }
    auto result = EvaluateInstruction(*i, values, evaluator);
    budget_ -= result ? work : limit;
    if (!result || !Shape::Compatible(result->shape(), i->shape())) return nullptr;
    return Rewriter(*i).Constant(std::move(*result));
  }

 private:
  static bool MayFold(const Instruction& i) {
    if (i.operand_count() == 0 || !i.shape().IsArray() || !IsStatic(i)) return false;
    if (HasTrait(i.opcode(), op_trait::kSideEffect | op_trait::kCollective | op_trait::kControl |
                                 op_trait::kAsyncStart | op_trait::kAsyncDone))
      return false;
    // A broadcast is better kept as one.
    return i.opcode() != Opcode::kBroadcast && i.opcode() != Opcode::kCustomCall &&
           i.opcode() != Opcode::kSetDimensionSize;
  }

  static bool IsSmallGenerator(const Instruction& i) {
    if (i.shape().element_count() > kFoldedElements || !IsStatic(i)) return false;
    return i.opcode() == Opcode::kIota || (i.opcode() == Opcode::kBroadcast && i.operand(0)->IsConstant());
  }

  static Result<Literal> Generate(const Instruction& i, const EvaluatorOptions& options) {
    if (i.opcode() == Opcode::kIota) return EvaluateInstruction(i, {}, options);
    const Literal* operand = &i.operand(0)->literal();
    return EvaluateInstruction(i, {&operand, 1}, options);
  }

  const PassOptions& options_;
  int64_t budget_;
};

}  // namespace

Result<bool> ConstantFolding(Module& module, const PassOptions& options) {
  Folder folder(options);
  SideEffects effects;
  bool changed = false;
  for (Computation* c : ReachableComputations(module)) {
    KRAFLA_TRY(c->SortTopologically());
    std::vector<Instruction*> order;
    for (const auto& i : c->instructions()) order.push_back(i.get());
    bool folded = false;
    for (Instruction* i : order) {
      if (i->users().empty() && !i->IsRoot()) continue;
      Instruction* with = i->IsConstant() ? SimplerConstant(i) : folder.Fold(i);
      if (with == nullptr) continue;
      if (with->IsConstant())
        if (Instruction* simpler = SimplerConstant(with)) with = simpler;
      Replace(i, with);
      folded = true;
    }
    if (folded) RemoveDead(*c, effects);
    changed |= folded;
  }
  return changed;
}

}  // namespace krafla
