// SPDX-License-Identifier: Apache-2.0
// From what was read to the attribute structs of the IR.
#include <algorithm>
#include <utility>

#include "hlo_io/hlo_text/attribute_set.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/hlo_text/word_tables.h"
#include "ir/attributes_of.h"
#include "ir/dimension_numbers.h"

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
  return lexer.Error(set.Offset(key), Format("'{}' is not a value of {}; expected one of {}.",
                                             set.Word(key).substr(0, 60), KeyName(key), known));
}

Result<int64_t> OneDimension(const AttributeSet& set, const Lexer& lexer) {
  Dims dims = set.DimsOf(Key::kDimensions);
  if (dims.size() != 1)
    return lexer.Error(set.Offset(Key::kDimensions),
                       Format("The dimensions of this instruction must name one dimension, not {}.", dims.size()));
  return dims[0];
}

// What was read for the dimension numbers of gather and scatter; attribute_table.cpp says which keys these have.
template <typename Attributes>
void TakeDimensionNumbers(Opcode opcode, const AttributeSet& set, Attributes& out) {
  VisitDimensionNumbers(out, [&](int, std::string_view name, auto& field) {
    const std::span<const KeyUse> keys = KeysOf(opcode);
    const auto use = std::ranges::find(keys, name, [](const KeyUse& k) { return KeyName(k.key); });
    KRAFLA_CHECK(use != keys.end());
    if constexpr (kIsDimensionList<decltype(field)>) field = set.DimsOf(use->key);
    else field = set.Int(use->key);
  });
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
  if (!lex.Accept(':') || !lex.Accept('{') || lex.token().kind != Tok::kString || lex.token().text != "n")
    return std::nullopt;
  lex.Next();
  if (!lex.Accept(':')) return std::nullopt;
  int64_t count = 0;
  bool number = lex.token().kind == Tok::kString || lex.token().kind == Tok::kNumber;
  if (!number || !ParseInt64(lex.token().text, &count) || count < 0) return std::nullopt;
  return count;
}

namespace {

// The attribute struct that ops.def names for the opcode.
class SetReader {
 public:
  SetReader(Opcode opcode, AttributeSet& set, const Lexer& lexer) : opcode_(opcode), set_(set), lexer_(lexer) {}

