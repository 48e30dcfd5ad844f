// SPDX-License-Identifier: Apache-2.0
// The counterpart of attributes_from_record.cpp.
#include "hlo_io/hlo_proto/instruction_writer.h"

#include "hlo_io/hlo_proto/fields.h"
#include "hlo_io/hlo_proto/instruction_record.h"
#include "hlo_io/hlo_proto/shape_proto.h"
#include "hlo_io/hlo_proto/sharding_proto.h"
#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/hlo_text/word_tables.h"
#include "ir/dimension_numbers.h"

namespace krafla::hlo_proto {
namespace {

namespace f = instruction_field;

// Zeros too: a message without a field would not be written at all.
template <typename... Values>
void WriteFields(Writer writer, Values... values) {
  uint32_t field = 0;
  (writer.add_int64(++field, values), ...);
}

class AttributeWriter {
 public:
  AttributeWriter(Writer& writer, const Instruction& instruction) : w_(writer), i_(instruction) {}

  Result<> operator()(const NoAttributes&) { return {}; }
  Result<> operator()(const ParameterAttributes& a) {
    WriteInt(w_, f::kParameterNumber, a.number);
    if (!a.replicated_at_leaf_buffers.empty()) {
      Writer replication(w_, f::kParameterReplication);
      WriteInts(replication, 1,
                std::vector<int64_t>(a.replicated_at_leaf_buffers.begin(), a.replicated_at_leaf_buffers.end()));
    }
    return {};
  }
  Result<> operator()(const ConstantAttributes& a) { return WriteLiteral(Writer(w_, f::kLiteral), *a.literal); }
  Result<> operator()(const IotaAttributes& a) { return One(a.dimension); }
  Result<> operator()(const DimensionsAttributes& a) { return Ints(f::kDimensions, a.dimensions); }
  Result<> operator()(const CompareAttributes& a) {
    WriteString(w_, f::kComparisonDirection, hlo_text::WordFor(hlo_text::kDirections, a.direction));
    ComparisonType type = a.type;
    if (type == ComparisonType::kDefault && i_.operand_count() > 0)
      type = DefaultComparison(i_.operand(0)->shape().element_type());
    WriteString(w_, f::kComparisonType, hlo_text::WordFor(hlo_text::kComparisonTypes, type));
    return {};
  }
  Result<> operator()(const SliceAttributes& a) {
    for (std::size_t d = 0; d < a.starts.size(); ++d)
      WriteFields(Writer(w_, f::kSliceDimensions), a.starts[d], a.limits[d], a.strides[d]);
    return {};
  }
  Result<> operator()(const DynamicSliceAttributes& a) { return Ints(f::kDynamicSliceSizes, a.slice_sizes); }
  Result<> operator()(const PadAttributes& a) {
    std::string dims;
    Writer config(dims);
    for (std::size_t d = 0; d < a.low.size(); ++d) WriteFields(Writer(config, 1), a.low[d], a.high[d], a.interior[d]);
    w_.add_message(f::kPaddingConfig, dims);
    return {};
  }
  Result<> operator()(const DotAttributes& a) {
    w_.add_message(f::kDotDims, DotDims(a));
    return Precisions(a.precision, a.algorithm);
  }
  Result<> operator()(const RaggedDotAttributes& a) {
    {
      Writer ragged(w_, f::kRaggedDotDims);
      ragged.add_message(1, DotDims(a.dot));
      WriteInts(ragged, 2, a.lhs_ragged_dims);
      WriteInts(ragged, 3, a.rhs_group_dims);
    }
    return Precisions(a.dot.precision, a.dot.algorithm);
  }
  Result<> operator()(const ConvolutionAttributes& a) {
    WriteWindow(a.window);
    {
      Writer dims(w_, f::kConvolutionDims);
      WriteInt(dims, 7, a.input_batch);
      WriteInt(dims, 8, a.input_feature);
      WriteInts(dims, 11, a.input_spatial);
      WriteInt(dims, 3, a.kernel_input_feature);
      WriteInt(dims, 4, a.kernel_output_feature);
      WriteInts(dims, 6, a.kernel_spatial);
      WriteInt(dims, 9, a.output_batch);
      WriteInt(dims, 10, a.output_feature);
      WriteInts(dims, 12, a.output_spatial);
    }
    WriteInt(w_, f::kFeatureGroupCount, a.feature_group_count);
    WriteInt(w_, f::kBatchGroupCount, a.batch_group_count);
    return Precisions(a.precision, "");
  }
  Result<> operator()(const WindowAttributes& a) {
    WriteWindow(a.window);
    return {};
  }
  Result<> operator()(const GatherAttributes& a) {
    WriteDimensionNumbers(f::kGatherDims, a);
    WriteInts(w_, f::kGatherSliceSizes, a.slice_sizes);
    WriteBool(w_, f::kIndicesAreSorted, a.indices_are_sorted);
    return {};
  }
  Result<> operator()(const ScatterAttributes& a) {
    WriteDimensionNumbers(f::kScatterDims, a);
    WriteBool(w_, f::kIndicesAreSorted, a.indices_are_sorted);
    WriteBool(w_, f::kUniqueIndices, a.unique_indices);
    return {};
  }
  Result<> operator()(const SortAttributes& a) {
    WriteBool(w_, f::kIsStable, a.is_stable);
    return One(a.dimension);
  }
  Result<> operator()(const TopKAttributes& a) {
    WriteInt(w_, f::kK, a.k);
    WriteBool(w_, f::kLargest, a.largest);
    return {};
  }
  Result<> operator()(const ScanAttributes& a) {
    WriteInt(w_, f::kNumCarries, a.num_carries);
    WriteBool(w_, f::kIsReverse, a.is_reverse);
    WriteInt(w_, f::kIsAssociative, a.is_associative ? 1 : 2);
    return One(a.dimension);
  }
  Result<> operator()(const FftAttributes& a) {
    WriteInt(w_, f::kFftType, static_cast<int64_t>(a.type));
    return Ints(f::kFftLength, a.length);
  }
  Result<> operator()(const RngAttributes& a) {
    return Number(f::kDistribution, static_cast<int64_t>(a.distribution) + 1);
  }
  Result<> operator()(const RngBitGeneratorAttributes& a) {
    return Number(f::kRngAlgorithm, static_cast<int64_t>(a.algorithm));
  }
  Result<> operator()(const RngStateAttributes& a) { return Number(f::kDelta, a.delta); }
  Result<> operator()(const CholeskyAttributes& a) {
    Writer options(w_, f::kCholeskyOptions);
    WriteBool(options, 1, a.lower);
    return {};
  }
  Result<> operator()(const TriangularSolveAttributes& a) {
    Writer options(w_, f::kTriangularSolveOptions);
    WriteBool(options, 1, a.left_side);
    WriteBool(options, 2, a.lower);
    WriteBool(options, 3, a.unit_diagonal);
    WriteInt(options, 4, static_cast<int64_t>(a.transpose_a) + 1);
    return {};
  }
  Result<> operator()(const BatchNormAttributes& a) {
    w_.add_float(f::kEpsilon, a.epsilon);
    return Number(f::kFeatureIndex, a.feature_index);
  }
  Result<> operator()(const ReducePrecisionAttributes& a) {
    WriteInt(w_, f::kExponentBits, a.exponent_bits);
    return Number(f::kMantissaBits, a.mantissa_bits);
  }
  Result<> operator()(const TupleIndexAttributes& a) { return Number(f::kTupleIndex, a.index); }
  Result<> operator()(const FusionAttributes& a) {
    WriteString(w_, f::kFusionKind, hlo_text::WordFor(hlo_text::kFusionKinds, a.kind));
    return {};
  }
  Result<> operator()(const CallAttributes& a) {
    WriteBool(w_, f::kIsComposite, a.is_composite);
    return {};
  }
  Result<> operator()(const WhileAttributes& a) {
    if (a.known_trip_count != hlo_text::KnownTripCount(i_.metadata().backend_config) && a.known_trip_count)
      WriteString(w_, f::kBackendConfig, Format("{{\"known_trip_count\":{{\"n\":\"{}\"}}}}", *a.known_trip_count));
    return {};
  }
  Result<> operator()(const CollectiveAttributes& a) {
    if (a.channel_id) WriteInt(w_, f::kChannelId, *a.channel_id);
    for (const auto& group : a.replica_groups) {
      Writer one(w_, f::kReplicaGroups);
      WriteInts(one, 1, group);
    }
    for (auto [source, target] : a.source_target_pairs) WriteFields(Writer(w_, f::kSourceTargetPairs), source, target);
    WriteBool(w_, f::kConstrainLayout, a.constrain_layout);
    WriteBool(w_, f::kUseGlobalDeviceIds, a.use_global_device_ids);
    return a.dimension ? One(*a.dimension) : Result<>();
  }
  Result<> operator()(const ChannelAttributes& a) {
    if (a.channel_id) WriteInt(w_, f::kChannelId, *a.channel_id);
    WriteBool(w_, f::kIsHostTransfer, a.is_host_transfer);
    return {};
  }
  Result<> operator()(const InfeedAttributes& a) {
    WriteString(w_, i_.opcode() == Opcode::kInfeed ? f::kInfeedConfig : f::kOutfeedConfig, a.config);
    if (a.outfeed_shape) return WriteShape(Writer(w_, f::kOutfeedShape), *a.outfeed_shape);
    return {};
  }
  Result<> operator()(const AsyncAttributes& a) {
    WriteString(w_, f::kAsyncExecutionThread, a.execution_thread.empty() ? "main" : a.execution_thread);
    return {};
  }
  Result<> operator()(const DomainAttributes& a) {
    // kind="sharding", entry={...}, exit={...}
    hlo_text::Lexer lex(a.text, "domain");
    while (lex.token().kind == hlo_text::Tok::kWord) {
      std::string_view key = lex.Next().text;
      KRAFLA_TRY(lex.Expect('=', "in a domain"));
      if (lex.Is('{')) {
        KRAFLA_ASSIGN(std::string_view braces, lex.RawBraces("a sharding"));
        if (braces != "{}")
          KRAFLA_TRY(WriteSharding(Writer(w_, key == "entry" ? f::kDomainEntry : f::kDomainExit), braces));
      } else {
        lex.Next();
      }
      lex.Accept(',');
    }
    return {};
  }
  Result<> operator()(const CustomCallAttributes& a) {
    WriteString(w_, f::kCustomCallTarget, a.target);
    if (a.operand_layouts) {
      w_.add_bool(f::kConstrainLayout, true);
      for (const Shape& shape : *a.operand_layouts) KRAFLA_TRY(WriteShape(Writer(w_, f::kOperandShapes), shape));
    }
    WriteBool(w_, f::kHasSideEffect, a.has_side_effect);
    int64_t version = 1;
    for (std::size_t v = 2; v < std::size(kApiVersions); ++v)
      if (kApiVersions[v] == a.api_version) version = static_cast<int64_t>(v);
    WriteInt(w_, f::kCustomCallApiVersion, version);
    for (const auto& alias : a.output_to_operand_aliasing) {
      Writer one(w_, f::kOutputOperandAliasing);
      WriteInts(one, 1, alias.output_index);
      one.add_int64(2, alias.operand);
      WriteInts(one, 3, alias.operand_index);
    }
    if (a.literal) return WriteLiteral(Writer(w_, f::kLiteral), *a.literal);
    return {};
  }
  Result<> operator()(const ResultAccuracyAttributes& a) {
    Writer accuracy(w_, f::kResultAccuracy);
    if (a.highest) {
      accuracy.add_int32(1, 1);
      return {};
    }
    Writer tolerance(accuracy, 2);
    tolerance.add_double(1, a.atol);
    tolerance.add_double(2, a.rtol);
    WriteInt(tolerance, 3, a.ulps);
    return {};
  }

