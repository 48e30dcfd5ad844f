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

// The sums of `parts` parts of window and features, or of all, given to `epilogue` over the output dims, after the part
// where there are several.
Result<EmittedProgram> EmitProducts(const plan::KernelPlan& plan, const ConvProblem& p, int64_t parts,
                                    const plan::ElementProgram& epilogue_program, const Target& target) {
  const DeviceProfile& profile = target.profile;
  const plan::ElementProgram program = ProductProgram(plan, p);
  EmittedProgram out;
  const Dims& dims = p.k.output_dims;
  int64_t total = 1;
  for (int64_t d : dims) total *= d;
  if (total == 0) return out;
  const int width = dims[static_cast<std::size_t>(p.out_minor)] % 4 == 0 ? 4 : 1;
  // Neighbours along the last spatial dimension that vectors do not take share their kernel elements.
  int tile_dim = -1;
  for (int64_t d : p.a.output_spatial) {
    if (static_cast<int>(d) != p.out_minor && dims[static_cast<std::size_t>(d)] >= 4) tile_dim = static_cast<int>(d);
  }
  const int tile = tile_dim >= 0 ? 4 : 1;

  // The grid runs over the output with the tiled dimension shortened.
  std::vector<int64_t> items_dims(dims.begin(), dims.end());
  items_dims[static_cast<std::size_t>(p.out_minor)] /= width;
  if (tile > 1)
    items_dims[static_cast<std::size_t>(tile_dim)] = CeilDiv(items_dims[static_cast<std::size_t>(tile_dim)], tile);
  int64_t of_part = 1;
  for (int64_t d : items_dims) of_part *= d;
  const int64_t items = of_part * parts;
  const uint32_t local = WorkgroupSize(profile, target.tuning.conv.direct_local);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), profile));
  KernelWriter w(plan, profile);
  Builder& b = w.b;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const Kind kind = ComputeKind(p.k.accumulate_type);
  const Epilogue epilogue(w, epilogue_program, p.k.accumulate_type, parts > 1 ? p.k.accumulate_type : p.k.result_type);
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), u(local)), b.LocalIndex());
  const int element_rank = p.spatial + 1;
  const int64_t elements = p.window * p.inputs, part_length = CeilDiv(elements, parts);

  auto body = [&] {
    Values at(dims.size());
    const Value part = parts > 1 ? b.UDiv(item, u(of_part)) : u(0);
    const Value begin = b.Mul(part, u(part_length)), end = b.Min(b.Add(begin, u(part_length)), u(elements));
    Value rest = parts > 1 ? b.Sub(item, b.Mul(part, u(of_part))) : item;
    for (int d = p.rank; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      const Value extent = u(items_dims[i]);
      at[i] = d == 0 ? rest : b.UMod(rest, extent);
      if (d != 0) rest = b.UDiv(rest, extent);
    }
    at[static_cast<std::size_t>(p.out_minor)] = b.Mul(at[static_cast<std::size_t>(p.out_minor)], u(width));
    std::vector<Value> tile_at{u(0)};
    if (tile > 1) {
      const auto i = static_cast<std::size_t>(tile_dim);
      at[i] = b.Mul(at[i], u(tile));
      tile_at.clear();
      for (int t = 0; t < tile; ++t) tile_at.push_back(b.Min(b.Add(at[i], u(t)), u(dims[i] - 1)));
    }
    ProgramLowering base(b, w.buffers, program, p.out_minor, width);
    for (int d = 0; d < p.rank; ++d) {
      if (d != tile_dim || tile == 1) base.SetIter(d, at[static_cast<std::size_t>(d)]);
    }
    uint64_t varying = tile > 1 ? uint64_t{1} << tile_dim : 0;
    for (int d = p.rank; d < p.rank + element_rank; ++d) varying |= uint64_t{1} << d;
    base.EmitInvariants(varying);
    auto step = [&](Value turn, const Values& acc) {
      // llvmpipe begins one turn more than there are (EmitPanels).
      const Value element = b.Min(turn, u(elements - 1));
      ProgramLowering shared = base;
      shared.SetLinear(element, p.rank, p.rank + element_rank);
      if (tile > 1) shared.EmitInvariants(uint64_t{1} << tile_dim);
      Values sums;
      for (std::size_t t = 0; t < acc.size(); ++t) {
        ProgramLowering one = shared;
        if (tile > 1) one.SetIter(tile_dim, tile_at[t]);
        const Value x = b.Splat(one.Node(program.results[0]), width), y = b.Splat(one.Node(program.results[1]), width);
        sums.push_back(MultiplyAdd(b, acc[t], x, y));
      }
      return sums;
    };
    Values acc(static_cast<std::size_t>(tile), b.Zero(kind, width));
    if (parts == 1 && elements <= 9) {
      for (int64_t e = 0; e < elements; ++e) acc = step(u(e), acc);
    } else {
      const ChainedSums chains(b, kind, width, acc.size(), 2 * part_length);
      acc = chains.Finish(chains.Add(begin, end, 1, ChainedSums::kChain / 2, chains.Start(), step));
    }
    auto finish = [&](Value coordinate, Value sum) {
      Values where = at;
      Value inside;
      if (tile > 1) {
        const auto i = static_cast<std::size_t>(tile_dim);
        where[i] = coordinate;
        if (dims[i] % tile != 0) inside = b.Compare(Cmp::kULt, coordinate, u(dims[i]));
      }
      if (parts > 1) where.insert(where.begin(), part);
      epilogue.Emit(where, p.out_minor + (parts > 1 ? 1 : 0), sum, inside);
    };
    const Value first = tile > 1 ? at[static_cast<std::size_t>(tile_dim)] : u(0);
    if (tile == 1 || !epilogue.is_big()) {
      for (int t = 0; t < tile; ++t) finish(b.Add(first, u(t)), acc[static_cast<std::size_t>(t)]);
    } else {
      b.For(u(0), u(tile), u(1), acc, [&](Value t, const Values& sums) {
        finish(b.Add(first, t), sums[0]);
        Values rotated(sums.begin() + 1, sums.end());
        rotated.push_back(sums[0]);
        return rotated;
      });
    }
  };
  if (grid.exact && items % local == 0) {
    body();
  } else {
    b.If(b.Compare(Cmp::kULt, item, u(items)), body);
  }
  out.kernels.push_back(w.Finish({local, 1, 1}, width == 4 ? "conv.direct.vec4" : "conv.direct"));
  out.dispatches.push_back({0, grid.size, {}});
  return out;
}

}  // namespace

Result<EmittedProgram> EmitDirectConv(const plan::KernelPlan& plan, const ConvProblem& p, const Target& target) {
  const int64_t parts = SplitOf(p);
  if (parts <= 1) return EmitProducts(plan, p, 1, p.k.epilogue, target);
  return EmitConvInParts(plan, p, parts, target,
                         [&](const plan::KernelPlan& with_parts, const plan::ElementProgram& epilogue) {
                           return EmitProducts(with_parts, p, parts, epilogue, target);
                         });
}

}  // namespace krafla::spirv
