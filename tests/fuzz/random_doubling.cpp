// SPDX-License-Identifier: Apache-2.0
// Random chains whose every step takes the last two values: what follows both operands of each step of such a chain,
// and does not notice where it has been, goes 2^n ways. Deep enough that it would never come back.
#include <algorithm>

#include "graph_maker.h"

namespace krafla::fuzz {

// A step that gives the same bits on every device.
Instruction* GraphMaker::OfTwo(Computation& computation, Instruction* a, Instruction* b) {
  const ElementType type = a->shape().element_type();
  if (IsComplex(type)) {
    Instruction* same = Compared(computation, a, b, ComparisonDirection::kEq);
    auto made = AddInferred(computation, Opcode::kSelect, {same, a, b});
    return made ? *made : nullptr;
  }
  if (!IsFloat(type) && random_.Chance(60))
    return Binary(computation, random_.Chance(50) ? Opcode::kXor : Opcode::kOr, a, b);
  if (type == ElementType::kPred) return Binary(computation, Opcode::kAnd, a, b);
  if (random_.Chance(50)) {
    const auto direction = random_.Chance(50) ? ComparisonDirection::kLt : ComparisonDirection::kNe;
    auto made = AddInferred(computation, Opcode::kSelect, {Compared(computation, a, b, direction), a, b});
    return made ? *made : nullptr;
  }
  return Binary(computation, random_.Chance(50) ? Opcode::kMaximum : Opcode::kMinimum, a, b);
}

Instruction* GraphMaker::Doubled(Computation& computation, Instruction* before, Instruction* last, int length) {
  for (int i = 0; i < length; ++i) {
    Instruction* made = OfTwo(computation, last, before);
    if (made == nullptr) return last;
    before = last, last = made;
  }
  return last;
}

Instruction* GraphMaker::Doubling() {
  Instruction* last = Any();
  if (!IsStaticArray(last)) return nullptr;
  Instruction* before = Like(last->shape().element_type(), last->shape().dims());
  if (!IsStaticArray(before)) return nullptr;
  const int64_t rank = last->shape().rank();
  const bool moves = rank > 0 && random_.Chance(40);
  for (int64_t n = random_.Between(8, 16); n > 0; --n) {
    Instruction* next = Doubled(*c_, before, last, 3);
    before = last;
    // What is turned round and what is not are two places of one value.
    last = moves ? Add(Opcode::kReverse, {next}, DimensionsAttributes{Dims{random_.Below(rank)}}) : next;
    if (last == nullptr) return nullptr;
  }
  return last;
}

Instruction* GraphMaker::SortByChoices() {
  Instruction* a = Any(1);
  if (!IsStaticArray(a) || IsComplex(a->shape().element_type())) return nullptr;
  const ElementType type = a->shape().element_type();
  Computation* less = module_.AddComputation("less_by_choices");
  Ops keys;
  const Random same = random_;
  for (int64_t side : {0, 1}) {
    random_ = same;  // both sides make their keys alike
    Instruction* own = AddParameter(*less, side, Shape::MakeScalar(type));
    Instruction* one = AddScalarConstant(*less, type, 1);
    keys.push_back(Doubled(*less, one, own, static_cast<int>(random_.Between(24, 48))));
  }
  Instruction* root =
      Compared(*less, keys[0], keys[1], random_.Chance(50) ? ComparisonDirection::kLt : ComparisonDirection::kGt,
               IsFloat(type) ? ComparisonType::kTotalOrder : ComparisonType::kDefault);
  if (root == nullptr) return nullptr;
  less->set_root(root);
  return Add(Opcode::kSort, {a}, SortAttributes{random_.Below(a->shape().rank()), true}, {less});
}

// By a combiner whose steps are all its first one, so that the order of elements makes no difference.
Instruction* GraphMaker::ReductionByChoices() {
  Instruction* a = WithoutNan(Any(1));
  if (!IsStaticArray(a) || IsComplex(a->shape().element_type())) return nullptr;
  const ElementType type = a->shape().element_type();
  const Opcode opcode = type == ElementType::kPred ? Opcode::kOr
                        : random_.Chance(50)       ? Opcode::kMaximum
                                                   : Opcode::kMinimum;
  Computation* combine = module_.AddComputation("combine_by_choices");
  Instruction* before = AddParameter(*combine, 0, Shape::MakeScalar(type));
  Instruction* last = AddParameter(*combine, 1, Shape::MakeScalar(type));
  for (int64_t n = random_.Between(24, 48); n > 0; --n) {
    Instruction* next = Binary(*combine, opcode, last, before);
    if (next == nullptr) return nullptr;
    before = last, last = next;
  }
  combine->set_root(last);
  Instruction* start = Identity(opcode, type);
  if (random_.Chance(50))
    return Add(Opcode::kReduce, {a, start}, DimensionsAttributes{Dims{random_.Below(a->shape().rank())}}, {combine});
  WindowAttributes window;
  for (int64_t d = 0; d < a->shape().rank(); ++d) {
    WindowDim of;
    of.size = std::min<int64_t>(a->shape().dims()[d], random_.Between(1, 3));
    window.window.push_back(of);
  }
  return Add(Opcode::kReduceWindow, {a, start}, window, {combine});
}

}  // namespace krafla::fuzz
