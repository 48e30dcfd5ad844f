// SPDX-License-Identifier: Apache-2.0
// Makers of what programs have seldom: batch normalisation, asynchronous forms, windows of several arrays, sorts by
// comparators of their own, generators of random numbers in loops, branches on nested tuples, tuples as parameters,
// layouts and aliases of the entry, and reductions whose order counts.
#include <algorithm>
#include <array>
#include <utility>

#include "graph_maker.h"

namespace krafla::fuzz {

// Of whole numbers, whose sums are exact, with variances that make roots powers of two. What training divides by is
// none: of it the mean and the variance alone are looked at, of a number of elements that is a power of two.
Instruction* GraphMaker::BatchNormal() {
  const ElementType type = random_.Chance(70) ? ElementType::kF32 : ElementType::kF64;
  Instruction* a = Any(1);
  if (!IsStaticArray(a) || a->shape().element_count() == 0) return nullptr;
  const Dims dims = a->shape().dims();
  const BatchNormAttributes attributes{0.5F, random_.Below(std::ssize(dims))};
  const int64_t features = dims[static_cast<std::size_t>(attributes.feature_index)];
  const int64_t terms = a->shape().element_count() / features;
  const Dims of_feature = {features};
  const auto array = [&] { return PlainZero(Exact(Like(type, dims), 8 * terms)); };
  const auto feature = [&] { return PlainZero(Whole(Like(type, of_feature), 2)); };
  const bool is_power = (terms & (terms - 1)) == 0;
  if (is_power && random_.Chance(40)) {
    Instruction* made = Add(Opcode::kBatchNormTraining, {array(), feature(), feature()}, attributes);
    if (made == nullptr) return nullptr;
    Keep(PlainZero(*AddGetTupleElement(*c_, made, 1)));
    return PlainZero(*AddGetTupleElement(*c_, made, 2));
  }
  Instruction* variance = Filled(*Shape::MakeArray(type, of_feature), random_.Chance(50) ? 0.5 : 3.5);
  if (!is_power || random_.Chance(50))
    return PlainZero(
        Add(Opcode::kBatchNormInference, {array(), feature(), feature(), feature(), variance}, attributes));
  Instruction* made = Add(Opcode::kBatchNormGrad, {array(), feature(), feature(), variance, array()}, attributes);
  if (made == nullptr) return nullptr;
  for (int64_t i = 0; i < 2; ++i) Keep(PlainZero(*AddGetTupleElement(*c_, made, i + 1)));
  return PlainZero(*AddGetTupleElement(*c_, made, 0));
}

// A copy, or a computation, that begins here and ends behind other operations.
Instruction* GraphMaker::Asynchronous() {
  Instruction* a = Any();
  if (!IsStaticArray(a)) return nullptr;
  if (random_.Chance(40)) {
    Instruction* start = Add(Opcode::kCopyStart, {a});
    if (start == nullptr) return nullptr;
    if (depth_ == 0 && random_.Chance(50)) MakeOne();
    return Add(Opcode::kCopyDone, {start});
  }
  Instruction* b = Any();
  if (!IsStaticArray(b)) return nullptr;
  Computation* called = module_.AddComputation("asynchronous");
  Instruction* x = AddParameter(*called, 0, a->shape());
  Instruction* y = AddParameter(*called, 1, b->shape());
  x = Chain(*called, x, static_cast<int>(random_.Between(0, 2)));
  y = Chain(*called, y, static_cast<int>(random_.Between(0, 2)));
  const bool both = random_.Chance(40);
  called->set_root(both ? *AddTuple(*called, {y, x}) : x);
  Instruction* stage = Add(Opcode::kAsyncStart, {a, b}, AsyncAttributes{}, {called});
  for (int64_t n = random_.Below(3); n > 0 && stage != nullptr; --n) {
    if (depth_ == 0 && random_.Chance(50)) MakeOne();
    stage = Add(Opcode::kAsyncUpdate, {stage}, AsyncAttributes{});
  }
  Instruction* done = Add(Opcode::kAsyncDone, {stage}, AsyncAttributes{});
  if (done == nullptr || !both) return done;
  Keep(*AddGetTupleElement(*c_, done, 1));
  return *AddGetTupleElement(*c_, done, 0);
}

// The largest of each window and something beside it: where it lies, or the sum of another array.
Instruction* GraphMaker::WindowOfMany() {
  Instruction* a = AnyOf(type_set::kInt | type_set::kFloat, 1);
  if (!IsStaticArray(a)) return nullptr;
  const ElementType type = a->shape().element_type();
  a = PlainZero(Whole(a, 100));
  if (a == nullptr) return nullptr;
  WindowAttributes attributes;
  for (int64_t i = 0; i < a->shape().rank(); ++i) {
    WindowDim dim;
    if (random_.Chance(60)) {
      dim.size = random_.Between(1, std::clamp<int64_t>(a->shape().dim(i), 1, 4));
      dim.stride = random_.Between(1, 2);
      dim.padding_low = random_.Between(0, dim.size - 1);
      dim.padding_high = random_.Between(0, dim.size - 1);
      if (random_.Chance(15)) dim.window_dilation = 2;
      if (random_.Chance(10)) dim.base_dilation = 2;
    }
    attributes.window.push_back(dim);
  }
  const bool has_place = random_.Chance(50);
  const ElementType other = ElementType::kS32;
  Instruction* b =
      has_place ? AddOf(Opcode::kIota, other, a->shape().dims(), {}, IotaAttributes{random_.Below(a->shape().rank())})
                : Like(other, a->shape().dims());
  Computation* combine = module_.AddComputation("of_window");
  Ops p;
  for (int64_t i = 0; i < 4; ++i) p.push_back(AddParameter(*combine, i, Shape::MakeScalar(i % 2 == 0 ? type : other)));
  if (has_place) {
    Instruction* equal = Compared(*combine, p[0], p[2], ComparisonDirection::kEq);
    Instruction* lower = Compared(*combine, p[1], p[3], ComparisonDirection::kLt);
    Instruction* takes = Binary(*combine, Opcode::kOr, Compared(*combine, p[0], p[2], ComparisonDirection::kGt),
                                Binary(*combine, Opcode::kAnd, equal, lower));
    combine->set_root(*AddTuple(*combine, {*AddInferred(*combine, Opcode::kSelect, {takes, p[0], p[2]}),
                                           *AddInferred(*combine, Opcode::kSelect, {takes, p[1], p[3]})}));
  } else {
    combine->set_root(*AddTuple(
        *combine, {Binary(*combine, Opcode::kMaximum, p[0], p[2]), Binary(*combine, Opcode::kAdd, p[1], p[3])}));
  }
  Instruction* made =
      Add(Opcode::kReduceWindow, {a, b, Identity(Opcode::kMaximum, type), Constant(other, 0)}, attributes, {combine});
  if (made == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, made, 1));
  return *AddGetTupleElement(*c_, made, 0);
}

