// SPDX-License-Identifier: Apache-2.0
// Makers of forms that programs have: loops that read one array and write another row by row, state in nested tuples,
// arrays updated by parts of themselves, scatters that overwrite, bits taken apart, sorts of any number.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "graph_maker.h"

namespace krafla::fuzz {
namespace {

bool IsPlain(const Instruction* value) { return value != nullptr && !value->shape().IsDynamic(); }

// The leaves of a tuple nested to the right, (a, (b, (c, d))), and the tuple of such leaves.
std::vector<Instruction*> LeavesOf(Computation& c, Instruction* tuple, std::size_t count) {
  std::vector<Instruction*> out;
  for (; out.size() + 1 < count; tuple = *AddGetTupleElement(c, tuple, 1))
    out.push_back(*AddGetTupleElement(c, tuple, 0));
  out.push_back(tuple);
  return out;
}

Instruction* Nested(Computation& c, const std::vector<Instruction*>& leaves) {
  Instruction* out = leaves.back();
  for (std::size_t i = leaves.size() - 1; i-- > 0;) out = *AddTuple(c, {leaves[i], out});
  return out;
}

}  // namespace

// What a scan over the rows of an array becomes: each turn reads a row, forwards or backwards, carries a value on, and
// writes a row of what it made; sometimes of the array that it reads.
Instruction* GraphMaker::StackedLoop() {
  if (depth_ >= 2) return nullptr;
  Instruction* rows = Any(1);
  Instruction* carried = Any();
  if (!IsPlain(rows) || !IsPlain(carried) || rows->shape().dim(0) == 0 || rows->shape().dim(0) > 40) return nullptr;
  const int64_t count = rows->shape().dim(0);
  Dims row_dims = rows->shape().dims();
  row_dims.erase(row_dims.begin());
  const bool in_place = random_.Chance(25), backwards = random_.Chance(30);
  auto row = Shape::MakeArray(rows->shape().element_type(), row_dims);
  if (!row) return nullptr;
  const Shape& made_row = in_place || random_.Chance(50) ? *row : carried->shape();
  Dims stack_dims = made_row.dims();
  stack_dims.insert(stack_dims.begin(), count);
  auto stack_shape = Shape::MakeArray(made_row.element_type(), stack_dims);
  if (!stack_shape || stack_shape->element_count() > 8 * budget_) return nullptr;
  Instruction* stack = random_.Chance(60) ? Filled(*stack_shape, 0) : Like(made_row.element_type(), stack_dims);
  auto state = AddTuple(*c_, {Constant(ElementType::kS32, 0), carried, rows, in_place ? rows : stack});
  if (!state) return nullptr;
  const Shape shape = (*state)->shape();

  Computation* condition = module_.AddComputation("more_rows");
  Instruction* p = AddParameter(*condition, 0, shape);
  const int64_t turns = random_.Chance(80) ? count : random_.Between(0, count);
  condition->set_root(Compared(*condition, *AddGetTupleElement(*condition, p, 0),
                               AddScalarConstant(*condition, ElementType::kS32, static_cast<double>(turns)),
                               ComparisonDirection::kLt));
  Computation* turn = module_.AddComputation("row_turn");
  p = AddParameter(*turn, 0, shape);
  auto word = [&](int64_t value) { return AddScalarConstant(*turn, ElementType::kS32, static_cast<double>(value)); };
  Instruction* i = *AddGetTupleElement(*turn, p, 0);
  Instruction* at = backwards ? *AddInferred(*turn, Opcode::kSubtract, {word(count - 1), i}) : i;
  auto starts = [&](Instruction* first, int64_t rank) {
    Ops out = {first};
    while (std::ssize(out) < rank) out.push_back(word(0));
    return out;
  };
  Instruction* all_rows = *AddGetTupleElement(*turn, p, in_place ? 3 : 2);
  Ops read = starts(at, rows->shape().rank());
  read.insert(read.begin(), all_rows);
  Dims sizes = rows->shape().dims();
  sizes[0] = 1;
  Instruction* slice = *AddInferred(*turn, Opcode::kDynamicSlice, read, DynamicSliceAttributes{sizes});
  Ops values = {*AddReshape(*turn, slice, row_dims), *AddGetTupleElement(*turn, p, 1)};
  if (random_.Chance(20)) values.push_back(i);
  const Ops made = Inside(turn, values, {&carried->shape(), &made_row});
  Dims one = stack_dims;
  one[0] = 1;
  Ops write = starts(at, std::ssize(stack_dims));
  write.insert(write.begin(), {*AddGetTupleElement(*turn, p, 3), *AddReshape(*turn, made[1], one)});
  Instruction* written = *AddInferred(*turn, Opcode::kDynamicUpdateSlice, write);
  i = *AddInferred(*turn, Opcode::kAdd, {i, word(1)});
  turn->set_root(*AddTuple(*turn, {i, made[0], *AddGetTupleElement(*turn, p, 2), written}));
  Instruction* loop = Add(Opcode::kWhile, {*state}, WhileAttributes{}, {condition, turn});
  if (loop == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, loop, 1));
  return *AddGetTupleElement(*c_, loop, 3);
}

