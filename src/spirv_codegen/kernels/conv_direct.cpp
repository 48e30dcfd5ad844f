// SPDX-License-Identifier: Apache-2.0
// Direct convolution: the product of an input and a kernel element as an element program over [output dims, window,
// input features], summed over the latter two by an invocation that holds a few neighbouring outputs. Index maps and
// masks carry every padding, dilation, reversal and group.
#include <algorithm>

#include "base/checked_math.h"
#include "krafla/shape.h"
#include "spirv_codegen/kernels/conv.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {

ConvProblem::ConvProblem(const plan::ConvKernel& kernel)
    : k(kernel), a(kernel.attributes), rank(static_cast<int>(kernel.output_dims.size())), spatial(rank - 2) {
  auto at = [](const Dims& dims, int64_t d) { return dims[static_cast<std::size_t>(d)]; };
  groups = a.feature_group_count;
  inputs = at(k.kernel_dims, a.kernel_input_feature);
  outputs = at(k.output_dims, a.output_feature) / groups;
  pixels = at(k.output_dims, a.output_batch);
  for (int s = 0; s < spatial; ++s) {
    window *= at(k.kernel_dims, a.kernel_spatial[static_cast<std::size_t>(s)]);
    pixels *= OutputExtent(s);
  }
  out_minor = rank - 1;
  while (out_minor > 0 && at(k.output_dims, out_minor) == 1) --out_minor;
  input_strides = RowMajorStrides(k.input_dims);
  kernel_strides = RowMajorStrides(k.kernel_dims);
  output_strides = RowMajorStrides(k.output_dims);
}

int64_t ConvProblem::InputExtent(int s) const {
  return k.input_dims[static_cast<std::size_t>(a.input_spatial[static_cast<std::size_t>(s)])];
}
int64_t ConvProblem::OutputExtent(int s) const {
  return k.output_dims[static_cast<std::size_t>(a.output_spatial[static_cast<std::size_t>(s)])];
}

