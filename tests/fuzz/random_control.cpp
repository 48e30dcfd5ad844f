// SPDX-License-Identifier: Apache-2.0
// Random loops, branches and other operations that call computations, and what is made of several operations.
#include <algorithm>
#include "graph_maker.h"

namespace krafla::fuzz {

Instruction* GraphMaker::Chain(Computation& computation, Instruction* value, int length, bool with_constants) {
  ElementType type = value->shape().element_type();
  for (int i = 0; i < length; ++i) {
    Opcode opcode = random_.Chance(50) ? Opcode::kAdd : Opcode::kMultiply;
    if (type != ElementType::kPred && !IsComplex(type) && random_.Chance(30)) opcode = Opcode::kMaximum;
    if (IsFloat(type) && random_.Chance(20)) opcode = Opcode::kTanh;
    Ops operands = {value};
    if (GetOpInfo(opcode).arity == 2) {
      auto other = AddBroadcastScalar(computation,
                                      AddScalarConstant(computation, type, static_cast<double>(random_.Between(0, 3))),
                                      value->shape().dims());
      operands.push_back(other && with_constants && random_.Chance(60) ? *other : value);
    }
    auto made = AddInferred(computation, opcode, operands);
    if (made) value = *made;
  }
  return value;
}

// A counted loop over a counter, an array, and one that only rides along.
Instruction* GraphMaker::Loop() {
  Instruction* a = Any();
  Instruction* b = Any();
  Instruction* trips =
      random_.Chance(70) ? Constant(ElementType::kS32, static_cast<double>(random_.Between(0, 5))) : ScalarInteger();
  if (a == nullptr || b == nullptr || trips == nullptr) return nullptr;
  // A number from memory may be anything: at most seven turns.
  trips = Add(Opcode::kMinimum, {trips, Constant(ElementType::kS32, 7)});
  auto state = AddTuple(*c_, {Constant(ElementType::kS32, 0), trips, a, b});
  if (!state) return nullptr;
  const Shape shape = (*state)->shape();
  Computation* condition = module_.AddComputation("more");
  Instruction* p = AddParameter(*condition, 0, shape);
  CompareAttributes less;
  less.direction = ComparisonDirection::kLt;
  condition->set_root(*AddInferred(*condition, Opcode::kCompare,
                                   {*AddGetTupleElement(*condition, p, 0), *AddGetTupleElement(*condition, p, 1)},
                                   less));
  Computation* body = module_.AddComputation("turn");
  p = AddParameter(*body, 0, shape);
  Instruction* i = *AddGetTupleElement(*body, p, 0);
  Instruction* x = *AddGetTupleElement(*body, p, 2);
  Instruction* y = *AddGetTupleElement(*body, p, 3);
  i = *AddInferred(*body, Opcode::kAdd, {i, AddScalarConstant(*body, ElementType::kS32, 1)});
  x = Chain(*body, x, 2);
  if (random_.Chance(40) && Shape::Compatible(a->shape(), b->shape())) std::swap(x, y);
  body->set_root(*AddTuple(*body, {i, *AddGetTupleElement(*body, p, 1), x, y}));
  Instruction* made = Add(Opcode::kWhile, {*state}, WhileAttributes{}, {condition, body});
  if (made == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, made, 3));
  return *AddGetTupleElement(*c_, made, 2);
}

Instruction* GraphMaker::Branch() {
  Instruction* a = Any();
  Instruction* index = ScalarInteger();
  if (a == nullptr || index == nullptr) return nullptr;
  bool by_pred = random_.Chance(50);
  if (by_pred) index = As(index, ElementType::kPred);
  std::vector<Computation*> branches;
  Ops operands = {index};
  for (int64_t i = by_pred ? 2 : random_.Between(1, 4); i > 0; --i) {
    Computation* branch = module_.AddComputation("branch");
    Instruction* p = AddParameter(*branch, 0, a->shape());
    branch->set_root(Chain(*branch, p, static_cast<int>(random_.Between(0, 3))));
    branches.push_back(branch);
    operands.push_back(random_.Chance(70) ? a : Like(a));
  }
  return Add(Opcode::kConditional, operands, {}, branches);
}

Instruction* GraphMaker::Mapping() {
  Instruction* a = Any();
  if (a == nullptr) return nullptr;
  Computation* called = module_.AddComputation("called");
  if (random_.Chance(50)) {
    called->set_root(Chain(*called, AddParameter(*called, 0, a->shape()), 3));
    return Add(Opcode::kCall, {a}, CallAttributes{}, {called});
  }
  called->set_root(Chain(*called, AddParameter(*called, 0, Shape::MakeScalar(a->shape().element_type())), 2));
  DimensionsAttributes all;
  for (int64_t i = 0; i < a->shape().rank(); ++i) all.dimensions.push_back(i);
  return Add(Opcode::kMap, {a}, all, {called});
}

Instruction* GraphMaker::RandomBits() {
  bool philox = random_.Chance(50);
  int64_t words[] = {2};
  Instruction* state = Like(ElementType::kU64, words);
  static constexpr ElementType kTypes[] = {ElementType::kU32, ElementType::kU64, ElementType::kU16, ElementType::kU8};
  auto bits = Shape::MakeArray(kTypes[random_.Below(std::ssize(kTypes))], RandomDims(3));
  if (state == nullptr || !bits) return nullptr;
  auto shape = Shape::MakeTuple({state->shape(), *bits});
  Instruction* made =
      Add(Opcode::kRngBitGenerator, {state},
          RngBitGeneratorAttributes{philox ? RngAlgorithm::kPhilox : RngAlgorithm::kThreeFry}, {}, &*shape);
  if (made == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, made, 0));
  return *AddGetTupleElement(*c_, made, 1);
}

// x / sum(x) over whole numbers, less their largest: the shape of a softmax, exact.
Instruction* GraphMaker::Softmax() {
  Instruction* x = As(Any(1), ElementType::kF32);
  if (x == nullptr) return nullptr;
  int64_t last = x->shape().rank() - 1;
  Dims kept;
  for (int64_t i = 0; i < last; ++i) kept.push_back(i);
  x = Exact(x, 2 * std::max<int64_t>(1, x->shape().dim(last)));
  auto along = [&](Opcode opcode, Instruction* value) -> Instruction* {
    Instruction* reduced = Add(Opcode::kReduce, {value, Identity(opcode, ElementType::kF32)},
                               DimensionsAttributes{Dims{last}}, {Reducer(opcode, ElementType::kF32)});
    if (reduced == nullptr) return nullptr;
    auto wide = AddBroadcast(*c_, reduced, value->shape().dims(), kept);
    return wide ? *wide : nullptr;
  };
  if (x == nullptr) return nullptr;
  Instruction* moved = Add(Opcode::kSubtract, {x, along(Opcode::kMaximum, x)});
  if (moved == nullptr) return nullptr;
  Instruction* sum = PlainZero(along(Opcode::kAdd, moved));
  return Add(Opcode::kDivide, {moved, sum});
}

}  // namespace krafla::fuzz
