// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions.
#include <format>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts
using shape_rules::Brief;

namespace {

// A contraction whose result has `preferred` for its element type.
Result<Instruction*> AddContraction(Impl& b, Opcode opcode, Instructions ops, Attributes attributes,
                                    std::optional<PrimitiveType> preferred) {
  if (!preferred) return b.Add(opcode, ToVector(ops), std::move(attributes));
  if (!IsArrayType(*preferred))
    return InvalidArgument("{} is not the element type of an array.", ElementTypeName(*preferred));
  KRAFLA_ASSIGN(Shape natural, InferShape(*b.computation, opcode, ops, attributes));
  shape_rules::DimList dims;
  for (int64_t i = 0; i < natural.rank(); ++i) dims.AddFrom(natural, i);
  KRAFLA_ASSIGN(Shape declared, dims.Make(*preferred));
  return b.Add(opcode, ToVector(ops), std::move(attributes), {}, &declared);
}

DotAttributes MakeDot(const DotDimensionNumbers& n, const PrecisionConfig* precision) {
  DotAttributes out{n.lhs_contracting_dimensions,
                    n.rhs_contracting_dimensions,
                    n.lhs_batch_dimensions,
                    n.rhs_batch_dimensions,
                    {},
                    {}};
  if (precision != nullptr) {
    out.precision = precision->operand_precision;
    out.algorithm = precision->algorithm;
  }
  return out;
}

// Sizes of `spatial` dimensions of `shape`; the rule checks the rest.
Result<Dims> SpatialSizes(const char* what, const Shape& shape, const Dims& spatial) {
  Dims out;
  for (int64_t d : spatial) {
    KRAFLA_TRY(CheckDimension(what, d, shape.rank()));
    out.push_back(shape.dim(d));
  }
  return out;
}

struct ConvArguments {
  Span<int64_t> strides = {};
  std::optional<Padding> kind = {};
  Span<std::pair<int64_t, int64_t>> padding = {};
  Span<int64_t> lhs_dilation = {}, rhs_dilation = {};
  const ConvolutionDimensionNumbers& numbers;
  int64_t feature_group_count = 1, batch_group_count = 1;
  const PrecisionConfig* precision = nullptr;
  std::optional<PrimitiveType> preferred = {};
  std::optional<std::vector<bool>> reversal = {};
};

XlaOp Convolve(const char* call, XlaOp lhs, XlaOp rhs, const ConvArguments& a) {
  return Run(call, nullptr, {lhs, rhs}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "lhs"));
    KRAFLA_ASSIGN(const Shape* kernel, ArrayShape(*ops[1], "rhs"));
    const ConvolutionDimensionNumbers& n = a.numbers;
    KRAFLA_ASSIGN(Dims sizes, SpatialSizes("kernel_spatial_dimensions", *kernel, n.kernel_spatial_dimensions));
    if (a.strides.size() != sizes.size())
      return InvalidArgument("window_strides must have one entry for each of the {} spatial dimensions, it has {}.",
                             sizes.size(), a.strides.size());
    std::vector<std::pair<int64_t, int64_t>> padding(a.padding.begin(), a.padding.end());
    if (a.kind) {
      KRAFLA_ASSIGN(Dims input, SpatialSizes("input_spatial_dimensions", *x, n.input_spatial_dimensions));
      KRAFLA_ASSIGN(padding, MakePadding(input, sizes, a.strides, *a.kind));
    }
    ConvolutionAttributes out;
    KRAFLA_ASSIGN(out.window, MakeWindow({.sizes = sizes,
                                          .strides = a.strides,
                                          .base_dilations = a.lhs_dilation,
                                          .window_dilations = a.rhs_dilation,
                                          .padding = padding}));
    if (a.reversal) {
      if (a.reversal->size() != out.window.size())
        return InvalidArgument("window_reversal must have one entry for each of the {} spatial dimensions, it has {}.",
                               out.window.size(), a.reversal->size());
      for (std::size_t i = 0; i < out.window.size(); ++i) out.window[i].reversal = (*a.reversal)[i];
    }
    out.input_batch = n.input_batch_dimension;
    out.input_feature = n.input_feature_dimension;
    out.input_spatial = n.input_spatial_dimensions;
    out.kernel_input_feature = n.kernel_input_feature_dimension;
    out.kernel_output_feature = n.kernel_output_feature_dimension;
    out.kernel_spatial = n.kernel_spatial_dimensions;
    out.output_batch = n.output_batch_dimension;
    out.output_feature = n.output_feature_dimension;
    out.output_spatial = n.output_spatial_dimensions;
    out.feature_group_count = a.feature_group_count;
    out.batch_group_count = a.batch_group_count;
    if (a.precision != nullptr) out.precision = a.precision->operand_precision;
    return AddContraction(b, Opcode::kConvolution, ops, std::move(out), a.preferred);
  });
}

}  // namespace

