// SPDX-License-Identifier: Apache-2.0
// Convolutions: as ordinary ones, by oneDNN where it is fast at them, else a sum over the window like any other
// reduction.
#include <algorithm>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/conv_pieces.h"
#include "cpu_fallback/executor/epilogue.h"
#include "cpu_fallback/executor/onednn.h"
#include "cpu_fallback/executor/summed_product.h"
#include "cpu_fallback/kernels/conv_gemm.h"
#include "cpu_fallback/kernels/gemm.h"
#include "cpu_fallback/kernels/group_conv.h"
#include "cpu_fallback/kernels/long_window_conv.h"
#include "cpu_fallback/kernels/row_conv.h"
#include "ir/thin_convolution.h"

namespace krafla::cpu {

namespace {

using plan::ConvKernel;
using plan::ElementProgram;
using plan::IndexId;
using plan::NodeId;
using plan::ProgramBuilder;

// Few sums of a few products: oneDNN's overhead is more than they take, and the reduction rounds each product, as XLA
// does, which counts where so few cancel.
bool IsSmall(const ConvKernel& body) {
  double depth = static_cast<double>(body.kernel_dims[At(body.attributes.kernel_input_feature)]), outputs = 1;
  for (const WindowDim& w : body.attributes.window) depth *= static_cast<double>(w.size);
  for (int64_t d : body.output_dims) outputs *= static_cast<double>(d);
  return depth <= 8 && outputs * depth <= 20000;
}

class PiecesConv final : public CpuKernel {
 public:
  // Null: no kernel takes it.
  static Result<std::unique_ptr<CpuKernel>> Make(const ConvKernel& body, const CpuKernelOptions& options) {
    const int threads = options.threads;
    std::unique_ptr<CpuKernel> none;
    if (body.attributes.window.empty() || IsSmall(body)) return none;
    for (const Dims* dims : {&body.input_dims, &body.kernel_dims, &body.output_dims})
      for (int64_t d : *dims)
        if (d == 0) return none;
    auto out = std::make_unique<PiecesConv>();
    KRAFLA_ASSIGN(out->epilogue_, Epilogue::Make(body.epilogue, body.accumulate_type, body.output_dims, options.runs));
    const auto kernel_binding = At(body.kernel_binding);
    out->keeps_kernel_ = kernel_binding < options.constants.size() && options.constants[kernel_binding];
    if (!out->ChooseProduct(body, threads)) return none;
    out->input_.binding = body.input_binding;
    out->input_.storage = body.input_type;
    out->kernel_.binding = body.kernel_binding;
    out->kernel_.storage = body.kernel_type;
    int64_t size = 0;
    const auto take = [&](int64_t bytes) {
      const int64_t at = size;
      size += RoundUp(bytes, 64);
      return at;
    };
    for (Operand* operand : {&out->input_, &out->kernel_})
      if (operand->widened()) operand->copy = take(operand->count * StorageBytes(operand->type));
    int64_t count = 1;
    for (int64_t d : body.output_dims) count *= d;
    if (!out->writes_result_) out->sums_ = take(count * StorageBytes(body.accumulate_type));
    const int64_t working = out->onednn_    ? out->onednn_->scratch_bytes()
                            : out->gemm_    ? out->gemm_->scratch_bytes()
                            : out->rows_    ? out->rows_->scratch_bytes()
                            : out->windows_ ? out->windows_->scratch_bytes()
                                            : out->groups_->scratch_bytes();
    out->working_ = take(std::max(working, out->epilogue_.scratch_bytes(threads)));
    out->scratch_bytes_ = size;
    if (out->onednn_) out->kept_bytes_ = out->onednn_->kept_bytes();
    return std::unique_ptr<CpuKernel>(std::move(out));
  }

  Result<> Keep(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch,
                std::byte* kept) const override {
    if (!onednn_->Keep(kernel_.Prepare(bindings, pool, scratch), pool, scratch + working_, kept))
      return Internal("A kernel of a convolution that oneDNN had accepted could not be put in order.");
    return {};
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    const std::byte* kept = nullptr;
    if (kept_bytes_ > 0) {
      kept = bindings.back();
      bindings = bindings.first(bindings.size() - 1);
    }
    const std::byte* input = input_.Prepare(bindings, pool, scratch);
    const bool reads_kernel = kept_bytes_ == 0 || onednn_->reads_b();
    const std::byte* kernel = reads_kernel ? kernel_.Prepare(bindings, pool, scratch) : nullptr;
    std::byte* to = scratch + sums_;
    if (writes_result_) {
      to = bindings[At(epilogue_.direct()->binding)];
    } else if (epilogue_.in_place() >= 0 && !epilogue_.SharesMemory(bindings, epilogue_.in_place())) {
      to = bindings[At(epilogue_.in_place())];
    }
    for (const TensorView& view : zeros_) FillWithZeros(view, to);
    if (gemm_) {
      gemm_->Run(input, kernel, to, pool, scratch + working_);
    } else if (rows_) {
      rows_->Run(input, kernel, to, pool, scratch + working_);
    } else if (windows_) {
      windows_->Run(input, kernel, to, pool, scratch + working_);
    } else if (groups_) {
      groups_->Run(input, kernel, to, pool, scratch + working_);
    } else if (!onednn_->Run(input, kernel, to, pool, scratch + working_, kept)) {
      return Internal("A convolution that oneDNN had accepted could not be run.");
    }
    if (!writes_result_) epilogue_.Run(bindings, to, pool, scratch + working_);
    return {};
  }