// Several arrays in a tuple of tuples through a call, a conditional or a loop, which change some and exchange others.
Instruction* GraphMaker::TupleState() {
  Ops leaves;
  for (int64_t n = random_.Between(2, 4); n > 0; --n) {
    Instruction* a = leaves.empty() || random_.Chance(50) ? Any() : Like(leaves[0]);
    if (!IsPlain(a)) return nullptr;
    leaves.push_back(a);
  }
  const std::size_t count = leaves.size();
  auto change = [&](Computation& c, Ops values) {
    for (Instruction*& value : values)
      if (random_.Chance(60)) value = Chain(c, value, static_cast<int>(random_.Between(0, 3)));
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (random_.Chance(40) && values[i]->shape() == values[i + 1]->shape()) std::swap(values[i], values[i + 1]);
    if (random_.Chance(20) && values[0]->shape() == values[1]->shape()) values[0] = values[1];
    return values;
  };
  auto computation_of = [&](const Shape& shape) {
    Computation* out = module_.AddComputation("on_tuples");
    out->set_root(Nested(*out, change(*out, LeavesOf(*out, AddParameter(*out, 0, shape), count))));
    return out;
  };
  Instruction* made = nullptr;
  Instruction* state = Nested(*c_, leaves);
  switch (random_.Below(3)) {
    case 0: made = Add(Opcode::kCall, {state}, CallAttributes{}, {computation_of(state->shape())}); break;
    case 1: {
      Instruction* index = As(ScalarInteger(), ElementType::kPred);
      if (index == nullptr) return nullptr;
      Instruction* other = random_.Chance(50) ? state : Nested(*c_, change(*c_, leaves));
      made = Add(Opcode::kConditional, {index, state, other}, {},
                 {computation_of(state->shape()), computation_of(state->shape())});
      break;
    }
    default: {
      auto counted = AddTuple(*c_, {state, Constant(ElementType::kS32, 0)});
      if (!counted) return nullptr;
      Computation* condition = module_.AddComputation("more_tuples");
      Instruction* p = AddParameter(*condition, 0, (*counted)->shape());
      condition->set_root(
          Compared(*condition, *AddGetTupleElement(*condition, p, 1),
                   AddScalarConstant(*condition, ElementType::kS32, static_cast<double>(random_.Between(0, 5))),
                   ComparisonDirection::kLt));
      Computation* turn = module_.AddComputation("tuple_turn");
      p = AddParameter(*turn, 0, (*counted)->shape());
      Instruction* i = *AddInferred(*turn, Opcode::kAdd,
                                    {*AddGetTupleElement(*turn, p, 1), AddScalarConstant(*turn, ElementType::kS32, 1)});
      Instruction* inner = *AddGetTupleElement(*turn, p, 0);
      turn->set_root(*AddTuple(*turn, {Nested(*turn, change(*turn, LeavesOf(*turn, inner, count))), i}));
      Instruction* loop = Add(Opcode::kWhile, {*counted}, WhileAttributes{}, {condition, turn});
      made = loop == nullptr ? nullptr : *AddGetTupleElement(*c_, loop, 0);
    }
  }
  if (made == nullptr) return nullptr;
  Ops results = LeavesOf(*c_, made, count);
  for (Instruction* result : results) Keep(result);
  return nullptr;
}

