// SPDX-License-Identifier: Apache-2.0
// What calls of the builder take besides operands, under the names that users of XLA know (xla/xla_data.proto), as
// plain structs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "krafla/element_type.h"
#include "krafla/inline_vector.h"
#include "krafla/op_enums.h"
#include "krafla/shape.h"

namespace krafla {

using PrimitiveType = ElementType;
inline constexpr ElementType PRED = ElementType::kPred;
inline constexpr ElementType S1 = ElementType::kS1, S2 = ElementType::kS2, S4 = ElementType::kS4, S8 = ElementType::kS8,
                             S16 = ElementType::kS16, S32 = ElementType::kS32, S64 = ElementType::kS64;
inline constexpr ElementType U1 = ElementType::kU1, U2 = ElementType::kU2, U4 = ElementType::kU4, U8 = ElementType::kU8,
                             U16 = ElementType::kU16, U32 = ElementType::kU32, U64 = ElementType::kU64;
inline constexpr ElementType F16 = ElementType::kF16, BF16 = ElementType::kBF16, F32 = ElementType::kF32,
                             F64 = ElementType::kF64;
inline constexpr ElementType F4E2M1FN = ElementType::kF4E2M1FN, F8E3M4 = ElementType::kF8E3M4,
                             F8E4M3 = ElementType::kF8E4M3, F8E4M3FN = ElementType::kF8E4M3FN,
                             F8E4M3FNUZ = ElementType::kF8E4M3FNUZ, F8E4M3B11FNUZ = ElementType::kF8E4M3B11FNUZ,
                             F8E5M2 = ElementType::kF8E5M2, F8E5M2FNUZ = ElementType::kF8E5M2FNUZ,
                             F8E8M0FNU = ElementType::kF8E8M0FNU;
inline constexpr ElementType C64 = ElementType::kC64, C128 = ElementType::kC128;

// Where an array lies in nested tuples: the element to take at each level. {}: the whole.
using ShapeIndex = Dims;

struct DotDimensionNumbers {
  Dims lhs_contracting_dimensions, rhs_contracting_dimensions, lhs_batch_dimensions, rhs_batch_dimensions;
};
struct RaggedDotDimensionNumbers {
  DotDimensionNumbers dot_dimension_numbers;
  Dims lhs_ragged_dimensions, rhs_group_dimensions;
};
// Where batch, features and space lie in the three arrays of a convolution.
struct ConvolutionDimensionNumbers {
  int64_t input_batch_dimension = 0, input_feature_dimension = 1;
  Dims input_spatial_dimensions;
  int64_t kernel_output_feature_dimension = 0, kernel_input_feature_dimension = 1;
  Dims kernel_spatial_dimensions;
  int64_t output_batch_dimension = 0, output_feature_dimension = 1;
  Dims output_spatial_dimensions;
};
struct GatherDimensionNumbers {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  int64_t index_vector_dim = 0;
  Dims operand_batching_dims, start_indices_batching_dims;
};
struct ScatterDimensionNumbers {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  Dims input_batching_dims, scatter_indices_batching_dims;
};
struct PaddingConfig {
  struct Dimension {
    int64_t edge_padding_low = 0, edge_padding_high = 0, interior_padding = 0;
  };
  std::vector<Dimension> dimensions;
};
inline PaddingConfig MakeEdgePaddingConfig(const std::vector<std::pair<int64_t, int64_t>>& padding) {
  PaddingConfig out;
  for (auto [low, high] : padding) out.dimensions.push_back({low, high, 0});
  return out;
}
inline PaddingConfig MakeNoPaddingConfig(int64_t rank) {
  PaddingConfig out;
  for (int64_t i = 0; i < rank; ++i) out.dimensions.push_back({});
  return out;
}

enum class Padding : uint8_t {
  kSame,   // as many outputs as inputs (over the stride), padding on both sides, the odd one at the end
  kValid,  // none
};

struct PrecisionConfig {
  std::vector<Precision> operand_precision;  // empty or one per operand
  std::string algorithm;                     // "dot_bf16_bf16_f32", empty for none
};

using RandomAlgorithm = RngAlgorithm;
struct Comparison {
  using Direction = ComparisonDirection;
  using Type = ComparisonType;
};
struct TriangularSolveOptions {
  using Transpose = TriangularTranspose;
  static constexpr Transpose NO_TRANSPOSE = Transpose::kNoTranspose;
  static constexpr Transpose TRANSPOSE = Transpose::kTranspose;
  static constexpr Transpose ADJOINT = Transpose::kAdjoint;
};

struct ReplicaGroup {
  std::vector<int64_t> replica_ids;
};
struct ChannelHandle {
  enum ChannelType : uint8_t { CHANNEL_TYPE_INVALID, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE };
  int64_t handle = 0;
  ChannelType type = CHANNEL_TYPE_INVALID;
};

// How close a function's result has to come to the truth: |result - truth| <= atol + rtol |truth|, or within `ulps`
// units in the last place. krafla has one formula a function, the same on every device; docs/ops.md lists its bound, at
// most 3 ULP in f32. What is asked for stays in the program; DEFAULT and HIGHEST run the same formula.
struct ResultAccuracy {
  enum Mode : uint8_t { DEFAULT, HIGHEST };
  struct Tolerance {
    double atol = 0, rtol = 0;
    int64_t ulps = 0;
  };
  Mode mode = DEFAULT;
  std::optional<Tolerance> tolerance;
};

// What is said about an instruction beside its meaning.
struct OpMetadata {
  std::string op_type, op_name, source_file;
  int source_line = 0;
};
using FrontendAttributes = std::map<std::string, std::string>;

enum class CustomCallApiVersion : uint8_t {
  API_VERSION_ORIGINAL,
  API_VERSION_STATUS_RETURNING,
  API_VERSION_STATUS_RETURNING_UNIFIED,
  API_VERSION_TYPED_FFI,
};
// Output index, then operand number and index within the operand.
using OutputOperandAliasing = std::pair<ShapeIndex, std::pair<int64_t, ShapeIndex>>;

}  // namespace krafla
