// SPDX-License-Identifier: Apache-2.0
// Constants, instructions that move elements, and those that find their place when the program runs.
#include "hlo_io/stablehlo/tree_builder.h"
#include "ir/dimension_numbers.h"

namespace krafla::stablehlo {
namespace {

template <typename Numbered>
AttributeList DimensionNumbers(TreeBuilder& b, const Numbered& a) {
  AttributeList out;
  VisitDimensionNumbers(a, [&](int, std::string_view name, const auto& field) {
    if constexpr (kIsDimensionList<decltype(field)>) out.emplace_back(name, b.List(field));
    else out.emplace_back(name, b.Integer(field));
  });
  out.emplace_back("indices_are_sorted", b.Flag(a.indices_are_sorted));
  return out;
}

Result<> WriteConstant(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const Literal& literal = i.literal();
  Leaves leaves;
  if (literal.shape().IsTuple() && literal.ArrayLeaves().size() != LeafCount(literal.shape()))
    return Unimplemented("StableHLO has no constant of shape {}.", literal.shape().ToString(false));
  for (const Literal* leaf : literal.ArrayLeaves()) {
    KRAFLA_ASSIGN(ValueId value, b.AddDense(scope, *leaf));
    leaves.push_back(value);
  }
  b.Bind(i, scope, std::move(leaves));
  return {};
}

// The order of an array's dimensions in memory, the slowest first, and the shape that it has there.
Dims MemoryOrder(const Shape& shape) {
  Dims out;
  const Dims& order = shape.layout().minor_to_major;
  for (std::size_t d = order.size(); d-- > 0;) out.push_back(order[d]);
  if (out.empty())
    for (int64_t d = 0; d < shape.rank(); ++d) out.push_back(d);
  return out;
}

Result<Shape> ShapeInMemory(const Shape& shape, const Dims& order) {
  Dims dims;
  for (int64_t d : order) dims.push_back(shape.dim(d));
  return Shape::MakeArray(shape.element_type(), dims);
}

// The same bytes: the operand in the order in which it lies, under the result's dimensions in the order in which those
// lie.
Result<> WriteBitcast(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const Shape &from = i.operand(0)->shape(), &to = i.shape();
  if (!from.IsArray() || !to.IsArray() || from.IsDynamic() || to.IsDynamic())
    return Unimplemented("A bitcast of {} to {} has no form in StableHLO.", from.ToString(), to.ToString());
  const Dims from_order = MemoryOrder(from), to_order = MemoryOrder(to);
  KRAFLA_ASSIGN(const Shape lies, ShapeInMemory(from, from_order));
  KRAFLA_ASSIGN(const Shape will_lie, ShapeInMemory(to, to_order));
  ValueId value = b.LeavesOf(scope, i.operand(0))[0];
  if (!from.layout().IsRowMajor()) { KRAFLA_ASSIGN(value, b.AddTransposed(scope, value, lies, from_order)); }
  Shape held = lies;
  if (from.element_type() != to.element_type()) {
    if (BitWidth(from.element_type()) != BitWidth(to.element_type()))
      return Unimplemented("A bitcast between elements of {} and {} bits has no form in StableHLO.",
                           BitWidth(from.element_type()), BitWidth(to.element_type()));
    held = lies.WithElementType(to.element_type());
    KRAFLA_ASSIGN(value, b.Add(scope, "bitcast_convert", {value}, held));
  }
  if (!Shape::SameDims(held, will_lie)) { KRAFLA_ASSIGN(value, b.AddReshaped(scope, value, will_lie)); }
  if (!to.layout().IsRowMajor()) {
    Dims back(to_order.size(), 0);
    for (std::size_t d = 0; d < to_order.size(); ++d)
      back[static_cast<std::size_t>(to_order[d])] = static_cast<int64_t>(d);
    KRAFLA_ASSIGN(value, b.AddTransposed(scope, value, to, back));
  }
  b.Bind(i, scope, {value});
  return {};
}

// One size a dimension becomes a list of sizes.
Result<> WriteDynamicReshape(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const int64_t count = std::ssize(i.operands()) - 1;
  Leaves sizes;
  KRAFLA_ASSIGN(const Shape one, Shape::MakeArray(ElementType::kS32, Dims{1}));
  KRAFLA_ASSIGN(const Shape all, Shape::MakeArray(ElementType::kS32, Dims{count}));
  for (ValueId size : b.OperandLeaves(i, scope, 1)) {
    KRAFLA_ASSIGN(ValueId reshaped, b.AddReshaped(scope, size, one));
    sizes.push_back(reshaped);
  }
  KRAFLA_ASSIGN(ValueId list, b.Add(scope, "concatenate", std::move(sizes), all, {{"dimension", b.Integer(0)}}));
  return b.Emit(i, scope, "dynamic_reshape", {b.LeavesOf(scope, i.operand(0))[0], list});
}

// Starts one by one: HLO may have them in one array.
Result<Leaves> StartsOf(TreeBuilder& b, const Instruction& i, Scope& scope, std::size_t first) {
  if (i.operand_count() != first + 1 || i.operand(first)->shape().rank() != 1) return b.OperandLeaves(i, scope, first);
  const Shape& list = i.operand(first)->shape();
  const ValueId value = b.LeavesOf(scope, i.operand(first))[0];
  KRAFLA_ASSIGN(const Shape one, Shape::MakeArray(list.element_type(), Dims{1}));
  Leaves out;
  for (int64_t n = 0; n < list.dim(0); ++n) {
    KRAFLA_ASSIGN(
        ValueId slice,
        b.Add(scope, "slice", {value}, one,
              {{"start_indices", b.List({n})}, {"limit_indices", b.List({n + 1})}, {"strides", b.List({1})}}));
    KRAFLA_ASSIGN(ValueId start, b.AddReshaped(scope, slice, Shape::MakeScalar(list.element_type())));
    out.push_back(start);
  }
  return out;
}

Result<> WriteDynamicSlice(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const bool updates = i.opcode() == Opcode::kDynamicUpdateSlice;
  const std::size_t first = updates ? 2 : 1;
  KRAFLA_ASSIGN(const Leaves starts, StartsOf(b, i, scope, first));
  Leaves operands;
  for (std::size_t n = 0; n < first; ++n) operands.push_back(b.LeavesOf(scope, i.operand(n))[0]);
  operands.insert(operands.end(), starts.begin(), starts.end());
  if (updates) return b.Emit(i, scope, "dynamic_update_slice", std::move(operands));
  return b.Emit(i, scope, "dynamic_slice", std::move(operands),
                {{"slice_sizes", b.List(i.attr<DynamicSliceAttributes>().slice_sizes)}});
}

Result<> WriteScatter(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<ScatterAttributes>();
  AttributeList attributes = DimensionNumbers(b, a);
  attributes.emplace_back("unique_indices", b.Flag(a.unique_indices));
  KRAFLA_ASSIGN(std::vector<Region> regions, b.RegionsOf(i));
  return b.Emit(i, scope, "scatter", b.OperandLeaves(i, scope), std::move(attributes), std::move(regions));
}

// Instructions that are an operation of their name.
Result<> WriteNamed(TreeBuilder& b, const Instruction& i, Scope& scope, AttributeList attributes) {
  return b.Emit(i, scope, GetOpInfo(i.opcode()).stablehlo_name, b.OperandLeaves(i, scope), std::move(attributes));
}

Result<> WriteReshape(TreeBuilder& b, const Instruction& i, Scope& scope) { return WriteNamed(b, i, scope, {}); }

Result<> WriteIota(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteNamed(b, i, scope, {{"iota_dimension", b.Integer(i.attr<IotaAttributes>().dimension)}});
}

Result<> WriteWithDimensions(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const std::string_view key = i.opcode() == Opcode::kBroadcast   ? "broadcast_dimensions"
                               : i.opcode() == Opcode::kTranspose ? "permutation"
                                                                  : "dimensions";
  return WriteNamed(b, i, scope, {{std::string(key), b.List(i.attr<DimensionsAttributes>().dimensions)}});
}

Result<> WriteWithDimension(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteNamed(b, i, scope, {{"dimension", b.Integer(i.attr<DimensionsAttributes>().dimensions[0])}});
}

Result<> WriteSlice(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<SliceAttributes>();
  return WriteNamed(
      b, i, scope,
      {{"start_indices", b.List(a.starts)}, {"limit_indices", b.List(a.limits)}, {"strides", b.List(a.strides)}});
}

Result<> WritePad(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<PadAttributes>();
  return WriteNamed(b, i, scope,
                    {{"edge_padding_low", b.List(a.low)},
                     {"edge_padding_high", b.List(a.high)},
                     {"interior_padding", b.List(a.interior)}});
}

Result<> WriteGather(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<GatherAttributes>();
  AttributeList attributes = DimensionNumbers(b, a);
  attributes.emplace_back("slice_sizes", b.List(a.slice_sizes));
  return WriteNamed(b, i, scope, std::move(attributes));
}

constexpr OpcodeWriter kMovementRows[] = {{Opcode::kBitcast, WriteBitcast},
                                          {Opcode::kBroadcast, WriteWithDimensions},
                                          {Opcode::kConcatenate, WriteWithDimension},
                                          {Opcode::kConstant, WriteConstant},
                                          {Opcode::kDynamicReshape, WriteDynamicReshape},
                                          {Opcode::kDynamicSlice, WriteDynamicSlice},
                                          {Opcode::kDynamicUpdateSlice, WriteDynamicSlice},
                                          {Opcode::kGather, WriteGather},
                                          {Opcode::kGetDimensionSize, WriteWithDimension},
                                          {Opcode::kIota, WriteIota},
                                          {Opcode::kPad, WritePad},
                                          {Opcode::kReshape, WriteReshape},
                                          {Opcode::kReverse, WriteWithDimensions},
                                          {Opcode::kScatter, WriteScatter},
                                          {Opcode::kSetDimensionSize, WriteWithDimension},
                                          {Opcode::kSlice, WriteSlice},
                                          {Opcode::kTranspose, WriteWithDimensions}};

}  // namespace

Result<bool> WriteDataMovement(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteByRow(kMovementRows, b, i, scope);
}

}  // namespace krafla::stablehlo
