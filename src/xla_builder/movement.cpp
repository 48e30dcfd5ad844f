// SPDX-License-Identifier: Apache-2.0
// Calls that move elements unchanged.
#include <format>

#include "base/checked_math.h"
#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts
using shape_rules::Brief;
using shape_rules::DimList;

XlaOp Broadcast(XlaOp operand, Span<int64_t> broadcast_sizes) {
  return Run("Broadcast", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    DimList dims;
    for (int64_t size : broadcast_sizes) dims.Add(size);
    Dims map;
    for (int64_t i = 0; i < x->rank(); ++i) {
      map.push_back(static_cast<int64_t>(broadcast_sizes.size()) + i);
      dims.AddFrom(*x, i);
    }
    KRAFLA_ASSIGN(Shape shape, dims.Make(x->element_type()));
    return b.Add(Opcode::kBroadcast, {ops[0]}, DimensionsAttributes{map}, {}, &shape);
  });
}

XlaOp BroadcastInDim(XlaOp operand, Span<int64_t> out_dim_size, Span<int64_t> broadcast_dimensions) {
  return Run("BroadcastInDim", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_ASSIGN(Shape result, Shape::MakeArray(x->element_type(), out_dim_size));
    if (static_cast<int64_t>(broadcast_dimensions.size()) != x->rank())
      return InvalidArgument("broadcast_dimensions must have one entry for each dimension of {}, it has {}.", Brief(*x),
                             broadcast_dimensions.size());
    DimList raised;
    for (int64_t size : out_dim_size) raised.Add(size);
    for (int64_t i = 0; i < x->rank(); ++i) {
      int64_t to = broadcast_dimensions[static_cast<std::size_t>(i)];
      KRAFLA_TRY(CheckDimension("broadcast_dimensions", to, result.rank()));
      if (i > 0 && broadcast_dimensions[static_cast<std::size_t>(i - 1)] >= to)
        return InvalidArgument("broadcast_dimensions must ascend; it has {} after {}.", to,
                               broadcast_dimensions[static_cast<std::size_t>(i - 1)]);
      if (x->dim(i) != 1 && x->dim(i) != result.dim(to))
        return InvalidArgument("Dimension {} of {} becomes dimension {} of {}; its size must be {} or 1.", i, Brief(*x),
                               to, Brief(result), result.dim(to));
      raised.sizes[static_cast<std::size_t>(to)] = x->dim(i);
      raised.dynamic[static_cast<std::size_t>(to)] = x->IsDynamicDim(i);
      if (x->dim(i) == result.dim(to)) result = result.WithDynamicDim(to, x->IsDynamicDim(i));
    }
    Instruction* out = ops[0];
    // One instruction where nothing repeats but whole dimensions.
    KRAFLA_ASSIGN(Shape shape, raised.Make(x->element_type()));
    KRAFLA_ASSIGN(out,
                  b.Add(Opcode::kBroadcast, {out}, DimensionsAttributes{ToDims(broadcast_dimensions)}, {}, &shape));
    return BroadcastTo(b, out, result);
  });
}

XlaOp Copy(XlaOp operand) { return RunOp("Copy", nullptr, {operand}, Opcode::kCopy); }

XlaOp Pad(XlaOp operand, XlaOp padding_value, const PaddingConfig& padding_config) {
  PadAttributes attributes;
  for (const PaddingConfig::Dimension& d : padding_config.dimensions) {
    attributes.low.push_back(d.edge_padding_low);
    attributes.high.push_back(d.edge_padding_high);
    attributes.interior.push_back(d.interior_padding);
  }
  return RunOp("Pad", nullptr, {operand, padding_value}, Opcode::kPad, std::move(attributes));
}

XlaOp PadInDim(XlaOp operand, XlaOp padding_value, int64_t dimno, int64_t pad_lo, int64_t pad_hi) {
  return Run("PadInDim", nullptr, {operand, padding_value}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_TRY(CheckDimension("dimno", dimno, x->rank()));
    auto rank = static_cast<std::size_t>(x->rank());
    PadAttributes attributes{Dims(rank), Dims(rank), Dims(rank)};
    attributes.low[static_cast<std::size_t>(dimno)] = pad_lo;
    attributes.high[static_cast<std::size_t>(dimno)] = pad_hi;
    return b.Add(Opcode::kPad, ToVector(ops), std::move(attributes));
  });
}

