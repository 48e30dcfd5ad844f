// SPDX-License-Identifier: Apache-2.0
// The attributes of HLO text by name, which opcode takes which, and what was read for one instruction.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attributes.h"
#include "ir/module.h"
#include "ir/opcode.h"
#include "krafla/inline_vector.h"

namespace krafla::hlo_text {

// How the value of an attribute is written.
enum class ValueKind : uint8_t {
  kInt,
  kBool,
  kReal,
  kDims,
  kWord,
  kString,
  kComputation,
  kComputations,
  kWindow,
  kDimLabels,
  kPadding,
  kSlice,
  kGroups,
  kPairs,
  kPrecision,
  kShape,
  kShapes,
  kAliasing,
  kBraces,
  kConfig,
  kLiteral,
  kAccuracy,
  kBools,
  kInstructions,
  kSharding,
  kMetadata,
};

// KEY(enum, "name", kind)
#define KRAFLA_HLO_KEYS(KEY)                                        \
  KEY(kAlgorithm, "algorithm", kWord)                               \
  KEY(kApiVersion, "api_version", kWord)                            \
  KEY(kAsyncThread, "async_execution_thread", kString)              \
  KEY(kBackendConfig, "backend_config", kConfig)                    \
  KEY(kBatchGroupCount, "batch_group_count", kInt)                  \
  KEY(kBody, "body", kComputation)                                  \
  KEY(kBranchComputations, "branch_computations", kComputations)    \
  KEY(kCalledComputations, "called_computations", kComputations)    \
  KEY(kCalls, "calls", kComputation)                                \
  KEY(kChannelId, "channel_id", kInt)                               \
  KEY(kCollapsedSliceDims, "collapsed_slice_dims", kDims)           \
  KEY(kCondition, "condition", kComputation)                        \
  KEY(kConstrainLayout, "constrain_layout", kBool)                  \
  KEY(kControlPredecessors, "control-predecessors", kInstructions)  \
  KEY(kCrossProgramPrefetch, "cross_program_prefetch_index", kInt)  \
  KEY(kCustomCallSchedule, "schedule", kWord)                       \
  KEY(kCustomCallTarget, "custom_call_target", kString)             \
  KEY(kDelta, "delta", kInt)                                        \
  KEY(kDimLabels, "dim_labels", kDimLabels)                         \
  KEY(kDimensions, "dimensions", kDims)                             \
  KEY(kDirection, "direction", kWord)                               \
  KEY(kDistribution, "distribution", kWord)                         \
  KEY(kDomain, "domain", kBraces)                                   \
  KEY(kDynamicSliceSizes, "dynamic_slice_sizes", kDims)             \
  KEY(kEpsilon, "epsilon", kReal)                                   \
  KEY(kExponentBits, "exponent_bits", kInt)                         \
  KEY(kFalseComputation, "false_computation", kComputation)         \
  KEY(kFeatureGroupCount, "feature_group_count", kInt)              \
  KEY(kFeatureIndex, "feature_index", kInt)                         \
  KEY(kFftLength, "fft_length", kDims)                              \
  KEY(kFftType, "fft_type", kWord)                                  \
  KEY(kFrontendAttributes, "frontend_attributes", kBraces)          \
  KEY(kHasSideEffect, "custom_call_has_side_effect", kBool)         \
  KEY(kIndex, "index", kInt)                                        \
  KEY(kIndexVectorDim, "index_vector_dim", kInt)                    \
  KEY(kIndicesAreSorted, "indices_are_sorted", kBool)               \
  KEY(kInfeedConfig, "infeed_config", kString)                      \
  KEY(kInferredDimension, "inferred_dimension", kInt)               \
  KEY(kInputBatchingDims, "input_batching_dims", kDims)             \
  KEY(kInsertedWindowDims, "inserted_window_dims", kDims)           \
  KEY(kIotaDimension, "iota_dimension", kInt)                       \
  KEY(kIsAssociative, "is_associative", kBool)                      \
  KEY(kIsComposite, "is_composite", kBool)                          \
  KEY(kIsHostTransfer, "is_host_transfer", kBool)                   \
  KEY(kIsReverse, "is_reverse", kBool)                              \
  KEY(kIsStable, "is_stable", kBool)                                \
  KEY(kK, "k", kInt)                                                \
  KEY(kKind, "kind", kWord)                                         \
  KEY(kLargest, "largest", kBool)                                   \
  KEY(kLeftSide, "left_side", kBool)                                \
  KEY(kLhsBatchDims, "lhs_batch_dims", kDims)                       \
  KEY(kLhsContractingDims, "lhs_contracting_dims", kDims)           \
  KEY(kLhsRaggedDims, "lhs_ragged_dims", kDims)                     \
  KEY(kLiteral, "literal", kLiteral)                                \
  KEY(kLower, "lower", kBool)                                       \
  KEY(kMantissaBits, "mantissa_bits", kInt)                         \
  KEY(kMetadata, "metadata", kMetadata)                             \
  KEY(kNumCarries, "num_carries", kInt)                             \
  KEY(kOffsetDims, "offset_dims", kDims)                            \
  KEY(kOperandBatchingDims, "operand_batching_dims", kDims)         \
  KEY(kOperandLayouts, "operand_layout_constraints", kShapes)       \
  KEY(kOperandPrecision, "operand_precision", kPrecision)           \
  KEY(kOrigin, "origin", kBraces)                                   \
  KEY(kOutfeedConfig, "outfeed_config", kString)                    \
  KEY(kOutfeedShape, "outfeed_shape", kShape)                       \
  KEY(kOutputAliasing, "output_to_operand_aliasing", kAliasing)     \
  KEY(kPadding, "padding", kPadding)                                \
  KEY(kPaddingType, "padding_type", kWord)                          \
  KEY(kParameterReplication, "parameter_replication", kBools)       \
  KEY(kReplicaGroups, "replica_groups", kGroups)                    \
  KEY(kResultAccuracy, "result_accuracy", kAccuracy)                \
  KEY(kRhsBatchDims, "rhs_batch_dims", kDims)                       \
  KEY(kRhsContractingDims, "rhs_contracting_dims", kDims)           \
  KEY(kRhsGroupDims, "rhs_group_dims", kDims)                       \
  KEY(kScatter, "scatter", kComputation)                            \
  KEY(kScatterDims, "scatter_dims_to_operand_dims", kDims)          \
  KEY(kScatterBatchingDims, "scatter_indices_batching_dims", kDims) \
  KEY(kSelect, "select", kComputation)                              \
  KEY(kSharding, "sharding", kSharding)                             \
  KEY(kSlice, "slice", kSlice)                                      \
  KEY(kSliceSizes, "slice_sizes", kDims)                            \
  KEY(kSourceTargetPairs, "source_target_pairs", kPairs)            \
  KEY(kStartBatchingDims, "start_indices_batching_dims", kDims)     \
  KEY(kStartIndexMap, "start_index_map", kDims)                     \
  KEY(kStatistics, "statistics", kBraces)                           \
  KEY(kToApply, "to_apply", kComputation)                           \
  KEY(kTransposeA, "transpose_a", kWord)                            \
  KEY(kTrueComputation, "true_computation", kComputation)           \
  KEY(kType, "type", kWord)                                         \
  KEY(kUniqueIndices, "unique_indices", kBool)                      \
  KEY(kUnitDiagonal, "unit_diagonal", kBool)                        \
  KEY(kUpdateWindowDims, "update_window_dims", kDims)               \
  KEY(kUseGlobalDeviceIds, "use_global_device_ids", kBool)          \
  KEY(kWindow, "window", kWindow)

enum class Key : uint8_t {
#define KRAFLA_KEY(Enum, name, kind) Enum,
  KRAFLA_HLO_KEYS(KRAFLA_KEY)
#undef KRAFLA_KEY
      kCount
};
inline constexpr std::size_t kKeyCount = static_cast<std::size_t>(Key::kCount);

std::string_view KeyName(Key key);
ValueKind KindOf(Key key);

struct KeyUse {
  Key key;
  bool required = false;
};
// What `opcode` takes beside what every instruction takes (sharding, metadata, ...).
std::span<const KeyUse> KeysOf(Opcode opcode);
std::span<const KeyUse> CommonKeys();
bool IsKeyOfAnyOpcode(std::string_view name);

// A computation that an attribute names, or one written in its place.
struct CalledName {
  Key key = Key::kCount;
  std::string_view name;
  std::size_t offset = 0;
  Computation* computation = nullptr;
};

// What was read for one instruction; a value counts only where `seen` has its key.
struct AttributeSet {
  std::bitset<kKeyCount> seen;
  std::array<std::size_t, kKeyCount> offsets;
  std::array<int64_t, kKeyCount> ints;  // also bools
  std::array<Dims, kKeyCount> dims;
  std::array<std::string_view, kKeyCount> words;  // also raw braces
  std::array<std::string, kKeyCount> strings;
  double real = 0;  // epsilon
  std::vector<CalledName> called;
  Window window;
  ConvolutionAttributes labels;  // only its dimension numbers
  PadAttributes padding;
  SliceAttributes slice;
  std::vector<std::vector<int64_t>> groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  std::vector<Precision> precision;
  Shape shape;
  std::vector<Shape> shapes;
  std::vector<CustomCallAttributes::Alias> aliasing;
  std::shared_ptr<const Literal> literal;
  ResultAccuracyAttributes accuracy;
  std::vector<bool> bools;
  std::vector<Instruction*> predecessors;