// By two keys, or by what is computed of one.
Instruction* GraphMaker::SortByOwnOrder() {
  Instruction* first = AnyOf(type_set::kInt, 1);
  if (!IsStaticArray(first)) return nullptr;
  const Dims dims = first->shape().dims();
  const int64_t dim = random_.Below(std::ssize(dims));
  Ops operands = {first, Like(ElementType::kS32, dims), Like(RandomType(), dims)};
  if (random_.Chance(30)) operands.pop_back();
  Computation* less = module_.AddComputation("own_order");
  Ops p;
  for (std::size_t i = 0; i < 2 * operands.size(); ++i) {
    if (!IsStaticArray(operands[i / 2])) return nullptr;
    p.push_back(
        AddParameter(*less, static_cast<int64_t>(i), Shape::MakeScalar(operands[i / 2]->shape().element_type())));
  }
  const auto way = [&] { return random_.Chance(50) ? ComparisonDirection::kLt : ComparisonDirection::kGt; };
  const ElementType type = first->shape().element_type();
  switch (random_.Below(3)) {
    case 0: {  // the second key where the first ones are equal
      Instruction* before = Compared(*less, p[0], p[1], way());
      Instruction* same = Compared(*less, p[0], p[1], ComparisonDirection::kEq);
      Instruction* second = Compared(*less, p[2], p[3], way());
      less->set_root(Binary(*less, Opcode::kOr, before, Binary(*less, Opcode::kAnd, same, second)));
      break;
    }
    case 1: {  // what is left of a division by four
      Instruction* three = AddScalarConstant(*less, type, 1);
      less->set_root(
          Compared(*less, Binary(*less, Opcode::kAnd, p[0], three), Binary(*less, Opcode::kAnd, p[1], three), way()));
      break;
    }
    default: {  // a key that the comparator makes of both
      less->set_root(Compared(*less, Binary(*less, Opcode::kXor, p[2], *AddConvert(*less, p[0], ElementType::kS32)),
                              Binary(*less, Opcode::kXor, p[3], *AddConvert(*less, p[1], ElementType::kS32)), way()));
    }
  }
  Instruction* made = Add(Opcode::kSort, operands, SortAttributes{dim, true}, {less});
  if (made == nullptr) return nullptr;
  for (std::size_t i = 1; i < operands.size(); ++i) Keep(*AddGetTupleElement(*c_, made, static_cast<int64_t>(i)));
  return *AddGetTupleElement(*c_, made, 0);
}

