// SPDX-License-Identifier: Apache-2.0
// One maker an operation, or a family of them. A maker that meets a combination that the shape rules refuse returns
// null, and the graph goes on without.
#include <algorithm>

#include "graph_maker.h"

namespace krafla::fuzz {
namespace {

bool IsSpecialElementwise(Opcode opcode) {
  // Made by makers of their own, or (stochastic-convert) of operands that no other op wants.
  return IsOneOf(opcode, {Opcode::kCompare, Opcode::kConvert, Opcode::kBitcastConvert, Opcode::kSelect, Opcode::kClamp,
                          Opcode::kReducePrecision, Opcode::kComplex, Opcode::kStochasticConvert, Opcode::kMap});
}

std::vector<Opcode> ElementwiseOpcodes(int arity) {
  std::vector<Opcode> out;
  for (const OpInfo& info : AllOps())
    if ((info.traits & op_trait::kElementwise) != 0 && info.arity == arity && !IsSpecialElementwise(info.opcode))
      out.push_back(info.opcode);
  return out;
}

constexpr int64_t kFree[] = {1, 2, 3, 5, 8, 16, 17, 33, 64, 100};

// What the dot gives, in another type.
Result<Shape> DotShape(Instruction* a, Instruction* b, const DotAttributes& attributes, ElementType type) {
  Instruction* operands[] = {a, b};
  auto shape = InferShape(*a->parent(), Opcode::kDot, operands, attributes);
  if (!shape) return shape;
  return shape->WithElementType(type);
}

// The dimensions with two neighbours merged, or one of them split.
Dims MergedOrSplit(const Dims& dims, Random& random) {
  Dims to;
  int64_t at = random.Below(std::max<int64_t>(dims.ssize(), 1));
  for (int64_t i = 0; i < dims.ssize(); ++i) {
    int64_t size = dims[static_cast<std::size_t>(i)];
    if (i != at) {
      to.push_back(size);
      continue;
    }
    if (random.Chance(50) && i + 1 < dims.ssize()) {
      to.push_back(size * dims[static_cast<std::size_t>(++i)]);
      continue;
    }
    for (int64_t factor : {2, 3, 5, 1}) {
      if (size % factor != 0) continue;
      bool first = random.Chance(50);
      to.push_back(first ? factor : size / factor);
      to.push_back(first ? size / factor : factor);
      break;
    }
  }
  return to;
}

}  // namespace

Instruction* GraphMaker::Elementwise() {
  static const std::vector<Opcode> unary = ElementwiseOpcodes(1), binary = ElementwiseOpcodes(2);
  // Plain arithmetic is what programs are made of.
  static constexpr Opcode kCommon[] = {Opcode::kAdd, Opcode::kMultiply, Opcode::kSubtract, Opcode::kMaximum,
                                       Opcode::kDivide};
  bool is_unary = random_.Chance(45);
  const auto& from = is_unary ? unary : binary;
  Opcode opcode = from[static_cast<std::size_t>(random_.Below(std::ssize(from)))];
  if (!is_unary && random_.Chance(50)) opcode = kCommon[random_.Below(std::ssize(kCommon))];
  uint32_t types = GetOpInfo(opcode).types;
  if (IsOneOf(opcode, {Opcode::kMaximum, Opcode::kMinimum})) types &= ~type_set::kComplex;  // nobody runs them
  Instruction* a = AnyOf(types);
  if (a == nullptr) return nullptr;
  if (is_unary) return Add(opcode, {a});
  // The square of a float becomes a product, which is nearer the truth than the formula.
  bool power = opcode == Opcode::kPower && !IsIntegral(a->shape().element_type());
  if (power && depth_ > 0) return Add(Opcode::kMultiply, {a, Like(a)});
  Instruction* b = power ? AddParameter(*c_, parameters_++, a->shape()) : Like(a);
  return power || random_.Chance(50) ? Add(opcode, {a, b}) : Add(opcode, {b, a});
}

Instruction* GraphMaker::Choice() {
  Instruction* a = Any();
  if (a == nullptr) return nullptr;
  Instruction* b = Like(a);
  ElementType type = a->shape().element_type();
  switch (random_.Below(3)) {
    case 0: {
      CompareAttributes attributes;
      attributes.direction = static_cast<ComparisonDirection>(random_.Below(IsComplex(type) ? 2 : 6));
      if (IsFloat(type) && random_.Chance(15)) {
        attributes.type = ComparisonType::kTotalOrder;
        a = WithoutNan(a), b = WithoutNan(b);
      }
      return Add(Opcode::kCompare, {a, b}, attributes);
    }
    case 1: return Add(Opcode::kSelect, {Like(ElementType::kPred, a->shape().dims()), a, b});
    default:
      if (IsComplex(type) || type == ElementType::kPred) return nullptr;
      return Add(Opcode::kClamp,
                 random_.Chance(50) ? Ops{Constant(type, -1), a, Constant(type, 2)} : Ops{b, a, Like(a)});
  }
}

Instruction* GraphMaker::Conversion() {
  Instruction* a = Any();
  if (a == nullptr) return nullptr;
  ElementType type = a->shape().element_type();
  if (random_.Chance(70)) return As(a, RandomType());
  if (IsFloat(type) && random_.Chance(50))
    return Add(Opcode::kReducePrecision, {a}, ReducePrecisionAttributes{random_.Between(4, 8), random_.Between(2, 23)});
  // Bits of a NaN are nobody's promise, and integers may be the bits of denormals.
  if (IsComplex(type) || type == ElementType::kPred || BitWidth(type) < 8) return nullptr;
  int bits = BitWidth(type);
  ElementType to = bits == 8    ? ElementType::kU8
                   : bits == 16 ? ElementType::kS16
                   : bits == 32 ? ElementType::kU32
                                : ElementType::kS64;
  return AddOf(Opcode::kBitcastConvert, to, a->shape().dims(), {WithoutNan(a)});
}

Instruction* GraphMaker::ComplexParts() {
  Instruction* a = Any();
  if (a == nullptr) return nullptr;
  if (IsComplex(a->shape().element_type())) return Add(random_.Chance(50) ? Opcode::kReal : Opcode::kImag, {a});
  a = As(a, ElementType::kF32);
  return a == nullptr ? nullptr : Add(Opcode::kComplex, {a, Like(a)});
}

Instruction* GraphMaker::Movement() {
  Instruction* a = Any(random_.Chance(90) ? 1 : 0);
  if (a == nullptr) return nullptr;
  const Dims dims = a->shape().dims();
  const ElementType type = a->shape().element_type();
  auto rank = dims.ssize();
  switch (random_.Below(7)) {
    case 0: {
      Dims to = dims, where;
      int64_t extra = random_.Between(1, 2), at = 0;
      for (int64_t i = 0; i < extra; ++i) {
        int64_t size = a->shape().element_count() > budget_ ? 1 : random_.Between(1, 6);
        to = Dims(to);
        to.push_back(size);
      }
      Dims order = Permutation(to.ssize());
      Dims mixed;
      for (int64_t i = 0; i < to.ssize(); ++i)
        mixed.push_back(to[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
      for (; at < rank; ++at)
        for (int64_t i = 0; i < mixed.ssize(); ++i)
          if (order[static_cast<std::size_t>(i)] == at) where.push_back(i);
      auto made = AddBroadcast(*c_, a, mixed, where);
      return made ? *made : nullptr;
    }
    case 1: {
      auto made = AddTranspose(*c_, a, Permutation(rank));
      return made ? *made : nullptr;
    }
    case 2: {
      auto made = AddReshape(*c_, a, MergedOrSplit(dims, random_));
      return made ? *made : nullptr;
    }
    case 3: {
      Dims which;
      for (int64_t i = 0; i < rank; ++i)
        if (random_.Chance(60)) which.push_back(i);
      return Add(Opcode::kReverse, {a}, DimensionsAttributes{which});
    }
    case 4: {
      SliceAttributes slice;
      for (int64_t size : dims) {
        int64_t start = random_.Between(0, size / 2), limit = random_.Between(start, size);
        if (size > 0 && limit == start && random_.Chance(95)) limit = size;
        slice.starts.push_back(start);
        slice.limits.push_back(limit);
        slice.strides.push_back(random_.Chance(70) ? 1 : random_.Between(2, 4));
      }
      return Add(Opcode::kSlice, {a}, slice);
    }
    case 5: {
      PadAttributes pad;
      for (int64_t size : dims) {
        bool cut = size > 3 && random_.Chance(20);
        pad.low.push_back(cut ? -1 : random_.Between(0, 3));
        pad.high.push_back(size > 3 && random_.Chance(20) ? -2 : random_.Between(0, 3));
        pad.interior.push_back(size < 40 && random_.Chance(20) ? random_.Between(1, 2) : 0);
      }
      return Add(Opcode::kPad, {a, Constant(type, random_.Chance(50) ? 0 : 1)}, pad);
    }
    default: return Add(random_.Chance(70) ? Opcode::kCopy : Opcode::kOptimizationBarrier, {a});
  }
}

Instruction* GraphMaker::Join() {
  Instruction* a = Any(1);
  if (a == nullptr) return nullptr;
  int64_t dim = random_.Below(a->shape().rank());
  Ops parts = {a};
  for (int64_t i = random_.Between(1, 3); i > 0; --i) {
    Dims dims = a->shape().dims();
    if (random_.Chance(40)) dims[static_cast<std::size_t>(dim)] = random_.Between(0, 5);
    parts.push_back(Like(a->shape().element_type(), dims));
  }
  return Add(Opcode::kConcatenate, parts, DimensionsAttributes{Dims{dim}});
}

Instruction* GraphMaker::DynamicMovement() {
  Instruction* a = Any(1);
  if (a == nullptr) return nullptr;
  Dims sizes;
  Ops starts;
  for (int64_t size : a->shape().dims()) {
    sizes.push_back(random_.Chance(30) ? size : random_.Between(std::min<int64_t>(size, 1), size));
    starts.push_back(ScalarInteger());
  }
  Ops operands = {a};
  if (random_.Chance(50)) {
    operands.insert(operands.end(), starts.begin(), starts.end());
    return Add(Opcode::kDynamicSlice, operands, DynamicSliceAttributes{sizes});
  }
  operands.push_back(Like(a->shape().element_type(), sizes));
  operands.insert(operands.end(), starts.begin(), starts.end());
  return Add(Opcode::kDynamicUpdateSlice, operands);
}

Instruction* GraphMaker::Reduction() {
  Instruction* a = Any(1);
  if (a == nullptr) return nullptr;
  Dims which;
  int64_t terms = 2;
  for (int64_t i = 0; i < a->shape().rank(); ++i)
    if (random_.Chance(50)) which.push_back(i), terms *= std::max<int64_t>(1, a->shape().dim(i));
  ElementType type = a->shape().element_type();
  Opcode opcode = ReducingOpcode(type);
  bool sum = opcode == Opcode::kAdd;
  if (sum) a = Exact(a, terms);
  // Only the identity: XLA leaves any other out where the dimensions reduced have one element.
  Instruction* made =
      Add(Opcode::kReduce, {a, Identity(opcode, type)}, DimensionsAttributes{which}, {Reducer(opcode, type)});
  return sum ? PlainZero(made) : made;
}

// The largest value and where it is, the first of equals: what argmax becomes.
Instruction* GraphMaker::VariadicReduction() {
  Instruction* a = PlainZero(Whole(AnyOf(type_set::kFloat | type_set::kInt, 1), 100));
  if (a == nullptr) return nullptr;
  ElementType type = a->shape().element_type();
  int64_t dim = random_.Below(a->shape().rank());
  Instruction* index = AddOf(Opcode::kIota, ElementType::kS32, a->shape().dims(), {}, IotaAttributes{dim});
  Computation* pick = module_.AddComputation("first_largest");
  Ops p;
  for (int64_t i = 0; i < 4; ++i)
    p.push_back(AddParameter(*pick, i, Shape::MakeScalar(i % 2 == 0 ? type : ElementType::kS32)));
  auto compare = [&](Instruction* x, Instruction* y, ComparisonDirection direction) {
    CompareAttributes attributes;
    attributes.direction = direction;
    return *AddInferred(*pick, Opcode::kCompare, {x, y}, attributes);
  };
  Instruction* larger = compare(p[0], p[2], ComparisonDirection::kGt);
  Instruction* equal = compare(p[0], p[2], ComparisonDirection::kEq);
  Instruction* before = compare(p[1], p[3], ComparisonDirection::kLt);
  Instruction* tie = *AddInferred(*pick, Opcode::kAnd, {equal, before});
  Instruction* keep = *AddInferred(*pick, Opcode::kOr, {larger, tie});
  Instruction* value = *AddInferred(*pick, Opcode::kSelect, {keep, p[0], p[2]});
  Instruction* where = *AddInferred(*pick, Opcode::kSelect, {keep, p[1], p[3]});
  pick->set_root(*AddTuple(*pick, {value, where}));
  Instruction* made =
      Add(Opcode::kReduce, {a, index, Identity(Opcode::kMaximum, type), Constant(ElementType::kS32, 1e6)},
          DimensionsAttributes{Dims{dim}}, {pick});
  if (made == nullptr) return nullptr;
  Keep(*AddGetTupleElement(*c_, made, 0));
  return *AddGetTupleElement(*c_, made, 1);
}

Instruction* GraphMaker::WindowReduction() {
  Instruction* a = Any(1);
  if (a == nullptr) return nullptr;
  ElementType type = a->shape().element_type();
  WindowAttributes attributes;
  int64_t terms = 2;
  bool running = random_.Chance(20);  // a running sum is a window as long as the array
  int64_t along = random_.Below(a->shape().rank());
  for (int64_t i = 0; i < a->shape().rank(); ++i) {
    WindowDim dim;
    int64_t size = a->shape().dim(i);
    if (running) {
      if (i == along) dim.size = std::max<int64_t>(size, 1), dim.padding_low = dim.size - 1;
    } else if (random_.Chance(60)) {
      dim.size = random_.Between(1, std::clamp<int64_t>(size, 1, 4));
      dim.stride = random_.Between(1, 3);
      dim.padding_low = random_.Between(0, dim.size - 1);
      dim.padding_high = random_.Between(0, dim.size - 1);
      if (random_.Chance(15)) dim.window_dilation = 2;
      if (random_.Chance(10)) dim.base_dilation = 2;
    }
    terms *= dim.size;
    attributes.window.push_back(dim);
  }
  Opcode opcode = ReducingOpcode(type);
  bool sum = opcode == Opcode::kAdd;
  if (sum) a = Exact(a, terms);
  if (random_.Chance(15) && type != ElementType::kPred && !IsComplex(type)) {
    // The gradient of a pooling, seldom with dilation.
    if (random_.Chance(80))
      for (WindowDim& dim : attributes.window) dim.window_dilation = dim.base_dilation = 1;
    a = PlainZero(Whole(a, 100));
    if (a == nullptr) return nullptr;
    auto pooled = AddInferred(*c_, Opcode::kReduceWindow, {a, Identity(Opcode::kMaximum, type)}, attributes,
                              {Reducer(Opcode::kMaximum, type)});
    if (!pooled) return nullptr;
    Computation* select = module_.AddComputation("select");
    CompareAttributes larger;
    larger.direction = ComparisonDirection::kGe;
    Instruction* x = AddParameter(*select, 0, Shape::MakeScalar(type));
    Instruction* y = AddParameter(*select, 1, Shape::MakeScalar(type));
    select->set_root(*AddInferred(*select, Opcode::kCompare, {x, y}, larger));
    Instruction* source = Exact(Like(*pooled), terms);
    return PlainZero(Add(Opcode::kSelectAndScatter, {a, source, Constant(type, 0)}, attributes,
                         {select, Reducer(Opcode::kAdd, type)}));
  }
  Instruction* made = Add(Opcode::kReduceWindow, {a, Identity(opcode, type)}, attributes, {Reducer(opcode, type)});
  return sum ? PlainZero(made) : made;
}

Instruction* GraphMaker::ExactView(ElementType type, const Dims& dims, int64_t terms, int views) {
  if (views == 0 || random_.Chance(40)) return Exact(Like(type, dims), terms);
  const int64_t rank = dims.ssize(), d = random_.Below(std::max<int64_t>(rank, 1));
  const auto at = static_cast<std::size_t>(d);
  Dims before = dims;
  Opcode opcode = Opcode::kReshape;
  Attributes attributes;
  switch (random_.Below(4)) {
    case 0: {
      if (rank == 0) break;
      SliceAttributes slice{Dims(dims.size(), 0), dims, Dims(dims.size(), 1)};
      slice.strides[at] = 1 + random_.Below(2);
      slice.starts[at] = random_.Below(3);
      slice.limits[at] = slice.starts[at] + std::max<int64_t>((dims[at] - 1) * slice.strides[at] + 1, 0);
      if (dims[at] == 0) slice.limits[at] = slice.starts[at];
      before[at] = slice.limits[at] + random_.Below(3);
      opcode = Opcode::kSlice, attributes = std::move(slice);
      break;
    }
    case 1: {
      const Dims order = Permutation(rank);
      for (int64_t i = 0; i < rank; ++i)
        before[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = dims[static_cast<std::size_t>(i)];
      opcode = Opcode::kTranspose, attributes = DimensionsAttributes{order};
      break;
    }
    case 2: {
      if (rank == 0) break;
      Dims mapping;
      for (int64_t i = 0; i < rank; ++i)
        if (i != d) mapping.push_back(i);
      before.erase(before.begin() + d);
      opcode = Opcode::kBroadcast, attributes = DimensionsAttributes{mapping};
      break;
    }
    default: before.insert(before.begin() + d, 1);
  }
  Instruction* source = ExactView(type, before, terms, views - 1);
  if (source == nullptr) return nullptr;
  // Others may read what the view reads.
  if (random_.Chance(50)) Keep(source);
  Instruction* view = AddOf(opcode, type, dims, {source}, attributes);
  return view != nullptr && random_.Chance(50) ? Keep(view) : view;
}

Instruction* GraphMaker::DotProduct() {
  Instruction* a = Any(1);
  if (a == nullptr) return nullptr;
  ElementType type = a->shape().element_type();
  DotAttributes attributes;
  std::vector<std::pair<char, int64_t>> roles;  // of b's dimensions: kind, dimension of a or size
  int64_t terms = 1;
  for (int64_t i = 0; i < a->shape().rank(); ++i) {
    int64_t roll = random_.Below(3);
    if (roll == 0) roles.push_back({'b', i});
    if (roll == 1) roles.push_back({'k', i}), terms *= std::max<int64_t>(1, a->shape().dim(i));
  }
  int64_t free = random_.Below(3);
  for (int64_t i = 0; i < free; ++i) roles.push_back({'n', kFree[random_.Below(std::ssize(kFree))]});
  Dims order = Permutation(std::ssize(roles)), dims;
  for (int64_t i = 0; i < order.ssize(); ++i) {
    auto [kind, number] = roles[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
    dims.push_back(kind == 'n' ? number : a->shape().dim(number));
    if (kind == 'b') attributes.lhs_batch.push_back(number), attributes.rhs_batch.push_back(i);
    if (kind == 'k') attributes.lhs_contracting.push_back(number), attributes.rhs_contracting.push_back(i);
  }
  int64_t work = a->shape().element_count();
  for (auto [kind, number] : roles) work *= kind == 'n' ? number : 1;
  if (work > (int64_t{1} << 22)) return nullptr;
  if (type == ElementType::kF8E4M3FN || type == ElementType::kF8E5M2) {
    // Whole numbers up to 2 are in every format; the sum is of f32.
    a = Whole(a, 2);
    Instruction* b = Whole(Like(type, dims), 2);
    if (a == nullptr || b == nullptr) return nullptr;
    auto shape = DotShape(a, b, attributes, ElementType::kF32);
    return shape ? PlainZero(Add(Opcode::kDot, {a, b}, attributes, {}, &*shape)) : nullptr;
  }
  constexpr int kMostViews = 3;
  a = random_.Chance(30) ? ExactView(type, a->shape().dims(), terms, kMostViews) : Exact(a, terms);
  Instruction* b = ExactView(type, dims, terms, kMostViews);
  if (a == nullptr || b == nullptr) return nullptr;
  bool wider = (type == ElementType::kF16 || type == ElementType::kBF16) && random_.Chance(40);
  bool word = BitWidth(type) <= 8 && IsIntegral(type) && random_.Chance(70);
  if (!wider && !word) return PlainZero(Add(Opcode::kDot, {a, b}, attributes));
  auto shape = DotShape(a, b, attributes, wider ? ElementType::kF32 : ElementType::kS32);
  return shape ? PlainZero(Add(Opcode::kDot, {a, b}, attributes, {}, &*shape)) : nullptr;
}

Instruction* GraphMaker::Convolution() {
  static constexpr ElementType kTypes[] = {ElementType::kF32,  ElementType::kF32, ElementType::kF16,
                                           ElementType::kBF16, ElementType::kS8,  ElementType::kS32,
                                           ElementType::kC64,  ElementType::kU8,  ElementType::kS4};
  ElementType type = kTypes[random_.Below(std::ssize(kTypes))];
  int64_t spatial = random_.Between(0, 3), groups = random_.Chance(75) ? 1 : random_.Between(2, 3);
  bool batch_groups = groups > 1 && random_.Chance(25);
  int64_t batch = random_.Between(1, 3) * (batch_groups ? groups : 1), in = random_.Between(1, 9),
          out = random_.Between(1, 20) * groups;
  ConvolutionAttributes attributes;
  (batch_groups ? attributes.batch_group_count : attributes.feature_group_count) = groups;
  // In the order batch, feature, spatial; then permuted three times over.
  Dims input = {batch, in * (batch_groups ? 1 : groups)}, kernel = {in, out};
  int64_t terms = in;
  for (int64_t i = 0; i < spatial; ++i) {
    WindowDim dim;
    dim.size = random_.Between(1, 4);
    dim.stride = random_.Between(1, 2);
    dim.padding_low = random_.Between(0, dim.size);
    dim.padding_high = random_.Between(-1, dim.size);
    if (random_.Chance(20)) dim.window_dilation = 2;
    if (random_.Chance(20)) dim.base_dilation = 2;
    dim.reversal = random_.Chance(10);
    terms *= dim.size;
    attributes.window.push_back(dim);
    input.push_back(random_.Between(dim.size, spatial == 1 ? 40 : 12));
    kernel.push_back(dim.size);
  }
  auto place = [&](const Dims& sizes, int64_t& first, int64_t& second, Dims& rest) {
    Dims order = Permutation(sizes.ssize()), dims;
    for (int64_t i = 0; i < order.ssize(); ++i)
      dims.push_back(sizes[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
    rest.resize(static_cast<std::size_t>(spatial));
    for (int64_t i = 0; i < order.ssize(); ++i) {
      int64_t role = order[static_cast<std::size_t>(i)];
      if (role == 0) first = i;
      else if (role == 1) second = i;
      else rest[static_cast<std::size_t>(role - 2)] = i;
    }
    return dims;
  };
  Dims input_dims = place(input, attributes.input_batch, attributes.input_feature, attributes.input_spatial);
  Dims kernel_dims =
      place(kernel, attributes.kernel_input_feature, attributes.kernel_output_feature, attributes.kernel_spatial);
  place(input, attributes.output_batch, attributes.output_feature, attributes.output_spatial);
  Instruction* made = Add(Opcode::kConvolution,
                          {Exact(Like(type, input_dims), terms), Exact(Like(type, kernel_dims), terms)}, attributes);
  return PlainZero(random_.Chance(40) ? Widened(made) : made);
}

Instruction* GraphMaker::Sorting() {
  Instruction* key = AnyOf(type_set::kFloat | type_set::kInt, 1);
  key = WithoutNan(key);
  if (key == nullptr) return nullptr;
  int64_t dim = random_.Below(key->shape().rank());
  bool descending = random_.Chance(40);
  if (random_.Chance(15) && BitWidth(key->shape().element_type()) >= 8 && key->shape().dims().back() > 0) {
    TopKAttributes attributes{random_.Between(1, key->shape().dims().back()), descending};
    Instruction* made = Add(Opcode::kTopK, {PlainZero(Whole(key, 50))}, attributes);
    if (made == nullptr) return nullptr;
    Keep(*AddGetTupleElement(*c_, made, 0));
    return *AddGetTupleElement(*c_, made, 1);
  }
  Ops operands = {key};
  std::vector<ElementType> types = {key->shape().element_type()};
  for (int64_t extra = random_.Below(3); extra > 0; --extra) {
    Instruction* carried = Like(random_.Chance(50) ? ElementType::kS32 : RandomType(), key->shape().dims());
    if (carried == nullptr) return nullptr;
    operands.push_back(carried);
    types.push_back(carried->shape().element_type());
  }
  // Equal keys keep their order, but where nobody could tell.
  bool stable = operands.size() > 1 || IsFloat(types[0]) || random_.Chance(50);
  Instruction* made = Add(Opcode::kSort, operands, SortAttributes{dim, stable}, {Less(types, descending)});
  if (made == nullptr || operands.size() == 1) return made;
  for (std::size_t i = 1; i < operands.size(); ++i) Keep(*AddGetTupleElement(*c_, made, static_cast<int64_t>(i)));
  return *AddGetTupleElement(*c_, made, 0);
}

Instruction* GraphMaker::GatherOrScatter() {
  Instruction* a = Any(1);
  if (a == nullptr || a->shape().element_count() == 0) return nullptr;
  int64_t rank = a->shape().rank(), depth = random_.Between(1, rank), batch = random_.Between(0, 2);
  GatherAttributes gather;
  Dims order = Permutation(rank);
  for (int64_t i = 0; i < depth; ++i) gather.start_index_map.push_back(order[static_cast<std::size_t>(i)]);
  Dims window;
  for (int64_t i = 0; i < rank; ++i) {
    bool indexed = std::ranges::find(gather.start_index_map, i) != gather.start_index_map.end();
    int64_t size = indexed && random_.Chance(60) ? 1 : random_.Between(1, a->shape().dim(i));
    gather.slice_sizes.push_back(size);
    if (size == 1 && random_.Chance(70)) gather.collapsed_slice_dims.push_back(i);
    else window.push_back(size);
  }
  int64_t out_rank = batch + window.ssize();
  // Which dimensions of the result run over the window.
  std::vector<bool> is_window(static_cast<std::size_t>(out_rank), false);
  for (int64_t i = 0; i < window.ssize();) {
    auto at = static_cast<std::size_t>(random_.Below(out_rank));
    if (!is_window[at]) is_window[at] = true, ++i;
  }
  Dims indices, out;
  std::size_t next = 0;
  for (int64_t i = 0; i < out_rank; ++i) {
    if (is_window[static_cast<std::size_t>(i)]) {
      gather.offset_dims.push_back(i);
      out.push_back(window[next++]);
    } else {
      indices.push_back(random_.Between(1, 9));
      out.push_back(indices.back());
    }
  }
  gather.index_vector_dim = random_.Between(0, batch);
  Dims with_vector(std::span<const int64_t>(indices.data(), static_cast<std::size_t>(gather.index_vector_dim)));
  with_vector.push_back(depth);
  for (int64_t i = gather.index_vector_dim; i < batch; ++i) with_vector.push_back(indices[static_cast<std::size_t>(i)]);
  Instruction* starts = Like(random_.Chance(80)   ? ElementType::kS32
                             : random_.Chance(50) ? ElementType::kU32
                                                  : ElementType::kS64,
                             with_vector);
  if (starts == nullptr) return nullptr;
  if (random_.Chance(55)) return Add(Opcode::kGather, {a, starts}, gather);

  ScatterAttributes scatter;
  scatter.update_window_dims = gather.offset_dims;
  scatter.inserted_window_dims = gather.collapsed_slice_dims;
  scatter.scatter_dims_to_operand_dims = gather.start_index_map;
  scatter.index_vector_dim = gather.index_vector_dim;
  ElementType type = a->shape().element_type();
  Opcode opcode = ReducingOpcode(type);
  Instruction* updates = Like(type, out);
  bool sum = opcode == Opcode::kAdd;
  if (updates == nullptr) return nullptr;
  int64_t terms = updates->shape().element_count() + 1;
  if (sum) a = Exact(a, terms), updates = Exact(updates, terms);
  Instruction* made = Add(Opcode::kScatter, {a, starts, updates}, scatter, {Reducer(opcode, type)});
  return sum ? PlainZero(made) : made;
}

}  // namespace krafla::fuzz