  bool Has(Key key) const { return seen[static_cast<std::size_t>(key)]; }
  std::size_t Offset(Key key) const { return offsets[static_cast<std::size_t>(key)]; }
  int64_t Int(Key key, int64_t otherwise = 0) const {
    return Has(key) ? ints[static_cast<std::size_t>(key)] : otherwise;
  }
  bool Bool(Key key, bool otherwise = false) const { return Int(key, otherwise ? 1 : 0) != 0; }
  std::optional<int64_t> MaybeInt(Key key) const {
    return Has(key) ? std::optional(ints[static_cast<std::size_t>(key)]) : std::nullopt;
  }
  Dims DimsOf(Key key) const { return Has(key) ? dims[static_cast<std::size_t>(key)] : Dims(); }
  std::string_view Word(Key key) const { return Has(key) ? words[static_cast<std::size_t>(key)] : std::string_view(); }
  std::string String(Key key) const { return Has(key) ? strings[static_cast<std::size_t>(key)] : std::string(); }
  void Clear();
};

class Lexer;
// The IR's attributes for `opcode`. Values that an enum does not have are errors at their place.
Result<Attributes> BuildAttributes(Opcode opcode, AttributeSet& set, const Lexer& lexer);
// Called computations in the order the IR wants: while (condition, body), conditional (true, false or the branches) ...
std::vector<CalledName> OrderCalled(Opcode opcode, const AttributeSet& set);
InstructionMetadata BuildMetadata(const AttributeSet& set);

}  // namespace krafla::hlo_text