namespace {

using plan::IndexId;

// results: the input element (0 outside) and the kernel element, in the accumulator's type.
plan::ElementProgram ProductProgram(const plan::KernelPlan& plan, const ConvProblem& p) {
  const ConvolutionAttributes& a = p.a;
  std::vector<int64_t> dims(p.k.output_dims.begin(), p.k.output_dims.end());
  for (const WindowDim& w : a.window) dims.push_back(w.size);
  dims.push_back(p.inputs);
  plan::ProgramBuilder b(dims);
  for (const plan::Binding& binding : plan.bindings)
    b.AddBuffer(binding.storage, binding.element_count, binding.written);
  plan::IndexSpace& s = b.space();
  auto stride = [](const Dims& strides, int64_t d) { return strides[static_cast<std::size_t>(d)]; };

  const IndexId out_feature = s.Iter(static_cast<int>(a.output_feature));
  const IndexId feature = s.Iter(p.rank + p.spatial);
  const IndexId in_feature = s.Add(s.Mul(s.FloorDiv(out_feature, p.outputs), p.inputs), feature);
  IndexId in_batch = s.Iter(static_cast<int>(a.output_batch));
  if (a.batch_group_count > 1) {
    const int64_t features = p.k.output_dims[static_cast<std::size_t>(a.output_feature)];
    const int64_t batch = p.k.input_dims[static_cast<std::size_t>(a.input_batch)];
    in_batch =
        s.Add(s.Mul(s.FloorDiv(out_feature, features / a.batch_group_count), batch / a.batch_group_count), in_batch);
  }
  IndexId input = s.Add(s.Mul(in_batch, stride(p.input_strides, a.input_batch)),
                        s.Mul(in_feature, stride(p.input_strides, a.input_feature)));
  IndexId kernel = s.Add(s.Mul(out_feature, stride(p.kernel_strides, a.kernel_output_feature)),
                         s.Mul(feature, stride(p.kernel_strides, a.kernel_input_feature)));
  plan::NodeId mask = plan::kNoNode;
  for (int d = 0; d < p.spatial; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const WindowDim& w = a.window[i];
    const IndexId place = s.Iter(p.rank + d);
    IndexId x = s.Add(s.Mul(s.Iter(static_cast<int>(a.output_spatial[i])), w.stride), s.Mul(place, w.window_dilation));
    x = s.AddConstant(x, -w.padding_low);
    const int64_t extent = p.InputExtent(d);
    const int64_t dilated = extent == 0 ? 0 : (extent - 1) * w.base_dilation + 1;
    mask = b.And(mask, b.InRange(x, 0, dilated));
    if (w.base_dilation > 1) {
      // Raised by a multiple of the dilation, so that the division is of a number >= 0 also where the mask is false.
      const int64_t lift = CeilDiv(std::max<int64_t>(-s.RangeOf(x).lo, 0), w.base_dilation);
      const IndexId lifted = s.AddConstant(x, lift * w.base_dilation);
      const IndexId rest = s.Mod(lifted, w.base_dilation);
      if (!s.IsConstant(rest) || s.expr(rest).constant != 0) {
        mask = b.And(mask, b.Compare(ComparisonDirection::kEq, b.Index(rest), b.ConstantInt(ElementType::kS32, 0)));
      }
      x = s.AddConstant(s.FloorDiv(lifted, w.base_dilation), -lift);
    }
    input = s.Add(input, s.Mul(x, stride(p.input_strides, a.input_spatial[i])));
    const IndexId at = w.reversal ? s.AddConstant(s.Mul(place, -1), w.size - 1) : place;
    kernel = s.Add(kernel, s.Mul(at, stride(p.kernel_strides, a.kernel_spatial[i])));
  }
  const ElementType accumulate = p.k.accumulate_type;
  b.AddResult(
      b.Convert(b.Load(p.k.input_binding, p.k.input_type, input, mask), plan::ComputeType(p.k.input_type), accumulate));
  b.AddResult(
      b.Convert(b.Load(p.k.kernel_binding, p.k.kernel_type, kernel), plan::ComputeType(p.k.kernel_type), accumulate));
  return std::move(b).Finish();
}

// The outputs that an invocation takes: `width` neighbours along the innermost dimension, by `count` along another one,
// the last spatial dimension that vectors do not take, where outputs share their kernel elements.
struct DirectTile {
  explicit DirectTile(const ConvProblem& p) : items_dims(p.k.output_dims.begin(), p.k.output_dims.end()) {
    const Dims& dims = p.k.output_dims;
    const auto minor = static_cast<std::size_t>(p.out_minor);
    if (dims[minor] % 4 == 0) width = 4;
    for (int64_t d : p.a.output_spatial) {
      if (static_cast<int>(d) != p.out_minor && dims[static_cast<std::size_t>(d)] >= 4) dim = static_cast<int>(d);
    }
    items_dims[minor] /= width;
    if (dim >= 0) {
      count = 4;
      int64_t& extent = items_dims[static_cast<std::size_t>(dim)];
      extent = CeilDiv(extent, count);
    }
    for (int64_t d : items_dims) items *= d;
  }
  int width = 1;
  int dim = -1, count = 1;  // -1: no other dimension
  std::vector<int64_t> items_dims;
  int64_t items = 1;
};

// The sums of an invocation, of one part of the window and features or of all of them.
class DirectSums {
 public:
  DirectSums(KernelWriter& w, const plan::KernelPlan& plan, const ConvProblem& p, const DirectTile& tile, int64_t parts,
             const plan::ElementProgram& epilogue)
      : w_(w),
        b_(w.b),
        p_(p),
        tile_(tile),
        parts_(parts),
        elements_(p.window * p.inputs),
        most_written_out_(w.tuning.conv.direct_written_out),
        program_(ProductProgram(plan, p)),
        epilogue_(w, epilogue, p.k.accumulate_type, parts > 1 ? p.k.accumulate_type : p.k.result_type) {}

