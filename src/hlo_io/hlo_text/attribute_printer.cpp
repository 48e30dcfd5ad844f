// SPDX-License-Identifier: Apache-2.0
// Attributes of the IR as text: the counterpart of attribute_builder.cpp. Values that are the default are left out.
#include <bit>
#include <variant>

#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/hlo_text/printer.h"
#include "hlo_io/hlo_text/word_tables.h"
#include "ir/dimension_numbers.h"

namespace krafla::hlo_text {
namespace {

class Writer {
 public:
  Writer(std::string& out, const Instruction& instruction, const HloPrintOptions& options)
      : out_(out), instruction_(instruction), options_(options) {}

  void operator()(const NoAttributes&) {}
  void operator()(const ParameterAttributes& a) {
    if (a.replicated_at_leaf_buffers.empty()) return;
    Key("parameter_replication");
    out_ += '{';
    for (std::size_t i = 0; i < a.replicated_at_leaf_buffers.size(); ++i)
      out_ += Format("{}{}", i > 0 ? "," : "", a.replicated_at_leaf_buffers[i] ? "true" : "false");
    out_ += '}';
  }
  void operator()(const ConstantAttributes&) {}
  void operator()(const IotaAttributes& a) { Int("iota_dimension", a.dimension); }
  void operator()(const DimensionsAttributes& a) { List("dimensions", a.dimensions); }
  void operator()(const CompareAttributes& a) {
    Word("direction", WordFor(kDirections, a.direction));
    if (a.type != ComparisonType::kDefault) Word("type", WordFor(kComparisonTypes, a.type));
  }
  void operator()(const SliceAttributes& a) {
    Key("slice");
    out_ += '{';
    for (std::size_t i = 0; i < a.starts.size(); ++i) {
      out_ += Format("{}[{}:{}", i > 0 ? ", " : "", a.starts[i], a.limits[i]);
      if (a.strides[i] != 1) out_ += Format(":{}", a.strides[i]);
      out_ += ']';
    }
    out_ += '}';
  }
  void operator()(const DynamicSliceAttributes& a) { List("dynamic_slice_sizes", a.slice_sizes); }
  void operator()(const PadAttributes& a) {
    Key("padding");
    for (std::size_t i = 0; i < a.low.size(); ++i) {
      out_ += Format("{}{}_{}", i > 0 ? "x" : "", a.low[i], a.high[i]);
      if (a.interior[i] != 0) out_ += Format("_{}", a.interior[i]);
    }
  }
  void operator()(const DotAttributes& a) {
    ListUnlessEmpty("lhs_batch_dims", a.lhs_batch);
    ListUnlessEmpty("lhs_contracting_dims", a.lhs_contracting);
    ListUnlessEmpty("rhs_batch_dims", a.rhs_batch);
    ListUnlessEmpty("rhs_contracting_dims", a.rhs_contracting);
    Precisions(a.precision);
    if (!a.algorithm.empty()) Word("algorithm", a.algorithm);
  }
  void operator()(const RaggedDotAttributes& a) {
    (*this)(a.dot);
    ListUnlessEmpty("lhs_ragged_dims", a.lhs_ragged_dims);
    ListUnlessEmpty("rhs_group_dims", a.rhs_group_dims);
  }
  void operator()(const ConvolutionAttributes& a) {
    PrintWindow(a.window);
    auto labels = [&](char first, int64_t first_dim, char second, int64_t second_dim, const Dims& spatial) {
      std::string text(spatial.size() + 2, '?');
      auto put = [&](int64_t at, char c) {
        if (at >= 0 && at < static_cast<int64_t>(text.size())) text[static_cast<std::size_t>(at)] = c;
      };
      for (std::size_t i = 0; i < spatial.size(); ++i) put(spatial[i], static_cast<char>('0' + i));
      put(first_dim, first);
      put(second_dim, second);
      return text;
    };
    Key("dim_labels");
    out_ += labels('b', a.input_batch, 'f', a.input_feature, a.input_spatial) + "_" +
            labels('i', a.kernel_input_feature, 'o', a.kernel_output_feature, a.kernel_spatial) + "->" +
            labels('b', a.output_batch, 'f', a.output_feature, a.output_spatial);
    if (a.feature_group_count != 1) Int("feature_group_count", a.feature_group_count);
    if (a.batch_group_count != 1) Int("batch_group_count", a.batch_group_count);
    Precisions(a.precision);
  }
  void operator()(const WindowAttributes& a) { PrintWindow(a.window); }
  void operator()(const GatherAttributes& a) {
    DimensionNumbers(a);
    List("slice_sizes", a.slice_sizes);
    Flag("indices_are_sorted", a.indices_are_sorted);
  }
  void operator()(const ScatterAttributes& a) {
    DimensionNumbers(a);
    Flag("indices_are_sorted", a.indices_are_sorted);
    Flag("unique_indices", a.unique_indices);
  }
  void operator()(const SortAttributes& a) {
    One("dimensions", a.dimension);
    Flag("is_stable", a.is_stable);
  }
  void operator()(const TopKAttributes& a) {
    Int("k", a.k);
    Word("largest", a.largest ? "true" : "false");
  }
  void operator()(const ScanAttributes& a) {
    One("dimensions", a.dimension);
    Int("num_carries", a.num_carries);
    Flag("is_reverse", a.is_reverse);
    Flag("is_associative", a.is_associative);
  }
  void operator()(const FftAttributes& a) {
    Word("fft_type", WordFor(kFftTypes, a.type));
    List("fft_length", a.length);
  }
  void operator()(const RngAttributes& a) { Word("distribution", WordFor(kDistributions, a.distribution)); }
  void operator()(const RngBitGeneratorAttributes& a) { Word("algorithm", WordFor(kRngAlgorithms, a.algorithm)); }
  void operator()(const RngStateAttributes& a) { Int("delta", a.delta); }
  void operator()(const CholeskyAttributes& a) { Flag("lower", a.lower); }
  void operator()(const TriangularSolveAttributes& a) {
    Flag("left_side", a.left_side);
    Flag("lower", a.lower);
    Flag("unit_diagonal", a.unit_diagonal);
    Word("transpose_a", WordFor(kTransposes, a.transpose_a));
  }
  void operator()(const BatchNormAttributes& a) {
    Key("epsilon");
    AppendReal(out_, ElementType::kF32, std::bit_cast<uint32_t>(a.epsilon));
    Int("feature_index", a.feature_index);
  }
  void operator()(const ReducePrecisionAttributes& a) {
    Int("exponent_bits", a.exponent_bits);
    Int("mantissa_bits", a.mantissa_bits);
  }
  void operator()(const TupleIndexAttributes& a) { Int("index", a.index); }
  void operator()(const FusionAttributes& a) { Word("kind", WordFor(kFusionKinds, a.kind)); }
  void operator()(const CallAttributes& a) { Flag("is_composite", a.is_composite); }
  void operator()(const WhileAttributes&) {}  // its trip count is part of backend_config
  void operator()(const CollectiveAttributes& a) {
    if (a.channel_id) Int("channel_id", *a.channel_id);
    if (instruction_.opcode() == Opcode::kCollectivePermute ||
        instruction_.opcode() == Opcode::kCollectivePermuteStart) {
      Key("source_target_pairs");
      out_ += '{';
      for (std::size_t i = 0; i < a.source_target_pairs.size(); ++i)
        out_ +=
            Format("{}{{{},{}}}", i > 0 ? "," : "", a.source_target_pairs[i].first, a.source_target_pairs[i].second);
      out_ += '}';
    } else if (!a.replica_groups.empty()) {
      Key("replica_groups");
      out_ += '{';
      for (std::size_t i = 0; i < a.replica_groups.size(); ++i) {
        if (i > 0) out_ += ',';
        AppendList(out_, a.replica_groups[i]);
      }
      out_ += '}';
    }
    Flag("constrain_layout", a.constrain_layout);
    if (a.dimension) One("dimensions", *a.dimension);
    Flag("use_global_device_ids", a.use_global_device_ids);
  }
  void operator()(const ChannelAttributes& a) {
    if (a.channel_id) Int("channel_id", *a.channel_id);
    Flag("is_host_transfer", a.is_host_transfer);
  }
  void operator()(const InfeedAttributes& a) {
    if (a.outfeed_shape) {
      Key("outfeed_shape");
      out_ += a.outfeed_shape->ToString(options_.layouts);
    }
    if (!a.config.empty())
      String(instruction_.opcode() == Opcode::kInfeed ? "infeed_config" : "outfeed_config", a.config);
  }
  void operator()(const AsyncAttributes& a) {
    if (!a.execution_thread.empty()) String("async_execution_thread", a.execution_thread);
  }
  void operator()(const DomainAttributes& a) { Word("domain", "{" + a.text + "}"); }
  void operator()(const CustomCallAttributes& a) {
    String("custom_call_target", a.target);
    if (a.operand_layouts) {
      Key("operand_layout_constraints");
      out_ += '{';
      for (std::size_t i = 0; i < a.operand_layouts->size(); ++i)
        out_ += Format("{}{}", i > 0 ? ", " : "", (*a.operand_layouts)[i].ToString(options_.layouts));
      out_ += '}';
    }
    Flag("custom_call_has_side_effect", a.has_side_effect);
    if (!a.output_to_operand_aliasing.empty()) {
      Key("output_to_operand_aliasing");
      out_ += '{';
      bool first = true;
      for (const auto& alias : a.output_to_operand_aliasing) {
        if (!first) out_ += ", ";
        first = false;
        AppendList(out_, alias.output_index);
        out_ += Format(": ({}, ", alias.operand);
        AppendList(out_, alias.operand_index);
        out_ += ')';
      }
      out_ += '}';
    }
    if (a.literal) {
      Key("literal");
      out_ += '(' + a.literal->shape().ToString(options_.layouts) + ' ';
      AppendLiteral(out_, *a.literal, options_.elide_constants_over);
      out_ += ')';
    }
    if (!a.api_version.empty()) Word("api_version", a.api_version);
  }
  void operator()(const ResultAccuracyAttributes& a) {
    Key("result_accuracy");
    if (a.highest) {
      out_ += "{mode=highest}";
      return;
    }
    out_ += "{tolerance={rtol=";
    AppendDouble(out_, a.rtol);
    out_ += ", atol=";
    AppendDouble(out_, a.atol);
    out_ += Format(", ulps={}}}}}", a.ulps);
  }

