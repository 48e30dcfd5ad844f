// SPDX-License-Identifier: Apache-2.0
// The calls of the builder. Functions of one array, and of two with implicit broadcasting, are in elementwise_ops.h,
// those between devices and with the host in xla_collectives.h.
//
// Implicit broadcasting (https://openxla.org/xla/broadcasting): a scalar meets any array; of two arrays of unequal rank
// broadcast_dimensions says which dimension of the larger each dimension of the smaller is; then a dimension of size 1
// repeats to the size that it meets.
#pragma once

#include <initializer_list>

#include "krafla/elementwise_ops.h"  // IWYU pragma: export
#include "krafla/literal_util.h"
#include "krafla/xla_builder.h"
#include "krafla/xla_collectives.h"  // IWYU pragma: export

KRAFLA_EXPORT_BEGIN
namespace krafla {

// --- values --------------------------------------------------------------------------------------------------------

XlaOp Parameter(XlaBuilder* builder, int64_t parameter_number, const ShapeOrError& shape, std::string_view name);
XlaOp Parameter(XlaBuilder* builder, int64_t parameter_number, const ShapeOrError& shape, std::string_view name,
                const std::vector<bool>& replicated_at_leaf_buffers);
XlaOp ConstantLiteral(XlaBuilder* builder, const Literal& literal);
XlaOp ConstantLiteral(XlaBuilder* builder, const Result<Literal>& literal);
// Shared with the program, where the others copy.
XlaOp ConstantLiteral(XlaBuilder* builder, std::shared_ptr<const Literal> literal);
template <typename T>
XlaOp ConstantR0(XlaBuilder* builder, T value) {
  return ConstantLiteral(builder, LiteralUtil::CreateR0<T>(value));
}
template <typename T>
XlaOp ConstantR1(XlaBuilder* builder, Span<std::type_identity_t<T>> values) {
  return ConstantLiteral(builder, LiteralUtil::CreateR1<T>(values));
}
template <typename T>
XlaOp ConstantR1(XlaBuilder* builder, int64_t length, std::type_identity_t<T> value) {
  return ConstantLiteral(builder, LiteralUtil::CreateFilled<T>({length}, value));
}
template <typename T>
XlaOp ConstantR2(XlaBuilder* builder, std::initializer_list<std::initializer_list<T>> rows) {
  return ConstantLiteral(builder, LiteralUtil::CreateR2<T>(rows));
}
// Row-major values of any shape.
template <typename T>
XlaOp ConstantFromArray(XlaBuilder* builder, Span<std::type_identity_t<T>> values, Span<int64_t> dimensions) {
  return ConstantLiteral(builder, LiteralUtil::CreateFromArray<T>(values, dimensions));
}
// A scalar of any element type, rounded to nearest; integers saturate.
XlaOp ScalarLike(XlaOp prototype, double value);
XlaOp ConstantR0WithType(XlaBuilder* builder, PrimitiveType type, double value);
XlaOp Iota(XlaBuilder* builder, const ShapeOrError& shape, int64_t iota_dimension);
XlaOp Iota(XlaBuilder* builder, PrimitiveType type, int64_t size);

// --- elementwise, beside elementwise_ops.h ---------------------------------------------------------------------------

XlaOp Compare(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions, ComparisonDirection direction,
              ComparisonType compare_type);
XlaOp Compare(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions, ComparisonDirection direction);
XlaOp Compare(XlaOp lhs, XlaOp rhs, ComparisonDirection direction);
XlaOp Eq(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp Ne(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp Ge(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp Gt(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp Le(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp Lt(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
// -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN.
XlaOp EqTotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp NeTotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp GeTotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp GtTotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp LeTotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
XlaOp LtTotalOrder(XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions = {});
// Scalars among the three meet arrays.
XlaOp Select(XlaOp pred, XlaOp on_true, XlaOp on_false);
XlaOp Clamp(XlaOp min, XlaOp operand, XlaOp max);
XlaOp ConvertElementType(XlaOp operand, PrimitiveType new_element_type);
XlaOp BitcastConvertType(XlaOp operand, PrimitiveType new_element_type);
XlaOp StochasticConvertType(XlaOp operand, XlaOp random, PrimitiveType new_element_type);
XlaOp ReducePrecision(XlaOp operand, int exponent_bits, int mantissa_bits);
XlaOp Conj(XlaOp operand);
XlaOp Square(XlaOp operand);
XlaOp Map(XlaBuilder* builder, Span<XlaOp> operands, const ComputationOrError& computation, Span<int64_t> dimensions,
          Span<XlaOp> static_operands = {});

// Of three and more.
template <typename... Ops>
XlaOp And(XlaOp a, XlaOp b, XlaOp c, const Ops&... more) {
  return And(a, And(b, c, more...));
}
template <typename... Ops>
XlaOp Or(XlaOp a, XlaOp b, XlaOp c, const Ops&... more) {
  return Or(a, Or(b, c, more...));
}

XlaOp operator-(XlaOp x);
XlaOp operator+(XlaOp x, XlaOp y);
XlaOp operator-(XlaOp x, XlaOp y);
XlaOp operator*(XlaOp x, XlaOp y);
XlaOp operator/(XlaOp x, XlaOp y);
XlaOp operator%(XlaOp x, XlaOp y);
XlaOp operator~(XlaOp x);
XlaOp operator&(XlaOp x, XlaOp y);
XlaOp operator|(XlaOp x, XlaOp y);
XlaOp operator^(XlaOp x, XlaOp y);
XlaOp operator<<(XlaOp x, XlaOp y);
// Arithmetic for signed integers, logical for others.
XlaOp operator>>(XlaOp x, XlaOp y);

// --- moving elements -------------------------------------------------------------------------------------------------

// New dimensions on the left.
XlaOp Broadcast(XlaOp operand, Span<int64_t> broadcast_sizes);
// Dimension i of the operand becomes broadcast_dimensions[i]; sizes of 1 repeat.
XlaOp BroadcastInDim(XlaOp operand, Span<int64_t> out_dim_size, Span<int64_t> broadcast_dimensions);
XlaOp Copy(XlaOp operand);
XlaOp Pad(XlaOp operand, XlaOp padding_value, const PaddingConfig& padding_config);
XlaOp PadInDim(XlaOp operand, XlaOp padding_value, int64_t dimno, int64_t pad_lo, int64_t pad_hi);
XlaOp Reshape(XlaOp operand, Span<int64_t> dimensions);
XlaOp Reshape(const ShapeOrError& shape, XlaOp operand);
XlaOp DynamicReshape(XlaOp operand, Span<XlaOp> dim_sizes, Span<int64_t> new_size_bounds,
                     const std::vector<bool>& dims_are_dynamic);
// Consecutive dimensions become one.
XlaOp Collapse(XlaOp operand, Span<int64_t> dimensions);
XlaOp Slice(XlaOp operand, Span<int64_t> start_indices, Span<int64_t> limit_indices, Span<int64_t> strides);
XlaOp SliceInDim(XlaOp operand, int64_t start_index, int64_t limit_index, int64_t stride, int64_t dimno);
XlaOp DynamicSlice(XlaOp operand, Span<XlaOp> start_indices, Span<int64_t> slice_sizes);
XlaOp DynamicUpdateSlice(XlaOp operand, XlaOp update, Span<XlaOp> start_indices);
XlaOp ConcatInDim(XlaBuilder* builder, Span<XlaOp> operands, int64_t dimension);
XlaOp Transpose(XlaOp operand, Span<int64_t> permutation);
XlaOp Rev(XlaOp operand, Span<int64_t> dimensions);
XlaOp Bitcast(XlaOp operand, const ShapeOrError& shape);
XlaOp Gather(XlaOp input, XlaOp start_indices, const GatherDimensionNumbers& dimension_numbers,
             Span<int64_t> slice_sizes, bool indices_are_sorted = false);
XlaOp Scatter(XlaOp input, XlaOp scatter_indices, XlaOp updates, const ComputationOrError& update_computation,
              const ScatterDimensionNumbers& dimension_numbers, bool indices_are_sorted = false,
              bool unique_indices = false);
XlaOp Scatter(Span<XlaOp> inputs, XlaOp scatter_indices, Span<XlaOp> updates,
              const ComputationOrError& update_computation, const ScatterDimensionNumbers& dimension_numbers,
              bool indices_are_sorted = false, bool unique_indices = false);
XlaOp GetDimensionSize(XlaOp operand, int64_t dimension);
XlaOp SetDimensionSize(XlaOp operand, XlaOp val, int64_t dimension);
XlaOp RemoveDynamicDimension(XlaOp operand, int64_t dimension);

// --- products --------------------------------------------------------------------------------------------------------

XlaOp Dot(XlaOp lhs, XlaOp rhs, const PrecisionConfig* precision_config = nullptr,
          std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp DotGeneral(XlaOp lhs, XlaOp rhs, const DotDimensionNumbers& dimension_numbers,
                 const PrecisionConfig* precision_config = nullptr,
                 std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp ScaledDot(XlaOp lhs, XlaOp rhs, XlaOp lhs_scale, XlaOp rhs_scale, const DotDimensionNumbers& dimension_numbers,
                const PrecisionConfig* precision_config = nullptr,
                std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp RaggedDot(XlaOp lhs, XlaOp rhs, XlaOp group_sizes, const RaggedDotDimensionNumbers& dimension_numbers,
                const PrecisionConfig* precision_config = nullptr,
                std::optional<PrimitiveType> preferred_element_type = std::nullopt);
// Batch, feature, space; the kernel: output feature, input feature, space.
ConvolutionDimensionNumbers DefaultConvDimensionNumbers(int64_t num_spatial_dims = 2);
XlaOp Conv(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Padding padding, int64_t feature_group_count = 1,
           int64_t batch_group_count = 1, const PrecisionConfig* precision_config = nullptr,
           std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp ConvWithGeneralPadding(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides,
                             Span<std::pair<int64_t, int64_t>> padding, int64_t feature_group_count = 1,
                             int64_t batch_group_count = 1, const PrecisionConfig* precision_config = nullptr,
                             std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp ConvWithGeneralDimensions(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Padding padding,
                                const ConvolutionDimensionNumbers& dimension_numbers, int64_t feature_group_count = 1,
                                int64_t batch_group_count = 1, const PrecisionConfig* precision_config = nullptr,
                                std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp ConvGeneral(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Span<std::pair<int64_t, int64_t>> padding,
                  const ConvolutionDimensionNumbers& dimension_numbers, int64_t feature_group_count = 1,
                  int64_t batch_group_count = 1, const PrecisionConfig* precision_config = nullptr,
                  std::optional<PrimitiveType> preferred_element_type = std::nullopt);
XlaOp ConvGeneralDilated(XlaOp lhs, XlaOp rhs, Span<int64_t> window_strides, Span<std::pair<int64_t, int64_t>> padding,
                         Span<int64_t> lhs_dilation, Span<int64_t> rhs_dilation,
                         const ConvolutionDimensionNumbers& dimension_numbers, int64_t feature_group_count = 1,
                         int64_t batch_group_count = 1, const PrecisionConfig* precision_config = nullptr,
                         std::optional<PrimitiveType> preferred_element_type = std::nullopt,
                         std::optional<std::vector<bool>> window_reversal = std::nullopt);

// --- folding, ordering, walking --------------------------------------------------------------------------------------

XlaOp Reduce(XlaOp operand, XlaOp init_value, const ComputationOrError& computation,
             Span<int64_t> dimensions_to_reduce);
XlaOp Reduce(XlaBuilder* builder, Span<XlaOp> operands, Span<XlaOp> init_values, const ComputationOrError& computation,
             Span<int64_t> dimensions_to_reduce);
XlaOp ReduceAll(XlaOp operand, XlaOp init_value, const ComputationOrError& computation);
XlaOp ReduceWindow(XlaOp operand, XlaOp init_value, const ComputationOrError& computation,
                   Span<int64_t> window_dimensions, Span<int64_t> window_strides, Padding padding);
XlaOp ReduceWindow(Span<XlaOp> operands, Span<XlaOp> init_values, const ComputationOrError& computation,
                   Span<int64_t> window_dimensions, Span<int64_t> window_strides, Padding padding);
XlaOp ReduceWindowWithGeneralPadding(XlaOp operand, XlaOp init_value, const ComputationOrError& computation,
                                     Span<int64_t> window_dimensions, Span<int64_t> window_strides,
                                     Span<int64_t> base_dilations, Span<int64_t> window_dilations,
                                     Span<std::pair<int64_t, int64_t>> padding);
XlaOp ReduceWindowWithGeneralPadding(Span<XlaOp> operands, Span<XlaOp> init_values,
                                     const ComputationOrError& computation, Span<int64_t> window_dimensions,
                                     Span<int64_t> window_strides, Span<int64_t> base_dilations,
                                     Span<int64_t> window_dilations, Span<std::pair<int64_t, int64_t>> padding);
XlaOp SelectAndScatter(XlaOp operand, const ComputationOrError& select, Span<int64_t> window_dimensions,
                       Span<int64_t> window_strides, Padding padding, XlaOp source, XlaOp init_value,
                       const ComputationOrError& scatter);
XlaOp SelectAndScatterWithGeneralPadding(XlaOp operand, const ComputationOrError& select,
                                         Span<int64_t> window_dimensions, Span<int64_t> window_strides,
                                         Span<std::pair<int64_t, int64_t>> padding, XlaOp source, XlaOp init_value,
                                         const ComputationOrError& scatter);
XlaOp Scan(Span<XlaOp> inputs, Span<XlaOp> inits, const ComputationOrError& computation, int64_t scan_dimension,
           std::optional<int64_t> scan_dimension_size = std::nullopt, bool is_reverse = false,
           bool is_associative = false);
// Dimension -1 is the last.
XlaOp Sort(Span<XlaOp> operands, const ComputationOrError& comparator, int64_t dimension = -1, bool is_stable = false);
XlaOp TopK(XlaOp operand, int64_t k, bool largest = true);

// --- linear algebra, transforms, normalisation, random numbers -------------------------------------------------------

XlaOp Cholesky(XlaOp a, bool lower);
XlaOp TriangularSolve(XlaOp a, XlaOp b, bool left_side, bool lower, bool unit_diagonal,
                      TriangularSolveOptions::Transpose transpose_a);
XlaOp Fft(XlaOp operand, FftType fft_type, Span<int64_t> fft_length);
XlaOp BatchNormTraining(XlaOp operand, XlaOp scale, XlaOp offset, float epsilon, int64_t feature_index);
XlaOp BatchNormInference(XlaOp operand, XlaOp scale, XlaOp offset, XlaOp mean, XlaOp variance, float epsilon,
                         int64_t feature_index);
XlaOp BatchNormGrad(XlaOp operand, XlaOp scale, XlaOp batch_mean, XlaOp batch_var, XlaOp grad_output, float epsilon,
                    int64_t feature_index);
XlaOp RngUniform(XlaOp a, XlaOp b, const ShapeOrError& shape);
XlaOp RngNormal(XlaOp mu, XlaOp sigma, const ShapeOrError& shape);
// The tuple of the next state and bits of `shape`.
XlaOp RngBitGenerator(RandomAlgorithm algorithm, XlaOp initial_state, const ShapeOrError& shape);
XlaOp RngGetAndUpdateState(XlaBuilder* builder, int64_t delta);

// --- tuples, calls, branches, loops ----------------------------------------------------------------------------------

XlaOp Tuple(XlaBuilder* builder, Span<XlaOp> elements);
XlaOp GetTupleElement(XlaOp tuple_data, int64_t index);
XlaOp Call(XlaBuilder* builder, const ComputationOrError& computation, Span<XlaOp> operands);
XlaOp CompositeCall(XlaBuilder* builder, const ComputationOrError& computation, Span<XlaOp> operands,
                    std::string_view name, std::optional<std::string_view> attributes = std::nullopt,
                    std::optional<int64_t> version = std::nullopt);
XlaOp Fusion(XlaBuilder* builder, Span<XlaOp> operands, FusionKind kind, const ComputationOrError& fused_computation);
XlaOp While(const ComputationOrError& condition, const ComputationOrError& body, XlaOp init);
XlaOp Conditional(XlaOp predicate, XlaOp true_operand, const ComputationOrError& true_computation, XlaOp false_operand,
                  const ComputationOrError& false_computation);
// By a pred (true first) or an index; an index out of range takes the last branch.
XlaOp Conditional(XlaOp branch_index, Span<const XlaComputation*> branch_computations, Span<XlaOp> branch_operands);
XlaOp OptimizationBarrier(XlaOp operand);
XlaOp Domain(XlaOp operand, std::string_view entry, std::string_view exit);
XlaOp CustomCall(XlaBuilder* builder, std::string_view call_target_name, Span<XlaOp> operands,
                 const ShapeOrError& shape, std::string_view opaque = "", bool has_side_effect = false,
                 Span<OutputOperandAliasing> output_operand_aliasing = {}, const Literal* literal = nullptr,
                 CustomCallApiVersion api_version = CustomCallApiVersion::API_VERSION_ORIGINAL);
XlaOp CustomCallWithComputation(XlaBuilder* builder, std::string_view call_target_name, Span<XlaOp> operands,
                                const ComputationOrError& computation, const ShapeOrError& shape,
                                std::string_view opaque = "", bool has_side_effect = false,
                                Span<OutputOperandAliasing> output_operand_aliasing = {},
                                const Literal* literal = nullptr,
                                CustomCallApiVersion api_version = CustomCallApiVersion::API_VERSION_ORIGINAL);
XlaOp CustomCallWithLayout(XlaBuilder* builder, std::string_view call_target_name, Span<XlaOp> operands,
                           const ShapeOrError& shape_with_layout, Span<Shape> operand_shapes_with_layout,
                           std::string_view opaque = "", bool has_side_effect = false,
                           Span<OutputOperandAliasing> output_operand_aliasing = {}, const Literal* literal = nullptr,
                           CustomCallApiVersion api_version = CustomCallApiVersion::API_VERSION_ORIGINAL);

}  // namespace krafla
KRAFLA_EXPORT_END
