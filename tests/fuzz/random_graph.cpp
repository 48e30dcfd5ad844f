// SPDX-License-Identifier: Apache-2.0
#include "random_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "graph_maker.h"
#include "ir/mini_float.h"
#include "ir/verifier.h"

namespace krafla::fuzz {
namespace {

struct Weighted {
  ElementType type;
  int weight;
};
constexpr Weighted kWeightedTypes[] = {
    {ElementType::kF32, 34}, {ElementType::kS32, 12}, {ElementType::kPred, 7},     {ElementType::kBF16, 8},
    {ElementType::kF16, 8},  {ElementType::kU32, 6},  {ElementType::kS8, 5},       {ElementType::kU8, 5},
    {ElementType::kS64, 4},  {ElementType::kU64, 2},  {ElementType::kS16, 2},      {ElementType::kU16, 2},
    {ElementType::kF64, 3},  {ElementType::kC64, 3},  {ElementType::kF8E4M3FN, 2}, {ElementType::kF8E5M2, 1},
    {ElementType::kS4, 1},   {ElementType::kU4, 1},   {ElementType::kC128, 1}};
// Of which programs have few values, if any.
constexpr ElementType kRareTypes[] = {
    ElementType::kF8E4M3B11FNUZ, ElementType::kF8E5M2FNUZ, ElementType::kF8E4M3FNUZ, ElementType::kF8E4M3,
    ElementType::kF8E3M4,        ElementType::kF4E2M1FN,   ElementType::kS2,         ElementType::kU2,
    ElementType::kF8E8M0FNU};
constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100, 128, 129, 257};

}  // namespace

GraphMaker::GraphMaker(Module& module, uint64_t seed, const RandomGraphOptions& options)
    : module_(module),
      c_(module.AddComputation("main")),
      random_(seed),
      options_(options),
      budget_(options.max_elements) {
  module.set_entry(c_);
  if (random_.Chance(8)) budget_ = options.max_large;
  if (random_.Chance(6)) empty_percent_ = 15;
  if (options_.devices && random_.Chance(30)) {
    static constexpr std::pair<int64_t, int64_t> kDevices[] = {{2, 1}, {1, 2}, {4, 1}, {2, 2}, {1, 4}, {3, 1}};
    std::tie(module.replica_count, module.num_partitions) = kDevices[random_.Below(std::ssize(kDevices))];
  }
}

ElementType GraphMaker::RandomType() {
  if (random_.Chance(3)) return kRareTypes[random_.Below(std::ssize(kRareTypes))];
  int64_t total = 0;
  for (const Weighted& w : kWeightedTypes) total += w.weight;
  int64_t at = random_.Below(total);
  for (const Weighted& w : kWeightedTypes)
    if ((at -= w.weight) < 0) return w.type;
  return ElementType::kF32;
}

Dims GraphMaker::RandomDims(int64_t max_rank) {
  Dims dims;
  int64_t rank = random_.Between(0, max_rank), left = budget_;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = kSizes[random_.Below(std::ssize(kSizes))];
    if (random_.Chance(empty_percent_)) size = 0;
    if (budget_ > options_.max_elements && random_.Chance(30)) size *= 13;
    size = std::min(size, left);
    dims.push_back(size);
    left /= std::max<int64_t>(size, 1);
  }
  return dims;
}

Instruction* GraphMaker::Add(Opcode opcode, Ops operands, Attributes attributes, std::vector<Computation*> called,
                             const Shape* declared) {
  for (Instruction* operand : operands)
    if (operand == nullptr) return nullptr;
  auto made = AddInferred(*c_, opcode, std::move(operands), std::move(attributes), std::move(called), declared);
  return made ? *made : nullptr;
}

Instruction* GraphMaker::AddOf(Opcode opcode, ElementType type, std::span<const int64_t> dims, Ops operands,
                               Attributes attributes) {
  auto shape = Shape::MakeArray(type, dims);
  return shape ? Add(opcode, std::move(operands), std::move(attributes), {}, &*shape) : nullptr;
}

Instruction* GraphMaker::Keep(Instruction* made) {
  if (made != nullptr && made->shape().IsArray() && made->shape().element_count() <= 8 * budget_) pool_.push_back(made);
  return made;
}