  void Called() {
    auto called = instruction_.called();
    if (called.empty()) return;
    auto one = [&](std::string_view key, const Computation* computation) {
      Key(key);
      AppendName(out_, computation->name(), options_.percent);
    };
    auto list = [&](std::string_view key) {
      Key(key);
      out_ += '{';
      for (std::size_t i = 0; i < called.size(); ++i) {
        if (i > 0) out_ += ", ";
        AppendName(out_, called[i]->name(), options_.percent);
      }
      out_ += '}';
    };
    const Opcode opcode = instruction_.opcode();
    if (opcode == Opcode::kWhile && called.size() == 2) {
      one("condition", called[0]);
      one("body", called[1]);
    } else if (opcode == Opcode::kSelectAndScatter && called.size() == 2) {
      one("select", called[0]);
      one("scatter", called[1]);
    } else if (opcode == Opcode::kConditional) {
      const bool pred =
          instruction_.operand_count() > 0 && instruction_.operand(0)->shape().element_type() == ElementType::kPred;
      if (pred && called.size() == 2) {
        one("true_computation", called[0]);
        one("false_computation", called[1]);
      } else {
        list("branch_computations");
      }
    } else if (opcode == Opcode::kFusion || opcode == Opcode::kAsyncStart) {
      one("calls", called[0]);
    } else if (opcode == Opcode::kCustomCall) {
      list("called_computations");
    } else {
      one("to_apply", called[0]);
    }
  }

