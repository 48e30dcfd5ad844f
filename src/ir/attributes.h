// SPDX-License-Identifier: Apache-2.0
// What an instruction carries besides operands: one plain struct per bundle of attributes, equal by members.
// Dimension numbers are logical. Nothing here is checked against operand ranks; the shape rules do that.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "krafla/inline_vector.h"
#include "krafla/literal.h"
#include "krafla/op_enums.h"
#include "krafla/shape.h"

namespace krafla {

enum class CollectiveMode : uint8_t { kCrossReplica, kCrossPartition, kCrossReplicaAndPartition, kFlattenedId };

struct WindowDim {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding_low = 0;
  int64_t padding_high = 0;
  int64_t window_dilation = 1;
  int64_t base_dilation = 1;
  bool reversal = false;
  friend bool operator==(const WindowDim&, const WindowDim&) = default;
};
using Window = std::vector<WindowDim>;

struct NoAttributes {
  friend bool operator==(const NoAttributes&, const NoAttributes&) = default;
};
struct ParameterAttributes {  // parameter
  int64_t number = 0;
  std::vector<bool> replicated_at_leaf_buffers;
  friend bool operator==(const ParameterAttributes&, const ParameterAttributes&) = default;
};
struct ConstantAttributes {  // constant
  std::shared_ptr<const Literal> literal;
  friend bool operator==(const ConstantAttributes& a, const ConstantAttributes& b) {
    return a.literal == b.literal || (a.literal && b.literal && *a.literal == *b.literal);
  }
};
struct IotaAttributes {  // iota
  int64_t dimension = 0;
  friend bool operator==(const IotaAttributes&, const IotaAttributes&) = default;
};
// broadcast, transpose, reverse, reduce, map, concatenate, get-/set-dimension-size (one dimension each)
struct DimensionsAttributes {
  Dims dimensions;
  friend bool operator==(const DimensionsAttributes&, const DimensionsAttributes&) = default;
};
struct CompareAttributes {  // compare
  ComparisonDirection direction = ComparisonDirection::kEq;
  ComparisonType type = ComparisonType::kDefault;
  friend bool operator==(const CompareAttributes&, const CompareAttributes&) = default;
};
struct SliceAttributes {  // slice
  Dims starts, limits, strides;
  friend bool operator==(const SliceAttributes&, const SliceAttributes&) = default;
};
struct DynamicSliceAttributes {  // dynamic-slice
  Dims slice_sizes;
  friend bool operator==(const DynamicSliceAttributes&, const DynamicSliceAttributes&) = default;
};
struct PadAttributes {  // pad
  Dims low, high, interior;
  friend bool operator==(const PadAttributes&, const PadAttributes&) = default;
};
struct DotAttributes {  // dot, scaled-dot
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::vector<Precision> precision;  // empty or one per operand
  std::string algorithm;             // "dot_bf16_bf16_f32_x3", empty for none
  friend bool operator==(const DotAttributes&, const DotAttributes&) = default;
};
struct RaggedDotAttributes {  // ragged-dot
  DotAttributes dot;
  Dims lhs_ragged_dims, rhs_group_dims;
  friend bool operator==(const RaggedDotAttributes&, const RaggedDotAttributes&) = default;
};
struct ConvolutionAttributes {  // convolution
  Window window;                // one entry a spatial dimension
  // dim_labels: the positions of batch, feature and the spatial dimensions in each of the three arrays.
  int64_t input_batch = 0, input_feature = 0;
  Dims input_spatial;
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  Dims kernel_spatial;
  int64_t output_batch = 0, output_feature = 0;
  Dims output_spatial;
  int64_t feature_group_count = 1;
  int64_t batch_group_count = 1;
  std::vector<Precision> precision;
  friend bool operator==(const ConvolutionAttributes&, const ConvolutionAttributes&) = default;
};
struct WindowAttributes {  // reduce-window; select-and-scatter (called: select, scatter)
  Window window;           // one entry a dimension of the operand
  friend bool operator==(const WindowAttributes&, const WindowAttributes&) = default;
};
struct GatherAttributes {  // gather
  Dims offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  Dims slice_sizes;
  bool indices_are_sorted = false;
  friend bool operator==(const GatherAttributes&, const GatherAttributes&) = default;
};
struct ScatterAttributes {  // scatter
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  bool unique_indices = false;
  friend bool operator==(const ScatterAttributes&, const ScatterAttributes&) = default;
};
struct SortAttributes {  // sort
  int64_t dimension = 0;
  bool is_stable = false;
  friend bool operator==(const SortAttributes&, const SortAttributes&) = default;
};
struct TopKAttributes {  // topk
  int64_t k = 0;
  bool largest = true;
  friend bool operator==(const TopKAttributes&, const TopKAttributes&) = default;
};
struct ScanAttributes {  // scan
  int64_t dimension = 0;
  int64_t num_carries = 0;
  bool is_reverse = false;
  bool is_associative = false;
  friend bool operator==(const ScanAttributes&, const ScanAttributes&) = default;
};
struct FftAttributes {  // fft
  FftType type = FftType::kFft;
  Dims length;
  friend bool operator==(const FftAttributes&, const FftAttributes&) = default;
};
struct RngAttributes {  // rng
  RngDistribution distribution = RngDistribution::kUniform;
  friend bool operator==(const RngAttributes&, const RngAttributes&) = default;
};
struct RngBitGeneratorAttributes {  // rng-bit-generator
  RngAlgorithm algorithm = RngAlgorithm::kDefault;
  friend bool operator==(const RngBitGeneratorAttributes&, const RngBitGeneratorAttributes&) = default;
};
struct RngStateAttributes {  // rng-get-and-update-state
  int64_t delta = 0;
  friend bool operator==(const RngStateAttributes&, const RngStateAttributes&) = default;
};
struct CholeskyAttributes {  // cholesky
  bool lower = false;
  friend bool operator==(const CholeskyAttributes&, const CholeskyAttributes&) = default;
};
struct TriangularSolveAttributes {  // triangular-solve
  bool left_side = false, lower = false, unit_diagonal = false;
  TriangularTranspose transpose_a = TriangularTranspose::kNoTranspose;
  friend bool operator==(const TriangularSolveAttributes&, const TriangularSolveAttributes&) = default;
};
struct BatchNormAttributes {  // batch-norm-*
  float epsilon = 0;
  int64_t feature_index = 0;
  friend bool operator==(const BatchNormAttributes&, const BatchNormAttributes&) = default;
};
struct ReducePrecisionAttributes {  // reduce-precision
  int64_t exponent_bits = 0, mantissa_bits = 0;
  friend bool operator==(const ReducePrecisionAttributes&, const ReducePrecisionAttributes&) = default;
};
struct TupleIndexAttributes {  // get-tuple-element
  int64_t index = 0;
  friend bool operator==(const TupleIndexAttributes&, const TupleIndexAttributes&) = default;
};
struct FusionAttributes {  // fusion
  FusionKind kind = FusionKind::kLoop;
  friend bool operator==(const FusionAttributes&, const FusionAttributes&) = default;
};
struct CallAttributes {  // call; composite name and attributes are frontend attributes
  bool is_composite = false;
  friend bool operator==(const CallAttributes&, const CallAttributes&) = default;
};
// while (called: condition, body), conditional (called: the branches; with a pred index, true then false)
struct WhileAttributes {
  std::optional<int64_t> known_trip_count;  // from backend_config
  friend bool operator==(const WhileAttributes&, const WhileAttributes&) = default;
};
// Groups as lists, or in iota form "[2,4]<=[8]T(1,0)" already expanded to lists.
struct CollectiveAttributes {  // all-*, reduce-scatter, collective-*, ragged-all-to-all, and their -start forms
  std::vector<std::vector<int64_t>> replica_groups;
  std::vector<std::pair<int64_t, int64_t>> source_target_pairs;  // collective-permute
  std::optional<int64_t> channel_id;
  bool use_global_device_ids = false;
  bool constrain_layout = false;
  std::optional<int64_t> dimension;  // all-gather, all-to-all (array form), reduce-scatter
  friend bool operator==(const CollectiveAttributes&, const CollectiveAttributes&) = default;
};
struct ChannelAttributes {  // send, recv and their -done
  std::optional<int64_t> channel_id;
  bool is_host_transfer = false;
  friend bool operator==(const ChannelAttributes&, const ChannelAttributes&) = default;
};
struct InfeedAttributes {  // infeed, outfeed
  std::string config;
  std::optional<Shape> outfeed_shape;
  friend bool operator==(const InfeedAttributes&, const InfeedAttributes&) = default;
};
struct AsyncAttributes {  // async-start, -update, -done
  std::string execution_thread;
  friend bool operator==(const AsyncAttributes&, const AsyncAttributes&) = default;
};
struct DomainAttributes {  // domain
  std::string text;        // as written between the braces
  friend bool operator==(const DomainAttributes&, const DomainAttributes&) = default;
};
struct CustomCallAttributes {  // custom-call
  std::string target;
  std::optional<std::vector<Shape>> operand_layouts;
  bool has_side_effect = false;
  std::string api_version;  // as written, empty for the default
  // output index -> (operand number, operand index)
  struct Alias {
    Dims output_index;
    int64_t operand = 0;
    Dims operand_index;
    friend bool operator==(const Alias&, const Alias&) = default;
  };
  std::vector<Alias> output_to_operand_aliasing;
  std::shared_ptr<const Literal> literal;
  friend bool operator==(const CustomCallAttributes& a, const CustomCallAttributes& b) {
    bool same_literal = a.literal == b.literal || (a.literal && b.literal && *a.literal == *b.literal);
    return a.target == b.target && a.operand_layouts == b.operand_layouts && a.has_side_effect == b.has_side_effect &&
           a.api_version == b.api_version && a.output_to_operand_aliasing == b.output_to_operand_aliasing &&
           same_literal;
  }
};
// exp, log, sin, ...: result_accuracy. Default: neither mode nor numbers.
struct ResultAccuracyAttributes {
  bool highest = false;
  double atol = 0, rtol = 0;
  int64_t ulps = 0;
  friend bool operator==(const ResultAccuracyAttributes&, const ResultAccuracyAttributes&) = default;
};

using AnyAttributes =
    std::variant<NoAttributes, ParameterAttributes, ConstantAttributes, IotaAttributes, DimensionsAttributes,
                 CompareAttributes, SliceAttributes, DynamicSliceAttributes, PadAttributes, DotAttributes,
                 RaggedDotAttributes, ConvolutionAttributes, WindowAttributes, GatherAttributes, ScatterAttributes,
                 SortAttributes, TopKAttributes, ScanAttributes, FftAttributes, RngAttributes,
                 RngBitGeneratorAttributes, RngStateAttributes, CholeskyAttributes, TriangularSolveAttributes,
                 BatchNormAttributes, ReducePrecisionAttributes, TupleIndexAttributes, FusionAttributes, CallAttributes,
                 WhileAttributes, CollectiveAttributes, ChannelAttributes, InfeedAttributes, AsyncAttributes,
                 DomainAttributes, CustomCallAttributes, ResultAccuracyAttributes>;

// One of these. A class, so that copies, moves and destructors of 37 structs are compiled once and not in every file.
class Attributes : public AnyAttributes {
 public:
  Attributes() noexcept;
  template <typename T>
    requires(!std::derived_from<std::remove_cvref_t<T>, AnyAttributes>)
  Attributes(T&& value)  // NOLINT: each of the structs is attributes
      : AnyAttributes(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(value)) {}
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  ~Attributes();
  friend bool operator==(const Attributes& a, const Attributes& b);
};

}  // namespace krafla
