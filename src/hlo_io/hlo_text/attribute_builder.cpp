// SPDX-License-Identifier: Apache-2.0
// From what was read to the attribute structs of the IR.
#include <utility>

#include "hlo_io/hlo_text/attribute_set.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/hlo_text/word_tables.h"

namespace krafla::hlo_text {
namespace {

// The enum value of the word at `key`; an error that lists the words there are.
template <typename E, std::size_t N>
Result<E> FromWord(const WordOf<E> (&table)[N], const AttributeSet& set, Key key, E otherwise, const Lexer& lexer) {
  if (!set.Has(key)) return otherwise;
  std::string known;
  for (const auto& row : table) {
    if (row.word == set.Word(key)) return row.value;
    known += Format("{}{}", known.empty() ? "" : ", ", row.word);
  }
  return lexer.Error(set.Offset(key), Format("'{}' is not a value of {}; there are {}", set.Word(key).substr(0, 60),
                                                  KeyName(key), known));
}

Result<int64_t> OneDimension(const AttributeSet& set, const Lexer& lexer) {
  Dims dims = set.DimsOf(Key::kDimensions);
  if (dims.size() != 1)
    return lexer.Error(set.Offset(Key::kDimensions), Format("dimensions names one dimension here, not {}", dims.size()));
  return dims[0];
}

CollectiveAttributes Collective(AttributeSet& set) {
  CollectiveAttributes out;
  if (set.Has(Key::kReplicaGroups)) out.replica_groups = std::move(set.groups);
  if (set.Has(Key::kSourceTargetPairs)) out.source_target_pairs = std::move(set.pairs);
  out.channel_id = set.MaybeInt(Key::kChannelId);
  out.use_global_device_ids = set.Bool(Key::kUseGlobalDeviceIds);
  out.constrain_layout = set.Bool(Key::kConstrainLayout);
  return out;
}

// "main" is the thread of everything that names none.
std::string Thread(const AttributeSet& set) {
  std::string thread = set.String(Key::kAsyncThread);
  return thread == "main" ? std::string() : thread;
}

DotAttributes Dot(AttributeSet& set) {
  DotAttributes out;
  out.lhs_contracting = set.DimsOf(Key::kLhsContractingDims);
  out.rhs_contracting = set.DimsOf(Key::kRhsContractingDims);
  out.lhs_batch = set.DimsOf(Key::kLhsBatchDims);
  out.rhs_batch = set.DimsOf(Key::kRhsBatchDims);
  if (set.Has(Key::kOperandPrecision)) out.precision = std::move(set.precision);
  out.algorithm = set.Word(Key::kAlgorithm);
  return out;
}

}  // namespace

std::optional<int64_t> KnownTripCount(std::string_view config) {
  // {"known_trip_count":{"n":"4"}}, perhaps as a string with escaped quotes.
  std::string plain;
  if (config.starts_with('"') && config.size() >= 2) {
    plain = Unescape(config.substr(1, config.size() - 2));
    config = plain;
  }
  std::size_t at = config.find("\"known_trip_count\"");
  if (at == std::string_view::npos) return std::nullopt;
  Lexer lex(config, "");
  lex.Seek(at);
  lex.Next();
  if (!lex.Accept(':') || !lex.Accept('{') || lex.token().kind != Tok::kString || lex.token().text != "n") return std::nullopt;
  lex.Next();
  if (!lex.Accept(':')) return std::nullopt;
  int64_t count = 0;
  bool number = lex.token().kind == Tok::kString || lex.token().kind == Tok::kNumber;
  if (!number || !ParseInt64(lex.token().text, &count) || count < 0) return std::nullopt;
  return count;
}

Result<Attributes> BuildAttributes(Opcode opcode, AttributeSet& set, const Lexer& lexer) {
  switch (opcode) {
    case Opcode::kIota: return IotaAttributes{set.Int(Key::kIotaDimension)};
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
    case Opcode::kReverse:
    case Opcode::kReduce:
    case Opcode::kMap: return DimensionsAttributes{set.DimsOf(Key::kDimensions)};
    case Opcode::kConcatenate:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize:
      KRAFLA_TRY(OneDimension(set, lexer));
      return DimensionsAttributes{set.DimsOf(Key::kDimensions)};
    case Opcode::kCompare: {
      CompareAttributes out;
      KRAFLA_ASSIGN(out.direction, FromWord(kDirections, set, Key::kDirection, out.direction, lexer));
      KRAFLA_ASSIGN(out.type, FromWord(kComparisonTypes, set, Key::kType, out.type, lexer));
      return out;
    }
    case Opcode::kSlice: return std::move(set.slice);
    case Opcode::kDynamicSlice: return DynamicSliceAttributes{set.DimsOf(Key::kDynamicSliceSizes)};
    case Opcode::kPad: return std::move(set.padding);
    case Opcode::kDot:
    case Opcode::kScaledDot: return Dot(set);
    case Opcode::kRaggedDot: {
      RaggedDotAttributes out;
      out.dot = Dot(set);
      out.lhs_ragged_dims = set.DimsOf(Key::kLhsRaggedDims);
      out.rhs_group_dims = set.DimsOf(Key::kRhsGroupDims);
      return out;
    }
    case Opcode::kConvolution: {
      ConvolutionAttributes out = std::move(set.labels);
      if (set.Has(Key::kWindow)) out.window = std::move(set.window);
      if (out.window.size() != out.input_spatial.size())
        return lexer.Error(set.Offset(Key::kDimLabels), Format("dim_labels has {} spatial dimensions, the window {}",
                                                                    out.input_spatial.size(), out.window.size()));
      out.feature_group_count = set.Int(Key::kFeatureGroupCount, 1);
      out.batch_group_count = set.Int(Key::kBatchGroupCount, 1);
      if (set.Has(Key::kOperandPrecision)) out.precision = std::move(set.precision);
      return out;
    }
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter: {
      WindowAttributes out;
      if (set.Has(Key::kWindow)) out.window = std::move(set.window);
      return out;
    }
    case Opcode::kGather: {
      GatherAttributes out;
      out.offset_dims = set.DimsOf(Key::kOffsetDims);
      out.collapsed_slice_dims = set.DimsOf(Key::kCollapsedSliceDims);
      out.start_index_map = set.DimsOf(Key::kStartIndexMap);
      out.operand_batching_dims = set.DimsOf(Key::kOperandBatchingDims);
      out.start_indices_batching_dims = set.DimsOf(Key::kStartBatchingDims);
      out.index_vector_dim = set.Int(Key::kIndexVectorDim);
      out.slice_sizes = set.DimsOf(Key::kSliceSizes);
      out.indices_are_sorted = set.Bool(Key::kIndicesAreSorted);
      return out;
    }
    case Opcode::kScatter: {
      ScatterAttributes out;
      out.update_window_dims = set.DimsOf(Key::kUpdateWindowDims);
      out.inserted_window_dims = set.DimsOf(Key::kInsertedWindowDims);
      out.scatter_dims_to_operand_dims = set.DimsOf(Key::kScatterDims);
      out.input_batching_dims = set.DimsOf(Key::kInputBatchingDims);
      out.scatter_indices_batching_dims = set.DimsOf(Key::kScatterBatchingDims);
      out.index_vector_dim = set.Int(Key::kIndexVectorDim);
      out.indices_are_sorted = set.Bool(Key::kIndicesAreSorted);
      out.unique_indices = set.Bool(Key::kUniqueIndices);
      return out;
    }
    case Opcode::kSort: {
      SortAttributes out;
      KRAFLA_ASSIGN(out.dimension, OneDimension(set, lexer));
      out.is_stable = set.Bool(Key::kIsStable);
      return out;
    }
    case Opcode::kTopK: return TopKAttributes{set.Int(Key::kK), set.Bool(Key::kLargest)};
    case Opcode::kScan: {
      ScanAttributes out;
      KRAFLA_ASSIGN(out.dimension, OneDimension(set, lexer));
      out.num_carries = set.Int(Key::kNumCarries);
      out.is_reverse = set.Bool(Key::kIsReverse);
      out.is_associative = set.Bool(Key::kIsAssociative);
      return out;
    }
    case Opcode::kFft: {
      FftAttributes out;
      KRAFLA_ASSIGN(out.type, FromWord(kFftTypes, set, Key::kFftType, out.type, lexer));
      out.length = set.DimsOf(Key::kFftLength);
      return out;
    }
    case Opcode::kRng: {
      RngAttributes out;
      KRAFLA_ASSIGN(out.distribution, FromWord(kDistributions, set, Key::kDistribution, out.distribution, lexer));
      return out;
    }
    case Opcode::kRngBitGenerator: {
      RngBitGeneratorAttributes out;
      KRAFLA_ASSIGN(out.algorithm, FromWord(kRngAlgorithms, set, Key::kAlgorithm, out.algorithm, lexer));
      return out;
    }
    case Opcode::kRngGetAndUpdateState: return RngStateAttributes{set.Int(Key::kDelta)};
    case Opcode::kCholesky: return CholeskyAttributes{set.Bool(Key::kLower)};
    case Opcode::kTriangularSolve: {
      TriangularSolveAttributes out;
      out.left_side = set.Bool(Key::kLeftSide);
      out.lower = set.Bool(Key::kLower);
      out.unit_diagonal = set.Bool(Key::kUnitDiagonal);
      KRAFLA_ASSIGN(out.transpose_a, FromWord(kTransposes, set, Key::kTransposeA, out.transpose_a, lexer));
      return out;
    }
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining: {
      // XLA keeps epsilon as a float, also for f64.
      return BatchNormAttributes{static_cast<float>(set.real), set.Int(Key::kFeatureIndex)};
    }
    case Opcode::kReducePrecision:
      return ReducePrecisionAttributes{set.Int(Key::kExponentBits), set.Int(Key::kMantissaBits)};
    case Opcode::kGetTupleElement: return TupleIndexAttributes{set.Int(Key::kIndex)};
    case Opcode::kFusion: {
      FusionAttributes out;
      KRAFLA_ASSIGN(out.kind, FromWord(kFusionKinds, set, Key::kKind, out.kind, lexer));
      return out;
    }
    case Opcode::kCall: return CallAttributes{set.Bool(Key::kIsComposite)};
    case Opcode::kWhile: return WhileAttributes{KnownTripCount(set.Word(Key::kBackendConfig))};
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kReduceScatter: {
      CollectiveAttributes out = Collective(set);
      KRAFLA_ASSIGN(out.dimension, OneDimension(set, lexer));
      return out;
    }
    case Opcode::kAllToAll: {
      CollectiveAttributes out = Collective(set);
      if (set.Has(Key::kDimensions)) {
        KRAFLA_ASSIGN(out.dimension, OneDimension(set, lexer));
      }
      return out;
    }
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kRaggedAllToAll: return Collective(set);
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone: return ChannelAttributes{set.MaybeInt(Key::kChannelId), set.Bool(Key::kIsHostTransfer)};
    case Opcode::kInfeed: return InfeedAttributes{set.String(Key::kInfeedConfig), std::nullopt};
    case Opcode::kOutfeed: {
      InfeedAttributes out{set.String(Key::kOutfeedConfig), std::nullopt};
      if (set.Has(Key::kOutfeedShape)) out.outfeed_shape = std::move(set.shape);
      return out;
    }
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone: return AsyncAttributes{Thread(set)};
    case Opcode::kDomain: {
      std::string_view text = set.Word(Key::kDomain);
      return DomainAttributes{std::string(text.substr(1, text.size() - 2))};
    }
    case Opcode::kCustomCall: {
      CustomCallAttributes out;
      out.target = set.String(Key::kCustomCallTarget);
      if (set.Has(Key::kOperandLayouts)) out.operand_layouts = std::move(set.shapes);
      out.has_side_effect = set.Bool(Key::kHasSideEffect);
      out.api_version = set.Word(Key::kApiVersion);
      if (set.Has(Key::kOutputAliasing)) out.output_to_operand_aliasing = std::move(set.aliasing);
      if (set.Has(Key::kLiteral)) out.literal = std::move(set.literal);
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
      if (set.Has(Key::kResultAccuracy) && set.accuracy != ResultAccuracyAttributes()) return set.accuracy;
      return NoAttributes();
    // The instruction parser makes these two: they need what stands between the parentheses.
    case Opcode::kParameter:
    case Opcode::kConstant:
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

std::vector<CalledName> OrderCalled(Opcode opcode, const AttributeSet& set) {
  std::vector<CalledName> out;
  auto take = [&](Key key) {
    for (const CalledName& called : set.called)
      if (called.key == key) out.push_back(called);
  };
  if (opcode == Opcode::kWhile) {
    take(Key::kCondition);
    take(Key::kBody);
  } else if (opcode == Opcode::kConditional) {
    take(Key::kTrueComputation);
    take(Key::kFalseComputation);
    take(Key::kBranchComputations);
  } else if (opcode == Opcode::kSelectAndScatter) {
    take(Key::kSelect);
    take(Key::kScatter);
  } else {
    out = set.called;
  }
  return out;
}

InstructionMetadata BuildMetadata(const AttributeSet& set) {
  auto inside = [](std::string_view braces) {
    return braces.size() < 2 ? std::string() : std::string(braces.substr(1, braces.size() - 2));
  };
  InstructionMetadata out;
  out.sharding = set.Word(Key::kSharding);
  out.metadata = set.Word(Key::kMetadata);
  out.frontend_attributes = inside(set.Word(Key::kFrontendAttributes));
  out.backend_config = set.Word(Key::kBackendConfig);
  out.statistics = inside(set.Word(Key::kStatistics));
  return out;
}

}  // namespace krafla::hlo_text