XlaOp Dot(XlaOp lhs, XlaOp rhs, const PrecisionConfig* precision_config,
          std::optional<PrimitiveType> preferred_element_type) {
  return Run("Dot", nullptr, {lhs, rhs}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "lhs"));
    KRAFLA_ASSIGN(const Shape* y, ArrayShape(*ops[1], "rhs"));
    if (x->rank() < 1 || x->rank() > 2 || y->rank() < 1 || y->rank() > 2)
      return InvalidArgument("Dot multiplies vectors and matrices, not {} and {}; DotGeneral takes other ranks.",
                             Brief(*x), Brief(*y));
    DotDimensionNumbers n;
    n.lhs_contracting_dimensions = {x->rank() - 1};
    n.rhs_contracting_dimensions = {0};
    return AddContraction(b, Opcode::kDot, ops, MakeDot(n, precision_config), preferred_element_type);
  });
}

XlaOp DotGeneral(XlaOp lhs, XlaOp rhs, const DotDimensionNumbers& dimension_numbers,
                 const PrecisionConfig* precision_config, std::optional<PrimitiveType> preferred_element_type) {
  return Run("DotGeneral", nullptr, {lhs, rhs}, [&](Impl& b, Instructions ops) {
    return AddContraction(b, Opcode::kDot, ops, MakeDot(dimension_numbers, precision_config), preferred_element_type);
  });
}

XlaOp ScaledDot(XlaOp lhs, XlaOp rhs, XlaOp lhs_scale, XlaOp rhs_scale, const DotDimensionNumbers& dimension_numbers,
                const PrecisionConfig* precision_config, std::optional<PrimitiveType> preferred_element_type) {
  return Run("ScaledDot", nullptr, {lhs, rhs, lhs_scale, rhs_scale}, [&](Impl& b, Instructions ops) {
    return AddContraction(b, Opcode::kScaledDot, ops, MakeDot(dimension_numbers, precision_config),
                          preferred_element_type);
  });
}

XlaOp RaggedDot(XlaOp lhs, XlaOp rhs, XlaOp group_sizes, const RaggedDotDimensionNumbers& dimension_numbers,
                const PrecisionConfig* precision_config, std::optional<PrimitiveType> preferred_element_type) {
  return Run("RaggedDot", nullptr, {lhs, rhs, group_sizes}, [&](Impl& b, Instructions ops) {
    RaggedDotAttributes attributes{MakeDot(dimension_numbers.dot_dimension_numbers, precision_config),
                                   dimension_numbers.lhs_ragged_dimensions, dimension_numbers.rhs_group_dimensions};
    return AddContraction(b, Opcode::kRaggedDot, ops, std::move(attributes), preferred_element_type);
  });
}