 private:
  // An array that is read, through a copy in a wider type where that is what is multiplied.
  struct Operand {
    int binding = 0;
    ElementType storage = ElementType::kF32, type = ElementType::kF32;
    int64_t count = 0, copy = 0;

    bool widened() const { return storage != type; }
    const std::byte* Prepare(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
      const std::byte* from = bindings[At(binding)];
      if (!widened()) return from;
      std::byte* to = scratch + copy;
      pool.ParallelFor(count, 16 * 1024, [&](int64_t begin, int64_t end, int) {
        WidenElements(storage, type, from + begin * StorageBytes(storage), to + begin * StorageBytes(type),
                      end - begin);
      });
      return to;
    }
  };

  enum class Product : uint8_t {
    kBatchGroups,
    kOneDnn,
    kFeatureGroups,
    kRowsOfGroups,
    kRows,
    kFewLongWindows,
    kWindows,
    kOwn
  };
  // Who multiplies what, from the best to what always can.
  bool ChooseProduct(const ConvKernel& body, int threads) {
    ConvKernel wide = body;
    bool can_widen = true;
    for (ElementType* type : {&wide.input_type, &wide.kernel_type}) {
      can_widen = can_widen && CanWiden(*type, body.accumulate_type);
      *type = body.accumulate_type;
    }
    if (can_widen && Choose(wide, Product::kBatchGroups, threads)) return true;
    // Where oneDNN fills few lanes.
    if (can_widen && IsThin(body.attributes, body.kernel_dims) && Choose(wide, Product::kRows, threads)) return true;
    // Depthwise ones with the channels in front, whose groups are no lanes without moving all of the arrays.
    if (Choose(body, Product::kRowsOfGroups, threads)) return true;
    const bool widened = body.input_type != wide.input_type || body.kernel_type != wide.kernel_type;
    const bool has_tiles = widened && HasOneDnnTiles();
    if (can_widen && Choose(wide, has_tiles ? Product::kFewLongWindows : Product::kWindows, threads)) return true;
    if (Choose(body, Product::kOneDnn, threads)) return true;
    if (!can_widen) return false;
    return (has_tiles && Choose(wide, Product::kWindows, threads)) ||
           (widened && Choose(wide, Product::kOneDnn, threads)) || Choose(wide, Product::kFeatureGroups, threads) ||
           Choose(wide, Product::kRows, threads) || Choose(wide, Product::kOwn, threads);
  }

  bool Choose(const ConvKernel& body, Product product, int threads) {
    const std::optional<Epilogue::Direct>& direct = epilogue_.direct();
    // oneDNN saturates where HLO wraps.
    if (direct && (direct->storage == body.accumulate_type || IsFloat(direct->storage)))
      writes_result_ = ChooseFor(body, direct->strides, direct->offset, direct->storage, product, threads);
    if (!writes_result_ &&
        !ChooseFor(body, RowMajorStrides(body.output_dims), 0, body.accumulate_type, product, threads))
      return false;
    const auto operand = [](ElementType type, const Dims& dims) {
      Operand out{.type = type, .count = 1};
      for (int64_t d : dims) out.count *= d;
      return out;
    };
    input_ = operand(body.input_type, body.input_dims);
    kernel_ = operand(body.kernel_type, body.kernel_dims);
    return true;
  }
  bool ChooseFor(const ConvKernel& body, const Dims& strides, int64_t offset, ElementType type, Product product,
                 int threads) {
    if (product == Product::kBatchGroups || product == Product::kFeatureGroups) {
      const bool is_batch = product == Product::kBatchGroups;
      const int64_t groups = is_batch ? body.attributes.batch_group_count : body.attributes.feature_group_count;
      // Of one kind at a time.
      if (groups == 1 || (is_batch ? body.attributes.feature_group_count : body.attributes.batch_group_count) != 1)
        return false;
      const GroupConv::Of of = is_batch ? GroupConv::Of::kBatch : GroupConv::Of::kFeatures;
      const std::optional<ConvolutionProblem> whole = WithGroups(body, strides, offset, type);
      if (whole && GroupConv::Takes(*whole, of, groups, body.accumulate_type))
        groups_.emplace(*whole, of, groups, threads);
      return groups_.has_value();
    }
    std::optional<ConvPieces> pieces = CutIntoOrdinary(body, strides, offset, type);
    if (!pieces) return false;
    if (product == Product::kOneDnn) onednn_ = MakeOneDnnConvolutions(pieces->ordinary, threads, keeps_kernel_);
    else if ((product == Product::kRows ||
              (product == Product::kRowsOfGroups && RowConv::AreRowsOfGroups(pieces->ordinary))) &&
             RowConv::Takes(pieces->ordinary, body.accumulate_type))
      rows_.emplace(pieces->ordinary, body.accumulate_type, threads);
    else if ((product == Product::kWindows || (product == Product::kFewLongWindows && pieces->ordinary.size() == 1 &&
                                               LongWindowConv::AreFewSums(pieces->ordinary[0]))) &&
             LongWindowConv::Takes(pieces->ordinary, body.accumulate_type))
      windows_.emplace(pieces->ordinary[0], body.accumulate_type, threads);
    else if (product == Product::kOwn && ConvGemm::Takes(pieces->ordinary, body.accumulate_type))
      gemm_.emplace(pieces->ordinary, body.accumulate_type, threads);
    zeros_ = std::move(pieces->zeros);
    return onednn_ != nullptr || rows_.has_value() || windows_.has_value() || gemm_.has_value();
  }

