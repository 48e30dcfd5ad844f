// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/row_kernel.h"

#include <algorithm>
#include <numeric>

#include "plan/rows/free_programs.h"

namespace krafla::plan {
namespace {

std::size_t RowAt(int64_t i) { return static_cast<std::size_t>(i); }

std::vector<DimImage> SameFreeDims(std::size_t count) {
  std::vector<DimImage> out;
  for (std::size_t d = 0; d < count; ++d) out.push_back(DimImage::Of(static_cast<int>(d)));
  return out;
}

// A program over free dimensions and dimensions of its own behind them.
ElementProgram ReindexProgram(const ElementProgram& p, std::size_t old_free, const Dims& free,
                              std::span<const DimImage> images) {
  Dims dims = free;
  std::vector<DimImage> all(images.begin(), images.end());
  for (std::size_t d = old_free; d < p.space.dims().size(); ++d) {
    all.push_back(DimImage::Of(static_cast<int>(dims.size())));
    dims.push_back(p.space.dims()[d]);
  }
  return Reindex(p, dims, all);
}

// The stride along each new dimension, and how far the operand begins behind where it began.
int64_t ReindexStrides(const Dims& old, const Dims& free, std::span<const DimImage> images, Dims& strides) {
  int64_t offset = 0;
  strides = Dims(free.size(), 0);
  for (std::size_t d = 0; d < images.size(); ++d) {
    offset += images[d].constant * old[d];
    for (const DimImage::Term& t : images[d].terms) strides[RowAt(t.dim)] += t.coefficient * old[d];
  }
  return offset;
}

void ReindexDot(DotKernel& dot, const Dims& free, std::span<const DimImage> images) {
  Dims lhs = dot.lhs_batch_strides, rhs = dot.rhs_batch_strides, strides;
  lhs.push_back(dot.lhs_m_stride), rhs.push_back(0);
  const std::size_t rank = lhs.size();
  const Dims batch(free.begin(), free.end() - 1);
  dot.lhs_offset += ReindexStrides(lhs, free, images, strides);
  dot.lhs_m_stride = strides.back();
  strides.pop_back();
  dot.lhs_batch_strides = strides;
  dot.rhs_offset += ReindexStrides(rhs, free, images, strides);
  strides.pop_back();
  dot.rhs_batch_strides = strides;
  dot.epilogue = ReindexProgram(dot.epilogue, rank, free, images);
  if (dot.computes_lhs()) dot.lhs_program = ReindexProgram(dot.lhs_program, rank, free, images);
  if (dot.computes_rhs()) dot.rhs_program = ReindexProgram(dot.rhs_program, rank - 1, batch, images.first(rank - 1));
  dot.batch = batch;
  dot.m = free.back();
}

}  // namespace

std::optional<Dims> FreeDims(const KernelPlan& kernel) {
  if (const auto* loop = std::get_if<LoopKernel>(&kernel.body)) return loop->program.space.dims();
  if (const auto* reduce = std::get_if<ReduceKernel>(&kernel.body)) return reduce->row_dims;
  if (const auto* dot = std::get_if<DotKernel>(&kernel.body)) {
    Dims out = dot->batch;
    out.push_back(dot->m);
    return out;
  }
  return std::nullopt;
}

KernelPlan WithOwnDims(KernelPlan kernel) {
  auto* dot = std::get_if<DotKernel>(&kernel.body);
  if (dot == nullptr) return kernel;
  Dims own = dot->batch;
  own.push_back(dot->m);
  own.push_back(dot->n);
  const Dims joined = dot->epilogue.space.dims();
  if (joined == own) return kernel;
  std::vector<DimImage> images(joined.size());
  std::size_t d = own.size();
  for (std::size_t j = joined.size(); j-- > 0;) {
    int64_t size = 1;
    while (d > 0 && (size < joined[j] || (j == 0 && own[d - 1] == 1))) {
      images[j].terms.push_back({static_cast<int>(--d), size});
      size *= own[d];
    }
    KRAFLA_CHECK(size == joined[j]);
  }
  dot->epilogue = Reindex(dot->epilogue, own, images);
  return kernel;
}

KernelPlan ReindexFree(const KernelPlan& kernel, const Dims& free, std::span<const DimImage> images) {
  KernelPlan out = kernel;
  if (auto* loop = std::get_if<LoopKernel>(&out.body)) {
    loop->program = Reindex(loop->program, free, images);
  } else if (auto* reduce = std::get_if<ReduceKernel>(&out.body)) {
    for (ReduceStage& stage : reduce->stages)
      stage.program = ReindexProgram(stage.program, reduce->row_dims.size(), free, images);
    reduce->row_dims = free;
  } else if (auto* dot = std::get_if<DotKernel>(&out.body)) {
    ReindexDot(*dot, free, images);
  }
  return out;
}

KernelPlan SplitFree(const KernelPlan& kernel, int dim, int64_t inner) {
  const Dims old = *FreeDims(kernel);
  Dims free;
  std::vector<DimImage> images;
  for (std::size_t d = 0; d < old.size(); ++d) {
    const int next = static_cast<int>(free.size());
    if (d == RowAt(dim)) {
      images.push_back({0, {{next, inner}, {next + 1, 1}}});
      free.push_back(old[d] / inner);
      free.push_back(inner);
    } else {
      images.push_back(DimImage::Of(next));
      free.push_back(old[d]);
    }
  }
  return ReindexFree(kernel, free, images);
}

KernelPlan NarrowFree(const KernelPlan& kernel, int dim, int64_t begin, int64_t extent) {
  Dims free = *FreeDims(kernel);
  std::vector<DimImage> images = SameFreeDims(free.size());
  images[RowAt(dim)].constant = begin;
  free[RowAt(dim)] = extent;
  return ReindexFree(kernel, free, images);
}

std::vector<RowAccess> AccessesOf(const KernelPlan& kernel) {
  std::vector<RowAccess> out;
  const std::size_t rank = FreeDims(kernel)->size();
  ForEachFreeProgram(kernel.body, [&](const ElementProgram& p, std::span<const int> free_of) {
    IndexSpace space = p.space;
    const auto add = [&](int binding, IndexId index, bool is_store) {
      RowAccess access{binding, is_store, std::vector<std::optional<int64_t>>(rank, 0), {}};
      IndexId rest = index;
      for (std::size_t d = 0; d < free_of.size(); ++d) {
        if (free_of[d] < 0) continue;
        const IndexSpace::Affine a = space.StrideAlong(index, static_cast<int>(d));
        std::optional<int64_t>& stride = access.strides[RowAt(free_of[d])];
        stride = a.affine ? std::optional(a.stride) : std::nullopt;
        if (a.affine) rest = space.Sub(rest, space.Mul(space.Iter(static_cast<int>(d)), a.stride));
      }
      access.rest = space.RangeOf(rest);
      out.push_back(std::move(access));
    };
    for (const Node& n : p.nodes)
      if (n.op == NodeOp::kLoad) add(n.buffer, n.index, false);
    for (const Store& s : p.stores) add(s.buffer, s.index, true);
  });
  const auto* dot = std::get_if<DotKernel>(&kernel.body);
  if (dot == nullptr) return out;
  const auto span = [](int64_t extent, int64_t stride) {
    return Union({0, 0}, Interval{stride, stride} * (extent - 1));
  };
  const auto operand = [&](int binding, int64_t offset, const Dims& batch, int64_t m, const Interval& inside) {
    RowAccess access{binding, false, {batch.begin(), batch.end()}, Interval{offset, offset} + inside};
    access.strides.emplace_back(m);
    out.push_back(std::move(access));
  };
  if (!dot->computes_lhs())
    operand(dot->lhs_binding, dot->lhs_offset, dot->lhs_batch_strides, dot->lhs_m_stride,
            span(dot->k, dot->lhs_k_stride));
  if (!dot->computes_rhs())
    operand(dot->rhs_binding, dot->rhs_offset, dot->rhs_batch_strides, 0,
            span(dot->k, dot->rhs_k_stride) + span(dot->n, dot->rhs_n_stride));
  return out;
}

std::optional<FreeSplit> FindFreeSplit(const KernelPlan& kernel) {
  std::optional<FreeSplit> out;
  const Dims free = *FreeDims(kernel);
  ForEachFreeProgram(kernel.body, [&](const ElementProgram& p, std::span<const int> free_of) {
    for (IndexId id : UsedExprs(p)) {
      for (const IndexTerm& t : p.space.expr(id).terms) {
        const IndexAtom& a = p.space.atom(t.atom);
        if (a.kind != IndexAtom::Kind::kFloorDiv && a.kind != IndexAtom::Kind::kMod) continue;
        for (const IndexTerm& u : p.space.expr(a.expr).terms) {
          const IndexAtom& b = p.space.atom(u.atom);
          if (out || b.kind != IndexAtom::Kind::kIter || u.coefficient <= 0 || a.divisor % u.coefficient != 0) continue;
          const int dim = free_of[RowAt(b.iter)];
          const int64_t inner = a.divisor / u.coefficient;
          if (dim < 0 || inner <= 1 || inner >= free[RowAt(dim)] || free[RowAt(dim)] % inner != 0) continue;
          out = FreeSplit{dim, inner};
        }
      }
    }
  });
  return out;
}

}  // namespace krafla::plan