ConvolutionDimensionNumbers DefaultConvDimensionNumbers(int64_t num_spatial_dims) {
  ConvolutionDimensionNumbers out;
  for (int64_t i = 0; i < num_spatial_dims && i < Shape::kMaxRank; ++i) {
    out.input_spatial_dimensions.push_back(2 + i);
    out.kernel_spatial_dimensions.push_back(2 + i);
    out.output_spatial_dimensions.push_back(2 + i);
  }
  return out;
}

XlaOp Conv(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Padding padding, int64_t feature_group_count,
           int64_t batch_group_count, const PrecisionConfig* precision_config,
           std::optional<PrimitiveType> preferred_element_type) {
  auto numbers = DefaultConvDimensionNumbers(static_cast<int64_t>(window_strides.size()));
  return Convolve("Conv", lhs, rhs,
                  {.strides = window_strides,
                   .kind = padding,
                   .numbers = numbers,
                   .feature_group_count = feature_group_count,
                   .batch_group_count = batch_group_count,
                   .precision = precision_config,
                   .preferred = preferred_element_type});
}

XlaOp ConvWithGeneralPadding(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides,
                             Span<std::pair<int64_t, int64_t>> padding, int64_t feature_group_count,
                             int64_t batch_group_count, const PrecisionConfig* precision_config,
                             std::optional<PrimitiveType> preferred_element_type) {
  auto numbers = DefaultConvDimensionNumbers(static_cast<int64_t>(window_strides.size()));
  return Convolve("ConvWithGeneralPadding", lhs, rhs,
                  {.strides = window_strides,
                   .padding = padding,
                   .numbers = numbers,
                   .feature_group_count = feature_group_count,
                   .batch_group_count = batch_group_count,
                   .precision = precision_config,
                   .preferred = preferred_element_type});
}

XlaOp ConvWithGeneralDimensions(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Padding padding,
                                const ConvolutionDimensionNumbers& dimension_numbers, int64_t feature_group_count,
                                int64_t batch_group_count, const PrecisionConfig* precision_config,
                                std::optional<PrimitiveType> preferred_element_type) {
  return Convolve("ConvWithGeneralDimensions", lhs, rhs,
                  {.strides = window_strides,
                   .kind = padding,
                   .numbers = dimension_numbers,
                   .feature_group_count = feature_group_count,
                   .batch_group_count = batch_group_count,
                   .precision = precision_config,
                   .preferred = preferred_element_type});
}

XlaOp ConvGeneral(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Span<std::pair<int64_t, int64_t>> padding,
                  const ConvolutionDimensionNumbers& dimension_numbers, int64_t feature_group_count,
                  int64_t batch_group_count, const PrecisionConfig* precision_config,
                  std::optional<PrimitiveType> preferred_element_type) {
  return Convolve("ConvGeneral", lhs, rhs,
                  {.strides = window_strides,
                   .padding = padding,
                   .numbers = dimension_numbers,
                   .feature_group_count = feature_group_count,
                   .batch_group_count = batch_group_count,
                   .precision = precision_config,
                   .preferred = preferred_element_type});
}

XlaOp ConvGeneralDilated(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Span<std::pair<int64_t, int64_t>> padding,
                         Span<int64_t> lhs_dilation, Span<int64_t> rhs_dilation,
                         const ConvolutionDimensionNumbers& dimension_numbers, int64_t feature_group_count,
                         int64_t batch_group_count, const PrecisionConfig* precision_config,
                         std::optional<PrimitiveType> preferred_element_type,
                         std::optional<std::vector<bool>> window_reversal) {
  return Convolve("ConvGeneralDilated", lhs, rhs,
                  {.strides = window_strides,
                   .padding = padding,
                   .lhs_dilation = lhs_dilation,
                   .rhs_dilation = rhs_dilation,
                   .numbers = dimension_numbers,
                   .feature_group_count = feature_group_count,
                   .batch_group_count = batch_group_count,
                   .precision = precision_config,
                   .preferred = preferred_element_type,
                   .reversal = std::move(window_reversal)});
}

}  // namespace krafla
