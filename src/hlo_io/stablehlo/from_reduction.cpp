// SPDX-License-Identifier: Apache-2.0
// Instructions with a computation on scalars: reductions, sorts, maps, scans.
#include "hlo_io/stablehlo/tree_builder.h"

namespace krafla::stablehlo {
namespace {

Result<> WriteCalling(TreeBuilder& b, const Instruction& i, Scope& scope, std::string_view name,
                      AttributeList attributes) {
  KRAFLA_ASSIGN(std::vector<Region> regions, b.RegionsOf(i));
  return b.Emit(i, scope, name, b.OperandLeaves(i, scope), std::move(attributes), std::move(regions));
}

// select_and_scatter's window has no dilations, and no window of StableHLO goes backwards here.
Result<AttributeList> WindowAttributesOf(TreeBuilder& b, const Instruction& i) {
  const bool dilated = i.opcode() == Opcode::kReduceWindow;
  const auto& dims = i.attr<WindowAttributes>().window;
  for (const WindowDim& w : dims) {
    if (w.reversal && w.size > 1) return Unimplemented("StableHLO has no window that goes backwards here.");
    if (!dilated && (w.base_dilation != 1 || w.window_dilation != 1))
      return Unimplemented("StableHLO's select_and_scatter has no window with dilations.");
  }
  const WindowLists window(dims);
  AttributeList out{{"padding", b.Table(std::ssize(dims), 2, window.padding)},
                    {"window_dimensions", b.List(window.sizes)},
                    {"window_strides", b.List(window.strides)}};
  if (dilated) {
    out.emplace_back("base_dilations", b.List(window.base_dilations));
    out.emplace_back("window_dilations", b.List(window.window_dilations));
  }
  return out;
}

// CHLO has the largest of the last dimension only.
Result<> WriteTopK(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<TopKAttributes>();
  if (!a.largest) return WriteTopKAsSort(b, i, scope);
  return WriteChlo(b, i, scope, "chlo.top_k", {{"k", b.Integer(a.k)}});
}

Result<> WriteScan(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<ScanAttributes>();
  const auto operands = static_cast<int64_t>(i.operand_count());
  const auto results = static_cast<int64_t>(LeafCount(i.shape()));
  if (b.dialects() != Dialects::kStablehloAndChlo)
    return Unimplemented("Only StableHLO's text has a form for 'scan'; its bytecode has none.");
  return WriteCalling(b, i, scope, "chlo.scan",
                      {{"dimension", b.Integer(a.dimension)},
                       {"is_reverse", b.Flag(a.is_reverse)},
                       {"is_associative", b.Flag(a.is_associative)},
                       {"operandSegmentSizes", b.List({operands - a.num_carries, a.num_carries}, ElementType::kS32)},
                       {"resultSegmentSizes", b.List({results - a.num_carries, a.num_carries}, ElementType::kS32)}});
}

Result<> WriteOverDimensions(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteCalling(b, i, scope, GetOpInfo(i.opcode()).stablehlo_name,
                      {{"dimensions", b.List(i.attr<DimensionsAttributes>().dimensions)}});
}

Result<> WriteOverWindow(TreeBuilder& b, const Instruction& i, Scope& scope) {
  KRAFLA_ASSIGN(AttributeList window, WindowAttributesOf(b, i));
  return WriteCalling(b, i, scope, GetOpInfo(i.opcode()).stablehlo_name, std::move(window));
}

Result<> WriteSort(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<SortAttributes>();
  return WriteCalling(b, i, scope, "sort", {{"dimension", b.Integer(a.dimension)}, {"is_stable", b.Flag(a.is_stable)}});
}

constexpr OpcodeWriter kReductionRows[] = {{Opcode::kMap, WriteOverDimensions},
                                           {Opcode::kReduce, WriteOverDimensions},
                                           {Opcode::kReduceWindow, WriteOverWindow},
                                           {Opcode::kScan, WriteScan},
                                           {Opcode::kSelectAndScatter, WriteOverWindow},
                                           {Opcode::kSort, WriteSort},
                                           {Opcode::kTopK, WriteTopK}};

}  // namespace

Result<bool> WriteReduction(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteByRow(kReductionRows, b, i, scope);
}

}  // namespace krafla::stablehlo