// Of the whole pool, but more often of what came last, so that chains grow.
Instruction* GraphMaker::Any(int64_t min_rank) {
  for (int tries = 0; tries < 8 && !pool_.empty(); ++tries) {
    int64_t n = std::ssize(pool_);
    int64_t at = random_.Chance(60) ? n - 1 - random_.Below(std::min<int64_t>(n, 4)) : random_.Below(n);
    Instruction* found = pool_[static_cast<std::size_t>(at)];
    if (found->shape().rank() >= min_rank) return found;
  }
  Dims dims = RandomDims(4);
  while (dims.ssize() < min_rank) dims.push_back(random_.Between(1, 5));
  return Keep(Fresh(RandomType(), dims));
}

Instruction* GraphMaker::AnyOf(uint32_t types, int64_t min_rank) {
  for (int tries = 0; tries < 4; ++tries) {
    Instruction* found = Any(min_rank);
    if (found != nullptr && type_set::Contains(types, found->shape().element_type())) return found;
  }
  Instruction* found = Any(min_rank);
  for (int tries = 0; found != nullptr && tries < 50; ++tries) {
    ElementType type = RandomType();
    if (type_set::Contains(types, type)) return As(found, type);
  }
  return nullptr;
}

Instruction* GraphMaker::Fresh(ElementType type, std::span<const int64_t> dims) {
  auto shape = Shape::MakeArray(type, dims);
  if (!shape) return nullptr;
  if (dims.size() > 0 && !IsComplex(type) && type != ElementType::kPred && random_.Chance(12))
    return AddOf(Opcode::kIota, type, dims, {}, IotaAttributes{random_.Below(std::ssize(dims))});
  if (depth_ > 0 || random_.Chance(15))
    return Filled(*shape, static_cast<double>(random_.Between(-3, 5)) / (IsFloat(type) ? 2 : 1));
  return AddParameter(*c_, parameters_++, *shape);
}

Instruction* GraphMaker::Filled(const Shape& like, double value) {
  auto made = AddBroadcastScalar(*c_, Constant(like.element_type(), value), like.dims());
  return made ? *made : nullptr;
}

Instruction* GraphMaker::Like(ElementType type, std::span<const int64_t> dims) {
  Ops same, other, part;
  for (Instruction* value : pool_) {
    const Shape& shape = value->shape();
    if (std::ranges::equal(shape.dims(), dims)) {
      (shape.element_type() == type ? same : other).push_back(value);
    } else if (shape.rank() < std::ssize(dims) && shape.element_type() == type) {
      part.push_back(value);
    }
  }
  auto pick = [&](const Ops& from) { return from[static_cast<std::size_t>(random_.Below(std::ssize(from)))]; };
  if (!same.empty() && random_.Chance(70)) return pick(same);
  if (!other.empty() && random_.Chance(60)) return As(pick(other), type);
  if (!part.empty() && random_.Chance(60)) {
    // Its dimensions where they fit, in order.
    Instruction* value = pick(part);
    Dims where;
    int64_t at = 0;
    for (int64_t size : value->shape().dims()) {
      while (at < std::ssize(dims) && dims[static_cast<std::size_t>(at)] != size) ++at;
      if (at == std::ssize(dims)) break;
      where.push_back(at++);
    }
    if (where.ssize() == value->shape().rank()) {
      auto made = AddBroadcast(*c_, value, dims, where);
      if (made) return *made;
    }
  }
  return Fresh(type, dims);
}

Instruction* GraphMaker::As(Instruction* value, ElementType type) {
  if (value == nullptr) return nullptr;
  ElementType from = value->shape().element_type();
  // What a complex number is as an integer nobody says.
  if (IsComplex(from) && !IsComplex(type)) value = Add(Opcode::kReal, {value});
  if (value == nullptr) return nullptr;
  auto made = AddConvert(*c_, value, type);
  return made ? *made : nullptr;
}

Instruction* GraphMaker::ScalarInteger() {
  Instruction* value = Any();
  if (value == nullptr || value->shape().element_count() == 0 || random_.Chance(25))
    return Constant(ElementType::kS32, static_cast<double>(random_.Between(-2, 9)));
  const Shape& shape = value->shape();
  Dims starts, limits, strides;
  for (int64_t size : shape.dims()) {
    int64_t start = random_.Below(size);
    starts.push_back(start);
    limits.push_back(start + 1);
    strides.push_back(1);
  }
  Instruction* cell = Add(Opcode::kSlice, {value}, SliceAttributes{starts, limits, strides});
  if (cell == nullptr) return nullptr;
  auto scalar = AddReshape(*c_, cell, {});
  return scalar ? As(*scalar, ElementType::kS32) : nullptr;
}