  Epilogue epilogue_;
  std::unique_ptr<OneDnnProblem> onednn_;
  std::optional<ConvGemm> gemm_;
  std::optional<GroupConv> groups_;
  std::optional<RowConv> rows_;
  std::optional<LongWindowConv> windows_;
  std::vector<TensorView> zeros_;
  bool writes_result_ = false, keeps_kernel_ = false;
  Operand input_, kernel_;
  int64_t sums_ = 0, working_ = 0;
};

// rows: the output; elements: the window and the input features of a group.
Result<plan::ReduceKernel> AsReduction(const ConvKernel& body) {
  const ConvolutionAttributes& a = body.attributes;
  const std::size_t spatial = a.window.size();
  const ElementType type = body.accumulate_type;
  plan::ReduceKernel out;
  out.row_dims = body.output_dims;
  for (std::size_t d = 0; d < spatial; ++d) out.element_dims.push_back(body.kernel_dims[At(a.kernel_spatial[d])]);
  const int64_t group_inputs = body.kernel_dims[At(a.kernel_input_feature)];
  out.element_dims.push_back(group_inputs);
  Dims all = out.row_dims;
  all.append(out.element_dims.begin(), out.element_dims.end());
  const int rows = static_cast<int>(out.row_dims.size());

  ProgramBuilder b(all);
  plan::IndexSpace& s = b.space();
  for (const plan::ProgramBuffer& buffer : body.epilogue.buffers)
    b.AddBuffer(buffer.storage, buffer.element_count, buffer.written);
  const IndexId feature = s.Iter(static_cast<int>(a.output_feature));
  const IndexId input_feature = s.Iter(rows + static_cast<int>(spatial));
  std::vector<IndexId> input(body.input_dims.size(), 0), kernel(body.kernel_dims.size(), 0);
  const int64_t outputs = body.kernel_dims[At(a.kernel_output_feature)];
  auto at = [](std::vector<IndexId>& index, int64_t d) -> IndexId& { return index[At(d)]; };
  at(kernel, a.kernel_output_feature) = feature;
  at(kernel, a.kernel_input_feature) = input_feature;
  // Group g of the output features reads group g of the input features, or of the batch.
  const IndexId group =
      s.FloorDiv(feature, std::max<int64_t>(outputs / (a.feature_group_count * a.batch_group_count), 1));
  at(input, a.input_feature) =
      a.feature_group_count > 1 ? s.Add(s.Mul(group, group_inputs), input_feature) : input_feature;
  at(input, a.input_batch) = s.Iter(static_cast<int>(a.output_batch));
  if (a.batch_group_count > 1)
    at(input, a.input_batch) =
        s.Add(s.Mul(group, body.input_dims[At(a.input_batch)] / a.batch_group_count), at(input, a.input_batch));
  NodeId inside = plan::kNoNode;
  for (std::size_t d = 0; d < spatial; ++d) {
    const WindowDim& w = a.window[d];
    const IndexId k = s.Iter(rows + static_cast<int>(d));
    at(kernel, a.kernel_spatial[d]) = w.reversal ? s.Sub(s.Constant(w.size - 1), k) : k;
    IndexId t = s.AddConstant(
        s.Add(s.Mul(s.Iter(static_cast<int>(a.output_spatial[d])), w.stride), s.Mul(k, w.window_dilation)),
        -w.padding_low);
    const int64_t extent = body.input_dims[At(a.input_spatial[d])];
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
  out.stages.push_back(SumOf(std::move(b).Finish(), type));

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
  KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> made, PiecesConv::Make(body, options));
  if (made != nullptr) return made;
  KRAFLA_ASSIGN(plan::ReduceKernel reduction, AsReduction(body));
  return MakeReduceKernel(plan, reduction, options);
}

}  // namespace krafla::cpu
