// SPDX-License-Identifier: Apache-2.0
// From the fields of HloInstructionProto to the attribute structs of the IR.
#include "hlo_io/hlo_proto/instruction_record.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/hlo_text/word_tables.h"
#include "ir/attributes_of.h"

namespace krafla::hlo_proto {
namespace {

template <typename E, std::size_t N>
Result<E> FromWord(const hlo_text::WordOf<E> (&table)[N], std::string_view word, E otherwise) {
  if (word.empty()) return otherwise;
  for (const auto& row : table)
    if (row.word == word) return row.value;
  return InvalidArgument("'{}' is not a word that this version of krafla knows.", word.substr(0, 60));
}

// The value of an enum numbered from `first` with `count` values.
template <typename E>
Result<E> FromNumber(std::string_view what, int64_t number, int64_t first, int64_t count) {
  if (number < first || number >= first + count)
    return InvalidArgument("The {} has the number {}; this version knows {} to {}.", what, number, first,
                           first + count - 1);
  return static_cast<E>(number - first);
}

// As HLO text has it: a dictionary or JSON as it is, other bytes as a string.
std::string ConfigText(Opcode opcode, const InstructionRecord& r) {
  if (r.backend_config.empty()) return {};
  const bool braces = r.backend_config.starts_with('{') && r.backend_config.ends_with('}');
  const bool typed_ffi = r.api_version == 4;
  if (braces && (opcode != Opcode::kCustomCall || typed_ffi)) return std::string(r.backend_config);
  return "\"" + hlo_text::Escape(r.backend_config) + "\"";
}

// The attribute struct that ops.def names for the opcode.
class RecordReader {
 public:
  RecordReader(Opcode opcode, const InstructionRecord& record, std::span<Instruction* const> operands,
               std::shared_ptr<const Literal> literal)
      : opcode_(opcode), r_(record), operands_(operands), literal_(std::move(literal)) {}