Instruction* GraphMaker::WithoutNan(Instruction* value) {
  if (value == nullptr || !IsFloat(value->shape().element_type())) return value;
  Instruction* is_number = Add(Opcode::kCompare, {value, value}, CompareAttributes{});
  const double otherwise = value->shape().element_type() == ElementType::kF8E8M0FNU ? 1 : 0;  // that has no zero
  return Add(Opcode::kSelect, {is_number, value, Filled(value->shape(), otherwise)});
}

Instruction* GraphMaker::Whole(Instruction* value, int bound) {
  if (value == nullptr || !IsFloat(value->shape().element_type())) return value;
  ElementType type = value->shape().element_type();
  Instruction* clamped = Add(Opcode::kClamp, {Constant(type, -bound), WithoutNan(value), Constant(type, bound)});
  return Add(Opcode::kRoundNearestEven, {clamped});
}

Instruction* GraphMaker::PlainZero(Instruction* value) {
  if (value == nullptr) return nullptr;
  ElementType type = value->shape().element_type();
  if (IsComplex(type))
    return Add(Opcode::kComplex, {PlainZero(Add(Opcode::kReal, {value})), PlainZero(Add(Opcode::kImag, {value}))});
  return IsFloat(type) ? As(As(value, ElementType::kS32), type) : value;
}

int GraphMaker::ExactBound(ElementType type, int64_t terms) {
  int64_t largest = 0;  // up to which every whole number is there
  if (type == ElementType::kF32 || type == ElementType::kF64) largest = 1 << 24;
  if (type == ElementType::kF16) largest = 1 << 11;
  if (type == ElementType::kBF16) largest = 1 << 8;
  for (int bound = 4; bound > 0; --bound)
    if (terms * bound * bound <= largest) return bound;
  return 0;
}

Instruction* GraphMaker::Exact(Instruction* value, int64_t terms) {
  if (value == nullptr) return nullptr;
  ElementType type = value->shape().element_type();
  if (IsComplex(type)) {
    int bound = ExactBound(RealPart(type), 2 * terms);
    if (bound == 0) return nullptr;
    return Add(Opcode::kComplex,
               {Whole(Add(Opcode::kReal, {value}), bound), Whole(Add(Opcode::kImag, {value}), bound)});
  }
  if (!IsFloat(type)) return value;
  int bound = ExactBound(type, terms);
  return bound == 0 ? nullptr : Whole(value, bound);
}

Dims GraphMaker::Permutation(int64_t n) {
  Dims out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i);
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(out[static_cast<std::size_t>(i)], out[static_cast<std::size_t>(random_.Below(i + 1))]);
  return out;
}

Computation* GraphMaker::Reducer(Opcode opcode, ElementType type) {
  Computation* out = module_.AddComputation("combine");
  Instruction* a = AddParameter(*out, 0, Shape::MakeScalar(type));
  Instruction* b = AddParameter(*out, 1, Shape::MakeScalar(type));
  bool swapped = random_.Chance(30);
  auto made = AddInferred(*out, opcode, swapped ? Ops{b, a} : Ops{a, b});
  out->set_root(made ? *made : a);
  return out;
}

Computation* GraphMaker::Less(const std::vector<ElementType>& types, bool descending) {
  Computation* out = module_.AddComputation("less");
  Ops parameters;
  for (std::size_t i = 0; i < 2 * types.size(); ++i)
    parameters.push_back(AddParameter(*out, static_cast<int64_t>(i), Shape::MakeScalar(types[i / 2])));
  CompareAttributes attributes;
  attributes.direction = descending ? ComparisonDirection::kGt : ComparisonDirection::kLt;
  auto made = AddInferred(*out, Opcode::kCompare, {parameters[0], parameters[1]}, attributes);
  out->set_root(*made);
  return out;
}

