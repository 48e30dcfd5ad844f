// SPDX-License-Identifier: Apache-2.0
// Operations whose places are known when the program runs.
#include "hlo_io/stablehlo/converter.h"
#include "ir/dimension_numbers.h"

namespace krafla::stablehlo {
namespace {

// Of gather and scatter; programs from before there were batching dimensions have none.
template <typename Attributes>
Result<> ReadDimensionNumbers(const Op& op, Attributes& out) {
  Result<> read;
  const auto store = [&](auto value, auto& field) {
    if (value) field = std::move(*value);
    else read = Failure(std::move(value).error());
  };
  VisitDimensionNumbers(out, [&](int number, std::string_view name, auto& field) {
    if (!read || (number > 4 && op.Find(name) == nullptr)) return;
    if constexpr (kIsDimensionList<decltype(field)>) store(DimsAttribute(op, name), field);
    else store(IntAttribute(op, name), field);
  });
  return read;
}

Result<GatherAttributes> GatherOf(const Op& op) {
  GatherAttributes a;
  KRAFLA_TRY(ReadDimensionNumbers(op, a));
  KRAFLA_ASSIGN(a.indices_are_sorted, BoolAttribute(op, "indices_are_sorted"));
  return a;
}

Result<> Scatter(Converter& c, const Op& op, Body& body) {
  ScatterAttributes a;
  KRAFLA_TRY(ReadDimensionNumbers(op, a));
  KRAFLA_ASSIGN(a.indices_are_sorted, BoolAttribute(op, "indices_are_sorted"));
  KRAFLA_ASSIGN(a.unique_indices, BoolAttribute(op, "unique_indices"));
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  KRAFLA_ASSIGN(Computation * called, c.RegionComputation(op, body, 0));
  return c.Emit(op, body, Opcode::kScatter, std::move(operands), std::move(a), {called});
}

// Rows of `operand` along `dim`, by an array of indices whose first `batch_dims` dimensions go along.
Result<> TorchIndexSelect(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  KRAFLA_ASSIGN(int64_t dim, IntAttribute(op, "dim"));
  KRAFLA_ASSIGN(int64_t batch, IntAttribute(op, "batch_dims"));
  if (operands.size() != 2) return InvalidArgument("torch_index_select takes two operands, {} given.", operands.size());
  const Shape &data = operands[0]->shape(), &index = operands[1]->shape();
  if (batch < 0 || batch > dim || dim >= data.rank() || batch > index.rank())
    return InvalidArgument("torch_index_select along dimension {} with {} batch dimensions does not fit its operands.",
                           dim, batch);
  GatherAttributes a;
  for (int64_t d = 0; d < batch; ++d) {
    a.operand_batching_dims.push_back(d);
    a.start_indices_batching_dims.push_back(d);
  }
  a.collapsed_slice_dims.push_back(dim);
  a.start_index_map.push_back(dim);
  a.index_vector_dim = index.rank();
  for (int64_t d = 0; d < data.rank(); ++d) a.slice_sizes.push_back(d < batch || d == dim ? 1 : data.dim(d));
  // The result: batch, data before dim, index after batch, data after dim.
  for (int64_t d = batch; d < dim; ++d) a.offset_dims.push_back(d);
  for (int64_t d = dim + 1; d < data.rank(); ++d) a.offset_dims.push_back(d - 1 + index.rank() - batch);
  return c.Emit(op, body, Opcode::kGather, std::move(operands), std::move(a));
}

}  // namespace

Result<bool> ConvertIndexing(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  if (n == "gather" || n == "dynamic_gather") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    KRAFLA_ASSIGN(GatherAttributes a, GatherOf(op));
    if (n == "gather") {
      KRAFLA_ASSIGN(a.slice_sizes, DimsAttribute(op, "slice_sizes"));
    } else {
      auto sizes = operands.size() == 3 ? c.ConstantDims(operands[2]) : std::nullopt;
      if (!sizes)
        return Unimplemented("A gather whose slice sizes are not known before the program runs cannot be computed.");
      a.slice_sizes = *sizes;
      operands.pop_back();
    }
    KRAFLA_TRY(c.Emit(op, body, Opcode::kGather, std::move(operands), std::move(a)));
  } else if (n == "scatter") {
    KRAFLA_TRY(Scatter(c, op, body));
  } else if (n == "dynamic_slice") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    KRAFLA_ASSIGN(Dims sizes, DimsAttribute(op, "slice_sizes"));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kDynamicSlice, std::move(operands), DynamicSliceAttributes{std::move(sizes)}));
  } else if (n == "dynamic_update_slice") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kDynamicUpdateSlice, std::move(operands)));
  } else if (n == "torch_index_select") {
    KRAFLA_TRY(TorchIndexSelect(c, op, body));
  } else {
    return false;
  }
  return true;
}

}  // namespace krafla::stablehlo
