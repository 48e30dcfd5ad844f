// SPDX-License-Identifier: Apache-2.0
// HloInstructionProto as plain values, before operands and computations are looked up.
#pragma once

#include <optional>

#include "hlo_io/hlo_proto/wire.h"
#include "ir/module.h"

namespace krafla::hlo_proto {

struct InstructionRecord {
  std::string_view name, opcode;
  Shape shape;
  int64_t id = 0;
  std::vector<int64_t> operands, control_predecessors, called;
  std::optional<Reader> literal;

  // Numbers, flags and words by the fields they stand in; zero or empty where they are missing.
  int64_t parameter_number = 0, tuple_index = 0, exponent_bits = 0, mantissa_bits = 0, distribution = 0,
          feature_index = 0, channel_id = 0, fft_type = 0, delta = 0, rng_algorithm = 0, api_version = 0, k = 0,
          num_carries = 0, is_associative = 0, feature_groups = 1, batch_groups = 1;
  bool largest = false, is_stable = false, indices_are_sorted = false, unique_indices = false, is_reverse = false,
       is_host_transfer = false, use_global_device_ids = false, constrain_layout = false, has_side_effect = false,
       is_composite = false, cholesky_lower = false;
  float epsilon = 0;
  std::string_view fusion_kind, direction, comparison_type, target, async_thread, infeed_config, outfeed_config,
      backend_config;
  Dims dimensions, dynamic_slice_sizes, fft_length, gather_slice_sizes;
  std::optional<Shape> outfeed_shape;
  std::vector<Shape> operand_shapes;
  std::vector<bool> replication;
  std::vector<std::vector<int64_t>> replica_groups;
  std::vector<std::pair<int64_t, int64_t>> source_target_pairs;

  // Already the structs of the IR.
  Window window;
  ConvolutionAttributes convolution;  // only its dimension numbers
  SliceAttributes slice;
  PadAttributes padding;
  RaggedDotAttributes dot;  // without precision
  std::vector<Precision> precision;
  int64_t dot_algorithm = 0;
  GatherAttributes gather;  // only its dimension numbers
  ScatterAttributes scatter;
  TriangularSolveAttributes triangular_solve;
  ResultAccuracyAttributes accuracy;
  std::vector<CustomCallAttributes::Alias> aliasing;

  std::string sharding, metadata, frontend_attributes, domain_entry, domain_exit;
};

Result<InstructionRecord> ReadInstruction(Reader reader, int depth);
// The attributes that ops.def names for the opcode. `literal`: of a constant or custom-call.
Result<Attributes> BuildAttributes(Opcode opcode, const InstructionRecord& record,
                                   std::span<Instruction* const> operands, std::shared_ptr<const Literal> literal);
InstructionMetadata BuildMetadata(Opcode opcode, const InstructionRecord& record);

// PrecisionConfig.Algorithm by number, as HLO text has it; empty for none.
inline constexpr std::string_view kDotAlgorithms[] = {"",
                                                      "dot_any_f8_any_f8_f32",
                                                      "dot_any_f8_any_f8_f32_fast_accum",
                                                      "dot_f16_f16_f16",
                                                      "dot_f16_f16_f32",
                                                      "dot_bf16_bf16_bf16",
                                                      "dot_bf16_bf16_f32",
                                                      "dot_bf16_bf16_f32_x3",
                                                      "dot_bf16_bf16_f32_x6",
                                                      "dot_tf32_tf32_f32",
                                                      "dot_tf32_tf32_f32_x3",
                                                      "dot_f32_f32_f32",
                                                      "dot_f64_f64_f64",
                                                      "dot_bf16_bf16_f32_x9"};
// CustomCallApiVersion by number; "API_VERSION_ORIGINAL" is the default and is left out.
inline constexpr std::string_view kApiVersions[] = {"", "", "API_VERSION_STATUS_RETURNING",
                                                    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
// What compare means where nothing is said: xla::Comparison::DefaultComparisonType.
ComparisonType DefaultComparison(ElementType type);

}  // namespace krafla::hlo_proto
