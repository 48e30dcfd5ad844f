// SPDX-License-Identifier: Apache-2.0
// Convolutions: oneDNN's where it has one, else a sum over the window like any other reduction.
#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/executor/epilogue.h"
#include "cpu_fallback/executor/onednn.h"

namespace krafla::cpu {

namespace {

using plan::ConvKernel;
using plan::ElementProgram;
using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

int64_t At(const Dims& dims, int64_t i) { return dims[static_cast<std::size_t>(i)]; }

// Dimensions and strides in the order batch, feature, spatial.
TensorView ViewOf(const Dims& dims, const Dims& strides, int64_t first, int64_t second, const Dims& spatial,
                  ElementType type) {
  TensorView out{{At(dims, first), At(dims, second)}, {At(strides, first), At(strides, second)}, type};
  for (int64_t s : spatial) {
    out.dims.push_back(At(dims, s));
    out.strides.push_back(At(strides, s));
  }
  return out;
}

// Few sums of a few products: oneDNN's overhead is more than they take, and the reduction rounds each product, as XLA
// does, which counts where so few cancel.
bool IsSmall(const ConvKernel& body) {
  double depth = static_cast<double>(At(body.kernel_dims, body.attributes.kernel_input_feature)), outputs = 1;
  for (const WindowDim& w : body.attributes.window) depth *= static_cast<double>(w.size);
  for (int64_t d : body.output_dims) outputs *= static_cast<double>(d);
  return depth <= 8 && outputs * depth <= 20000;
}

class OneDnnConv final : public CpuKernel {
 public:
  // Null: oneDNN does not take it.
  static Result<std::unique_ptr<CpuKernel>> Make(const ConvKernel& body, int threads) {
    const ConvolutionAttributes& a = body.attributes;
    std::unique_ptr<CpuKernel> none;
    if (a.batch_group_count != 1 || a.window.empty() || a.window.size() > 3) return none;
    ConvolutionWindow window;
    window.groups = a.feature_group_count;
    for (const WindowDim& w : a.window) {
      if (w.reversal || w.base_dilation != 1 || w.padding_low < 0 || w.padding_high < 0) return none;
      window.strides.push_back(w.stride);
      window.dilations.push_back(w.window_dilation);
      window.padding_low.push_back(w.padding_low);
      window.padding_high.push_back(w.padding_high);
    }
    for (const Dims* dims : {&body.input_dims, &body.kernel_dims, &body.output_dims})
      for (int64_t d : *dims)
        if (d == 0) return none;
    if (IsSmall(body)) return none;
    auto out = std::make_unique<OneDnnConv>();
    KRAFLA_ASSIGN(out->epilogue_, Epilogue::Make(body.epilogue, body.accumulate_type, body.output_dims));
    const TensorView input = ViewOf(body.input_dims, RowMajorStrides(body.input_dims), a.input_batch, a.input_feature,
                                    a.input_spatial, body.input_type);
    const TensorView kernel = ViewOf(body.kernel_dims, RowMajorStrides(body.kernel_dims), a.kernel_output_feature,
                                     a.kernel_input_feature, a.kernel_spatial, body.kernel_type);
    auto result = [&](const Dims& strides, ElementType type) {
      return ViewOf(body.output_dims, strides, a.output_batch, a.output_feature, a.output_spatial, type);
    };
    const std::optional<Epilogue::Direct>& direct = out->epilogue_.direct();
    // oneDNN saturates where HLO wraps.
    if (direct && (direct->storage == body.accumulate_type || IsFloat(direct->storage))) {
      out->convolution_ = MakeOneDnnConvolution(input, kernel, result(direct->strides, direct->storage), window, threads);
      out->writes_result_ = out->convolution_ != nullptr;
    }
    if (out->convolution_ == nullptr) {
      out->convolution_ =
          MakeOneDnnConvolution(input, kernel, result(RowMajorStrides(body.output_dims), body.accumulate_type), window, threads);
    }
    if (out->convolution_ == nullptr) return none;
    out->input_ = body.input_binding;
    out->kernel_ = body.kernel_binding;
    int64_t count = 1;
    for (int64_t d : body.output_dims) count *= d;
    int64_t size = RoundUp(std::max(out->convolution_->scratch_bytes(), out->epilogue_.scratch_bytes(threads)), 64);
    out->sums_ = size;
    if (!out->writes_result_) size += RoundUp(count * StorageBytes(body.accumulate_type), 64);
    out->scratch_bytes_ = size;
    return std::unique_ptr<CpuKernel>(std::move(out));
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    const std::byte* input = bindings[static_cast<std::size_t>(input_)];
    const std::byte* kernel = bindings[static_cast<std::size_t>(kernel_)];
    std::byte* to = scratch + sums_;
    if (writes_result_) {
      const Epilogue::Direct& direct = *epilogue_.direct();
      to = bindings[static_cast<std::size_t>(direct.binding)] + direct.offset * StorageBytes(direct.storage);
    } else if (epilogue_.in_place() >= 0 && !epilogue_.SharesMemory(bindings, epilogue_.in_place())) {
      to = bindings[static_cast<std::size_t>(epilogue_.in_place())];
    }
    if (!convolution_->Run(input, kernel, to, pool, scratch))
      return Internal("oneDNN could not run a convolution that it had accepted.");
    if (!writes_result_) epilogue_.Run(bindings, to, pool, scratch);
    return {};
  }

