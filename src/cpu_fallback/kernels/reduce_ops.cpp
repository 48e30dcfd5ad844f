// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/reduce_ops.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/reduce_ops.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/float_extrema-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

template <class T>
struct SumOp {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Add(x, y);
  }
};
template <class T>
struct ProductOp {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Mul(x, y);
  }
};
template <class T>
struct MaxOp {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    if constexpr (std::is_floating_point_v<T>) {
      return FloatMaximum::Do(d, x, y);
    } else {
      return hn::Max(x, y);
    }
  }
};
template <class T>
struct MinOp {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    if constexpr (std::is_floating_point_v<T>) {
      return FloatMinimum::Do(d, x, y);
    } else {
      return hn::Min(x, y);
    }
  }
};
template <class T>
struct AndOp {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::And(x, y);
  }
};
template <class T>
struct OrOp {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D, V x, V y) {
    return hn::Or(x, y);
  }
};

// One value of each operation on plain numbers, by a vector of one.
template <class T, class F>
HWY_INLINE T Combine(T x, T y) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(F::Do(d, hn::Set(d, x), hn::Set(d, y)));
}

// Halves onto halves, down to one.
template <class F, class D>
HWY_INLINE hn::TFromD<D> FoldLanes(D, hn::Vec<D> v) {
  if constexpr (HWY_MAX_LANES_D(D) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> dh;
    return FoldLanes<F>(dh, F::Do(dh, hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  }
}

template <class T, class F>
void ReduceRow(const void* in, int64_t count, void* accumulator) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const T* a = static_cast<const T*>(in);
  T sum = *static_cast<T*>(accumulator);
  std::size_t i = 0;
  if (n >= lanes) {
    V total = hn::LoadU(d, a);
    i = lanes;
    if (n >= 8 * lanes) {
      V s0 = total, s1 = hn::LoadU(d, a + lanes), s2 = hn::LoadU(d, a + 2 * lanes), s3 = hn::LoadU(d, a + 3 * lanes);
      for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
        s0 = F::Do(d, s0, hn::LoadU(d, a + i));
        s1 = F::Do(d, s1, hn::LoadU(d, a + i + lanes));
        s2 = F::Do(d, s2, hn::LoadU(d, a + i + 2 * lanes));
        s3 = F::Do(d, s3, hn::LoadU(d, a + i + 3 * lanes));
      }
      total = F::Do(d, F::Do(d, s0, s1), F::Do(d, s2, s3));
    }
    for (; i + lanes <= n; i += lanes) total = F::Do(d, total, hn::LoadU(d, a + i));
    sum = Combine<T, F>(sum, FoldLanes<F>(d, total));
  }
  for (; i < n; ++i) sum = Combine<T, F>(sum, a[i]);
  *static_cast<T*>(accumulator) = sum;
}

template <class T, class F>
void ReduceColumns(const void* in, int64_t rows, int64_t count, void* accumulator) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = static_cast<std::size_t>(count);
  const T* a = static_cast<const T*>(in);
  T* to = static_cast<T*>(accumulator);
  if (rows == 0) return;
  std::size_t c = 0;
  // A few rows, as windows have them, are taken in turn, as XLA does: in sums of few elements the order counts.
  if (rows <= 4) {
    for (; c < n; c += lanes) {
      const std::size_t left = std::min(lanes, n - c);
      auto s = hn::LoadN(d, to + c, left);
      for (int64_t r = 0; r < rows; ++r) s = F::Do(d, s, hn::LoadN(d, a + static_cast<std::size_t>(r) * n + c, left));
      hn::StoreN(s, d, to + c, left);
    }
    return;
  }
  for (; c + 2 * lanes <= n; c += 2 * lanes) {
    auto s0 = hn::LoadU(d, a + c), s1 = hn::LoadU(d, a + c + lanes);
    for (int64_t r = 1; r < rows; ++r) {
      const T* row = a + static_cast<std::size_t>(r) * n + c;
      s0 = F::Do(d, s0, hn::LoadU(d, row));
      s1 = F::Do(d, s1, hn::LoadU(d, row + lanes));
    }
    hn::StoreU(F::Do(d, hn::LoadU(d, to + c), s0), d, to + c);
    hn::StoreU(F::Do(d, hn::LoadU(d, to + c + lanes), s1), d, to + c + lanes);
  }
  for (; c < n; c += lanes) {
    const std::size_t left = std::min(lanes, n - c);
    auto s = hn::LoadN(d, a + c, left);
    for (int64_t r = 1; r < rows; ++r) s = F::Do(d, s, hn::LoadN(d, a + static_cast<std::size_t>(r) * n + c, left));
    hn::StoreN(F::Do(d, hn::LoadN(d, to + c, left), s), d, to + c, left);
  }
}

template <class T, class F, int kArrays>
HWY_INLINE void FoldDense(const T* const* arrays, int64_t offset, std::size_t n, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const T* in[kArrays];
  for (int k = 0; k < kArrays; ++k) in[k] = arrays[k] + offset;
  std::size_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    auto value = hn::LoadU(d, to + c);
    for (int k = 0; k < kArrays; ++k) value = F::Do(d, value, hn::LoadU(d, in[k] + c));
    hn::StoreU(value, d, to + c);
  }
  if (c == n) return;
  auto value = hn::LoadN(d, to + c, n - c);
  for (int k = 0; k < kArrays; ++k) value = F::Do(d, value, hn::LoadN(d, in[k] + c, n - c));
  hn::StoreN(value, d, to + c, n - c);
}