// Complex numbers by their real parts, and what is chosen of them.
Instruction* GraphMaker::ComplexOrder() {
  Instruction* a = AnyOf(type_set::kComplex, 1);
  if (!IsStaticArray(a)) return nullptr;
  Instruction* b = Like(a);
  if (random_.Chance(40)) return Add(Opcode::kClamp, {b, a, Like(a)});
  if (random_.Chance(40)) {
    const auto direction = random_.Chance(50) ? ComparisonDirection::kEq : ComparisonDirection::kNe;
    return Add(Opcode::kSelect, {Add(Opcode::kCompare, {a, b}, CompareAttributes{direction}), b, a});
  }
  const ElementType type = a->shape().element_type();
  // The sign of a NaN is free in the parts of complex numbers (docs/decisions/0003-same-bits.md), and a total order
  // would see it.
  Computation* less = module_.AddComputation("by_size_of_real_part");
  Ops parts;
  for (int64_t i = 0; i < 2; ++i) {
    Instruction* real = *AddInferred(*less, Opcode::kReal, {AddParameter(*less, i, Shape::MakeScalar(type))});
    parts.push_back(*AddInferred(*less, Opcode::kAbs, {real}));
  }
  less->set_root(Compared(*less, parts[0], parts[1], ComparisonDirection::kLt, ComparisonType::kTotalOrder));
  return Add(Opcode::kSort, {a}, SortAttributes{random_.Below(a->shape().rank()), true}, {less});
}

// Each turn draws numbers from the state and leaves the next one.
Instruction* GraphMaker::RandomInLoop() {
  if (depth_ >= 2) return nullptr;
  const int64_t words[] = {2};
  Instruction* seed = Like(ElementType::kU64, words);
  auto bits = Shape::MakeArray(random_.Chance(50) ? ElementType::kU32 : ElementType::kU64, RandomDims(2));
  if (!IsStaticArray(seed) || !bits) return nullptr;
  auto state = AddTuple(*c_, {Constant(ElementType::kS32, 0), seed, Filled(*bits, 0)});
  if (!state) return nullptr;
  Computation* condition = module_.AddComputation("more_draws");
  Instruction* p = AddParameter(*condition, 0, (*state)->shape());
  condition->set_root(
      Compared(*condition, *AddGetTupleElement(*condition, p, 0),
               AddScalarConstant(*condition, ElementType::kS32, static_cast<double>(random_.Between(0, 4))),
               ComparisonDirection::kLt));
  Computation* turn = module_.AddComputation("draw");
  p = AddParameter(*turn, 0, (*state)->shape());
  auto drawn = Shape::MakeTuple({seed->shape(), *bits});
  if (!drawn) return nullptr;
  const RngBitGeneratorAttributes algorithm{random_.Chance(50) ? RngAlgorithm::kPhilox : RngAlgorithm::kThreeFry};
  auto draw = AddInferred(*turn, Opcode::kRngBitGenerator, {*AddGetTupleElement(*turn, p, 1)}, algorithm, {}, &*drawn);
  if (!draw) return nullptr;
  turn->set_root(*AddTuple(
      *turn,
      {Binary(*turn, Opcode::kAdd, *AddGetTupleElement(*turn, p, 0), AddScalarConstant(*turn, ElementType::kS32, 1)),
       *AddGetTupleElement(*turn, *draw, 0),
       Binary(*turn, Opcode::kXor, *AddGetTupleElement(*turn, *draw, 1), *AddGetTupleElement(*turn, p, 2))}));
  Instruction* loop = Add(Opcode::kWhile, {*state}, WhileAttributes{}, {condition, turn});
  if (loop == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, loop, 1));
  return *AddGetTupleElement(*c_, loop, 2);
}

// One of several branches, each of which takes ((a, b), a) and gives (b, (a, (a, b)), a).
Instruction* GraphMaker::BranchOnTuples() {
  Instruction *a = Any(), *b = Any(), *index = ScalarInteger();
  if (!IsStaticArray(a) || !IsStaticArray(b) || index == nullptr) return nullptr;
  auto pair = AddTuple(*c_, {a, b});
  if (!pair) return nullptr;
  auto operand = AddTuple(*c_, {*pair, a});
  if (!operand) return nullptr;
  std::vector<Computation*> branches;
  Ops operands = {index};
  for (int64_t n = random_.Between(1, 4); n > 0; --n) {
    Computation* branch = module_.AddComputation("branch_on_tuples");
    Instruction* p = AddParameter(*branch, 0, (*operand)->shape());
    Instruction* first = *AddGetTupleElement(*branch, p, 0);
    Instruction* x = random_.Chance(50) ? *AddGetTupleElement(*branch, first, 0) : *AddGetTupleElement(*branch, p, 1);
    x = Chain(*branch, x, static_cast<int>(random_.Below(3)));
    Instruction* y = Chain(*branch, *AddGetTupleElement(*branch, first, 1), static_cast<int>(random_.Below(3)));
    branch->set_root(*AddTuple(*branch, {y, *AddTuple(*branch, {x, first}), x}));
    branches.push_back(branch);
    operands.push_back(*operand);
  }
  Instruction* made = Add(Opcode::kConditional, operands, {}, branches);
  if (made == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, made, 0));
  Instruction* inner = *AddGetTupleElement(*c_, made, 1);
  Keep(*AddGetTupleElement(*c_, inner, 0));
  return *AddGetTupleElement(*c_, made, 2);
}

