// SPDX-License-Identifier: Apache-2.0
// Folding, ordering and walking.
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts

namespace {

struct WindowArguments {
  Span<int64_t> sizes, strides, base_dilations, window_dilations;
  std::optional<Padding> kind;
  Span<std::pair<int64_t, int64_t>> padding;
};

Result<WindowAttributes> WindowOver(const Instruction& operand, const WindowArguments& a) {
  KRAFLA_ASSIGN(const Shape* x, ArrayShape(operand, "The operand"));
  std::vector<std::pair<int64_t, int64_t>> padding(a.padding.begin(), a.padding.end());
  if (a.kind) { KRAFLA_ASSIGN(padding, MakePadding(x->dims(), a.sizes, a.strides, *a.kind)); }
  KRAFLA_ASSIGN(Window window, MakeWindow({.sizes = a.sizes,
                                           .strides = a.strides,
                                           .base_dilations = a.base_dilations,
                                           .window_dilations = a.window_dilations,
                                           .padding = padding}));
  return WindowAttributes{std::move(window)};
}

Result<> CheckPairing(std::size_t operands, std::size_t inits) {
  if (operands == inits && operands > 0) return {};
  return InvalidArgument(
      "There must be an initial value for each array, and at least one; {} arrays and {} initial "
      "values were given.",
      operands, inits);
}

XlaOp WindowedReduce(const char* call, Span<XlaOp> operands, Span<XlaOp> inits, const ComputationOrError& computation,
                     const WindowArguments& a) {
  std::vector<XlaOp> all = Join(operands, inits);
  return Run(call, nullptr, all, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_TRY(CheckPairing(operands.size(), inits.size()));
    KRAFLA_ASSIGN(WindowAttributes window, WindowOver(*ops[0], a));
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return b.Add(Opcode::kReduceWindow, ToVector(ops), std::move(window), {f});
  });
}

XlaOp WindowedScatter(const char* call, XlaOp operand, const ComputationOrError& select, const WindowArguments& a,
                      XlaOp source, XlaOp init_value, const ComputationOrError& scatter) {
  return Run(call, nullptr, {operand, source, init_value}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(WindowAttributes window, WindowOver(*ops[0], a));
    KRAFLA_ASSIGN(Computation * f, b.Import(select));
    KRAFLA_ASSIGN(Computation * g, b.Import(scatter));
    return b.Add(Opcode::kSelectAndScatter, ToVector(ops), std::move(window), {f, g});
  });
}

}  // namespace

XlaOp Reduce(XlaBuilder* builder, Span<XlaOp> operands, Span<XlaOp> init_values, const ComputationOrError& computation,
             Span<int64_t> dimensions_to_reduce) {
  std::vector<XlaOp> all = Join(operands, init_values);
  return Run("Reduce", builder, all, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_TRY(CheckPairing(operands.size(), init_values.size()));
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return b.Add(Opcode::kReduce, ToVector(ops), DimensionsAttributes{ToDims(dimensions_to_reduce)}, {f});
  });
}
XlaOp Reduce(XlaOp operand, XlaOp init_value, const ComputationOrError& computation,
             Span<int64_t> dimensions_to_reduce) {
  return Reduce(operand.builder(), {operand}, {init_value}, computation, dimensions_to_reduce);
}

XlaOp ReduceAll(XlaOp operand, XlaOp init_value, const ComputationOrError& computation) {
  return Run("ReduceAll", nullptr, {operand, init_value}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    Dims all;
    for (int64_t i = 0; i < x->rank(); ++i) all.push_back(i);
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return b.Add(Opcode::kReduce, ToVector(ops), DimensionsAttributes{all}, {f});
  });
}

