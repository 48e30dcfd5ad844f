// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/executor/onednn.h"
#include "cpu_fallback/executor/onednn_jobs.h"
#include "cpu_fallback/executor/regular_product.h"

namespace krafla::cpu {

#ifdef KRAFLA_HAVE_ONEDNN

namespace onednn {
namespace {

// Products of fewer operations, some 25 us of one core, are one part.
constexpr double kOnePartFlops = 4e6;
constexpr double kLeastPartFlops = 1e6;
// A run can be ended between parts only: half a second of one core.
constexpr double kMostPartFlops = 5e10;
// Of smaller products, and of more, each would wait longer for oneDNN's set-up than for its sums.
constexpr double kLeastProductFlops = 50e3;
constexpr int64_t kMostProducts = 4096;

// Products that one primitive sums; it does so itself in blocks of 512.
constexpr int64_t kSumDepth = 1024;
constexpr int64_t kFewProductRows = 32;

// dims[dim] cut to [begin, begin + size).
TensorView Cut(TensorView view, std::size_t dim, int64_t begin, int64_t size) {
  view.offset += begin * view.strides[dim];
  view.dims[dim] = size;
  return view;
}
Place PlaceOf(Place::Array array, const TensorView& view) { return {array, view.offset * StorageBytes(view.type)}; }

// As one primitive after the other, each over a part of the depth: what is summed before it is added to what was there
// bounds the error. Results of other types than f32 round more than that.
bool AddMatmul(Jobs& jobs, const TensorView& a, const TensorView& b, const TensorView& result) {
  const std::size_t rank = result.dims.size();
  const int64_t depth = a.dims.back();
  const int64_t parts = result.type == ElementType::kF32 ? CeilDiv(depth, kSumDepth) : 1;
  const int64_t step = RoundUp(CeilDiv(depth, parts), 16);
  const std::optional<dnnl::memory::desc> dr = Describe(result);
  struct Product {
    dnnl::matmul::primitive_desc d;
    Place a, b;
    double flops;
  };
  std::vector<Product> products;
  for (int64_t begin = 0; begin < depth; begin += step) {
    const int64_t size = std::min(step, depth - begin);
    const TensorView part_a = Cut(a, rank - 1, begin, size), part_b = Cut(b, rank - 2, begin, size);
    const std::optional<dnnl::memory::desc> da = Describe(part_a), db = Describe(part_b);
    if (!da || !db || !dr) return false;
    dnnl::matmul::primitive_desc d(Engine(), *da, *db, *dr, begin == 0 ? UserScratchpad() : AddingToResult(),
                                   /*allow_empty=*/true);
    if (!d || !IsFast(d)) return false;
    products.push_back({std::move(d), PlaceOf(Place::Array::kA, part_a), PlaceOf(Place::Array::kB, part_b),
                        2 * ElementsOf(result) * static_cast<double>(size)});
  }
  for (const Product& p : products)
    jobs.AddProduct(p.d, p.a, p.b, PlaceOf(Place::Array::kResult, result), p.flops, &p != products.data());
  return true;
}

// Of few rows and a great depth oneDNN brings all of the right matrix into an order of its own before it multiplies, if
// it may not sum in parts: twice as long as sums in f32 that are rounded behind take.
bool RoundsDeepSums(const TensorView& a, const TensorView& result) {
  return result.type != ElementType::kF32 && a.dims.back() > kSumDepth &&
         result.dims[result.dims.size() - 2] <= kFewProductRows;
}

// Where a product is cut: along a batch dimension, the rows or the columns of the result.
struct MatmulCut {
  std::size_t dim = 0;
  int64_t step = 0;
};
MatmulCut ChooseCut(const TensorView& result, int64_t parts) {
  const std::size_t rank = result.dims.size();
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (result.dims[d] >= parts) return {d, CeilDiv(result.dims[d], parts)};
  const int64_t m = result.dims[rank - 2], n = result.dims[rank - 1];
  // Along the longer side the parts have the least to read twice. Columns in whole registers.
  if (n >= m) return {rank - 1, RoundUp(CeilDiv(n, parts), n >= 64 * parts ? 64 : 16)};
  return {rank - 2, RoundUp(CeilDiv(m, parts), m >= 64 * parts ? 16 : 4)};
}

bool AddMatmulParts(Jobs& jobs, const TensorView& a, const TensorView& b, const TensorView& result, int64_t parts) {
  if (parts < 2) return AddMatmul(jobs, a, b, result);
  const MatmulCut cut = ChooseCut(result, parts);
  const std::size_t rank = result.dims.size();
  for (int64_t begin = 0; begin < result.dims[cut.dim]; begin += cut.step) {
    const int64_t size = std::min(cut.step, result.dims[cut.dim] - begin);
    TensorView part_a = a, part_b = b;
    if (cut.dim != rank - 1 && a.dims[cut.dim] > 1) part_a = Cut(a, cut.dim, begin, size);
    if (cut.dim != rank - 2 && b.dims[cut.dim] > 1) part_b = Cut(b, cut.dim, begin, size);
    if (!AddMatmul(jobs, part_a, part_b, Cut(result, cut.dim, begin, size))) return false;
  }
  return true;
}

}  // namespace
}  // namespace onednn

std::unique_ptr<OneDnnProblem> MakeOneDnnMatmul(const TensorView& a, const TensorView& b, const TensorView& result,
                                                int threads) {
  using namespace onednn;
  if (StorageBytes(a.type) == 1 && !MultipliesS8Exactly()) return nullptr;
  try {
    const OneThread one_thread;
    if (RoundsDeepSums(a, result)) return nullptr;
    const double flops = 2 * ElementsOf(result) * static_cast<double>(a.dims.back());
    const int64_t for_threads = threads == 1 || flops < kOnePartFlops
                                    ? 1
                                    : std::min<int64_t>(2 * threads, static_cast<int64_t>(flops / kLeastPartFlops));
    const int64_t parts = std::max(for_threads, static_cast<int64_t>(flops / kMostPartFlops));
    const std::optional<RegularProducts> products =
        SplitIntoRegularProducts(a, b, result, kMostProducts, kLeastProductFlops);
    if (!products) return nullptr;
    const auto add = [&products](Jobs& to, int64_t parts_of_one) {
      for (const RegularProducts::Offsets& at : products->offsets) {
        TensorView one_a = products->a, one_b = products->b, one_result = products->result;
        one_a.offset += at.a, one_b.offset += at.b, one_result.offset += at.result;
        if (!AddMatmulParts(to, one_a, one_b, one_result, parts_of_one)) return false;
      }
      return true;
    };
    const int64_t parts_of_one = CeilDiv(parts, std::ssize(products->offsets));
    auto jobs = std::make_unique<Jobs>();
    if (!add(*jobs, parts_of_one)) {
      jobs->Clear();
      if (parts_of_one < 2 || !add(*jobs, 1)) return nullptr;
    }
    jobs->Finish(threads);
    return jobs;
  } catch (const dnnl::error&) {
    return nullptr;  // oneDNN does not take this problem
  }
}

#else

std::unique_ptr<OneDnnProblem> MakeOneDnnMatmul(const TensorView&, const TensorView&, const TensorView&, int) {
  return nullptr;
}

#endif

std::unique_ptr<OneDnnProblem> MakeOneDnnMatmul(const GemmProblem& p, const Dims& result_strides,
                                                ElementType result_type, int threads) {
  if (p.batch.size() > 6) return nullptr;
  TensorView lhs{p.batch, p.lhs_batch_strides, p.lhs_type}, rhs{p.batch, p.rhs_batch_strides, p.rhs_type};
  TensorView result{p.batch, result_strides, result_type};
  auto finish = [](TensorView& view, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
    // A stride of zero is a dimension of one that is repeated.
    for (std::size_t d = 0; d < view.dims.size(); ++d)
      if (view.strides[d] == 0) view.dims[d] = 1, view.strides[d] = 1;
    view.dims.push_back(rows);
    view.dims.push_back(columns);
    // Strides of dimensions of one element are free: the dense ones suit best.
    view.strides.push_back(rows == 1 ? std::max<int64_t>(columns * column_stride, 1) : row_stride);
    view.strides.push_back(columns == 1 && rows > 1 && row_stride != 1 ? 1
                           : columns == 1                              ? std::max<int64_t>(rows * row_stride, 1)
                                                                       : column_stride);
  };
  finish(lhs, p.m, p.lhs_m_stride, p.k, p.lhs_k_stride);
  finish(rhs, p.k, p.rhs_k_stride, p.n, p.rhs_n_stride);
  result.dims.push_back(p.m);
  result.dims.push_back(p.n);
  for (const TensorView* view : {&lhs, &rhs, &result})
    if (std::ranges::any_of(view->strides, [](int64_t s) { return s <= 0; })) return nullptr;
  return MakeOneDnnMatmul(lhs, rhs, result, threads);
}

}  // namespace krafla::cpu