  Result<Attributes> operator()(std::type_identity<NoAttributes>) { return NoAttributes(); }
  Result<Attributes> operator()(std::type_identity<ParameterAttributes>) {
    return ParameterAttributes{r_.parameter_number, r_.replication};
  }
  Result<Attributes> operator()(std::type_identity<ConstantAttributes>) {
    return ConstantAttributes{std::move(literal_)};
  }
  Result<Attributes> operator()(std::type_identity<IotaAttributes>) {
    KRAFLA_ASSIGN(int64_t dimension, OneDimension());
    return IotaAttributes{dimension};
  }
  Result<Attributes> operator()(std::type_identity<DimensionsAttributes>) {
    if (IsOneOf(opcode_, {Opcode::kConcatenate, Opcode::kGetDimensionSize, Opcode::kSetDimensionSize}))
      KRAFLA_TRY(OneDimension());
    return DimensionsAttributes{r_.dimensions};
  }
  Result<Attributes> operator()(std::type_identity<CompareAttributes>) {
    CompareAttributes out;
    KRAFLA_ASSIGN(out.direction, FromWord(hlo_text::kDirections, r_.direction, out.direction));
    KRAFLA_ASSIGN(out.type, FromWord(hlo_text::kComparisonTypes, r_.comparison_type, out.type));
    if (!operands_.empty() && out.type == DefaultComparison(operands_[0]->shape().element_type()))
      out.type = ComparisonType::kDefault;
    return out;
  }
  Result<Attributes> operator()(std::type_identity<SliceAttributes>) { return r_.slice; }
  Result<Attributes> operator()(std::type_identity<DynamicSliceAttributes>) {
    return DynamicSliceAttributes{r_.dynamic_slice_sizes};
  }
  Result<Attributes> operator()(std::type_identity<PadAttributes>) { return r_.padding; }
  Result<Attributes> operator()(std::type_identity<DotAttributes>) {
    KRAFLA_ASSIGN(DotAttributes out, Dot());
    return out;
  }
  Result<Attributes> operator()(std::type_identity<RaggedDotAttributes>) {
    RaggedDotAttributes out = r_.dot;
    KRAFLA_ASSIGN(out.dot, Dot());
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ConvolutionAttributes>) {
    ConvolutionAttributes out = r_.convolution;
    out.window = r_.window;
    out.feature_group_count = std::max<int64_t>(r_.feature_groups, 1);
    out.batch_group_count = std::max<int64_t>(r_.batch_groups, 1);
    out.precision = r_.precision;
    return out;
  }
  Result<Attributes> operator()(std::type_identity<WindowAttributes>) { return WindowAttributes{r_.window}; }
  Result<Attributes> operator()(std::type_identity<GatherAttributes>) {
    GatherAttributes out = r_.gather;
    out.slice_sizes = r_.gather_slice_sizes;
    out.indices_are_sorted = r_.indices_are_sorted;
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ScatterAttributes>) {
    ScatterAttributes out = r_.scatter;
    out.indices_are_sorted = r_.indices_are_sorted;
    out.unique_indices = r_.unique_indices;
    return out;
  }
  Result<Attributes> operator()(std::type_identity<SortAttributes>) {
    KRAFLA_ASSIGN(int64_t dimension, OneDimension());
    return SortAttributes{dimension, r_.is_stable};
  }
  Result<Attributes> operator()(std::type_identity<TopKAttributes>) { return TopKAttributes{r_.k, r_.largest}; }
  Result<Attributes> operator()(std::type_identity<ScanAttributes>) {
    KRAFLA_ASSIGN(int64_t dimension, OneDimension());
    return ScanAttributes{dimension, r_.num_carries, r_.is_reverse, r_.is_associative == 1};
  }
  Result<Attributes> operator()(std::type_identity<FftAttributes>) {
    KRAFLA_ASSIGN(FftType type, FromNumber<FftType>("type of an fft", r_.fft_type, 0, 4));
    return FftAttributes{type, r_.fft_length};
  }
  Result<Attributes> operator()(std::type_identity<RngAttributes>) {
    KRAFLA_ASSIGN(RngDistribution distribution, FromNumber<RngDistribution>("distribution", r_.distribution, 1, 2));
    return RngAttributes{distribution};
  }
  Result<Attributes> operator()(std::type_identity<RngBitGeneratorAttributes>) {
    KRAFLA_ASSIGN(RngAlgorithm algorithm,
                  FromNumber<RngAlgorithm>("algorithm of rng-bit-generator", r_.rng_algorithm, 0, 3));
    return RngBitGeneratorAttributes{algorithm};
  }
  Result<Attributes> operator()(std::type_identity<RngStateAttributes>) { return RngStateAttributes{r_.delta}; }
  Result<Attributes> operator()(std::type_identity<CholeskyAttributes>) {
    return CholeskyAttributes{r_.cholesky_lower};
  }
  Result<Attributes> operator()(std::type_identity<TriangularSolveAttributes>) { return r_.triangular_solve; }
  Result<Attributes> operator()(std::type_identity<BatchNormAttributes>) {
    return BatchNormAttributes{r_.epsilon, r_.feature_index};
  }
  Result<Attributes> operator()(std::type_identity<ReducePrecisionAttributes>) {
    return ReducePrecisionAttributes{r_.exponent_bits, r_.mantissa_bits};
  }
  Result<Attributes> operator()(std::type_identity<TupleIndexAttributes>) {
    return TupleIndexAttributes{r_.tuple_index};
  }
  Result<Attributes> operator()(std::type_identity<FusionAttributes>) {
    KRAFLA_ASSIGN(FusionKind kind, FromWord(hlo_text::kFusionKinds, r_.fusion_kind, FusionKind::kLoop));
    return FusionAttributes{kind};
  }
  Result<Attributes> operator()(std::type_identity<CallAttributes>) { return CallAttributes{r_.is_composite}; }
  Result<Attributes> operator()(std::type_identity<WhileAttributes>) {
    return WhileAttributes{hlo_text::KnownTripCount(r_.backend_config)};
  }
  Result<Attributes> operator()(std::type_identity<CollectiveAttributes>) {
    CollectiveAttributes out;
    out.replica_groups = r_.replica_groups;
    out.source_target_pairs = r_.source_target_pairs;
    out.channel_id = Channel();
    out.use_global_device_ids = r_.use_global_device_ids;
    out.constrain_layout = r_.constrain_layout;
    const bool needed = IsOneOf(opcode_, {Opcode::kAllGather, Opcode::kAllGatherStart, Opcode::kReduceScatter});
    if (needed || (opcode_ == Opcode::kAllToAll && !r_.dimensions.empty())) {
      KRAFLA_ASSIGN(out.dimension, OneDimension());
    }
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ChannelAttributes>) {
    return ChannelAttributes{Channel(), r_.is_host_transfer};
  }
  Result<Attributes> operator()(std::type_identity<InfeedAttributes>) {
    if (opcode_ == Opcode::kInfeed) return InfeedAttributes{std::string(r_.infeed_config), std::nullopt};
    return InfeedAttributes{std::string(r_.outfeed_config), r_.outfeed_shape};
  }
  Result<Attributes> operator()(std::type_identity<AsyncAttributes>) {
    return AsyncAttributes{r_.async_thread == "main" ? std::string() : std::string(r_.async_thread)};
  }
  Result<Attributes> operator()(std::type_identity<DomainAttributes>) {
    auto shown = [](const std::string& sharding) { return sharding.empty() ? std::string("{}") : sharding; };
    return DomainAttributes{
        Format("kind=\"sharding\", entry={}, exit={}", shown(r_.domain_entry), shown(r_.domain_exit))};
  }
  Result<Attributes> operator()(std::type_identity<CustomCallAttributes>) {
    CustomCallAttributes out;
    out.target = r_.target;
    if (r_.constrain_layout) out.operand_layouts = r_.operand_shapes;
    out.has_side_effect = r_.has_side_effect;
    if (r_.api_version < 0 || r_.api_version >= static_cast<int64_t>(std::size(kApiVersions)))
      return InvalidArgument("A custom call has the API version number {}, which this version does not know.",
                             r_.api_version);
    out.api_version = kApiVersions[r_.api_version];
    out.output_to_operand_aliasing = r_.aliasing;
    out.literal = std::move(literal_);
    return out;
  }
  Result<Attributes> operator()(std::type_identity<ResultAccuracyAttributes>) {
    if (r_.accuracy != ResultAccuracyAttributes()) return r_.accuracy;
    return NoAttributes();
  }

 private:
  Result<int64_t> OneDimension() const {
    if (r_.dimensions.size() != 1)
      return InvalidArgument("The dimensions of this instruction must name one dimension, not {}.",
                             r_.dimensions.size());
    return r_.dimensions[0];
  }
  // Channel 0 is none in the proto.
  std::optional<int64_t> Channel() const { return r_.channel_id > 0 ? std::optional(r_.channel_id) : std::nullopt; }
  Result<DotAttributes> Dot() const {
    DotAttributes out = r_.dot.dot;
    out.precision = r_.precision;
    if (r_.dot_algorithm < 0 || r_.dot_algorithm >= static_cast<int64_t>(std::size(kDotAlgorithms)))
      return InvalidArgument("The algorithm of a dot has the number {}, which this version does not know.",
                             r_.dot_algorithm);
    out.algorithm = kDotAlgorithms[r_.dot_algorithm];
    return out;
  }

  Opcode opcode_;
  const InstructionRecord& r_;
  std::span<Instruction* const> operands_;
  std::shared_ptr<const Literal> literal_;
};

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
  return WithAttributesOf(opcode, RecordReader(opcode, r, operands, std::move(literal)));
}

}  // namespace krafla::hlo_proto
