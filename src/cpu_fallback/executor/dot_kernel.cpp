// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/checked_math.h"
#include "cpu_fallback/executor/computed_product.h"
#include "cpu_fallback/executor/epilogue.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/onednn.h"
#include "cpu_fallback/executor/operand_bases.h"
#include "cpu_fallback/executor/shared_operand.h"
#include "cpu_fallback/executor/summed_product.h"
#include "cpu_fallback/executor/table_product.h"
#include "cpu_fallback/executor/unrolled_program.h"
#include "cpu_fallback/executor/weight_product.h"
#include "cpu_fallback/kernels/few_rows.h"
#include "cpu_fallback/kernels/gemv.h"
#include "cpu_fallback/kernels/outer_product.h"
#include "cpu_fallback/kernels/shared_product.h"
#include "cpu_fallback/kernels/short_products.h"
#include "cpu_fallback/kernels/tiny_products.h"
#include "cpu_fallback/kernels/weight_lines.h"
#include "cpu_fallback/native/routine.h"

namespace krafla::cpu {

namespace {

// Below this oneDNN's overhead, some 10 us, is what one waits for.
constexpr double kSmallFlops = 500e3;
constexpr int64_t kSmallOuterProduct = 256;  // elements

// A batch dimension that the operands walk as one, and the result as two, is two: then the result's strides are known.
plan::DotKernel WithBatchesSplit(plan::DotKernel body) {
  while (body.epilogue.space.dims().size() == body.batch.size() + 2) {
    const DimSplit split = FindSplit(body.epilogue);
    if (split.dim < 0 || split.dim >= static_cast<int>(body.batch.size())) break;
    body.epilogue = SplitDim(body.epilogue, split.dim, split.inner);
    const auto d = static_cast<std::size_t>(split.dim);
    const auto in_two = [&](Dims& dims, int64_t outer, int64_t inner) {
      dims[d] = outer;
      dims.insert(dims.begin() + split.dim + 1, inner);
    };
    in_two(body.batch, body.batch[d] / split.inner, split.inner);
    in_two(body.lhs_batch_strides, body.lhs_batch_strides[d] * split.inner, body.lhs_batch_strides[d]);
    in_two(body.rhs_batch_strides, body.rhs_batch_strides[d] * split.inner, body.rhs_batch_strides[d]);
  }
  return body;
}

// The product, with a result that is dense.
GemmProblem ProblemOf(const plan::DotKernel& b) {
  GemmProblem p;
  p.batch = b.batch, p.lhs_batch_strides = b.lhs_batch_strides, p.rhs_batch_strides = b.rhs_batch_strides;
  p.m = b.m, p.n = b.n, p.k = b.k;
  p.lhs_m_stride = b.lhs_m_stride, p.lhs_k_stride = b.lhs_k_stride;
  p.rhs_k_stride = b.rhs_k_stride, p.rhs_n_stride = b.rhs_n_stride;
  p.result_m_stride = b.n;
  p.lhs_type = b.lhs_type, p.rhs_type = b.rhs_type, p.accumulate_type = b.accumulate_type;
  Dims dims = b.batch;
  dims.push_back(b.m);
  dims.push_back(b.n);
  const Dims dense = RowMajorStrides(dims);
  p.result_batch_strides = Dims(dense.begin(), dense.end() - 2);
  return p;
}

class DotRun final : public CpuKernel {
 public:
  static KernelResult Make(const plan::DotKernel& as_planned, const CpuKernelOptions& options) {
    auto out = std::make_unique<DotRun>();
    plan::DotKernel planned = as_planned;
    KRAFLA_ASSIGN(out->shared_operand_, SharedOperand::TakeOutOf(planned));
    const bool computes = planned.computes_lhs() || planned.computes_rhs();
    plan::DotKernel body = computes ? planned : WithBatchesSplit(planned);
    Dims dims = body.batch;
    dims.push_back(body.m);
    dims.push_back(body.n);
    out->count_ = 1;
    for (int64_t d : dims) out->count_ *= d;
    if (out->count_ == 0) return out;
    KRAFLA_ASSIGN(out->epilogue_, Epilogue::Make(body.epilogue, body.accumulate_type, dims, options.runs));
    out->problem_ = ProblemOf(body);
    if (body.computes_lhs() != body.computes_rhs()) out->FindBases(body);
    out->body_ = body;
    out->body_.epilogue = plan::ElementProgram();
    KRAFLA_TRY(out->ChooseProduct(options));
    out->rounds_vectors_ = out->weights_ && out->weights_->rounds_vectors();
    out->body_.lhs_program = out->body_.rhs_program = plan::ElementProgram();
    int64_t size = RoundUp(std::max(out->product_scratch_, out->epilogue_.scratch_bytes(options.threads)), 64);
    out->sums_ = size;
    if (!out->writes_result_) size += RoundUp(out->count_ * StorageBytes(body.accumulate_type), 64);
    out->bases_frame_ = size;
    if (out->bases_) size += RoundUp(out->bases_->frame_bytes(), 64);
    out->operand_ = size;
    out->scratch_bytes_ = size + (out->shared_operand_ ? out->shared_operand_->scratch_bytes(options.threads) : 0);
    return out;
  }

  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    if (count_ == 0) return {};
    if (writes_result_) {
      const Epilogue::Direct& direct = *epilogue_.direct();
      std::byte* to = bindings[static_cast<std::size_t>(direct.binding)] + direct.offset * StorageBytes(direct.storage);
      return Multiply(bindings, to, pool, scratch);
    }
    std::byte* sums = scratch + sums_;
    const int in_place = epilogue_.in_place();
    if (in_place >= 0 && !epilogue_.SharesMemory(bindings, in_place))
      sums = bindings[static_cast<std::size_t>(in_place)];
    KRAFLA_TRY(Multiply(bindings, sums, pool, scratch));
    epilogue_.Run(bindings, sums, pool, scratch);
    return {};
  }
  Values MadeFrom() const override {
    if (count_ == 0 || writes_result_) return {};
    return {&sums_alone_, count_ * StorageBytes(body_.accumulate_type)};
  }
  Result<bool> AppendLoopTo(RoutineBlock& block, std::span<const plan::Slice> bindings) const override {
    return epilogue_.AppendTo(block, bindings);
  }

