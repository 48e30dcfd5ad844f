// SPDX-License-Identifier: Apache-2.0
// Makers of operations on several arrays at once, whose computations mix them, of arrays of many dimensions, and of
// what lies side by side in batches.
#include <algorithm>

#include "graph_maker.h"

namespace krafla::fuzz {

Computation* GraphMaker::ReducerOfMany(const std::vector<Opcode>& opcodes, const std::vector<ElementType>& types) {
  Computation* out = module_.AddComputation("combine_each");
  Ops parameters, results;
  for (std::size_t i = 0; i < 2 * types.size(); ++i)
    parameters.push_back(AddParameter(*out, static_cast<int64_t>(i), Shape::MakeScalar(types[i % types.size()])));
  for (std::size_t i = 0; i < types.size(); ++i) {
    auto made = AddInferred(*out, opcodes[i], {parameters[i], parameters[types.size() + i]});
    results.push_back(made ? *made : parameters[i]);
  }
  out->set_root(*AddTuple(*out, results));
  return out;
}

// The same product with a result of a wider type, as of bf16 in f32; itself where no wider one is common.
Instruction* GraphMaker::Widened(Instruction* product) {
  if (product == nullptr) return nullptr;
  const ElementType type = product->shape().element_type();
  ElementType wide = type;
  if (IsFloat(type)) wide = BitWidth(type) < 32 ? ElementType::kF32 : ElementType::kF64;
  else if (IsIntegral(type) && BitWidth(type) <= 8) wide = ElementType::kS32;
  if (wide == type || product->shape().IsDynamic()) return product;
  return AddOf(product->opcode(), wide, product->shape().dims(),
               Ops(product->operands().begin(), product->operands().end()), product->attributes());
}

// Several arrays of one size and of any types, folded together, along dimensions or in windows.
Instruction* GraphMaker::ReductionOfMany() {
  Instruction* a = Any(1);
  if (a == nullptr || a->shape().IsDynamic()) return nullptr;
  const Dims dims = a->shape().dims();
  const bool in_windows = random_.Chance(40);
  WindowAttributes windows;
  Dims which;
  int64_t terms = 2;
  for (int64_t i = 0; i < dims.ssize(); ++i) {
    WindowDim dim;
    const int64_t size = dims[static_cast<std::size_t>(i)];
    if (in_windows && random_.Chance(60)) {
      dim.size = random_.Between(1, std::clamp<int64_t>(size, 1, 4));
      dim.stride = random_.Between(1, 3);
      dim.padding_low = random_.Between(-1, dim.size);
      dim.padding_high = random_.Between(-1, dim.size);
      if (random_.Chance(15)) dim.window_dilation = 2;
      if (random_.Chance(15)) dim.base_dilation = random_.Between(2, 3);
      terms *= dim.size;
    } else if (!in_windows && random_.Chance(50)) {
      which.push_back(i);
      terms *= std::max<int64_t>(1, size);
    }
    windows.window.push_back(dim);
  }
  Ops operands, starts;
  std::vector<Opcode> opcodes;
  std::vector<ElementType> types;
  for (int64_t n = random_.Between(2, 4); n > 0; --n) {
    Instruction* x = operands.empty() ? a : Like(RandomType(), dims);
    if (x == nullptr) return nullptr;
    const ElementType type = x->shape().element_type();
    const Opcode opcode = ReducingOpcode(type);
    // NaNs and zeros of either sign would show the order.
    x = opcode == Opcode::kAdd ? Exact(x, terms) : PlainZero(Whole(x, 50));
    if (x == nullptr) return nullptr;
    operands.push_back(x);
    starts.push_back(Identity(opcode, type));
    opcodes.push_back(opcode);
    types.push_back(type);
  }
  Computation* combiner = ReducerOfMany(opcodes, types);
  operands.insert(operands.end(), starts.begin(), starts.end());
  Instruction* made = in_windows ? Add(Opcode::kReduceWindow, operands, windows, {combiner})
                                 : Add(Opcode::kReduce, operands, DimensionsAttributes{which}, {combiner});
  if (made == nullptr) return nullptr;
  Instruction* last = nullptr;
  for (std::size_t i = 0; i < types.size(); ++i) {
    last = *AddGetTupleElement(*c_, made, static_cast<int64_t>(i));
    if (opcodes[i] == Opcode::kAdd) last = PlainZero(last);
    if (i + 1 < types.size()) Keep(last);
  }
  return last;
}

// By one key, and by another where that is the same, in any direction each; with up to four arrays carried along.
Instruction* GraphMaker::SortByKeys() {
  Instruction* first = WithoutNan(AnyOf(type_set::kFloat | type_set::kInt, 1));
  if (first == nullptr || first->shape().IsDynamic()) return nullptr;
  const Dims dims = first->shape().dims();
  Ops operands = {first};
  std::vector<ElementType> types = {first->shape().element_type()};
  for (int64_t n = random_.Between(1, 5); n > 0; --n) {
    const ElementType type = operands.size() == 1 && random_.Chance(50) ? ElementType::kS32 : RandomType();
    Instruction* x = Like(type, dims);
    if (operands.size() == 1) x = IsComplex(type) ? Like(ElementType::kU8, dims) : WithoutNan(x);
    if (x == nullptr) return nullptr;
    operands.push_back(x);
    types.push_back(x->shape().element_type());
  }
  Computation* less = module_.AddComputation("less_by_keys");
  Ops p;
  for (std::size_t i = 0; i < 2 * types.size(); ++i)
    p.push_back(AddParameter(*less, static_cast<int64_t>(i), Shape::MakeScalar(types[i / 2])));
  const auto direction = [&] { return random_.Chance(50) ? ComparisonDirection::kLt : ComparisonDirection::kGt; };
  Instruction* before = Compared(*less, p[0], p[1], direction());
  Instruction* same = Compared(*less, p[0], p[1], ComparisonDirection::kEq);
  Instruction* then = Compared(*less, p[2], p[3], direction());
  if (before == nullptr || same == nullptr || then == nullptr) return nullptr;
  less->set_root(*AddInferred(*less, Opcode::kOr, {before, *AddInferred(*less, Opcode::kAnd, {same, then})}));
  const int64_t dim = random_.Below(dims.ssize());
  Instruction* made = Add(Opcode::kSort, operands, SortAttributes{dim, true}, {less});
  if (made == nullptr) return nullptr;
  for (std::size_t i = 1; i < types.size(); ++i) Keep(*AddGetTupleElement(*c_, made, static_cast<int64_t>(i)));
  return *AddGetTupleElement(*c_, made, 0);
}

// Windows of a batch of arrays, each at places of its own; or several arrays that get updates at the same places.
Instruction* GraphMaker::BatchedPlaces() {
  Instruction* a = Any(2);
  if (a == nullptr || a->shape().IsDynamic() || a->shape().element_count() == 0) return nullptr;
  const Dims dims = a->shape().dims();
  const int64_t rank = dims.ssize(), batch = dims[0], places = random_.Between(1, 9),
                depth = random_.Between(1, rank - 1);
  // Indices [batch, places, depth]; the first dimension goes along with the operand's.
  GatherAttributes gather;
  gather.operand_batching_dims = gather.start_indices_batching_dims = Dims{0};
  gather.index_vector_dim = 2;
  gather.slice_sizes.push_back(1);
  Dims out = {batch, places};
  for (int64_t i = 1; i < rank; ++i) {
    const bool indexed = i <= depth;
    if (indexed) gather.start_index_map.push_back(i);
    const int64_t size = indexed && random_.Chance(60) ? 1 : random_.Between(1, dims[static_cast<std::size_t>(i)]);
    gather.slice_sizes.push_back(size);
    if (size == 1 && random_.Chance(60)) {
      gather.collapsed_slice_dims.push_back(i);
    } else {
      gather.offset_dims.push_back(out.ssize());
      out.push_back(size);
    }
  }
  const int64_t index_dims[] = {batch, places, depth};
  Instruction* starts = Like(random_.Chance(80) ? ElementType::kS32 : ElementType::kU8, index_dims);
  if (starts == nullptr) return nullptr;
  if (random_.Chance(45)) return Add(Opcode::kGather, {a, starts}, gather);

  ScatterAttributes scatter;
  scatter.update_window_dims = gather.offset_dims;
  scatter.inserted_window_dims = gather.collapsed_slice_dims;
  scatter.scatter_dims_to_operand_dims = gather.start_index_map;
  scatter.input_batching_dims = scatter.scatter_indices_batching_dims = Dims{0};
  scatter.index_vector_dim = 2;
  Ops operands, updates;
  std::vector<Opcode> opcodes;
  std::vector<ElementType> types;
  int64_t terms = places + 1;
  for (int64_t size : gather.slice_sizes) terms *= size;
  for (int64_t n = random_.Between(1, 3); n > 0; --n) {
    Instruction* x = operands.empty() ? a : Like(RandomType(), dims);
    if (x == nullptr) return nullptr;
    const ElementType type = x->shape().element_type();
    const Opcode opcode = ReducingOpcode(type);
    Instruction* u = Like(type, out);
    const auto fit = [&](Instruction* v) { return opcode == Opcode::kAdd ? Exact(v, terms) : PlainZero(Whole(v, 50)); };
    x = fit(x), u = fit(u);
    if (x == nullptr || u == nullptr) return nullptr;
    operands.push_back(x);
    updates.push_back(u);
    opcodes.push_back(opcode);
    types.push_back(type);
  }
  const bool is_one = types.size() == 1;
  Computation* combiner = is_one ? Reducer(opcodes[0], types[0]) : ReducerOfMany(opcodes, types);
  operands.push_back(starts);
  operands.insert(operands.end(), updates.begin(), updates.end());
  Instruction* made = Add(Opcode::kScatter, operands, scatter, {combiner});
  if (made == nullptr) return nullptr;
  const auto plain = [&](Instruction* v, std::size_t i) { return opcodes[i] == Opcode::kAdd ? PlainZero(v) : v; };
  if (is_one) return plain(made, 0);
  for (std::size_t i = 1; i < types.size(); ++i)
    Keep(plain(*AddGetTupleElement(*c_, made, static_cast<int64_t>(i)), i));
  return plain(*AddGetTupleElement(*c_, made, 0), 0);
}

// A map over several arrays of different types, with loops and branches of single numbers inside.
Instruction* GraphMaker::MapOfMany() {
  Instruction* a = Any();
  if (a == nullptr || a->shape().IsDynamic() || a->shape().element_count() > 256) return nullptr;
  Ops operands = {a};
  for (int64_t n = random_.Between(1, 2); n > 0; --n) operands.push_back(Like(RandomType(), a->shape().dims()));
  Computation* body = module_.AddComputation("mapped");
  Ops p;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) return nullptr;
    p.push_back(AddParameter(*body, static_cast<int64_t>(i), Shape::MakeScalar(operands[i]->shape().element_type())));
  }
  Instruction* x = Chain(*body, p[0], static_cast<int>(random_.Between(0, 2)));
  const Shape scalar = x->shape();
  if (random_.Chance(50)) {
    Instruction* chooses = p[1];
    if (IsComplex(chooses->shape().element_type())) chooses = *AddInferred(*body, Opcode::kReal, {chooses});
    auto index = AddConvert(*body, chooses, random_.Chance(50) ? ElementType::kPred : ElementType::kS32);
    if (!index) return nullptr;
    std::vector<Computation*> branches;
    Ops chosen = {*index};
    for (int i = 0; i < 2; ++i) {
      Computation* branch = module_.AddComputation("mapped_branch");
      branch->set_root(Chain(*branch, AddParameter(*branch, 0, scalar), static_cast<int>(random_.Between(0, 2))));
      branches.push_back(branch);
      chosen.push_back(x);
    }
    auto made = AddInferred(*body, Opcode::kConditional, chosen, {}, branches);
    if (!made) return nullptr;
    x = *made;
  }
  if (random_.Chance(50)) {
    auto state = AddTuple(*body, {AddScalarConstant(*body, ElementType::kS32, 0), x});
    if (!state) return nullptr;
    Computation* condition = module_.AddComputation("mapped_more");
    Instruction* s = AddParameter(*condition, 0, (*state)->shape());
    condition->set_root(
        Compared(*condition, *AddGetTupleElement(*condition, s, 0),
                 AddScalarConstant(*condition, ElementType::kS32, static_cast<double>(random_.Between(0, 3))),
                 ComparisonDirection::kLt));
    Computation* turn = module_.AddComputation("mapped_turn");
    s = AddParameter(*turn, 0, (*state)->shape());
    Instruction* i = *AddInferred(*turn, Opcode::kAdd,
                                  {*AddGetTupleElement(*turn, s, 0), AddScalarConstant(*turn, ElementType::kS32, 1)});
    turn->set_root(*AddTuple(*turn, {i, Chain(*turn, *AddGetTupleElement(*turn, s, 1), 2)}));
    auto made = AddInferred(*body, Opcode::kWhile, {*state}, WhileAttributes{}, {condition, turn});
    if (!made) return nullptr;
    x = *AddGetTupleElement(*body, *made, 1);
  }
  body->set_root(x);
  DimensionsAttributes all;
  for (int64_t i = 0; i < a->shape().rank(); ++i) all.dimensions.push_back(i);
  return Add(Opcode::kMap, operands, all, {body});
}