// Updates of an array at several places, by parts of itself as it was or is: what is done in place must not read what
// it has overwritten.
Instruction* GraphMaker::UpdatesOfItself() {
  Instruction* a = Any(1);
  if (!IsPlain(a) || a->shape().element_count() == 0) return nullptr;
  const Dims dims = a->shape().dims();
  Instruction* now = a;
  for (int64_t n = random_.Between(1, 4); n > 0 && now != nullptr; --n) {
    Dims sizes;
    Ops from, to;
    SliceAttributes fixed;
    for (int64_t size : dims) {
      const int64_t part = random_.Chance(40) ? size : random_.Between(1, size),
                    start = random_.Between(0, size - part);
      sizes.push_back(part);
      fixed.starts.push_back(start);
      fixed.limits.push_back(start + part);
      fixed.strides.push_back(1);
      from.push_back(ScalarInteger());
      to.push_back(random_.Chance(60)
                       ? Constant(ElementType::kS32, static_cast<double>(random_.Between(0, size - part)))
                       : ScalarInteger());
    }
    Instruction* source = random_.Chance(70) ? now : a;
    from.insert(from.begin(), source);
    Instruction* part = random_.Chance(50) ? Add(Opcode::kSlice, {source}, fixed)
                                           : Add(Opcode::kDynamicSlice, from, DynamicSliceAttributes{sizes});
    if (part == nullptr) return nullptr;
    if (random_.Chance(30))
      part = Add(Opcode::kReverse, {part}, DimensionsAttributes{Dims{random_.Below(std::ssize(dims))}});
    if (random_.Chance(40)) part = Chain(*c_, part, 2);
    if (random_.Chance(30)) Keep(part);
    to.insert(to.begin(), {now, part});
    now = Add(Opcode::kDynamicUpdateSlice, to);
    if (random_.Chance(25)) Keep(now);
  }
  return now;
}

// A scatter whose updates replace what was there, the last one that of those before it, or whose combiner is no plain
// operation of the two.
Instruction* GraphMaker::Overwriting() {
  Instruction* a = Any(1);
  if (!IsPlain(a) || a->shape().element_count() == 0) return nullptr;
  const ElementType type = a->shape().element_type();
  const Dims dims = a->shape().dims();
  const int64_t places = random_.Between(1, 20);
  const bool unique = random_.Chance(40);
  ScatterAttributes scatter;
  scatter.scatter_dims_to_operand_dims = Dims{0};
  scatter.index_vector_dim = 1;
  scatter.unique_indices = scatter.indices_are_sorted = unique;
  Dims updates = {places};
  for (int64_t i = 0; i < dims.ssize(); ++i) {
    if (i == 0 && (unique || random_.Chance(70))) {
      scatter.inserted_window_dims.push_back(0);
      continue;
    }
    scatter.update_window_dims.push_back(updates.ssize());
    updates.push_back(random_.Between(1, dims[static_cast<std::size_t>(i)]));
  }
  const int64_t index_dims[] = {places, 1};
  Instruction* starts = unique ? AddOf(Opcode::kIota, ElementType::kS32, index_dims, {}, IotaAttributes{0})
                               : Like(ElementType::kS32, index_dims);
  Instruction* values = Like(type, updates);
  if (starts == nullptr || values == nullptr) return nullptr;
  Computation* combiner = module_.AddComputation("replace");
  Instruction* before = AddParameter(*combiner, 0, Shape::MakeScalar(type));
  Instruction* next = AddParameter(*combiner, 1, Shape::MakeScalar(type));
  combiner->set_root(random_.Chance(75) ? next : Chain(*combiner, random_.Chance(50) ? next : before, 2));
  return Add(Opcode::kScatter, {a, starts, values}, scatter, {combiner});
}