 private:
  class SumsAlone final : public CpuKernel {
   public:
    explicit SumsAlone(const DotRun& dot) : dot_(dot) {}
    Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
      return dot_.Multiply(bindings.first(bindings.size() - 1), bindings.back(), pool, scratch);
    }

   private:
    const DotRun& dot_;
  };
  // Null: the operand is computed.
  static const std::byte* Begin(std::span<std::byte* const> bindings, int binding, int64_t offset, ElementType type) {
    return binding < 0 ? nullptr : bindings[static_cast<std::size_t>(binding)] + offset * StorageBytes(type);
  }

  // Takes the places that a run knows out of the operand that is computed.
  void FindBases(plan::DotKernel& body) {
    plan::ElementProgram& program = body.computes_lhs() ? body.lhs_program : body.rhs_program;
    // A matrix that is read as it is has its place looked up by what multiplies it.
    const bool is_array = program.nodes[static_cast<std::size_t>(program.results[0])].op == plan::NodeOp::kLoad;
    if (!is_array) bases_ = OperandBases::TakeBatchesOutOf(program, static_cast<int>(body.batch.size()));
    batch_by_batch_ = bases_.has_value();
    if (batch_by_batch_) body.batch = body.lhs_batch_strides = body.rhs_batch_strides = Dims();
    else bases_ = OperandBases::TakeOutOf(program);
  }