template <class T, class F>
HWY_INLINE void FoldStrided(const T* const* arrays, int64_t count, int64_t offset, int64_t stride, std::size_t n,
                            T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t c = 0;
  if constexpr (sizeof(T) >= 4) {
    if (stride == 2) {
      // Loads of pairs: the last one's second half may lie behind the array.
      for (; c + lanes < n; c += lanes) {
        auto value = hn::LoadU(d, to + c);
        for (int64_t k = 0; k < count; ++k) {
          hn::Vec<decltype(d)> even, odd;
          hn::LoadInterleaved2(d, arrays[k] + offset + 2 * c, even, odd);
          value = F::Do(d, value, even);
        }
        hn::StoreU(value, d, to + c);
      }
    } else if (stride == 0 && count == 1) {
      const auto constant = hn::Set(d, arrays[0][offset]);
      for (; c + lanes <= n; c += lanes) hn::StoreU(F::Do(d, hn::LoadU(d, to + c), constant), d, to + c);
    }
  }
  for (; c < n; ++c)
    for (int64_t k = 0; k < count; ++k) to[c] = Combine<T, F>(to[c], arrays[k][offset + static_cast<int64_t>(c) * stride]);
}

template <class T, class F>
void ReduceTiles(const void* const* in_pointers, int64_t arrays, int64_t row_stride, int64_t column_stride, int64_t rows,
                 int64_t columns, void* accumulator, int64_t accumulator_stride) {
  const T* const* in = reinterpret_cast<const T* const*>(in_pointers);
  T* to = static_cast<T*>(accumulator);
  if (column_stride == 1 && row_stride == columns && accumulator_stride == columns) columns *= rows, rows = 1;
  const std::size_t n = static_cast<std::size_t>(columns);
  for (int64_t r = 0; r < rows; ++r, to += accumulator_stride) {
    const int64_t at = r * row_stride;
    int64_t k = 0;
    if (column_stride == 1) {
      for (; k + 4 <= arrays; k += 4) FoldDense<T, F, 4>(in + k, at, n, to);
      for (; k < arrays; ++k) FoldDense<T, F, 1>(in + k, at, n, to);
    } else {
      FoldStrided<T, F>(in, arrays, at, column_stride, n, to);
    }
  }
}

template <class T, class F>
ReduceOps Pick() {
  return {&ReduceRow<T, F>, &ReduceColumns<T, F>, &ReduceTiles<T, F>};
}
template <class T>
ReduceOps FindExtremum(plan::Reduction::Kind kind) {
  return kind == plan::Reduction::Kind::kMax ? Pick<T, MaxOp<T>>() : Pick<T, MinOp<T>>();
}
template <class T>
ReduceOps FindFloat(plan::Reduction::Kind kind) {
  switch (kind) {
    case plan::Reduction::Kind::kSum: return Pick<T, SumOp<T>>();
    case plan::Reduction::Kind::kProduct: return Pick<T, ProductOp<T>>();
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kMin: return FindExtremum<T>(kind);
    case plan::Reduction::Kind::kAnd:
    case plan::Reduction::Kind::kOr:
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}
// Signed numbers are the same bits but where they are compared.
template <class Unsigned>
ReduceOps FindInteger(plan::Reduction::Kind kind, bool is_signed) {
  switch (kind) {
    case plan::Reduction::Kind::kSum: return Pick<Unsigned, SumOp<Unsigned>>();
    case plan::Reduction::Kind::kProduct: return Pick<Unsigned, ProductOp<Unsigned>>();
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kMin:
      return is_signed ? FindExtremum<std::make_signed_t<Unsigned>>(kind) : FindExtremum<Unsigned>(kind);
    case plan::Reduction::Kind::kAnd: return Pick<Unsigned, AndOp<Unsigned>>();
    case plan::Reduction::Kind::kOr: return Pick<Unsigned, OrOp<Unsigned>>();
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}
// Predicates are 0 and 1: or is the sum and the maximum, and the product and the minimum.
ReduceOps FindOfPred(plan::Reduction::Kind kind) {
  switch (kind) {
    case plan::Reduction::Kind::kSum:
    case plan::Reduction::Kind::kMax:
    case plan::Reduction::Kind::kOr: return Pick<uint8_t, OrOp<uint8_t>>();
    case plan::Reduction::Kind::kProduct:
    case plan::Reduction::Kind::kMin:
    case plan::Reduction::Kind::kAnd: return Pick<uint8_t, AndOp<uint8_t>>();
    case plan::Reduction::Kind::kOther: return {};
  }
  return {};
}

ReduceOps FindReduce(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kPred) return FindOfPred(kind);
  if (type == ElementType::kS32 || type == ElementType::kU32) return FindInteger<uint32_t>(kind, type == ElementType::kS32);
  if (type == ElementType::kS64 || type == ElementType::kU64) return FindInteger<uint64_t>(kind, type == ElementType::kS64);
  if (type == ElementType::kF32) return FindFloat<float>(kind);
  if (type == ElementType::kF64) return FindFloat<double>(kind);
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindReduce);
ReduceOps FindReduceOps(plan::Reduction::Kind kind, ElementType type) {
  return HWY_DYNAMIC_DISPATCH(FindReduce)(kind, type);
}
}  // namespace krafla::cpu
#endif
