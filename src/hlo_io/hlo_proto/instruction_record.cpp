// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_proto/instruction_record.h"

#include "hlo_io/hlo_proto/fields.h"
#include "hlo_io/hlo_proto/replica_groups.h"
#include "hlo_io/hlo_proto/shape_proto.h"
#include "hlo_io/hlo_proto/sharding_proto.h"
#include "ir/dimension_numbers.h"

namespace krafla::hlo_proto {
namespace {

// Calls `field(tag)` on each field of a message; a field that it does not take is skipped.
template <typename F>
void ForEach(Reader reader, F&& field) {
  while (reader.next())
    if (!field(reader)) reader.skip();
}

WindowDim ReadWindowDim(Reader reader) {
  WindowDim d{.size = 0, .stride = 0, .padding_low = 0, .padding_high = 0, .window_dilation = 0, .base_dilation = 0};
  ForEach(reader, [&](Reader& r) {
    switch (r.tag()) {
      case 1: d.size = Int(r); return true;
      case 2: d.stride = Int(r); return true;
      case 3: d.padding_low = Int(r); return true;
      case 4: d.padding_high = Int(r); return true;
      case 5: d.window_dilation = Int(r); return true;
      case 6: d.base_dilation = Int(r); return true;
      case 7: d.reversal = Bool(r); return true;
      default: return false;
    }
  });
  return d;
}

void ReadConvolutionDims(Reader reader, ConvolutionAttributes& c) {
  ForEach(reader, [&](Reader& r) {
    switch (r.tag()) {
      case 7: c.input_batch = Int(r); return true;
      case 8: c.input_feature = Int(r); return true;
      case 11: AppendInts(r, c.input_spatial); return true;
      case 3: c.kernel_input_feature = Int(r); return true;
      case 4: c.kernel_output_feature = Int(r); return true;
      case 6: AppendInts(r, c.kernel_spatial); return true;
      case 9: c.output_batch = Int(r); return true;
      case 10: c.output_feature = Int(r); return true;
      case 12: AppendInts(r, c.output_spatial); return true;
      default: return false;
    }
  });
}

void ReadDotDims(Reader reader, DotAttributes& dot) {
  ForEach(reader, [&](Reader& r) {
    switch (r.tag()) {
      case 1: AppendInts(r, dot.lhs_contracting); return true;
      case 2: AppendInts(r, dot.rhs_contracting); return true;
      case 3: AppendInts(r, dot.lhs_batch); return true;
      case 4: AppendInts(r, dot.rhs_batch); return true;
      default: return false;
    }
  });
}

// Of gather and scatter.
template <typename Attributes>
void ReadDimensionNumbers(Reader reader, Attributes& out) {
  ForEach(reader, [&](Reader& r) {
    const auto tag = static_cast<int64_t>(r.tag());
    bool known = false;
    VisitDimensionNumbers(out, [&](int number, std::string_view, auto& field) {
      if (known || number != tag) return;
      known = true;
      if constexpr (kIsDimensionList<decltype(field)>) AppendInts(r, field);
      else field = Int(r);
    });
    return known;
  });
}

Result<> ReadPrecision(Reader reader, InstructionRecord& out) {
  bool known = true;
  ForEach(reader, [&](Reader& r) {
    if (r.tag() == 1) {
      Dims values;
      AppendInts(r, values);
      for (int64_t v : values) {
        known &= v >= 0 && v <= 2;
        out.precision.push_back(static_cast<Precision>(v));
      }
    } else if (r.tag() == 2) {
      out.dot_algorithm = Int(r);
    } else {
      return false;
    }
    return true;
  });
  if (!known) return InvalidArgument("A precision has a number that this version does not know.");
  // Text leaves out what is the default.
  if (std::all_of(out.precision.begin(), out.precision.end(), [](Precision p) { return p == Precision::kDefault; }))
    out.precision.clear();
  return {};
}

void ReadAccuracy(Reader reader, ResultAccuracyAttributes& a) {
  ForEach(reader, [&](Reader& r) {
    if (r.tag() == 1) {
      a.highest = Int(r) == 1;
    } else if (r.tag() == 2) {
      ForEach(Message(r), [&](Reader& t) {
        if (t.tag() == 1) a.atol = Double(t);
        else if (t.tag() == 2) a.rtol = Double(t);
        else if (t.tag() == 3) a.ulps = Int(t);
        else return false;
        return true;
      });
    } else {
      return false;
    }
    return true;
  });
}

// The structured options; false where the tag is none of them.
Result<bool> ReadOptions(Reader& r, InstructionRecord& out) {
  namespace f = instruction_field;
  switch (r.tag()) {
    case f::kWindow:
      ForEach(Message(r), [&](Reader& w) {
        if (w.tag() != 1) return false;
        out.window.push_back(ReadWindowDim(Message(w)));
        return true;
      });
      return true;
    case f::kConvolutionDims: ReadConvolutionDims(Message(r), out.convolution); return true;
    case f::kSliceDimensions: {
      int64_t start = 0, limit = 0, stride = 0;
      ForEach(Message(r), [&](Reader& s) {
        if (s.tag() == 1) start = Int(s);
        else if (s.tag() == 2) limit = Int(s);
        else if (s.tag() == 3) stride = Int(s);
        else return false;
        return true;
      });
      out.slice.starts.push_back(start);
      out.slice.limits.push_back(limit);
      out.slice.strides.push_back(stride);
      return true;
    }
    case f::kPaddingConfig:
      ForEach(Message(r), [&](Reader& p) {
        if (p.tag() != 1) return false;
        int64_t low = 0, high = 0, interior = 0;
        ForEach(Message(p), [&](Reader& d) {
          if (d.tag() == 1) low = Int(d);
          else if (d.tag() == 2) high = Int(d);
          else if (d.tag() == 3) interior = Int(d);
          else return false;
          return true;
        });
        out.padding.low.push_back(low);
        out.padding.high.push_back(high);
        out.padding.interior.push_back(interior);
        return true;
      });
      return true;
    case f::kDotDims: ReadDotDims(Message(r), out.dot.dot); return true;
    case f::kRaggedDotDims:
      ForEach(Message(r), [&](Reader& d) {
        if (d.tag() == 1) ReadDotDims(Message(d), out.dot.dot);
        else if (d.tag() == 2) AppendInts(d, out.dot.lhs_ragged_dims);
        else if (d.tag() == 3) AppendInts(d, out.dot.rhs_group_dims);
        else return false;
        return true;
      });
      return true;
    case f::kGatherDims: ReadDimensionNumbers(Message(r), out.gather); return true;
    case f::kScatterDims: ReadDimensionNumbers(Message(r), out.scatter); return true;
    case f::kPrecisionConfig: KRAFLA_TRY(ReadPrecision(Message(r), out)); return true;
    case f::kReplicaGroups: ReadGroup(Message(r), out.replica_groups); return true;
    case f::kCollectiveDeviceList:
      out.replica_groups.clear();
      ForEach(Message(r), [&](Reader& l) {
        if (l.tag() != 1) return false;
        ReadGroup(Message(l), out.replica_groups);
        return true;
      });
      return true;
    case f::kIotaDeviceList: {
      KRAFLA_ASSIGN(out.replica_groups, ReadIotaGroups(Message(r)));
      return true;
    }
    case f::kMeshAxesGroups: {
      KRAFLA_ASSIGN(out.replica_groups, ReadMeshGroups(Message(r)));
      return true;
    }
    case f::kSourceTargetPairs: {
      int64_t source = 0, target = 0;
      ForEach(Message(r), [&](Reader& p) {
        if (p.tag() == 1) source = Int(p);
        else if (p.tag() == 2) target = Int(p);
        else return false;
        return true;
      });
      out.source_target_pairs.emplace_back(source, target);
      return true;
    }
    case f::kTriangularSolveOptions: {
      int64_t transpose = 1;
      TriangularSolveAttributes& a = out.triangular_solve;
      ForEach(Message(r), [&](Reader& o) {
        if (o.tag() == 1) a.left_side = Bool(o);
        else if (o.tag() == 2) a.lower = Bool(o);
        else if (o.tag() == 3) a.unit_diagonal = Bool(o);
        else if (o.tag() == 4) transpose = Int(o);
        else return false;
        return true;
      });
      if (transpose < 1 || transpose > 3)
        return InvalidArgument("triangular-solve has the transpose number {}.", transpose);
      a.transpose_a = static_cast<TriangularTranspose>(transpose - 1);
      return true;
    }
    case f::kCholeskyOptions:
      ForEach(Message(r), [&](Reader& o) {
        if (o.tag() != 1) return false;
        out.cholesky_lower = Bool(o);
        return true;
      });
      return true;
    case f::kParameterReplication:
      ForEach(Message(r), [&](Reader& o) {
        if (o.tag() != 1) return false;
        AppendInts(o, out.replication);
        return true;
      });
      return true;
    case f::kOutputOperandAliasing: {
      CustomCallAttributes::Alias alias;
      ForEach(Message(r), [&](Reader& a) {
        if (a.tag() == 1) AppendInts(a, alias.output_index);
        else if (a.tag() == 2) alias.operand = Int(a);
        else if (a.tag() == 3) AppendInts(a, alias.operand_index);
        else return false;
        return true;
      });
      out.aliasing.push_back(std::move(alias));
      return true;
    }
    case f::kResultAccuracy: ReadAccuracy(Message(r), out.accuracy); return true;
    default: return false;
  }
}

}  // namespace

Result<InstructionRecord> ReadInstruction(Reader reader, int depth) {
  namespace f = instruction_field;
  InstructionRecord out;
  while (reader.next()) {
    switch (reader.tag()) {
      case f::kName: out.name = Bytes(reader); break;
      case f::kOpcode: out.opcode = Bytes(reader); break;
      case f::kShape: {
        KRAFLA_ASSIGN(out.shape, ReadShape(Message(reader), depth));
        break;
      }
      case f::kMetadata: out.metadata = MetadataText(Message(reader)); break;
      case f::kLiteral: out.literal = Message(reader); break;
      case f::kParameterNumber: out.parameter_number = Int(reader); break;
      case f::kFusionKind: out.fusion_kind = Bytes(reader); break;
      case f::kTupleIndex: out.tuple_index = Int(reader); break;
      case f::kDimensions: AppendInts(reader, out.dimensions); break;
      case f::kExponentBits: out.exponent_bits = Int(reader); break;
      case f::kMantissaBits: out.mantissa_bits = Int(reader); break;
      case f::kDynamicSliceSizes: AppendInts(reader, out.dynamic_slice_sizes); break;
      case f::kOutfeedConfig: out.outfeed_config = Bytes(reader); break;
      case f::kDistribution: out.distribution = Int(reader); break;
      case f::kEpsilon: out.epsilon = Float(reader); break;
      case f::kFeatureIndex: out.feature_index = Int(reader); break;
      case f::kChannelId: out.channel_id = Int(reader); break;
      case f::kInfeedConfig: out.infeed_config = Bytes(reader); break;
      case f::kCustomCallTarget: out.target = Bytes(reader); break;
      case f::kOutfeedShape: {
        KRAFLA_ASSIGN(out.outfeed_shape, ReadShape(Message(reader), depth));
        break;
      }
      case f::kFftType: out.fft_type = Int(reader); break;
      case f::kFftLength: AppendInts(reader, out.fft_length); break;
      case f::kGatherSliceSizes: AppendInts(reader, out.gather_slice_sizes); break;
      case f::kId: out.id = Int(reader); break;
      case f::kOperandIds: AppendInts(reader, out.operands); break;
      case f::kControlPredecessorIds: AppendInts(reader, out.control_predecessors); break;
      case f::kCalledComputationIds: AppendInts(reader, out.called); break;
      case f::kSharding: {
        KRAFLA_ASSIGN(out.sharding, ShardingText(Message(reader), depth));
        break;
      }
      case f::kDomainEntry: {
        KRAFLA_ASSIGN(out.domain_entry, ShardingText(Message(reader), depth));
        break;
      }
      case f::kDomainExit: {
        KRAFLA_ASSIGN(out.domain_exit, ShardingText(Message(reader), depth));
        break;
      }
      case f::kBackendConfig: out.backend_config = Bytes(reader); break;
      case f::kIsHostTransfer: out.is_host_transfer = Bool(reader); break;
      case f::kFeatureGroupCount: out.feature_groups = Int(reader); break;
      case f::kBatchGroupCount: out.batch_groups = Int(reader); break;
      case f::kConstrainLayout: out.constrain_layout = Bool(reader); break;
      case f::kOperandShapes: {
        KRAFLA_ASSIGN(Shape shape, ReadShape(Message(reader), depth));
        out.operand_shapes.push_back(std::move(shape));
        break;
      }
      case f::kIsStable: out.is_stable = Bool(reader); break;
      case f::kComparisonDirection: out.direction = Bytes(reader); break;
      case f::kComparisonType: out.comparison_type = Bytes(reader); break;
      case f::kHasSideEffect: out.has_side_effect = Bool(reader); break;
      case f::kDelta: out.delta = Int(reader); break;
      case f::kIndicesAreSorted: out.indices_are_sorted = Bool(reader); break;
      case f::kUniqueIndices: out.unique_indices = Bool(reader); break;
      case f::kFrontendAttributes: out.frontend_attributes = FrontendAttributesText(Message(reader)); break;
      case f::kRngAlgorithm: out.rng_algorithm = Int(reader); break;
      case f::kUseGlobalDeviceIds: out.use_global_device_ids = Bool(reader); break;
      case f::kCustomCallApiVersion: out.api_version = Int(reader); break;
      case f::kAsyncExecutionThread: out.async_thread = Bytes(reader); break;
      case f::kK: out.k = Int(reader); break;
      case f::kLargest: out.largest = Bool(reader); break;
      case f::kIsComposite: out.is_composite = Bool(reader); break;
      case f::kIsReverse: out.is_reverse = Bool(reader); break;
      case f::kNumCarries: out.num_carries = Int(reader); break;
      case f::kIsAssociative: out.is_associative = Int(reader); break;
      default: {
        KRAFLA_ASSIGN(bool taken, ReadOptions(reader, out));
        if (!taken) reader.skip();
      }
    }
  }
  return out;
}

}  // namespace krafla::hlo_proto
