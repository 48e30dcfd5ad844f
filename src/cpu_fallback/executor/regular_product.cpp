// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/regular_product.h"

#include <array>

#include "base/index.h"

namespace krafla::cpu {
namespace {

// A batch dimension with the strides of the three arrays; 0: repeated.
struct BatchDim {
  int64_t size = 1;
  std::array<int64_t, 3> strides{};
  bool IsRepeated() const { return strides[0] == 0 || strides[1] == 0; }
};

std::vector<BatchDim> BatchDims(const TensorView& a, const TensorView& b, const TensorView& result) {
  std::vector<BatchDim> out;
  for (std::size_t d = 0; d + 2 < result.dims.size(); ++d) {
    if (result.dims[d] == 1) continue;
    const BatchDim dim{result.dims[d],
                       {a.dims[d] == 1 ? 0 : a.strides[d], b.dims[d] == 1 ? 0 : b.strides[d], result.strides[d]}};
    // Within the one before it: one dimension.
    bool merges = !out.empty();
    for (std::size_t i = 0; merges && i < 3; ++i) merges = out.back().strides[i] == dim.strides[i] * dim.size;
    if (merges) out.back() = {out.back().size * dim.size, dim.strides};
    else out.push_back(dim);
  }
  return out;
}

bool HasUnitStride(const TensorView& view) {
  const std::size_t rank = view.dims.size();
  const int64_t rows = view.dims[rank - 2], columns = view.dims[rank - 1];
  const int64_t row_stride = view.strides[rank - 2], column_stride = view.strides[rank - 1];
  if (rows == 1) return columns == 1 || column_stride == 1;
  if (columns == 1) return row_stride == 1;
  return row_stride == 1 || column_stride == 1;
}

// The matrix alone, with `batch` before it where there is one.
TensorView Matrix(const TensorView& view, const BatchDim* batch, std::size_t array) {
  const std::size_t rank = view.dims.size();
  TensorView out{{}, {}, view.type, view.offset};
  if (batch != nullptr) out.dims.push_back(batch->size), out.strides.push_back(batch->strides[array]);
  for (std::size_t d = rank - 2; d < rank; ++d)
    out.dims.push_back(view.dims[d]), out.strides.push_back(view.strides[d]);
  return out;
}

}  // namespace

std::optional<RegularProducts> SplitIntoRegularProducts(const TensorView& a, const TensorView& b,
                                                        const TensorView& result, int64_t most, double least_flops) {
  if (!HasUnitStride(a) || !HasUnitStride(b) || !HasUnitStride(result)) return std::nullopt;
  std::vector<BatchDim> batch = BatchDims(a, b, result);
  // The longest one that nothing repeats stays.
  std::optional<std::size_t> kept;
  for (std::size_t d = 0; d < batch.size(); ++d)
    if (!batch[d].IsRepeated() && (!kept || batch[d].size > batch[*kept].size)) kept = d;
  const BatchDim inner = kept ? batch[*kept] : BatchDim{};
  if (kept) batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(*kept));
  int64_t products = 1;
  for (const BatchDim& d : batch) {
    if (d.size > most / products) return std::nullopt;
    products *= d.size;
  }
  RegularProducts out;
  out.a = Matrix(a, kept ? &inner : nullptr, 0);
  out.b = Matrix(b, kept ? &inner : nullptr, 1);
  out.result = Matrix(result, kept ? &inner : nullptr, 2);
  double flops = 2 * static_cast<double>(out.a.dims.back());
  for (int64_t d : out.result.dims) flops *= static_cast<double>(d);
  if (products > 1 && flops < least_flops) return std::nullopt;
  out.offsets.push_back({});
  for (const BatchDim& d : batch) {
    std::vector<RegularProducts::Offsets> with;
    with.reserve(out.offsets.size() * static_cast<std::size_t>(d.size));
    for (const RegularProducts::Offsets& o : out.offsets)
      for (int64_t i = 0; i < d.size; ++i)
        with.push_back({o.a + i * d.strides[0], o.b + i * d.strides[1], o.result + i * d.strides[2]});
    out.offsets = std::move(with);
  }
  return out;
}

}  // namespace krafla::cpu