  Result<> Multiply(std::span<std::byte* const> bindings, std::byte* to, ThreadPool& pool, std::byte* scratch) const {
    if (shared_operand_)
      return MultiplyThere(shared_operand_->Compute(bindings, pool, scratch + operand_), 0, to, pool, scratch);
    if (!bases_) return MultiplyThere(bindings, 0, to, pool, scratch);
    if (!batch_by_batch_) return MultiplyThere(bases_->Find(bindings, scratch + bases_frame_), 0, to, pool, scratch);
    const int width = StorageBytes(body_.accumulate_type);
    Dims point(problem_.batch.size(), 0);
    for (int64_t b = 0; b < BatchCount(problem_); ++b) {
      std::byte* there = to + BatchOffset(b, problem_.batch, problem_.result_batch_strides) * width;
      KRAFLA_TRY(MultiplyThere(bases_->Find(bindings, scratch + bases_frame_, point), b, there, pool, scratch));
      for (std::size_t d = point.size(); d-- > 0 && ++point[d] == problem_.batch[d];) point[d] = 0;
    }
    return {};
  }
  // `batch`: the one that `to` is of, where they are run one by one.
  Result<> MultiplyThere(std::span<std::byte* const> bindings, int64_t batch, std::byte* to, ThreadPool& pool,
                         std::byte* scratch) const {
    const int64_t lhs_offset = BatchOffset(batch, problem_.batch, problem_.lhs_batch_strides),
                  rhs_offset = BatchOffset(batch, problem_.batch, problem_.rhs_batch_strides);
    const std::byte* lhs = Begin(bindings, body_.lhs_binding, body_.lhs_offset + lhs_offset, body_.lhs_type);
    const std::byte* rhs = Begin(bindings, body_.rhs_binding, body_.rhs_offset + rhs_offset, body_.rhs_type);
    if (weights_) {
      weights_->Run(bindings, lhs != nullptr ? lhs : rhs, to, pool, scratch);
    } else if (table_) {
      table_->Run(bindings, lhs != nullptr ? lhs : rhs, to, pool, scratch);
    } else if (computed_) {
      return computed_->Run(bindings, lhs != nullptr ? lhs : rhs, to, pool, scratch);
    } else if (tiny_) {
      tiny_->Run(lhs, rhs, to, pool);
    } else if (short_) {
      short_->Run(lhs, rhs, to, pool, scratch);
    } else if (outer_) {
      RunOuterProduct(*outer_, lhs, rhs, to, pool);
    } else if (gemv_) {
      gemv_->Run(lhs, rhs, to, pool, scratch);
    } else if (shared_) {
      shared_->Run(lhs, rhs, to, pool, scratch);
    } else if (few_rows_) {
      few_rows_->Run(lhs, rhs, to, pool, scratch);
    } else if (gemm_) {
      gemm_->Run(lhs, rhs, to, pool, scratch);
    } else if (!matmul_->Run(lhs, rhs, to, pool, scratch)) {
      return Internal("A matrix product that oneDNN had accepted could not be run.");
    }
    return {};
  }

  // The product at the result is of one batch, and the result's batches are walked by Multiply.
  void LeaveBatchesOut(bool own_direct, GemmProblem& at_result) {
    if (own_direct) problem_.result_batch_strides = at_result.result_batch_strides;
    at_result.result_batch_strides = Dims();
  }

  // Of an operand that is computed: whether it is quantised weights, for which there are kernels.
  void ChooseWeights(const plan::DotKernel& b, const GemmProblem& own, const CpuKernelOptions& options) {
    table_ = TableProduct::Make(b, own, options.threads);
    const bool is_along_depth = table_ && table_->is_along_depth();
    // Rounded products of lines along the depth are those of panels, and slower.
    if (options.int_dot && !is_along_depth) weights_ = WeightProduct::Make(b, own, options.threads, true);
    const bool has_better = table_ && (is_along_depth || HasFastBf16Products());
    if (!weights_ && !has_better) {
      weights_ = WeightProduct::Make(b, own, options.threads, false);
      // Native code makes the weights of several vectors once, and what it reads need not be codes.
      const bool is_native = native::HasAvx512Code();
      if (weights_ && is_native && !(weights_->reads_codes_in_memory() && std::min(own.m, own.n) == 1))
        weights_.reset();
    }
    if (weights_) table_.reset();
  }

  // Of an operand that is computed: straight into a result of another type.
  bool MakeRoundedProduct(const plan::DotKernel& b, const GemmProblem& at_result, ElementType storage, int threads) {
    Result<ComputedProduct> made = ComputedProduct::Make(b, at_result, threads, storage);
    if (made) computed_ = std::move(*made);
    return made.has_value();
  }