XlaOp ReduceWindow(XlaOp operand, XlaOp init_value, const ComputationOrError& computation,
                   Span<int64_t> window_dimensions, Span<int64_t> window_strides, Padding padding) {
  return WindowedReduce("ReduceWindow", {operand}, {init_value}, computation,
                        {window_dimensions, window_strides, {}, {}, padding, {}});
}
XlaOp ReduceWindow(Span<XlaOp> operands, Span<XlaOp> init_values, const ComputationOrError& computation,
                   Span<int64_t> window_dimensions, Span<int64_t> window_strides, Padding padding) {
  return WindowedReduce("ReduceWindow", operands, init_values, computation,
                        {window_dimensions, window_strides, {}, {}, padding, {}});
}
XlaOp ReduceWindowWithGeneralPadding(XlaOp operand, XlaOp init_value, const ComputationOrError& computation,
                                     Span<int64_t> window_dimensions, Span<int64_t> window_strides,
                                     Span<int64_t> base_dilations, Span<int64_t> window_dilations,
                                     Span<std::pair<int64_t, int64_t>> padding) {
  return WindowedReduce("ReduceWindowWithGeneralPadding", {operand}, {init_value}, computation,
                        {window_dimensions, window_strides, base_dilations, window_dilations, {}, padding});
}
XlaOp ReduceWindowWithGeneralPadding(Span<XlaOp> operands, Span<XlaOp> init_values,
                                     const ComputationOrError& computation, Span<int64_t> window_dimensions,
                                     Span<int64_t> window_strides, Span<int64_t> base_dilations,
                                     Span<int64_t> window_dilations, Span<std::pair<int64_t, int64_t>> padding) {
  return WindowedReduce("ReduceWindowWithGeneralPadding", operands, init_values, computation,
                        {window_dimensions, window_strides, base_dilations, window_dilations, {}, padding});
}

XlaOp SelectAndScatter(XlaOp operand, const ComputationOrError& select, Span<int64_t> window_dimensions,
                       Span<int64_t> window_strides, Padding padding, XlaOp source, XlaOp init_value,
                       const ComputationOrError& scatter) {
  return WindowedScatter("SelectAndScatter", operand, select, {window_dimensions, window_strides, {}, {}, padding, {}},
                         source, init_value, scatter);
}
XlaOp SelectAndScatterWithGeneralPadding(XlaOp operand, const ComputationOrError& select,
                                         Span<int64_t> window_dimensions, Span<int64_t> window_strides,
                                         Span<std::pair<int64_t, int64_t>> padding, XlaOp source, XlaOp init_value,
                                         const ComputationOrError& scatter) {
  return WindowedScatter("SelectAndScatterWithGeneralPadding", operand, select,
                         {window_dimensions, window_strides, {}, {}, {}, padding}, source, init_value, scatter);
}

XlaOp Scan(Span<XlaOp> inputs, Span<XlaOp> inits, const ComputationOrError& computation, int64_t scan_dimension,
           std::optional<int64_t> scan_dimension_size, bool is_reverse, bool is_associative) {
  std::vector<XlaOp> all = Join(inputs, inits);
  return Run("Scan", nullptr, all, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (inputs.empty())
      return Unimplemented("A scan without arrays to walk along is not supported; give it an iota to count by.");
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The first array"));
    KRAFLA_TRY(CheckDimension("scan_dimension", scan_dimension, x->rank()));
    if (scan_dimension_size && *scan_dimension_size != x->dim(scan_dimension))
      return InvalidArgument("scan_dimension_size is {}, dimension {} of {} has {}.", *scan_dimension_size,
                             scan_dimension, shape_rules::Brief(*x), x->dim(scan_dimension));
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return b.Add(Opcode::kScan, ToVector(ops),
                 ScanAttributes{scan_dimension, static_cast<int64_t>(inits.size()), is_reverse, is_associative}, {f});
  });
}

XlaOp Sort(Span<XlaOp> operands, const ComputationOrError& comparator, int64_t dimension, bool is_stable) {
  return Run("Sort", nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The first array"));
    if (dimension < -1)
      return InvalidArgument(
          "The dimension to sort along must be -1, for the last, or at least 0; "
          "it is {}.",
          dimension);
    int64_t along = dimension == -1 ? x->rank() - 1 : dimension;
    KRAFLA_ASSIGN(Computation * f, b.Import(comparator));
    return b.Add(Opcode::kSort, ToVector(ops), SortAttributes{along, is_stable}, {f});
  });
}

XlaOp TopK(XlaOp operand, int64_t k, bool largest) {
  return RunOp("TopK", nullptr, {operand}, Opcode::kTopK, TopKAttributes{k, largest});
}

}  // namespace krafla