// Numbers as several narrower ones, moved about, and as wider ones again.
Instruction* GraphMaker::BitsApart() {
  Instruction* a = WithoutNan(Any());
  if (!IsPlain(a)) return nullptr;
  const ElementType type = a->shape().element_type();
  if (IsComplex(type) || type == ElementType::kPred || BitWidth(type) < 8) return nullptr;
  static constexpr ElementType kNarrow[] = {ElementType::kU4, ElementType::kS4,  ElementType::kU8,  ElementType::kS8,
                                            ElementType::kU2, ElementType::kU16, ElementType::kS16, ElementType::kU32};
  const ElementType narrow = kNarrow[random_.Below(std::ssize(kNarrow))];
  const int64_t ratio = BitWidth(type) / BitWidth(narrow);
  if (ratio < 2) return nullptr;
  Dims dims = a->shape().dims();
  dims.push_back(ratio);
  Instruction* parts = AddOf(Opcode::kBitcastConvert, narrow, dims, {a});
  if (parts == nullptr || random_.Chance(30)) return parts;
  if (random_.Chance(40)) parts = Add(Opcode::kReverse, {parts}, DimensionsAttributes{Dims{dims.ssize() - 1}});
  if (random_.Chance(40)) parts = Chain(*c_, parts, 1);
  if (random_.Chance(30)) Keep(parts);
  const ElementType wide = BitWidth(type) == 8    ? ElementType::kU8
                           : BitWidth(type) == 16 ? ElementType::kS16
                           : BitWidth(type) == 32 ? ElementType::kU32
                                                  : ElementType::kS64;
  return AddOf(Opcode::kBitcastConvert, wide, a->shape().dims(), {parts});
}

// A reduction that begins at a number of its own.
Instruction* GraphMaker::FromInitialValue() {
  Instruction* a = Any(1);
  if (!IsPlain(a)) return nullptr;
  Dims which;
  int64_t terms = 1;
  for (int64_t i = 0; i < a->shape().rank(); ++i)
    if (random_.Chance(50)) which.push_back(i), terms *= a->shape().dim(i);
  // XLA leaves it out where the dimensions reduced have one element.
  if (terms < 2) return nullptr;
  const ElementType type = a->shape().element_type();
  const Opcode opcode = ReducingOpcode(type);
  const bool sum = opcode == Opcode::kAdd;
  if (sum) a = Exact(a, terms + 4);
  Instruction* first = As(ScalarInteger(), type);
  first = sum ? Exact(first, terms + 4) : PlainZero(Whole(first, 50));
  Instruction* made = Add(Opcode::kReduce, {sum ? a : PlainZero(Whole(a, 50)), first}, DimensionsAttributes{which},
                          {Reducer(opcode, type)});
  return PlainZero(made);
}