  void Emit(Value item) {
    FindPlace(item);
    const Values sums = Sum();
    const Value first = Tiled() ? at_[TileDim()] : U(0);
    if (!Tiled() || !epilogue_.is_big()) {
      for (int t = 0; t < tile_.count; ++t) Finish(b_.Add(first, U(t)), sums[static_cast<std::size_t>(t)]);
      return;
    }
    b_.For(U(0), U(tile_.count), U(1), sums, [&](Value t, const Values& rest) {
      Finish(b_.Add(first, t), rest[0]);
      Values rotated(rest.begin() + 1, rest.end());
      rotated.push_back(rest[0]);
      return rotated;
    });
  }

 private:
  bool Tiled() const { return tile_.count > 1; }
  std::size_t TileDim() const { return static_cast<std::size_t>(tile_.dim); }
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }

  // The part, its window elements and the coordinates of the first output.
  void FindPlace(Value item) {
    const int64_t part_length = CeilDiv(elements_, parts_);
    part_ = parts_ > 1 ? b_.UDiv(item, U(tile_.items)) : U(0);
    begin_ = b_.Mul(part_, U(part_length)), end_ = b_.Min(b_.Add(begin_, U(part_length)), U(elements_));
    Value rest = parts_ > 1 ? b_.Sub(item, b_.Mul(part_, U(tile_.items))) : item;
    at_.resize(static_cast<std::size_t>(p_.rank));
    for (std::size_t d = at_.size(); d-- > 0;) {
      const Value extent = U(tile_.items_dims[d]);
      at_[d] = d == 0 ? rest : b_.UMod(rest, extent);
      if (d != 0) rest = b_.UDiv(rest, extent);
    }
    Value& minor = at_[static_cast<std::size_t>(p_.out_minor)];
    minor = b_.Mul(minor, U(tile_.width));
    if (Tiled()) at_[TileDim()] = b_.Mul(at_[TileDim()], U(tile_.count));
  }

  // Of each output along the tiled dimension.
  Values Sum() {
    std::vector<Value> tile_at{U(0)};
    if (Tiled()) {
      tile_at.clear();
      for (int t = 0; t < tile_.count; ++t)
        tile_at.push_back(b_.Min(b_.Add(at_[TileDim()], U(t)), U(p_.k.output_dims[TileDim()] - 1)));
    }
    const uint64_t tiled = Tiled() ? uint64_t{1} << tile_.dim : 0;
    ProgramLowering base(b_, w_.buffers, program_, p_.out_minor, tile_.width);
    for (int d = 0; d < p_.rank; ++d) {
      if (d != tile_.dim) base.SetIter(d, at_[static_cast<std::size_t>(d)]);
    }
    const int program_rank = p_.rank + p_.spatial + 1;
    uint64_t varying = tiled;
    for (int d = p_.rank; d < program_rank; ++d) varying |= uint64_t{1} << d;
    base.EmitInvariants(varying);
    auto add = [&](ProgramLowering shared, const Values& acc) {
      if (Tiled()) shared.EmitInvariants(tiled);
      Values sums;
      for (std::size_t t = 0; t < acc.size(); ++t) {
        ProgramLowering one = shared;
        if (Tiled()) one.SetIter(tile_.dim, tile_at[t]);
        const Value x = b_.Splat(one.Node(program_.results[0]), tile_.width);
        const Value y = b_.Splat(one.Node(program_.results[1]), tile_.width);
        sums.push_back(MultiplyAdd(b_, acc[t], x, y));
      }
      return sums;
    };
    auto step = [&](Value element, const Values& acc) {
      ProgramLowering shared = base;
      shared.SetLinear(element, p_.rank, program_rank);
      return add(std::move(shared), acc);
    };
    const Kind kind = ComputeKind(p_.k.accumulate_type);
    const Values zeros(static_cast<std::size_t>(tile_.count), b_.Zero(kind, tile_.width));
    // Written out, index arithmetic and masks are constants. Of the innermost dimensions as many as the registers hold
    // the elements of; the others are turns.
    if (parts_ == 1 && elements_ <= 9) {
      const Dims& dims = program_.space.dims();
      int first = program_rank;
      int64_t inner = 1;
      while (first > p_.rank && inner * dims[static_cast<std::size_t>(first - 1)] <= most_written_out_)
        inner *= dims[static_cast<std::size_t>(--first)];
      return b_.For(
          U(0), U(elements_ / inner), U(1), zeros,
          [&](Value turn, Values acc) {
            for (int64_t e = 0; e < inner; ++e) {
              ProgramLowering shared = base;
              shared.SetLinear(turn, p_.rank, first);
              shared.SetLinear(U(e), first, program_rank);
              acc = add(std::move(shared), acc);
            }
            return acc;
          },
          Unroll::kNever);
    }
    const ChainedSums chains(b_, kind, tile_.width, zeros.size(), 2 * CeilDiv(elements_, parts_));
    return chains.Finish(chains.Add(begin_, end_, 1, ChainedSums::kChain / 2, chains.Start(), step));
  }

