// SPDX-License-Identifier: Apache-2.0
// From the fields of HloInstructionProto to the attribute structs of the IR.
#include "hlo_io/hlo_proto/instruction_record.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/hlo_text/word_tables.h"

namespace krafla::hlo_proto {
namespace {

template <typename E, std::size_t N>
Result<E> FromWord(const hlo_text::WordOf<E> (&table)[N], std::string_view word, E otherwise) {
  if (word.empty()) return otherwise;
  for (const auto& row : table)
    if (row.word == word) return row.value;
  return InvalidArgument("'{}' is not a word that this version knows.", word.substr(0, 60));
}

// The value of an enum numbered from `first` with `count` values.
template <typename E>
Result<E> FromNumber(std::string_view what, int64_t number, int64_t first, int64_t count) {
  if (number < first || number >= first + count)
    return InvalidArgument("The {} has the number {}; this version knows {} to {}.", what, number, first, first + count - 1);
  return static_cast<E>(number - first);
}

Result<int64_t> OneDimension(const InstructionRecord& r) {
  if (r.dimensions.size() != 1) return InvalidArgument("dimensions names one dimension here, not {}.", r.dimensions.size());
  return r.dimensions[0];
}

// Channel 0 is none in the proto.
std::optional<int64_t> Channel(const InstructionRecord& r) {
  return r.channel_id > 0 ? std::optional(r.channel_id) : std::nullopt;
}

CollectiveAttributes Collective(const InstructionRecord& r) {
  CollectiveAttributes out;
  out.replica_groups = r.replica_groups;
  out.source_target_pairs = r.source_target_pairs;
  out.channel_id = Channel(r);
  out.use_global_device_ids = r.use_global_device_ids;
  out.constrain_layout = r.constrain_layout;
  return out;
}

Result<DotAttributes> Dot(const InstructionRecord& r) {
  DotAttributes out = r.dot.dot;
  out.precision = r.precision;
  if (r.dot_algorithm < 0 || r.dot_algorithm >= static_cast<int64_t>(std::size(kDotAlgorithms)))
    return InvalidArgument("The algorithm of a dot has the number {}, which this version does not know.", r.dot_algorithm);
  out.algorithm = kDotAlgorithms[r.dot_algorithm];
  return out;
}

// As HLO text has it: a dictionary or JSON as it is, other bytes as a string.
std::string ConfigText(Opcode opcode, const InstructionRecord& r) {
  if (r.backend_config.empty()) return {};
  const bool braces = r.backend_config.starts_with('{') && r.backend_config.ends_with('}');
  const bool typed_ffi = r.api_version == 4;
  if (braces && (opcode != Opcode::kCustomCall || typed_ffi)) return std::string(r.backend_config);
  return "\"" + hlo_text::Escape(r.backend_config) + "\"";
}

}  // namespace

ComparisonType DefaultComparison(ElementType type) {
  if (IsFloat(type) || IsComplex(type)) return ComparisonType::kFloat;
  return IsSigned(type) ? ComparisonType::kSigned : ComparisonType::kUnsigned;
}

InstructionMetadata BuildMetadata(Opcode opcode, const InstructionRecord& r) {
  InstructionMetadata out;
  out.sharding = r.sharding;
  out.metadata = r.metadata;
  out.frontend_attributes = r.frontend_attributes;
  out.backend_config = ConfigText(opcode, r);
  return out;
}

Result<Attributes> BuildAttributes(Opcode opcode, const InstructionRecord& r, std::span<Instruction* const> operands,
                                   std::shared_ptr<const Literal> literal) {
  switch (opcode) {
    case Opcode::kParameter: return ParameterAttributes{r.parameter_number, r.replication};
    case Opcode::kConstant: return ConstantAttributes{std::move(literal)};
    case Opcode::kIota: {
      KRAFLA_ASSIGN(int64_t dimension, OneDimension(r));
      return IotaAttributes{dimension};
    }
    case Opcode::kConcatenate:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize:
      KRAFLA_TRY(OneDimension(r));
      return DimensionsAttributes{r.dimensions};
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
    case Opcode::kReverse:
    case Opcode::kReduce:
    case Opcode::kMap: return DimensionsAttributes{r.dimensions};
    case Opcode::kCompare: {
      CompareAttributes out;
      KRAFLA_ASSIGN(out.direction, FromWord(hlo_text::kDirections, r.direction, out.direction));
      KRAFLA_ASSIGN(out.type, FromWord(hlo_text::kComparisonTypes, r.comparison_type, out.type));
      if (!operands.empty() && out.type == DefaultComparison(operands[0]->shape().element_type()))
        out.type = ComparisonType::kDefault;
      return out;
    }
    case Opcode::kSlice: return r.slice;
    case Opcode::kDynamicSlice: return DynamicSliceAttributes{r.dynamic_slice_sizes};
    case Opcode::kPad: return r.padding;
    case Opcode::kDot:
    case Opcode::kScaledDot: {
      KRAFLA_ASSIGN(DotAttributes out, Dot(r));
      return out;
    }
    case Opcode::kRaggedDot: {
      RaggedDotAttributes out = r.dot;
      KRAFLA_ASSIGN(out.dot, Dot(r));
      return out;
    }
    case Opcode::kConvolution: {
      ConvolutionAttributes out = r.convolution;
      out.window = r.window;
      out.feature_group_count = std::max<int64_t>(r.feature_groups, 1);
      out.batch_group_count = std::max<int64_t>(r.batch_groups, 1);
      out.precision = r.precision;
      return out;
    }
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter: return WindowAttributes{r.window};
    case Opcode::kGather: {
      GatherAttributes out = r.gather;
      out.slice_sizes = r.gather_slice_sizes;
      out.indices_are_sorted = r.indices_are_sorted;
      return out;
    }
    case Opcode::kScatter: {
      ScatterAttributes out = r.scatter;
      out.indices_are_sorted = r.indices_are_sorted;
      out.unique_indices = r.unique_indices;
      return out;
    }
    case Opcode::kSort: {
      KRAFLA_ASSIGN(int64_t dimension, OneDimension(r));
      return SortAttributes{dimension, r.is_stable};
    }
    case Opcode::kTopK: return TopKAttributes{r.k, r.largest};
    case Opcode::kScan: {
      KRAFLA_ASSIGN(int64_t dimension, OneDimension(r));
      return ScanAttributes{dimension, r.num_carries, r.is_reverse, r.is_associative == 1};
    }
    case Opcode::kFft: {
      KRAFLA_ASSIGN(FftType type, FromNumber<FftType>("type of an fft", r.fft_type, 0, 4));
      return FftAttributes{type, r.fft_length};
    }
    case Opcode::kRng: {
      KRAFLA_ASSIGN(RngDistribution distribution, FromNumber<RngDistribution>("distribution", r.distribution, 1, 2));
      return RngAttributes{distribution};
    }
    case Opcode::kRngBitGenerator: {
      KRAFLA_ASSIGN(RngAlgorithm algorithm, FromNumber<RngAlgorithm>("algorithm of rng-bit-generator", r.rng_algorithm, 0, 3));
      return RngBitGeneratorAttributes{algorithm};
    }
    case Opcode::kRngGetAndUpdateState: return RngStateAttributes{r.delta};
    case Opcode::kCholesky: return CholeskyAttributes{r.cholesky_lower};
    case Opcode::kTriangularSolve: return r.triangular_solve;
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining: return BatchNormAttributes{r.epsilon, r.feature_index};
    case Opcode::kReducePrecision: return ReducePrecisionAttributes{r.exponent_bits, r.mantissa_bits};
    case Opcode::kGetTupleElement: return TupleIndexAttributes{r.tuple_index};
    case Opcode::kFusion: {
      KRAFLA_ASSIGN(FusionKind kind, FromWord(hlo_text::kFusionKinds, r.fusion_kind, FusionKind::kLoop));
      return FusionAttributes{kind};
    }
    case Opcode::kCall: return CallAttributes{r.is_composite};
    case Opcode::kWhile: return WhileAttributes{hlo_text::KnownTripCount(r.backend_config)};
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kReduceScatter: {
      CollectiveAttributes out = Collective(r);
      KRAFLA_ASSIGN(out.dimension, OneDimension(r));
      return out;
    }
    case Opcode::kAllToAll: {
      CollectiveAttributes out = Collective(r);
      if (!r.dimensions.empty()) {
        KRAFLA_ASSIGN(out.dimension, OneDimension(r));
      }
      return out;
    }
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kRaggedAllToAll: return Collective(r);
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone: return ChannelAttributes{Channel(r), r.is_host_transfer};
    case Opcode::kInfeed: return InfeedAttributes{std::string(r.infeed_config), std::nullopt};
    case Opcode::kOutfeed: return InfeedAttributes{std::string(r.outfeed_config), r.outfeed_shape};
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone: return AsyncAttributes{r.async_thread == "main" ? std::string() : std::string(r.async_thread)};
    case Opcode::kDomain:
      return DomainAttributes{Format("kind=\"sharding\", entry={}, exit={}", r.domain_entry.empty() ? "{}" : r.domain_entry,
                                          r.domain_exit.empty() ? "{}" : r.domain_exit)};
    case Opcode::kCustomCall: {
      CustomCallAttributes out;
      out.target = r.target;
      if (r.constrain_layout) out.operand_layouts = r.operand_shapes;
      out.has_side_effect = r.has_side_effect;
      if (r.api_version < 0 || r.api_version >= static_cast<int64_t>(std::size(kApiVersions)))
        return InvalidArgument("A custom call has the API version number {}, which this version does not know.", r.api_version);
      out.api_version = kApiVersions[r.api_version];
      out.output_to_operand_aliasing = r.aliasing;
      out.literal = std::move(literal);
      return out;
    }
    case Opcode::kAcos:
    case Opcode::kAcosh:
    case Opcode::kAsin:
    case Opcode::kAsinh:
    case Opcode::kAtanh:
    case Opcode::kCbrt:
    case Opcode::kCosh:
    case Opcode::kCos:
    case Opcode::kErf:
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kLogistic:
    case Opcode::kRsqrt:
    case Opcode::kSin:
    case Opcode::kSinh:
    case Opcode::kSqrt:
    case Opcode::kTan:
    case Opcode::kTanh:
      if (r.accuracy != ResultAccuracyAttributes()) return r.accuracy;
      return NoAttributes();
    case Opcode::kAbs:
    case Opcode::kAdd:
    case Opcode::kAddDependency:
    case Opcode::kAfterAll:
    case Opcode::kAllGatherDone:
    case Opcode::kAllReduceDone:
    case Opcode::kAnd:
    case Opcode::kAtan2:
    case Opcode::kBitcast:
    case Opcode::kBitcastConvert:
    case Opcode::kCeil:
    case Opcode::kClamp:
    case Opcode::kClz:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kComplex:
    case Opcode::kConditional:
    case Opcode::kConvert:
    case Opcode::kCopy:
    case Opcode::kCopyDone:
    case Opcode::kCopyStart:
    case Opcode::kDivide:
    case Opcode::kDynamicReshape:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kFloor:
    case Opcode::kImag:
    case Opcode::kIsFinite:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kMulhi:
    case Opcode::kMultiply:
    case Opcode::kNegate:
    case Opcode::kNot:
    case Opcode::kOptimizationBarrier:
    case Opcode::kOr:
    case Opcode::kPartitionId:
    case Opcode::kPopulationCount:
    case Opcode::kPower:
    case Opcode::kReal:
    case Opcode::kRemainder:
    case Opcode::kReplicaId:
    case Opcode::kReshape:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kSelect:
    case Opcode::kShiftLeft:
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
    case Opcode::kSign:
    case Opcode::kStochasticConvert:
    case Opcode::kSubtract:
    case Opcode::kTuple:
    case Opcode::kXor: return NoAttributes();
  }
  return NoAttributes();
}

}  // namespace krafla::hlo_proto