XlaOp Reshape(XlaOp operand, Span<int64_t> dimensions) {
  return Run("Reshape", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(x->element_type(), dimensions));
    return b.Add(Opcode::kReshape, {ops[0]}, {}, {}, &shape);
  });
}

XlaOp Reshape(const ShapeOrError& shape, XlaOp operand) {
  return Run("Reshape", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!shape) return Failure(shape.error());
    return b.Add(Opcode::kReshape, {ops[0]}, {}, {}, &*shape);
  });
}

XlaOp DynamicReshape(XlaOp operand, Span<XlaOp> dim_sizes, Span<int64_t> new_size_bounds,
                     const std::vector<bool>& dims_are_dynamic) {
  std::vector<XlaOp> operands = Join({operand}, dim_sizes);
  return Run("DynamicReshape", nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    if (dims_are_dynamic.size() != new_size_bounds.size() || dim_sizes.size() != new_size_bounds.size())
      return InvalidArgument(
          "dim_sizes, new_size_bounds and dims_are_dynamic must be equally long; they have {}, {} "
          "and {} entries.",
          dim_sizes.size(), new_size_bounds.size(), dims_are_dynamic.size());
    DimList dims;
    for (std::size_t i = 0; i < new_size_bounds.size(); ++i) dims.Add(new_size_bounds[i], dims_are_dynamic[i]);
    KRAFLA_ASSIGN(Shape shape, dims.Make(x->element_type()));
    return b.Add(Opcode::kDynamicReshape, ToVector(ops), {}, {}, &shape);
  });
}

XlaOp Collapse(XlaOp operand, Span<int64_t> dimensions) {
  return Run("Collapse", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      KRAFLA_TRY(CheckDimension("dimensions", dimensions[i], x->rank()));
      if (i > 0 && dimensions[i] != dimensions[i - 1] + 1)
        return InvalidArgument("The dimensions to collapse must follow each other; {} comes after {}.", dimensions[i],
                               dimensions[i - 1]);
    }
    if (dimensions.size() <= 1) return ops[0];
    Dims sizes;
    for (int64_t i = 0; i < x->rank(); ++i) {
      if (i <= dimensions[0] || i > dimensions[dimensions.size() - 1]) {
        sizes.push_back(x->dim(i));
      } else {
        auto product = CheckedMul(sizes.back(), x->dim(i));
        if (!product) return InvalidArgument("The collapsed dimension does not fit 63 bits.");
        sizes.back() = *product;
      }
    }
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(x->element_type(), sizes));
    return b.Add(Opcode::kReshape, {ops[0]}, {}, {}, &shape);
  });
}

XlaOp Slice(XlaOp operand, Span<int64_t> start_indices, Span<int64_t> limit_indices, Span<int64_t> strides) {
  return RunOp("Slice", nullptr, {operand}, Opcode::kSlice,
               SliceAttributes{ToDims(start_indices), ToDims(limit_indices), ToDims(strides)});
}

XlaOp SliceInDim(XlaOp operand, int64_t start_index, int64_t limit_index, int64_t stride, int64_t dimno) {
  return Run("SliceInDim", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_TRY(CheckDimension("dimno", dimno, x->rank()));
    auto rank = static_cast<std::size_t>(x->rank());
    auto at = static_cast<std::size_t>(dimno);
    SliceAttributes attributes{Dims(rank), x->dims(), Dims(rank, 1)};
    attributes.starts[at] = start_index;
    attributes.limits[at] = limit_index;
    attributes.strides[at] = stride;
    return b.Add(Opcode::kSlice, {ops[0]}, std::move(attributes));
  });
}

XlaOp DynamicSlice(XlaOp operand, Span<XlaOp> start_indices, Span<int64_t> slice_sizes) {
  return RunOp("DynamicSlice", nullptr, Join({operand}, start_indices), Opcode::kDynamicSlice,
               DynamicSliceAttributes{ToDims(slice_sizes)});
}

XlaOp DynamicUpdateSlice(XlaOp operand, XlaOp update, Span<XlaOp> start_indices) {
  return RunOp("DynamicUpdateSlice", nullptr, Join({operand, update}, start_indices), Opcode::kDynamicUpdateSlice);
}

XlaOp ConcatInDim(XlaBuilder* builder, Span<XlaOp> operands, int64_t dimension) {
  return RunOp("ConcatInDim", builder, operands, Opcode::kConcatenate, DimensionsAttributes{{dimension}});
}

