// SPDX-License-Identifier: Apache-2.0
// Makers of what joins programs together: collectives, dynamic sizes, custom calls, nested control flow, scans, and the
// decompositions of matrices whose factors are whole numbers, so that every order of their sums gives the same bits.
#include <algorithm>
#include <utility>

#include "graph_maker.h"

namespace krafla::fuzz {

std::vector<std::vector<int64_t>> GraphMaker::Groups(int64_t devices) {
  std::vector<std::vector<int64_t>> groups;
  if (random_.Chance(25)) return groups;  // none: all of them
  // Now and then one device too many, which nobody can serve.
  if (random_.Chance(4)) ++devices;
  Dims order = Permutation(devices);
  int64_t size = devices;
  if (devices % 2 == 0 && random_.Chance(50)) size = random_.Chance(50) ? devices / 2 : 1;
  for (int64_t i = 0; i < devices; ++i) {
    if (i % size == 0) groups.emplace_back();
    groups.back().push_back(order[static_cast<std::size_t>(i)]);
  }
  return groups;
}

Instruction* GraphMaker::Collective() {
  const int64_t replicas = module_.replica_count, partitions = module_.num_partitions;
  if (random_.Chance(15)) return Add(random_.Chance(50) ? Opcode::kReplicaId : Opcode::kPartitionId, {});
  Instruction* a = Any(1);
  if (a == nullptr) return nullptr;
  const ElementType type = a->shape().element_type();
  const int64_t dimension = random_.Below(a->shape().rank()), size = a->shape().dim(dimension);
  CollectiveAttributes attributes;
  const bool across_partitions = partitions > 1 && (replicas == 1 || random_.Chance(50));
  if (across_partitions) attributes.channel_id = ++channels_;
  switch (random_.Below(6)) {
    case 0:
    case 1: {
      // With global ids a group names devices of both kinds; without, its channel makes it all partitions of its
      // replicas.
      if (across_partitions) attributes.use_global_device_ids = true;
      const int64_t devices = across_partitions ? replicas * partitions : replicas;
      attributes.replica_groups = Groups(devices);
      if (across_partitions && attributes.replica_groups.empty()) {
        attributes.replica_groups.emplace_back();
        for (int64_t i = 0; i < devices; ++i) attributes.replica_groups[0].push_back(i);
      }
      const int64_t members = attributes.replica_groups.empty() ? devices : std::ssize(attributes.replica_groups[0]);
      Opcode opcode = ReducingOpcode(type);
      const bool sum = opcode == Opcode::kAdd;
      if (sum) a = Exact(a, members + 1);
      if (a == nullptr) return nullptr;
      const bool scatter = size > 0 && size % members == 0 && random_.Chance(40);
      if (scatter) attributes.dimension = dimension;
      Instruction* made =
          Add(scatter ? Opcode::kReduceScatter : Opcode::kAllReduce, {a}, attributes, {Reducer(opcode, type)});
      return sum ? PlainZero(made) : made;
    }
    case 2: {
      if (across_partitions) attributes.use_global_device_ids = true;
      const int64_t devices = across_partitions ? replicas * partitions : replicas;
      attributes.replica_groups = Groups(devices);
      if (attributes.replica_groups.empty()) {
        attributes.replica_groups.emplace_back();
        for (int64_t i = 0; i < devices; ++i) attributes.replica_groups[0].push_back(i);
      }
      attributes.dimension = dimension;
      Dims dims = a->shape().dims();
      dims[static_cast<std::size_t>(dimension)] *= std::ssize(attributes.replica_groups[0]);
      auto shape = Shape::MakeArray(type, dims);
      return shape ? Add(Opcode::kAllGather, {a}, attributes, {}, &*shape) : nullptr;
    }
    case 3: {
      const int64_t devices = across_partitions ? partitions : replicas;
      attributes.replica_groups = Groups(devices);
      const int64_t members = attributes.replica_groups.empty() ? devices : std::ssize(attributes.replica_groups[0]);
      if (size == 0 || size % members != 0) return nullptr;
      attributes.dimension = dimension;
      return Add(Opcode::kAllToAll, {a}, attributes);
    }
    case 4: {
      const int64_t devices = across_partitions ? partitions : replicas;
      Dims order = Permutation(devices);
      for (int64_t i = 0; i < devices; ++i)
        if (random_.Chance(80)) attributes.source_target_pairs.emplace_back(i, order[static_cast<std::size_t>(i)]);
      return Add(Opcode::kCollectivePermute, {a}, attributes);
    }
    default: {
      const int64_t devices = across_partitions ? partitions : replicas;
      attributes.replica_groups = Groups(devices);
      if (attributes.replica_groups.empty()) return nullptr;
      return Add(Opcode::kCollectiveBroadcast, {a}, attributes);
    }
  }
}

// A size that is known at run time only, a chain over it, and what makes it static again.
Instruction* GraphMaker::DynamicSize() {
  Instruction* a = Any(1);
  if (a == nullptr || a->shape().IsDynamic()) return nullptr;
  const int64_t dimension = random_.Below(a->shape().rank()), bound = a->shape().dim(dimension);
  ElementType type = a->shape().element_type();
  Instruction* size = Add(Opcode::kClamp, {Constant(ElementType::kS32, 0), ScalarInteger(),
                                           Constant(ElementType::kS32, static_cast<double>(bound))});
  if (size == nullptr) return nullptr;
  Instruction* value = Add(Opcode::kSetDimensionSize, {a, size}, DimensionsAttributes{Dims{dimension}});
  if (value == nullptr) return nullptr;
  value = Chain(*c_, value, static_cast<int>(random_.Between(0, 2)), false);
  switch (random_.Below(4)) {
    case 0: return Add(Opcode::kGetDimensionSize, {value}, DimensionsAttributes{Dims{dimension}});
    case 1: {
      Opcode opcode = ReducingOpcode(type);
      const bool sum = opcode == Opcode::kAdd;
      if (sum) value = Exact(value, bound + 1);
      Instruction* made = Add(Opcode::kReduce, {value, Identity(opcode, type)}, DimensionsAttributes{Dims{dimension}},
                              {Reducer(opcode, type)});
      return sum ? PlainZero(made) : made;
    }
    case 2: {
      Instruction* joined = Add(Opcode::kConcatenate, {value, value}, DimensionsAttributes{Dims{dimension}});
      return Add(Opcode::kGetDimensionSize, {joined}, DimensionsAttributes{Dims{dimension}});
    }
    default: {
      // The whole of it again: what lies past the size is what was there.
      Instruction* whole = Constant(ElementType::kS32, static_cast<double>(bound));
      Opcode opcode = Opcode::kMaximum;
      if (type == ElementType::kPred || IsComplex(type)) return nullptr;
      Instruction* reduced = Add(Opcode::kReduce, {value, Identity(opcode, type)},
                                 DimensionsAttributes{Dims{dimension}}, {Reducer(opcode, type)});
      return whole == nullptr ? nullptr : reduced;
    }
  }
}

Instruction* GraphMaker::CustomCall() {
  Instruction* a = Any();
  if (a == nullptr) return nullptr;
  static constexpr const char* kSame[] = {"Sharding", "LayoutConstraint", "MoveToHost", "MoveToDevice",
                                          "annotate_device_placement"};
  CustomCallAttributes attributes;
  // A target that nobody has, and calls whose results are not what the target gives: refused by all alike.
  attributes.target = random_.Chance(4) ? "NobodyHasThis" : kSame[random_.Below(std::ssize(kSame))];
  Shape shape = a->shape();
  if (random_.Chance(3)) {
    Dims dims = shape.dims();
    dims.push_back(2);
    auto other = Shape::MakeArray(shape.element_type(), dims);
    if (!other) return nullptr;
    shape = *other;
  }
  return Add(Opcode::kCustomCall, {a}, attributes, {}, &shape);
}

// cholesky and triangular-solve of matrices that were multiplied of small whole ones, with powers of two on the
// diagonal.
Instruction* GraphMaker::Decomposition() {
  static constexpr ElementType kTypes[] = {ElementType::kF32, ElementType::kF32, ElementType::kF64, ElementType::kC64};
  ElementType type = kTypes[random_.Below(std::ssize(kTypes))];
  const int64_t n = random_.Between(1, 5), batch = random_.Between(1, 3);
  Dims square = {batch, n, n};
  Instruction* values = Like(IsComplex(type) ? ElementType::kF32 : type, square);
  values = PlainZero(Whole(values, 1));
  if (values == nullptr) return nullptr;
  values = As(values, type);
  auto iota = [&](int64_t dimension) {
    return AddOf(Opcode::kIota, ElementType::kS32, square, {}, IotaAttributes{dimension});
  };
  auto compare = [&](ComparisonDirection direction) {
    CompareAttributes attributes;
    attributes.direction = direction;
    return Add(Opcode::kCompare, {iota(1), iota(2)}, attributes);
  };
  auto shape = Shape::MakeArray(type, square);
  if (!shape || values == nullptr) return nullptr;
  Instruction* lower = Add(Opcode::kSelect, {compare(ComparisonDirection::kGt), values, Filled(*shape, 0)});
  lower = Add(Opcode::kSelect, {compare(ComparisonDirection::kEq), Filled(*shape, random_.Chance(50) ? 1 : 2), lower});
  if (lower == nullptr) return nullptr;
  if (random_.Chance(50)) {
    DotAttributes dot;
    dot.lhs_batch = dot.rhs_batch = Dims{0};
    dot.lhs_contracting = dot.rhs_contracting = Dims{2};
    const bool keeps_lower = random_.Chance(50);
    Instruction* made =
        Add(Opcode::kCholesky, {Add(Opcode::kDot, {lower, lower}, dot)}, CholeskyAttributes{keeps_lower});
    // XLA leaves the other triangle to the implementation.
    return PlainZero(Add(Opcode::kSelect, {compare(keeps_lower ? ComparisonDirection::kGe : ComparisonDirection::kLe),
                                           made, Filled(*shape, 0)}));
  }
  TriangularSolveAttributes solve;
  solve.left_side = random_.Chance(50);
  solve.lower = true;
  solve.unit_diagonal = random_.Chance(30);
  solve.transpose_a = random_.Chance(50) ? TriangularTranspose::kNoTranspose : TriangularTranspose::kTranspose;
  const int64_t columns = random_.Between(1, 4);
  Dims sides = solve.left_side ? Dims{batch, n, columns} : Dims{batch, columns, n};
  Instruction* b = As(PlainZero(Whole(Like(ElementType::kF32, sides), 3)), type);
  return PlainZero(Add(Opcode::kTriangularSolve, {lower, b}, solve));
}

// Of two and four points: their roots of unity are whole numbers.
Instruction* GraphMaker::Transform() {
  const int64_t length = random_.Chance(50) ? 2 : 4;
  Dims dims = {random_.Between(1, 5), length};
  FftAttributes attributes;
  attributes.length = Dims{length};
  const int64_t kind = random_.Below(3);
  attributes.type = kind == 0 ? FftType::kFft : kind == 1 ? FftType::kIfft : FftType::kRfft;
  Instruction* a = Exact(Like(kind == 2 ? ElementType::kF32 : ElementType::kC64, dims), 8);
  return PlainZero(Add(Opcode::kFft, {a}, attributes));
}

GraphMaker::Ops GraphMaker::Inside(Computation* computation, const Ops& values,
                                   const std::vector<const Shape*>& results) {
  Computation* outer = std::exchange(c_, computation);
  Ops pool = std::exchange(pool_, values), out;
  ++depth_;
  for (int64_t i = random_.Between(1, 3); i > 0; --i) MakeOne();
  for (const Shape* shape : results) {
    Instruction* last = pool_.back();
    const bool fits = std::ranges::equal(last->shape().dims(), shape->dims()) && !last->shape().IsDynamic();
    Instruction* made =
        fits && out.empty() ? As(last, shape->element_type()) : Like(shape->element_type(), shape->dims());
    out.push_back(made == nullptr ? Filled(*shape, 0) : made);
  }
  --depth_;
  pool_ = std::move(pool);
  c_ = outer;
  return out;
}

// Loops and branches in one another, whose bodies are made of everything else.
Instruction* GraphMaker::Nest() {
  if (depth_ >= 3) return nullptr;
  Instruction* a = Any();
  if (a == nullptr || a->shape().IsDynamic()) return nullptr;
  const Shape carried = a->shape();
  // Devices may take different branches, in which none may wait for the others.
  const bool branches = random_.Chance(50);
  auto body = [&](Computation* computation, Instruction* value) {
    branches_ += branches ? 1 : 0;
    const Ops made = Inside(computation, {value}, {&carried});
    branches_ -= branches ? 1 : 0;
    return made[0];
  };
  if (branches) {
    Instruction* index = ScalarInteger();
    if (index == nullptr) return nullptr;
    std::vector<Computation*> called;
    Ops operands = {index};
    for (int64_t i = random_.Between(1, 3); i > 0; --i) {
      Computation* branch = module_.AddComputation("nested_branch");
      Instruction* p = AddParameter(*branch, 0, carried);
      branch->set_root(body(branch, p));
      called.push_back(branch);
      operands.push_back(a);
    }
    return Add(Opcode::kConditional, operands, {}, called);
  }
  auto state = AddTuple(*c_, {Constant(ElementType::kS32, 0), a});
  if (!state) return nullptr;
  const Shape shape = (*state)->shape();
  Computation* condition = module_.AddComputation("nested_more");
  Instruction* p = AddParameter(*condition, 0, shape);
  CompareAttributes less;
  less.direction = ComparisonDirection::kLt;
  Instruction* trips = AddScalarConstant(*condition, ElementType::kS32, static_cast<double>(random_.Between(0, 4)));
  condition->set_root(*AddInferred(*condition, Opcode::kCompare, {*AddGetTupleElement(*condition, p, 0), trips}, less));
  Computation* turn = module_.AddComputation("nested_turn");
  p = AddParameter(*turn, 0, shape);
  Instruction* i = *AddGetTupleElement(*turn, p, 0);
  Instruction* x = body(turn, *AddGetTupleElement(*turn, p, 1));
  i = *AddInferred(*turn, Opcode::kAdd, {i, AddScalarConstant(*turn, ElementType::kS32, 1)});
  turn->set_root(*AddTuple(*turn, {i, x}));
  Instruction* made = Add(Opcode::kWhile, {*state}, WhileAttributes{}, {condition, turn});
  if (made == nullptr) return nullptr;
  return *AddGetTupleElement(*c_, made, 1);
}

// A running combination along a dimension, as the opcode of its own.
Instruction* GraphMaker::Scan() {
  Instruction* a = Any(1);
  if (a == nullptr || a->shape().IsDynamic()) return nullptr;
  ElementType type = a->shape().element_type();
  if (IsComplex(type)) return nullptr;
  ScanAttributes attributes;
  attributes.dimension = random_.Below(a->shape().rank());
  attributes.num_carries = 1;
  attributes.is_reverse = random_.Chance(40);
  attributes.is_associative = random_.Chance(50);
  Opcode opcode = ReducingOpcode(type);
  const bool sum = opcode == Opcode::kAdd;
  if (sum) a = Exact(a, a->shape().dim(attributes.dimension) + 1);
  if (a == nullptr) return nullptr;
  Dims rest;
  for (int64_t i = 0; i < a->shape().rank(); ++i)
    if (i != attributes.dimension) rest.push_back(a->shape().dim(i));
  auto carry = Shape::MakeArray(type, rest);
  if (!carry) return nullptr;
  Computation* step = module_.AddComputation("step");
  Instruction* x = AddParameter(*step, 0, *carry);
  Instruction* y = AddParameter(*step, 1, *carry);
  auto next = AddInferred(*step, opcode, {x, y});
  if (!next) return nullptr;
  step->set_root(*AddTuple(*step, {*next, *next}));
  auto init = AddBroadcastScalar(*c_, Identity(opcode, type), rest);
  if (!init) return nullptr;
  Instruction* made = Add(Opcode::kScan, {a, *init}, attributes, {step});
  if (made == nullptr) return nullptr;
  Keep(sum ? PlainZero(*AddGetTupleElement(*c_, made, 1)) : *AddGetTupleElement(*c_, made, 1));
  Instruction* running = *AddGetTupleElement(*c_, made, 0);
  return sum ? PlainZero(running) : running;
}

}  // namespace krafla::fuzz