  void Control() {
    const auto& before = instruction_.control_predecessors();
    if (before.empty()) return;
    Key("control-predecessors");
    out_ += '{';
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i > 0) out_ += ", ";
      AppendName(out_, before[i]->name(), options_.percent);
    }
    out_ += '}';
  }

  void Metadata() {
    const InstructionMetadata& m = instruction_.metadata();
    if (!m.sharding.empty()) Word("sharding", m.sharding);
    if (!m.frontend_attributes.empty()) Word("frontend_attributes", "{" + m.frontend_attributes + "}");
    if (options_.metadata) {
      if (!m.metadata.empty()) Word("metadata", "{" + m.metadata + "}");
      if (!m.statistics.empty()) Word("statistics", "{" + m.statistics + "}");
    }
    const auto* loop = std::get_if<WhileAttributes>(&instruction_.attributes());
    if (loop != nullptr && loop->known_trip_count != KnownTripCount(m.backend_config)) {
      // The count was found or changed after the text was read: it stands for the whole configuration.
      if (loop->known_trip_count)
        Word("backend_config", Format("{{\"known_trip_count\":{{\"n\":\"{}\"}}}}", *loop->known_trip_count));
    } else if (!m.backend_config.empty()) {
      Word("backend_config", m.backend_config);
    }
  }