XlaOp Transpose(XlaOp operand, Span<int64_t> permutation) {
  return RunOp("Transpose", nullptr, {operand}, Opcode::kTranspose, DimensionsAttributes{ToDims(permutation)});
}

XlaOp Rev(XlaOp operand, Span<int64_t> dimensions) {
  return RunOp("Rev", nullptr, {operand}, Opcode::kReverse, DimensionsAttributes{ToDims(dimensions)});
}

XlaOp Bitcast(XlaOp operand, const ShapeOrError& shape) {
  return Run("Bitcast", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (!shape) return Failure(shape.error());
    return b.Add(Opcode::kBitcast, {ops[0]}, {}, {}, &*shape);
  });
}

XlaOp Gather(XlaOp input, XlaOp start_indices, const GatherDimensionNumbers& n, Span<int64_t> slice_sizes,
             bool indices_are_sorted) {
  return RunOp("Gather", nullptr, {input, start_indices}, Opcode::kGather,
               GatherAttributes{.offset_dims = n.offset_dims,
                                .collapsed_slice_dims = n.collapsed_slice_dims,
                                .start_index_map = n.start_index_map,
                                .operand_batching_dims = n.operand_batching_dims,
                                .start_indices_batching_dims = n.start_indices_batching_dims,
                                .index_vector_dim = n.index_vector_dim,
                                .slice_sizes = ToDims(slice_sizes),
                                .indices_are_sorted = indices_are_sorted});
}

XlaOp Scatter(Span<XlaOp> inputs, XlaOp scatter_indices, Span<XlaOp> updates,
              const ComputationOrError& update_computation, const ScatterDimensionNumbers& n, bool indices_are_sorted,
              bool unique_indices) {
  std::vector<XlaOp> operands = Join(Join(inputs, {scatter_indices}), updates);
  return Run("Scatter", nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (inputs.size() != updates.size())
      return InvalidArgument("There must be as many updates as inputs; {} inputs and {} updates were given.",
                             inputs.size(), updates.size());
    KRAFLA_ASSIGN(Computation * f, b.Import(update_computation));
    return b.Add(Opcode::kScatter, ToVector(ops),
                 ScatterAttributes{.update_window_dims = n.update_window_dims,
                                   .inserted_window_dims = n.inserted_window_dims,
                                   .scatter_dims_to_operand_dims = n.scatter_dims_to_operand_dims,
                                   .input_batching_dims = n.input_batching_dims,
                                   .scatter_indices_batching_dims = n.scatter_indices_batching_dims,
                                   .index_vector_dim = n.index_vector_dim,
                                   .indices_are_sorted = indices_are_sorted,
                                   .unique_indices = unique_indices},
                 {f});
  });
}
XlaOp Scatter(XlaOp input, XlaOp scatter_indices, XlaOp updates, const ComputationOrError& update_computation,
              const ScatterDimensionNumbers& dimension_numbers, bool indices_are_sorted, bool unique_indices) {
  return Scatter(Span<XlaOp>{input}, scatter_indices, Span<XlaOp>{updates}, update_computation, dimension_numbers,
                 indices_are_sorted, unique_indices);
}

XlaOp GetDimensionSize(XlaOp operand, int64_t dimension) {
  return RunOp("GetDimensionSize", nullptr, {operand}, Opcode::kGetDimensionSize, DimensionsAttributes{{dimension}});
}
XlaOp SetDimensionSize(XlaOp operand, XlaOp val, int64_t dimension) {
  return RunOp("SetDimensionSize", nullptr, {operand, val}, Opcode::kSetDimensionSize,
               DimensionsAttributes{{dimension}});
}
XlaOp RemoveDynamicDimension(XlaOp operand, int64_t dimension) {
  return Run("RemoveDynamicDimension", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_TRY(CheckDimension("dimension", dimension, x->rank()));
    if (x->dim(dimension) > INT32_MAX)
      return InvalidArgument("The size {} of dimension {} does not fit s32.", x->dim(dimension), dimension);
    Shape shape = x->WithDynamicDim(dimension, false);
    KRAFLA_ASSIGN(Instruction * size, b.Add(Opcode::kConstant, {},
                                            ConstantAttributes{std::make_shared<Literal>(ScalarLiteral(
                                                ElementType::kS32, static_cast<double>(x->dim(dimension))))}));
    return b.Add(Opcode::kSetDimensionSize, {ops[0], size}, DimensionsAttributes{{dimension}}, {}, &shape);
  });
}

}  // namespace krafla