Opcode GraphMaker::ReducingOpcode(ElementType type) {
  if (IsComplex(type)) return Opcode::kAdd;  // the others do not take it
  if (type == ElementType::kF8E8M0FNU) return random_.Chance(50) ? Opcode::kMaximum : Opcode::kMinimum;  // has no zero
  switch (random_.Below(IsFloat(type) ? 3 : type == ElementType::kPred ? 2 : 7)) {
    case 0: return type == ElementType::kPred ? Opcode::kAnd : Opcode::kMaximum;
    case 1: return type == ElementType::kPred ? Opcode::kOr : Opcode::kMinimum;
    case 2:
    case 3: return Opcode::kAdd;
    case 4: return Opcode::kMultiply;
    case 5: return Opcode::kXor;
    default: return Opcode::kOr;
  }
}

Instruction* GraphMaker::Identity(Opcode opcode, ElementType type) {
  double infinity = std::numeric_limits<double>::infinity();
  bool unsigned_type = IsUnsigned(type) || type == ElementType::kPred;
  // Some narrow floats and the integers have no infinity: ScalarLiteral saturates, or gives a NaN that nobody wants.
  double largest = infinity;
  if (const MiniFloat* format = FindMiniFloat(type); format != nullptr && !format->has_inf())
    largest = DecodeMiniFloat(format->max_finite(), *format);
  if (type == ElementType::kF8E8M0FNU && opcode == Opcode::kMaximum) return Constant(type, std::ldexp(1.0, -127));
  if (opcode == Opcode::kMaximum) return Constant(type, unsigned_type ? 0 : -largest);
  if (opcode == Opcode::kMinimum) return Constant(type, largest);
  return Constant(type, opcode == Opcode::kMultiply || opcode == Opcode::kAnd ? 1 : 0);
}

void GraphMaker::MakeOne() {
  using Maker = Instruction* (GraphMaker::*)();
  struct Row {
    Maker maker;
    int weight;
  };
  static constexpr Row kMakers[] = {{&GraphMaker::Elementwise, 30},
                                    {&GraphMaker::Choice, 8},
                                    {&GraphMaker::Conversion, 8},
                                    {&GraphMaker::ComplexParts, 2},
                                    {&GraphMaker::Movement, 20},
                                    {&GraphMaker::Join, 4},
                                    {&GraphMaker::DynamicMovement, 5},
                                    {&GraphMaker::Reduction, 9},
                                    {&GraphMaker::VariadicReduction, 2},
                                    {&GraphMaker::WindowReduction, 4},
                                    {&GraphMaker::DotProduct, 6},
                                    {&GraphMaker::Convolution, 3},
                                    {&GraphMaker::Sorting, 3},
                                    {&GraphMaker::GatherOrScatter, 6},
                                    {&GraphMaker::Loop, 2},
                                    {&GraphMaker::Branch, 2},
                                    {&GraphMaker::Mapping, 2},
                                    {&GraphMaker::RandomBits, 1},
                                    {&GraphMaker::Softmax, 1},
                                    {&GraphMaker::DynamicSize, 2},
                                    {&GraphMaker::CustomCall, 1},
                                    {&GraphMaker::Decomposition, 1},
                                    {&GraphMaker::Transform, 1},
                                    {&GraphMaker::Nest, 3},
                                    {&GraphMaker::Scan, 1},
                                    {&GraphMaker::ReductionOfMany, 3},
                                    {&GraphMaker::SortByKeys, 2},
                                    {&GraphMaker::BatchedPlaces, 3},
                                    {&GraphMaker::MapOfMany, 2},
                                    {&GraphMaker::ManyDimensions, 4},
                                    {&GraphMaker::StackedLoop, 3},
                                    {&GraphMaker::TupleState, 3},
                                    {&GraphMaker::UpdatesOfItself, 3},
                                    {&GraphMaker::Overwriting, 3},
                                    {&GraphMaker::BitsApart, 3},
                                    {&GraphMaker::FromInitialValue, 2},
                                    {&GraphMaker::SortOfAnyNumber, 2},
                                    {&GraphMaker::RaggedProduct, 1},
                                    {&GraphMaker::Fused, 2},
                                    {&GraphMaker::BatchNormal, 2},
                                    {&GraphMaker::Asynchronous, 2},
                                    {&GraphMaker::WindowOfMany, 2},
                                    {&GraphMaker::SortByOwnOrder, 2},
                                    {&GraphMaker::ComplexOrder, 1},
                                    {&GraphMaker::RandomInLoop, 1},
                                    {&GraphMaker::BranchOnTuples, 2},
                                    {&GraphMaker::ReductionInOrder, 2},
                                    {&GraphMaker::Doubling, 2},
                                    {&GraphMaker::SortByChoices, 1},
                                    {&GraphMaker::ReductionByChoices, 1}};
  int64_t total = 0;
  for (const Row& row : kMakers) total += row.weight;
  // What devices say to each other, where there are some; else now and then, as what it means on one.
  if (branches_ == 0 && random_.Chance(module_.replica_count * module_.num_partitions > 1 ? 20 : 1))
    return void(Keep(Collective()));
  int64_t at = random_.Below(total);
  for (const Row& row : kMakers) {
    if ((at -= row.weight) >= 0) continue;
    return void(Keep((this->*row.maker)()));
  }
}