// Of floats with NaNs and zeros of both signs, each of which are one: as array libraries sort.
Instruction* GraphMaker::SortOfAnyNumber() {
  Instruction* key = AnyOf(type_set::kFloat, 1);
  if (!IsPlain(key)) return nullptr;
  const ElementType type = key->shape().element_type();
  if (BitWidth(type) < 16) return nullptr;
  const int64_t dim = random_.Below(key->shape().rank());
  Ops operands = {key};
  for (int64_t n = random_.Below(3); n > 0; --n)
    operands.push_back(n == 1 ? AddOf(Opcode::kIota, ElementType::kS32, key->shape().dims(), {}, IotaAttributes{dim})
                              : Like(RandomType(), key->shape().dims()));
  Computation* less = module_.AddComputation("less_of_any");
  Ops p;
  for (std::size_t i = 0; i < 2 * operands.size(); ++i) {
    if (operands[i / 2] == nullptr) return nullptr;
    p.push_back(
        AddParameter(*less, static_cast<int64_t>(i), Shape::MakeScalar(operands[i / 2]->shape().element_type())));
  }
  auto one_of_each = [&](Instruction* x) {
    Instruction* zero = AddScalarConstant(*less, type, 0);
    Instruction* nan = AddScalarConstant(*less, type, std::numeric_limits<double>::quiet_NaN());
    x = *AddInferred(*less, Opcode::kSelect, {Compared(*less, x, zero, ComparisonDirection::kEq), zero, x});
    return *AddInferred(*less, Opcode::kSelect, {Compared(*less, x, x, ComparisonDirection::kNe), nan, x});
  };
  Instruction* x = one_of_each(p[0]);
  Instruction* y = one_of_each(p[1]);
  less->set_root(Compared(*less, x, y, random_.Chance(60) ? ComparisonDirection::kLt : ComparisonDirection::kGt,
                          ComparisonType::kTotalOrder));
  Instruction* made = Add(Opcode::kSort, operands, SortAttributes{dim, true}, {less});
  if (made == nullptr || operands.size() == 1) return made;
  for (std::size_t i = 1; i < operands.size(); ++i) Keep(*AddGetTupleElement(*c_, made, static_cast<int64_t>(i)));
  return *AddGetTupleElement(*c_, made, 0);
}

// Rows in groups, each group by a matrix of its own; or a sum for each group.
Instruction* GraphMaker::RaggedProduct() {
  static constexpr ElementType kTypes[] = {ElementType::kF32, ElementType::kF32, ElementType::kBF16, ElementType::kS32};
  const ElementType type = kTypes[random_.Below(std::ssize(kTypes))];
  const int64_t groups = random_.Between(1, 5), m = random_.Between(1, 33), k = random_.Between(1, 17),
                n = random_.Between(1, 20);
  const bool sums = random_.Chance(35);
  Instruction* sizes = Like(ElementType::kS32, std::array{groups});
  if (sizes == nullptr) return nullptr;
  sizes =
      Add(Opcode::kClamp, {Constant(ElementType::kS32, 0), sizes, Constant(ElementType::kS32, static_cast<double>(m))});
  RaggedDotAttributes attributes;
  attributes.lhs_ragged_dims = Dims{sums ? 1 : 0};
  attributes.dot.lhs_contracting = Dims{1};
  attributes.dot.rhs_contracting = Dims{sums ? 0 : 1};
  if (!sums) attributes.rhs_group_dims = Dims{0};
  Instruction* lhs = ExactView(type, Dims{m, k}, k, 1);
  Instruction* rhs = ExactView(type, sums ? Dims{k, n} : Dims{groups, k, n}, k, 1);
  return PlainZero(Add(Opcode::kRaggedDot, {lhs, rhs, sizes}, attributes));
}

// A few operations that the program says are one kernel.
Instruction* GraphMaker::Fused() {
  Instruction* a = Any();
  if (!IsPlain(a)) return nullptr;
  Instruction* b = Like(a);
  if (!IsPlain(b)) return nullptr;
  Computation* body = module_.AddComputation("fused");
  Instruction* x = AddParameter(*body, 0, a->shape());
  Instruction* y = AddParameter(*body, 1, b->shape());
  x = Chain(*body, x, static_cast<int>(random_.Between(0, 3)));
  if (const ElementType type = x->shape().element_type(); type != ElementType::kPred)
    x = *AddInferred(*body, IsComplex(type) || random_.Chance(50) ? Opcode::kAdd : Opcode::kMaximum, {x, y});
  const bool several = random_.Chance(40);
  body->set_root(several ? *AddTuple(*body, {x, Chain(*body, y, 1)}) : x);
  Instruction* made = Add(Opcode::kFusion, {a, b}, FusionAttributes{}, {body});
  if (made == nullptr || !several) return made;
  Keep(*AddGetTupleElement(*c_, made, 0));
  return *AddGetTupleElement(*c_, made, 1);
}

}  // namespace krafla::fuzz