 private:
  void Key(std::string_view key) {
    out_ += ", ";
    out_ += key;
    out_ += '=';
  }
  void Word(std::string_view key, std::string_view word) {
    Key(key);
    out_ += word;
  }
  void String(std::string_view key, std::string_view bytes) {
    Key(key);
    out_ += '"';
    out_ += Escape(bytes);
    out_ += '"';
  }
  void Int(std::string_view key, int64_t value) { Word(key, std::to_string(value)); }
  void Flag(std::string_view key, bool value) {
    if (value) Word(key, "true");
  }
  void List(std::string_view key, const Dims& dims) {
    Key(key);
    AppendList(out_, dims);
  }
  void ListUnlessEmpty(std::string_view key, const Dims& dims) {
    if (!dims.empty()) List(key, dims);
  }
  // Of gather and scatter: the lists, then the one number, as XLA prints them.
  template <typename Numbered>
  void DimensionNumbers(const Numbered& a) {
    VisitDimensionNumbers(a, [&](int number, std::string_view name, const auto& field) {
      if constexpr (kIsDimensionList<decltype(field)>)
        if (number < 4 || !field.empty()) List(name, field);
    });
    Int("index_vector_dim", a.index_vector_dim);
  }
  void One(std::string_view key, int64_t dim) { List(key, Dims{dim}); }
  void Precisions(const std::vector<Precision>& precision) {
    if (precision.empty()) return;
    Key("operand_precision");
    out_ += '{';
    for (std::size_t i = 0; i < precision.size(); ++i)
      out_ += Format("{}{}", i > 0 ? "," : "", WordFor(kPrecisions, precision[i]));
    out_ += '}';
  }
  void PrintWindow(const Window& window) {
    if (window.empty()) return;
    Key("window");
    bool first = true;
    auto field = [&](std::string_view name, auto text) {
      if (!first) out_ += ' ';
      first = false;
      out_ += name;
      out_ += '=';
      for (std::size_t i = 0; i < window.size(); ++i) {
        if (i > 0) out_ += 'x';
        out_ += text(window[i]);
      }
    };
    auto any = [&](auto differs) {
      for (const WindowDim& d : window)
        if (differs(d)) return true;
      return false;
    };
    out_ += '{';
    field("size", [](const WindowDim& d) { return std::to_string(d.size); });
    if (any([](const WindowDim& d) { return d.stride != 1; }))
      field("stride", [](const WindowDim& d) { return std::to_string(d.stride); });
    if (any([](const WindowDim& d) { return d.padding_low != 0 || d.padding_high != 0; }))
      field("pad", [](const WindowDim& d) { return Format("{}_{}", d.padding_low, d.padding_high); });
    if (any([](const WindowDim& d) { return d.base_dilation != 1; }))
      field("lhs_dilate", [](const WindowDim& d) { return std::to_string(d.base_dilation); });
    if (any([](const WindowDim& d) { return d.window_dilation != 1; }))
      field("rhs_dilate", [](const WindowDim& d) { return std::to_string(d.window_dilation); });
    if (any([](const WindowDim& d) { return d.reversal; }))
      field("rhs_reversal", [](const WindowDim& d) { return std::string(d.reversal ? "1" : "0"); });
    out_ += '}';
  }

  std::string& out_;
  const Instruction& instruction_;
  const HloPrintOptions& options_;
};

}  // namespace

void AppendAttributes(std::string& out, const Instruction& instruction, const HloPrintOptions& options) {
  Writer writer(out, instruction, options);
  std::visit(writer, instruction.attributes());
  writer.Called();
  writer.Control();
  writer.Metadata();
}

}  // namespace krafla::hlo_text