void GraphMaker::Make() {
  if (random_.Chance(8)) TupleParameter();
  for (int64_t i = random_.Between(2, options_.max_operations); i > 0; --i) MakeOne();
  // What nobody uses, last made first, and now and then a value that somebody does.
  Ops results;
  for (auto it = pool_.rbegin(); it != pool_.rend() && results.size() < 8; ++it)
    if ((*it)->users().empty() || random_.Chance(10)) results.push_back(*it);
  if (results.empty()) results.push_back(Any());
  c_->set_root(results.size() == 1 && random_.Chance(70) ? results[0] : Add(Opcode::kTuple, results));
  if (random_.Chance(15)) EntryLayoutsAndAliases();
}

std::unique_ptr<Module> MakeRandomModule(uint64_t seed, const RandomGraphOptions& options) {
  auto module = std::make_unique<Module>("random_" + std::to_string(seed));
  GraphMaker(*module, seed, options).Make();
  return module;
}

namespace {

// Values of every class of a type, none of them denormal.
double RandomReal(Random& random, ElementType type) {
  bool narrow = type != ElementType::kF32 && type != ElementType::kF64;
  switch (random.Below(12)) {
    case 0: return static_cast<double>(random.Between(-6, 6));
    case 1: return random.Chance(50) ? 0.0 : -0.0;
    case 2:
      if (random.Chance(60)) return 1;
      return random.Chance(30)   ? std::numeric_limits<double>::quiet_NaN()
             : random.Chance(50) ? std::numeric_limits<double>::infinity()
                                 : -std::numeric_limits<double>::infinity();
    case 3: return (narrow ? 300.0 : 3e4) * (static_cast<double>(random.Below(2001)) / 1000 - 1);
    case 4:
      return std::ldexp(random.Chance(50) ? 1.0 : -1.0,
                        static_cast<int>(random.Between(narrow ? -5 : -20, narrow ? 5 : 20)));
    default: return static_cast<double>(static_cast<int64_t>(random.Next() >> 11)) / 2251799813685248.0 - 2;
  }
}

}  // namespace

std::vector<Literal> MakeArguments(const Module& module, uint64_t seed) {
  Random random(seed * 0x2545f4914f6cdd1du + 1);
  std::vector<Literal> out;
  for (const Instruction* parameter : module.entry()->parameters())
    for (const Shape* shape : TupleLeaves(parameter->shape())) {
      auto made = Literal::Create(*shape);
      if (!made) return {};
      ElementType type = shape->element_type();
      auto size = static_cast<std::size_t>(StorageBytes(type));
      auto bytes = made->bytes();
      for (std::size_t i = 0; size > 0 && i + size <= bytes.size(); i += size) {
        uint64_t bits = random.Next();
        if (IsFloat(type)) {
          Literal value = ScalarLiteral(type, RandomReal(random, type));
          std::memcpy(bytes.data() + i, value.bytes().data(), size);
          continue;
        }
        if (IsComplex(type)) {
          ElementType part = RealPart(type);
          for (std::size_t half = 0; half < 2; ++half)
            std::memcpy(bytes.data() + i + half * size / 2,
                        ScalarLiteral(part, RandomReal(random, part)).bytes().data(), size / 2);
          continue;
        }
        if (BitWidth(type) < 8 || random.Chance(70)) {
          Literal value = ScalarLiteral(type, static_cast<double>(random.Between(IsSigned(type) ? -4 : 0, 7)));
          std::memcpy(bytes.data() + i, value.bytes().data(), size);
        } else if (type == ElementType::kPred) {
          bytes[i] = static_cast<std::byte>(bits & 1);
        } else {
          std::memcpy(bytes.data() + i, &bits, size);
        }
      }
      out.push_back(std::move(*made));
    }
  return out;
}

}  // namespace krafla::fuzz