  Result<Attributes> operator()(std::type_identity<NoAttributes>) { return NoAttributes(); }
  // The instruction parser makes these two: they need what stands between the parentheses.
  Result<Attributes> operator()(std::type_identity<ParameterAttributes>) { return NoAttributes(); }
  Result<Attributes> operator()(std::type_identity<ConstantAttributes>) { return NoAttributes(); }
  Result<Attributes> operator()(std::type_identity<IotaAttributes>) {
    return IotaAttributes{set_.Int(Key::kIotaDimension)};
  }
  Result<Attributes> operator()(std::type_identity<DimensionsAttributes>) {
    if (IsOneOf(opcode_, {Opcode::kConcatenate, Opcode::kGetDimensionSize, Opcode::kSetDimensionSize}))
      KRAFLA_TRY(OneDimension(set_, lexer_));
    return DimensionsAttributes{set_.DimsOf(Key::kDimensions)};
  }
  Result<Attributes> operator()(std::type_identity<CompareAttributes>) {
    CompareAttributes out;
    KRAFLA_ASSIGN(out.direction, FromWord(kDirections, set_, Key::kDirection, out.direction, lexer_));
    KRAFLA_ASSIGN(out.type, FromWord(kComparisonTypes, set_, Key::kType, out.type, lexer_));
    return out;
  }
  Result<Attributes> operator()(std::type_identity<SliceAttributes>) { return std::move(set_.slice); }
  Result<Attributes> operator()(std::type_identity<DynamicSliceAttributes>) {
    return DynamicSliceAttributes{set_.DimsOf(Key::kDynamicSliceSizes)};
  }
  Result<Attributes> operator()(std::type_identity<PadAttributes>) { return std::move(set_.padding); }
  Result<Attributes> operator()(std::type_identity<DotAttributes>) { return Dot(set_); }
  Result<Attributes> operator()(std::type_identity<RaggedDotAttributes>) {
    RaggedDotAttributes out;
    out.dot = Dot(set_);
    out.lhs_ragged_dims = set_.DimsOf(Key::kLhsRaggedDims);
    out.rhs_group_dims = set_.DimsOf(Key::kRhsGroupDims);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ConvolutionAttributes>) {
    ConvolutionAttributes out = std::move(set_.labels);
    if (set_.Has(Key::kWindow)) out.window = std::move(set_.window);
    if (out.window.size() != out.input_spatial.size())
      return lexer_.Error(set_.Offset(Key::kDimLabels), Format("dim_labels has {} spatial dimensions, the window {}.",
                                                               out.input_spatial.size(), out.window.size()));
    out.feature_group_count = set_.Int(Key::kFeatureGroupCount, 1);
    out.batch_group_count = set_.Int(Key::kBatchGroupCount, 1);
    if (set_.Has(Key::kOperandPrecision)) out.precision = std::move(set_.precision);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<WindowAttributes>) {
    WindowAttributes out;
    if (set_.Has(Key::kWindow)) out.window = std::move(set_.window);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<GatherAttributes>) {
    GatherAttributes out;
    TakeDimensionNumbers(Opcode::kGather, set_, out);
    out.slice_sizes = set_.DimsOf(Key::kSliceSizes);
    out.indices_are_sorted = set_.Bool(Key::kIndicesAreSorted);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ScatterAttributes>) {
    ScatterAttributes out;
    TakeDimensionNumbers(Opcode::kScatter, set_, out);
    out.indices_are_sorted = set_.Bool(Key::kIndicesAreSorted);
    out.unique_indices = set_.Bool(Key::kUniqueIndices);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<SortAttributes>) {
    SortAttributes out;
    KRAFLA_ASSIGN(out.dimension, OneDimension(set_, lexer_));
    out.is_stable = set_.Bool(Key::kIsStable);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<TopKAttributes>) {
    return TopKAttributes{set_.Int(Key::kK), set_.Bool(Key::kLargest)};
  }
  Result<Attributes> operator()(std::type_identity<ScanAttributes>) {
    ScanAttributes out;
    KRAFLA_ASSIGN(out.dimension, OneDimension(set_, lexer_));
    out.num_carries = set_.Int(Key::kNumCarries);
    out.is_reverse = set_.Bool(Key::kIsReverse);
    out.is_associative = set_.Bool(Key::kIsAssociative);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<FftAttributes>) {
    FftAttributes out;
    KRAFLA_ASSIGN(out.type, FromWord(kFftTypes, set_, Key::kFftType, out.type, lexer_));
    out.length = set_.DimsOf(Key::kFftLength);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<RngAttributes>) {
    RngAttributes out;
    KRAFLA_ASSIGN(out.distribution, FromWord(kDistributions, set_, Key::kDistribution, out.distribution, lexer_));
    return out;
  }
  Result<Attributes> operator()(std::type_identity<RngBitGeneratorAttributes>) {
    RngBitGeneratorAttributes out;
    KRAFLA_ASSIGN(out.algorithm, FromWord(kRngAlgorithms, set_, Key::kAlgorithm, out.algorithm, lexer_));
    return out;
  }
  Result<Attributes> operator()(std::type_identity<RngStateAttributes>) {
    return RngStateAttributes{set_.Int(Key::kDelta)};
  }
  Result<Attributes> operator()(std::type_identity<CholeskyAttributes>) {
    return CholeskyAttributes{set_.Bool(Key::kLower)};
  }
  Result<Attributes> operator()(std::type_identity<TriangularSolveAttributes>) {
    TriangularSolveAttributes out;
    out.left_side = set_.Bool(Key::kLeftSide);
    out.lower = set_.Bool(Key::kLower);
    out.unit_diagonal = set_.Bool(Key::kUnitDiagonal);
    KRAFLA_ASSIGN(out.transpose_a, FromWord(kTransposes, set_, Key::kTransposeA, out.transpose_a, lexer_));
    return out;
  }
  Result<Attributes> operator()(std::type_identity<BatchNormAttributes>) {
    // XLA keeps epsilon as a float, also for f64.
    return BatchNormAttributes{static_cast<float>(set_.real), set_.Int(Key::kFeatureIndex)};
  }
  Result<Attributes> operator()(std::type_identity<ReducePrecisionAttributes>) {
    return ReducePrecisionAttributes{set_.Int(Key::kExponentBits), set_.Int(Key::kMantissaBits)};
  }
  Result<Attributes> operator()(std::type_identity<TupleIndexAttributes>) {
    return TupleIndexAttributes{set_.Int(Key::kIndex)};
  }
  Result<Attributes> operator()(std::type_identity<FusionAttributes>) {
    FusionAttributes out;
    KRAFLA_ASSIGN(out.kind, FromWord(kFusionKinds, set_, Key::kKind, out.kind, lexer_));
    return out;
  }
  Result<Attributes> operator()(std::type_identity<CallAttributes>) {
    return CallAttributes{set_.Bool(Key::kIsComposite)};
  }
  Result<Attributes> operator()(std::type_identity<WhileAttributes>) {
    return WhileAttributes{KnownTripCount(set_.Word(Key::kBackendConfig))};
  }
  Result<Attributes> operator()(std::type_identity<ChannelAttributes>) {
    return ChannelAttributes{set_.MaybeInt(Key::kChannelId), set_.Bool(Key::kIsHostTransfer)};
  }
  Result<Attributes> operator()(std::type_identity<AsyncAttributes>) { return AsyncAttributes{Thread(set_)}; }
  Result<Attributes> operator()(std::type_identity<DomainAttributes>) {
    std::string_view text = set_.Word(Key::kDomain);
    return DomainAttributes{std::string(text.substr(1, text.size() - 2))};
  }
  Result<Attributes> operator()(std::type_identity<CustomCallAttributes>) {
    CustomCallAttributes out;
    out.target = set_.String(Key::kCustomCallTarget);
    if (set_.Has(Key::kOperandLayouts)) out.operand_layouts = std::move(set_.shapes);
    out.has_side_effect = set_.Bool(Key::kHasSideEffect);
    out.api_version = set_.Word(Key::kApiVersion);
    if (set_.Has(Key::kOutputAliasing)) out.output_to_operand_aliasing = std::move(set_.aliasing);
    if (set_.Has(Key::kLiteral)) out.literal = std::move(set_.literal);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<CollectiveAttributes>) {
    CollectiveAttributes out = Collective(set_);
    const bool needed = IsOneOf(opcode_, {Opcode::kAllGather, Opcode::kAllGatherStart, Opcode::kReduceScatter});
    if (needed || (opcode_ == Opcode::kAllToAll && set_.Has(Key::kDimensions))) {
      KRAFLA_ASSIGN(out.dimension, OneDimension(set_, lexer_));
    }
    return out;
  }
  Result<Attributes> operator()(std::type_identity<InfeedAttributes>) {
    if (opcode_ == Opcode::kInfeed) return InfeedAttributes{set_.String(Key::kInfeedConfig), std::nullopt};
    InfeedAttributes out{set_.String(Key::kOutfeedConfig), std::nullopt};
    if (set_.Has(Key::kOutfeedShape)) out.outfeed_shape = std::move(set_.shape);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ResultAccuracyAttributes>) {
    if (set_.Has(Key::kResultAccuracy) && set_.accuracy != ResultAccuracyAttributes()) return set_.accuracy;
    return NoAttributes();
  }

 private:
  Opcode opcode_;
  AttributeSet& set_;
  const Lexer& lexer_;
};

}  // namespace

Result<Attributes> BuildAttributes(Opcode opcode, AttributeSet& set, const Lexer& lexer) {
  return WithAttributesOf(opcode, SetReader(opcode, set, lexer));
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