// Maps x -> ax + b one after the other: associative, not commutative.
Instruction* GraphMaker::ReductionInOrder() {
  Instruction* a = Any(1);
  if (!IsStaticArray(a)) return nullptr;
  const ElementType type = random_.Chance(50) ? ElementType::kS32 : ElementType::kU32;
  Instruction* factors = Like(type, a->shape().dims());
  Instruction* terms = Like(type, a->shape().dims());
  Dims along;
  for (int64_t i = 0; i < a->shape().rank(); ++i)
    if (random_.Chance(50)) along.push_back(i);
  Computation* compose = module_.AddComputation("compose");
  Ops p;
  for (int64_t i = 0; i < 4; ++i) p.push_back(AddParameter(*compose, i, Shape::MakeScalar(type)));
  compose->set_root(
      *AddTuple(*compose, {Binary(*compose, Opcode::kMultiply, p[0], p[2]),
                           Binary(*compose, Opcode::kAdd, Binary(*compose, Opcode::kMultiply, p[1], p[2]), p[3])}));
  Instruction* made = Add(Opcode::kReduce, {factors, terms, Constant(type, 1), Constant(type, 0)},
                          DimensionsAttributes{along}, {compose});
  if (made == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, made, 1));
  return *AddGetTupleElement(*c_, made, 0);
}

// A parameter ((x, y), z) in place of three.
void GraphMaker::TupleParameter() {
  std::vector<Shape> leaves;
  for (int i = 0; i < 3; ++i) {
    auto made = Shape::MakeArray(RandomType(), RandomDims(3));
    if (!made) return;
    leaves.push_back(*made);
  }
  auto inner = Shape::MakeTuple({leaves[0], leaves[1]});
  if (!inner) return;
  auto outer = Shape::MakeTuple({*inner, leaves[2]});
  if (!outer) return;
  Instruction* p = AddParameter(*c_, parameters_++, *outer);
  Instruction* first = *AddGetTupleElement(*c_, p, 0);
  Keep(*AddGetTupleElement(*c_, first, 0));
  if (random_.Chance(70)) Keep(*AddGetTupleElement(*c_, first, 1));
  Keep(*AddGetTupleElement(*c_, p, 1));
}

// Layouts of parameters and results, and results in the memory of parameters, as donated arguments have them.
void GraphMaker::EntryLayoutsAndAliases() {
  const auto with_any_layout = [&](Shape shape) {
    if (shape.IsArray() && !shape.IsDynamic()) {
      const Dims order = Permutation(shape.rank());
      Layout layout;
      layout.minor_to_major.assign(order.begin(), order.end());
      (void)shape.SetLayout(std::move(layout));
    }
    return shape;
  };
  Instruction* root = c_->root();
  if (random_.Chance(50)) {
    for (const Instruction* p : c_->parameters())
      module_.entry_layout_parameters.push_back(with_any_layout(p->shape()));
    module_.entry_layout_result = with_any_layout(root->shape());
  }
  if (random_.Chance(50)) return;
  const auto alias = [&](const Shape& result, const Dims& index, int64_t parameter) {
    const Shape& shape = c_->parameters()[static_cast<std::size_t>(parameter)]->shape();
    if (!shape.IsArray() || !(shape == result) || random_.Chance(30)) return false;
    module_.input_output_aliases.push_back({index, parameter, {}, random_.Chance(50)});
    return true;
  };
  const int64_t outputs = root->shape().IsTuple() ? std::ssize(root->shape().tuple_elements()) : 1;
  int64_t output = 0;
  for (int64_t p = 0; p < std::ssize(c_->parameters()) && output < outputs; ++p) {
    const Shape& result =
        root->shape().IsTuple() ? root->shape().tuple_elements()[static_cast<std::size_t>(output)] : root->shape();
    if (alias(result, root->shape().IsTuple() ? Dims{output} : Dims{}, p)) ++output;
  }
}

}  // namespace krafla::fuzz