  // `coordinate`: of the tiled dimension.
  void Finish(Value coordinate, Value sum) const {
    Values where = at_;
    Value inside;
    if (Tiled()) {
      where[TileDim()] = coordinate;
      const int64_t extent = p_.k.output_dims[TileDim()];
      if (extent % tile_.count != 0) inside = b_.Compare(Cmp::kULt, coordinate, U(extent));
    }
    if (parts_ > 1) where.insert(where.begin(), part_);
    epilogue_.Emit(where, p_.out_minor + (parts_ > 1 ? 1 : 0), sum, inside);
  }

  KernelWriter& w_;
  Builder& b_;
  const ConvProblem& p_;
  const DirectTile& tile_;
  int64_t parts_, elements_, most_written_out_;
  plan::ElementProgram program_;
  Epilogue epilogue_;
  Values at_;
  Value part_, begin_, end_;
};

// The sums of `parts` parts of window and features, or of all, given to `epilogue` over the output dims, after the part
// where there are several.
Result<EmittedProgram> EmitProducts(const plan::KernelPlan& plan, const ConvProblem& p, int64_t parts,
                                    const plan::ElementProgram& epilogue, const Target& target) {
  const DeviceProfile& profile = target.profile;
  EmittedProgram out;
  for (int64_t d : p.k.output_dims)
    if (d == 0) return out;
  const DirectTile tile(p);
  const int64_t items = tile.items * parts;
  const uint32_t local = WorkgroupSize(profile, target.tuning.conv.direct_local);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), profile));
  KernelWriter w(plan, target);
  Builder& b = w.b;
  DirectSums sums(w, plan, p, tile, parts, epilogue);
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), b.U32(local)), b.LocalIndex());
  ForItem(b, grid.exact && items % local == 0, item, items, [&] { sums.Emit(item); });
  out.kernels.push_back(w.Finish({local, 1, 1}, tile.width == 4 ? "conv.direct.vec4" : "conv.direct"));
  out.dispatches.push_back({0, grid.size, {}});
  return out;
}

}  // namespace

Result<EmittedProgram> EmitDirectConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  const int64_t parts = std::max(SplitOf(p), FillingSplitOf(p, target.tuning.conv.direct_part, target));
  if (parts <= 1) return EmitProducts(plan, p, 1, p.k.epilogue, target);
  return EmitConvInParts(plan, p, parts, target,
                         [&](const plan::KernelPlan& with_parts, const plan::ElementProgram& epilogue) {
                           return EmitProducts(with_parts, p, parts, epilogue, target);
                         });
}

}  // namespace krafla::spirv
