// SPDX-License-Identifier: Apache-2.0
#include "evaluator/strided.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/interruption.h"

namespace krafla::evaluator {

namespace {

template <class T>
void CopyRow(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (from_stride == 0 && to_stride == 1) {
    const T v = *from;
    for (int64_t k = 0; k < n; ++k) to[k] = v;
  } else {
    for (int64_t k = 0; k < n; ++k) to[k * to_stride] = from[k * from_stride];
  }
}

void CopyPiece(int bytes, const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    std::memmove(to, from, static_cast<std::size_t>(n * bytes));
    return;
  }
  auto run = [&]<class T>(T) {
    CopyRow(reinterpret_cast<const T*>(from), from_stride, reinterpret_cast<T*>(to), to_stride, n);
  };
  switch (bytes) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    case 8: return run(uint64_t{});
    default: return run(Bits128{});
  }
}

// Whether it came to the end: a run that is to end leaves the rest as it is.
bool CopyRow(InterruptionPoll& poll, int bytes, const std::byte* from, int64_t from_stride, std::byte* to,
             int64_t to_stride, int64_t n) {
  for (int64_t at = 0; at < n; at += InterruptionPoll::kPiece) {
    const int64_t count = std::min(InterruptionPoll::kPiece, n - at);
    if (poll.Ends(count)) return false;
    CopyPiece(bytes, from + at * from_stride * bytes, from_stride, to + at * to_stride * bytes, to_stride, count);
  }
  return true;
}

}  // namespace

void CopyView(std::span<const int64_t> dims, int element_bytes, const std::byte* from, const View& from_view,
              std::byte* to, const View& to_view) {
  // Dimensions of extent 1 go, neighbours that are contiguous in both views become one.
  Dims extents, from_strides, to_strides;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return;
    if (dims[d] == 1) continue;
    const int64_t fs = from_view.strides[d], ts = to_view.strides[d];
    if (!extents.empty() && from_strides.back() == fs * dims[d] && to_strides.back() == ts * dims[d]) {
      extents.back() *= dims[d];
      from_strides.back() = fs;
      to_strides.back() = ts;
      continue;
    }
    extents.push_back(dims[d]);
    from_strides.push_back(fs);
    to_strides.push_back(ts);
  }
  from += from_view.offset * element_bytes;
  to += to_view.offset * element_bytes;
  if (extents.empty()) {
    std::memmove(to, from, static_cast<std::size_t>(element_bytes));
    return;
  }
  const std::size_t last = extents.size() - 1;
  const int64_t row = extents[last];
  // A transposition goes in tiles, so that neither side strides through memory a line an element.
  const bool tiled = extents.size() >= 2 && from_strides[last] != 1 && from_strides[last] != 0 && row > 16;
  std::size_t partner = last;
  if (tiled) {
    for (std::size_t d = 0; d < last; ++d)
      if (from_strides[d] == 1 && extents[d] > 16) partner = d;
  }
  InterruptionPoll poll;
  Dims index(extents.size(), 0);
  if (partner != last) {
    constexpr int64_t kTile = 32;
    const int64_t columns = extents[partner];
    while (true) {
      int64_t f = 0, t = 0;
      for (std::size_t d = 0; d < last; ++d) {
        if (d == partner) continue;
        f += index[d] * from_strides[d];
        t += index[d] * to_strides[d];
      }
      for (int64_t c = 0; c < columns; c += kTile) {
        for (int64_t r = 0; r < row; r += kTile) {
          if (poll.Ends(kTile * kTile)) return;
          const int64_t c_end = std::min(columns, c + kTile), r_count = std::min(kTile, row - r);
          for (int64_t k = c; k < c_end; ++k)
            CopyPiece(element_bytes, from + (f + k + r * from_strides[last]) * element_bytes, from_strides[last],
                      to + (t + k * to_strides[partner] + r * to_strides[last]) * element_bytes, to_strides[last],
                      r_count);
        }
      }
      std::size_t d = last;
      while (d-- > 0) {
        if (d == partner) continue;
        if (++index[d] < extents[d]) break;
        index[d] = 0;
      }
      if (d == std::numeric_limits<std::size_t>::max()) return;
    }
  }
  int64_t f = 0, t = 0;
  while (true) {
    if (!CopyRow(poll, element_bytes, from + f * element_bytes, from_strides[last], to + t * element_bytes,
                 to_strides[last], row))
      return;
    std::size_t d = last;
    while (d-- > 0) {
      f += from_strides[d];
      t += to_strides[d];
      if (++index[d] < extents[d]) break;
      f -= extents[d] * from_strides[d];
      t -= extents[d] * to_strides[d];
      index[d] = 0;
    }
    if (d == std::numeric_limits<std::size_t>::max()) return;
  }
}

void FillElements(std::byte* to, int64_t count, int element_bytes, const std::byte* element) {
  InterruptionPoll poll;
  (void)CopyRow(poll, element_bytes, element, 0, to, 1, count);
}

void FillZeros(std::span<std::byte> out) {
  constexpr std::byte kZero{0};
  FillElements(out.data(), static_cast<int64_t>(out.size()), 1, &kZero);
}

void CopyBytes(std::span<const std::byte> from, std::byte* to) {
  InterruptionPoll poll;
  (void)CopyRow(poll, 1, from.data(), 1, to, 1, static_cast<int64_t>(from.size()));
}

int64_t IntegerAt(const Literal& literal, int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  switch (literal.shape().element_type()) {
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8: return literal.data<int8_t>()[at];
    case ElementType::kS16: return literal.data<int16_t>()[at];
    case ElementType::kS32: return literal.data<int32_t>()[at];
    case ElementType::kS64: return literal.data<int64_t>()[at];
    case ElementType::kPred:
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8: return literal.data<uint8_t>()[at];
    case ElementType::kU16: return literal.data<uint16_t>()[at];
    case ElementType::kU32: return literal.data<uint32_t>()[at];
    case ElementType::kU64: {
      const uint64_t v = literal.data<uint64_t>()[at];
      constexpr auto kTop = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      return static_cast<int64_t>(std::min(v, kTop));
    }
    case ElementType::kInvalid:
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kTuple:
    case ElementType::kOpaque:
    case ElementType::kC64:
    case ElementType::kBF16:
    case ElementType::kToken:
    case ElementType::kC128:
    case ElementType::kF8E5M2:
    case ElementType::kF8E4M3FN:
    case ElementType::kF8E4M3B11FNUZ:
    case ElementType::kF8E5M2FNUZ:
    case ElementType::kF8E4M3FNUZ:
    case ElementType::kF8E4M3:
    case ElementType::kF8E3M4:
    case ElementType::kF4E2M1FN:
    case ElementType::kF8E8M0FNU: return 0;
  }
  return 0;
}

}  // namespace krafla::evaluator