 private:
  // Of gather and scatter.
  template <typename Numbered>
  void WriteDimensionNumbers(Field message, const Numbered& a) {
    Writer dims(w_, message);
    VisitDimensionNumbers(a, [&](int number, std::string_view, const auto& field) {
      if constexpr (kIsDimensionList<decltype(field)>) WriteInts(dims, static_cast<uint32_t>(number), field);
      else WriteInt(dims, static_cast<uint32_t>(number), field);
    });
  }
  Result<> Number(Field field, int64_t value) {
    WriteInt(w_, field, value);
    return {};
  }
  Result<> Ints(Field field, const Dims& dims) {
    WriteInts(w_, field, dims);
    return {};
  }
  Result<> One(int64_t dimension) { return Ints(f::kDimensions, Dims{dimension}); }
  // As bytes: an open writer leaves out a message without fields, and XLA wants this one to be there, as it wants
  // windows and paddings.
  static std::string DotDims(const DotAttributes& a) {
    std::string out;
    Writer writer(out);
    WriteInts(writer, 1, a.lhs_contracting);
    WriteInts(writer, 2, a.rhs_contracting);
    WriteInts(writer, 3, a.lhs_batch);
    WriteInts(writer, 4, a.rhs_batch);
    return out;
  }
  Result<> Precisions(const std::vector<Precision>& precision, std::string_view algorithm) {
    int64_t number = 0;
    for (std::size_t a = 0; a < std::size(kDotAlgorithms); ++a)
      if (kDotAlgorithms[a] == algorithm) number = static_cast<int64_t>(a);
    if (number == 0 && !algorithm.empty())
      return Unimplemented("The algorithm '{}' has no number in the proto.", algorithm);
    Writer config(w_, f::kPrecisionConfig);
    std::vector<int64_t> numbers;
    for (Precision p : precision) numbers.push_back(static_cast<int64_t>(p));
    if (numbers.empty()) numbers.assign(2, 0);
    WriteInts(config, 1, numbers);
    WriteInt(config, 2, number);
    return {};
  }
  void WriteWindow(const Window& window) {
    std::string dims;
    Writer writer(dims);
    for (const WindowDim& d : window)
      WriteFields(Writer(writer, 1), d.size, d.stride, d.padding_low, d.padding_high, d.window_dilation,
                  d.base_dilation, static_cast<int64_t>(d.reversal));
    w_.add_message(f::kWindow, dims);
  }

  Writer& w_;
  const Instruction& i_;
};

}  // namespace

Result<> WriteAttributes(Writer& writer, const Instruction& instruction) {
  AttributeWriter attributes(writer, instruction);
  KRAFLA_TRY(std::visit(attributes, instruction.attributes()));
  const InstructionMetadata& m = instruction.metadata();
  if (!m.metadata.empty()) WriteMetadata(Writer(writer, f::kMetadata), m.metadata);
  if (!m.sharding.empty()) KRAFLA_TRY(WriteSharding(Writer(writer, f::kSharding), m.sharding));
  if (!m.frontend_attributes.empty())
    WriteFrontendAttributes(Writer(writer, f::kFrontendAttributes), m.frontend_attributes);
  const auto* loop = std::get_if<WhileAttributes>(&instruction.attributes());
  const bool written = loop != nullptr && loop->known_trip_count != hlo_text::KnownTripCount(m.backend_config);
  if (m.backend_config.empty() || written) return {};
  writer.add_bytes(f::kBackendConfig, hlo_text::ConfigBytes(m.backend_config));
  return {};
}

}  // namespace krafla::hlo_proto
