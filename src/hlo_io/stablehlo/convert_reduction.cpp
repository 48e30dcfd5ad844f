// SPDX-License-Identifier: Apache-2.0
// Operations with a computation on scalars: reductions, sorts, maps.
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

Result<Window> WindowOf(const Op& op, bool dilated) {
  KRAFLA_ASSIGN(Dims sizes, DimsAttribute(op, "window_dimensions"));
  KRAFLA_ASSIGN(Dims strides, DimsAttribute(op, "window_strides"));
  KRAFLA_ASSIGN(auto padding, PairsAttribute(op, "padding"));
  Dims base(sizes.size(), 1), window(sizes.size(), 1);
  if (dilated) {
    KRAFLA_ASSIGN(base, DimsAttribute(op, "base_dilations"));
    KRAFLA_ASSIGN(window, DimsAttribute(op, "window_dilations"));
  }
  return MakeWindow(op, sizes, strides, base, window, padding);
}

}  // namespace

Result<Window> MakeWindow(const Op& op, const Dims& sizes, const Dims& strides, const Dims& base, const Dims& window,
                          std::span<const std::pair<int64_t, int64_t>> padding) {
  const std::size_t rank = sizes.size();
  if (strides.size() != rank || padding.size() != rank || base.size() != rank || window.size() != rank)
    return InvalidArgument("'{}' has a window of {} dimensions with strides, padding or dilations of others.", op.name,
                           rank);
  Window out;
  for (std::size_t d = 0; d < rank; ++d)
    out.push_back({.size = sizes[d],
                   .stride = strides[d],
                   .padding_low = padding[d].first,
                   .padding_high = padding[d].second,
                   .window_dilation = window[d],
                   .base_dilation = base[d],
                   .reversal = false});
  return out;
}

Result<bool> ConvertReduction(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  const bool reduce = n == "reduce", window = n == "reduce_window", sort = n == "sort", map = n == "map";
  const bool select = n == "select_and_scatter";
  if (!reduce && !window && !sort && !map && !select) return false;
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  KRAFLA_ASSIGN(Computation * called, c.RegionComputation(op, body, 0));
  if (reduce) {
    KRAFLA_ASSIGN(Dims dimensions, DimsAttribute(op, "dimensions"));
    KRAFLA_TRY(
        c.Emit(op, body, Opcode::kReduce, std::move(operands), DimensionsAttributes{std::move(dimensions)}, {called}));
  } else if (window) {
    KRAFLA_ASSIGN(Window w, WindowOf(op, true));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kReduceWindow, std::move(operands), WindowAttributes{std::move(w)}, {called}));
  } else if (select) {
    KRAFLA_ASSIGN(Window w, WindowOf(op, false));
    KRAFLA_ASSIGN(Computation * scatter, c.RegionComputation(op, body, 1));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kSelectAndScatter, std::move(operands), WindowAttributes{std::move(w)},
                      {called, scatter}));
  } else if (sort) {
    KRAFLA_ASSIGN(int64_t dimension, IntAttribute(op, "dimension"));
    KRAFLA_ASSIGN(bool stable, BoolAttribute(op, "is_stable"));
    if (dimension < 0 && !operands.empty()) dimension += operands[0]->shape().rank();
    KRAFLA_TRY(c.Emit(op, body, Opcode::kSort, std::move(operands), SortAttributes{dimension, stable}, {called}));
  } else {
    KRAFLA_ASSIGN(Dims dimensions, DimsAttribute(op, "dimensions"));
    KRAFLA_TRY(
        c.Emit(op, body, Opcode::kMap, std::move(operands), DimensionsAttributes{std::move(dimensions)}, {called}));
  }
  return true;
}

}  // namespace krafla::stablehlo