 private:
  Epilogue epilogue_;
  std::unique_ptr<OneDnnProblem> convolution_;
  bool writes_result_ = false;
  int input_ = 0, kernel_ = 1;
  int64_t sums_ = 0;
};

// rows: the output; elements: the window and the input features of a group.
Result<plan::ReduceKernel> AsReduction(const ConvKernel& body) {
  const ConvolutionAttributes& a = body.attributes;
  const std::size_t spatial = a.window.size();
  const ElementType type = body.accumulate_type;
  plan::ReduceKernel out;
  out.row_dims = body.output_dims;
  for (std::size_t d = 0; d < spatial; ++d) out.element_dims.push_back(At(body.kernel_dims, a.kernel_spatial[d]));
  const int64_t group_inputs = At(body.kernel_dims, a.kernel_input_feature);
  out.element_dims.push_back(group_inputs);
  Dims all = out.row_dims;
  all.append(out.element_dims.begin(), out.element_dims.end());
  const int rows = static_cast<int>(out.row_dims.size());

  ProgramBuilder b(all);
  plan::IndexSpace& s = b.space();
  for (const plan::ProgramBuffer& buffer : body.epilogue.buffers) b.AddBuffer(buffer.storage, buffer.element_count, buffer.written);
  const IndexId feature = s.Iter(static_cast<int>(a.output_feature));
  const IndexId input_feature = s.Iter(rows + static_cast<int>(spatial));
  std::vector<IndexId> input(body.input_dims.size(), 0), kernel(body.kernel_dims.size(), 0);
  const int64_t outputs = At(body.kernel_dims, a.kernel_output_feature);
  auto at = [](std::vector<IndexId>& index, int64_t d) -> IndexId& { return index[static_cast<std::size_t>(d)]; };
  at(kernel, a.kernel_output_feature) = feature;
  at(kernel, a.kernel_input_feature) = input_feature;
  // Group g of the output features reads group g of the input features, or of the batch.
  const IndexId group = s.FloorDiv(feature, std::max<int64_t>(outputs / (a.feature_group_count * a.batch_group_count), 1));
  at(input, a.input_feature) =
      a.feature_group_count > 1 ? s.Add(s.Mul(group, group_inputs), input_feature) : input_feature;
  at(input, a.input_batch) = s.Iter(static_cast<int>(a.output_batch));
  if (a.batch_group_count > 1)
    at(input, a.input_batch) =
        s.Add(s.Mul(group, At(body.input_dims, a.input_batch) / a.batch_group_count), at(input, a.input_batch));
  NodeId inside = plan::kNoNode;
  for (std::size_t d = 0; d < spatial; ++d) {
    const WindowDim& w = a.window[d];
    const IndexId k = s.Iter(rows + static_cast<int>(d));
    at(kernel, a.kernel_spatial[d]) = w.reversal ? s.Sub(s.Constant(w.size - 1), k) : k;
    IndexId t = s.AddConstant(s.Add(s.Mul(s.Iter(static_cast<int>(a.output_spatial[d])), w.stride), s.Mul(k, w.window_dilation)), -w.padding_low);
    const int64_t extent = At(body.input_dims, a.input_spatial[d]);
    const int64_t spread = extent == 0 ? 0 : (extent - 1) * w.base_dilation + 1;
    inside = b.And(inside, b.InRange(t, 0, spread));
    if (w.base_dilation > 1) {
      t = b.ClampedIndex(b.Index(t), 0, std::max<int64_t>(spread - 1, 0));
      inside = b.And(inside, b.InRange(s.Mod(t, w.base_dilation), 0, 1));
      t = s.FloorDiv(t, w.base_dilation);
    }
    at(input, a.input_spatial[d]) = t;
  }
  NodeId x = b.Load(body.input_binding, body.input_type, s.Linearize(input, body.input_dims), inside);
  NodeId y = b.Load(body.kernel_binding, body.kernel_type, s.Linearize(kernel, body.kernel_dims));
  x = b.Convert(x, body.input_type, type);
  y = b.Convert(y, body.kernel_type, type);
  NodeId product = b.Hlo(Opcode::kMultiply, type, {x, y});
  // Outside the input a product is zero whatever the kernel holds.
  if (inside != plan::kNoNode) product = b.Select(inside, product, b.Constant(type, 0));
  b.AddResult(product);
  plan::ReduceStage sum;
  sum.program = std::move(b).Finish();
  plan::Reduction reduction;
  reduction.kind = plan::Reduction::Kind::kSum;
  reduction.hlo_type = type;
  reduction.inputs = {0};
  ProgramBuilder init({});
  init.AddResult(init.Constant(type, 0));
  reduction.init = std::move(init).Finish();
  sum.reductions.push_back(std::move(reduction));
  out.stages.push_back(std::move(sum));

  if (body.epilogue.space.dims() != body.output_dims)
    return Unimplemented("A convolution that oneDNN does not take, with an epilogue over joined dimensions.");
  plan::ReduceStage store;
  store.scope = plan::ReduceStage::Scope::kRow;
  store.program = body.epilogue;
  out.stages.push_back(std::move(store));
  return out;
}

}  // namespace

KernelResult MakeConvKernel(const plan::KernelPlan& plan, const ConvKernel& body, const CpuKernelOptions& options) {
  KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> made, OneDnnConv::Make(body, options.threads));
  if (made != nullptr) return made;
  KRAFLA_ASSIGN(plan::ReduceKernel reduction, AsReduction(body));
  return MakeReduceKernel(plan, reduction, options);
}

}  // namespace krafla::cpu