// Up to eight dimensions, many of size one, in any order; then something that looks at each of them.
Instruction* GraphMaker::ManyDimensions() {
  Instruction* a = Any();
  if (a == nullptr || a->shape().IsDynamic()) return nullptr;
  Dims dims;
  for (int64_t size : a->shape().dims()) {
    for (int64_t factor : {2, 3, 2, 5})
      if (size > factor && size % factor == 0 && random_.Chance(50)) dims.push_back(factor), size /= factor;
    dims.push_back(size);
    if (random_.Chance(30)) dims.push_back(1);
  }
  while (dims.ssize() < 5) dims.insert(dims.begin() + random_.Below(dims.ssize() + 1), 1);
  if (dims.ssize() > 9) return nullptr;
  auto reshaped = AddReshape(*c_, a, dims);
  if (!reshaped) return nullptr;
  auto turned = AddTranspose(*c_, *reshaped, Permutation(dims.ssize()));
  if (!turned) return nullptr;
  Instruction* x = *turned;
  for (int64_t n = random_.Between(1, 3); n > 0 && x != nullptr; --n) {
    const Dims now = x->shape().dims();
    if (random_.Chance(50)) {
      PadAttributes pad;
      for (int64_t size : now) {
        pad.low.push_back(random_.Chance(25) ? random_.Between(size > 1 ? -1 : 0, 1) : 0);
        pad.high.push_back(random_.Chance(25) ? random_.Between(size > 2 ? -1 : 0, 1) : 0);
        pad.interior.push_back(size < 9 && random_.Chance(20) ? random_.Between(1, 2) : 0);
      }
      x = Add(Opcode::kPad, {x, Constant(x->shape().element_type(), 1)}, pad);
      continue;
    }
    Dims which;
    for (int64_t i = 0; i < now.ssize(); ++i)
      if (random_.Chance(50)) which.push_back(i);
    x = Add(Opcode::kReverse, {x}, DimensionsAttributes{which});
  }
  return x;
}

}  // namespace krafla::fuzz