  Result<> ChooseProduct(const CpuKernelOptions& options) {
    const plan::DotKernel& b = body_;
    const int threads = options.threads;
    const GemmProblem p = ProblemOf(b);
    Dims dims = b.batch;
    for (int64_t d : {b.m, b.n}) dims.push_back(d);
    const Dims dense = RowMajorStrides(dims);
    // Straight into the result, where it is only stored; then our own kernels need it dense along n.
    std::optional<Epilogue::Direct> direct = epilogue_.direct();
    // oneDNN saturates where HLO wraps.
    if (direct && direct->storage != b.accumulate_type && !IsFloat(direct->storage)) direct.reset();
    const bool same_type = direct && direct->storage == b.accumulate_type;
    GemmProblem at_result = p;
    bool dense_result = false;
    if (direct) {
      const std::size_t rank = direct->strides.size();
      at_result.result_batch_strides = Dims(direct->strides.begin(), direct->strides.end() - 2);
      at_result.result_m_stride = b.m == 1 ? b.n : direct->strides[rank - 2];
      dense_result = b.n == 1 ? b.m == 1 || direct->strides[rank - 2] == 1 : direct->strides[rank - 1] == 1;
      if (b.n == 1 && b.m > 1) at_result.result_m_stride = 1;
    }
    const bool own_direct = same_type && dense_result;
    if (batch_by_batch_) LeaveBatchesOut(own_direct, at_result);
    const double flops = 2.0 * static_cast<double>(count_) * static_cast<double>(b.k);
    const GemmProblem& own = own_direct ? at_result : p;
    if (b.computes_lhs() || b.computes_rhs()) {
      writes_result_ = own_direct;
      ChooseWeights(b, own, options);
      if (!weights_ && !table_ && direct && dense_result && !same_type && !batch_by_batch_)
        writes_result_ = MakeRoundedProduct(b, at_result, direct->storage, threads);
      if (!weights_ && !table_ && !computed_) { KRAFLA_ASSIGN(computed_, ComputedProduct::Make(b, own, threads)); }
      product_scratch_ = weights_ ? weights_->scratch_bytes()
                         : table_ ? table_->scratch_bytes()
                                  : computed_->scratch_bytes();
      return {};
    }
    tiny_ = TinyProducts::Make(own);
    // Of small matrices a call each costs more than the product.
    const bool takes_short = ShortProducts::Takes(own), is_small = own.m * own.n <= kSmallOuterProduct;
    if (!tiny_ && !(takes_short && is_small) && IsOuterProduct(own)) outer_ = own;
    if (tiny_ || outer_) {
      writes_result_ = own_direct;
      return {};
    }
    const auto takes = [&](auto& product, auto&&... arguments) {
      product.emplace(own, arguments...);
      product_scratch_ = product->scratch_bytes();
      writes_result_ = own_direct;
      return Result<>();
    };
    if (takes_short && (b.accumulate_type == ElementType::kF64 || !SharedProduct::Takes(own)))
      return takes(short_, threads);
    if (SharedProduct::Takes(own)) return takes(shared_, threads);
    if (!options.any_rows && FewRows::Takes(own)) return takes(few_rows_, threads);
    if (Gemv::Takes(own)) return takes(gemv_);
    if (flops * static_cast<double>(options.parts) > kSmallFlops && b.k > 0 && !options.own_products) {
      matmul_ =
          MakeOneDnnMatmul(p, direct ? direct->strides : dense, direct ? direct->storage : b.accumulate_type, threads);
      writes_result_ = direct.has_value() && matmul_ != nullptr;
      if (matmul_ == nullptr) matmul_ = MakeOneDnnMatmul(p, dense, b.accumulate_type, threads);
    }
    if (matmul_ != nullptr) {
      product_scratch_ = matmul_->scratch_bytes();
      return {};
    }
    gemm_.emplace(own, threads);
    product_scratch_ = gemm_->scratch_bytes();
    writes_result_ = own_direct;
    return {};
  }

  SumsAlone sums_alone_{*this};
  plan::DotKernel body_;
  int64_t count_ = 0;
  Epilogue epilogue_;
  GemmProblem problem_;  // of all batches
  std::optional<SharedOperand> shared_operand_;
  std::optional<OperandBases> bases_;
  bool batch_by_batch_ = false;
  std::optional<WeightProduct> weights_;
  std::optional<TableProduct> table_;
  std::optional<ComputedProduct> computed_;
  std::optional<TinyProducts> tiny_;
  std::optional<ShortProducts> short_;
  std::optional<GemmProblem> outer_;
  std::optional<Gemv> gemv_;
  std::optional<SharedProduct> shared_;
  std::optional<FewRows> few_rows_;
  std::optional<Gemm> gemm_;
  std::unique_ptr<OneDnnProblem> matmul_;
  bool writes_result_ = false;
  int64_t product_scratch_ = 0, sums_ = 0, bases_frame_ = 0, operand_ = 0;
};

}  // namespace

KernelResult MakeDotKernel(const plan::KernelPlan& plan, const plan::DotKernel& body, const CpuKernelOptions& options) {
  if (std::optional<plan::ElementProgram> loop = UnrolledProduct(body, options.runs))
    return MakeLoopKernel(plan, {std::move(*loop)}, options);
  if (const std::optional<plan::ReduceKernel> sum = SummedProduct(body, options.runs))
    return MakeReduceKernel(plan, *sum, options);
  return DotRun::Make(body, options);
}

}  // namespace krafla::cpu
