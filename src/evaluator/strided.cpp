// SPDX-License-Identifier: Apache-2.0
#include "evaluator/strided.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "base/index.h"
#include "base/interruption.h"
#include "ir/element_type_cases.h"

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

// What two views of one array have in common: extents, and the strides of both.
struct ViewPair {
  Dims extents, from, to;
};

// Dimensions of extent 1 go, neighbours that are contiguous in both views become one. Nothing where there is no
// element.
std::optional<ViewPair> Merged(std::span<const int64_t> dims, const View& from, const View& to) {
  ViewPair out;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return std::nullopt;
    if (dims[d] == 1) continue;
    const int64_t fs = from.strides[d], ts = to.strides[d];
    if (!out.extents.empty() && out.from.back() == fs * dims[d] && out.to.back() == ts * dims[d]) {
      out.extents.back() *= dims[d];
      out.from.back() = fs;
      out.to.back() = ts;
      continue;
    }
    out.extents.push_back(dims[d]);
    out.from.push_back(fs);
    out.to.push_back(ts);
  }
  return out;
}

// The dimension along which a transposition reads memory in order; the last one where there is none. A transposition
// goes in tiles, so that neither side strides through memory one line per element.
std::size_t TilePartner(const ViewPair& v) {
  const std::size_t last = v.extents.size() - 1;
  std::size_t partner = last;
  if (v.extents.size() >= 2 && v.from[last] != 1 && v.from[last] != 0 && v.extents[last] > 16)
    for (std::size_t d = 0; d < last; ++d)
      if (v.from[d] == 1 && v.extents[d] > 16) partner = d;
  return partner;
}

void CopyInTiles(InterruptionPoll& poll, const ViewPair& v, std::size_t partner, int bytes, const std::byte* from,
                 std::byte* to) {
  constexpr int64_t kTile = 32;
  const std::size_t last = v.extents.size() - 1;
  const int64_t row = v.extents[last], columns = v.extents[partner];
  Dims index(v.extents.size(), 0);
  while (true) {
    int64_t f = 0, t = 0;
    for (std::size_t d = 0; d < last; ++d) {
      if (d == partner) continue;
      f += index[d] * v.from[d];
      t += index[d] * v.to[d];
    }
    for (int64_t c = 0; c < columns; c += kTile) {
      for (int64_t r = 0; r < row; r += kTile) {
        if (poll.Ends(kTile * kTile)) return;
        const int64_t c_end = std::min(columns, c + kTile), r_count = std::min(kTile, row - r);
        for (int64_t k = c; k < c_end; ++k)
          CopyPiece(bytes, from + (f + k + r * v.from[last]) * bytes, v.from[last],
                    to + (t + k * v.to[partner] + r * v.to[last]) * bytes, v.to[last], r_count);
      }
    }
    std::size_t d = last;
    while (d-- > 0) {
      if (d == partner) continue;
      if (++index[d] < v.extents[d]) break;
      index[d] = 0;
    }
    if (d == std::numeric_limits<std::size_t>::max()) return;
  }
}

void CopyInRows(InterruptionPoll& poll, const ViewPair& v, int bytes, const std::byte* from, std::byte* to) {
  const std::size_t last = v.extents.size() - 1;
  Dims index(v.extents.size(), 0);
  int64_t f = 0, t = 0;
  while (true) {
    if (!CopyRow(poll, bytes, from + f * bytes, v.from[last], to + t * bytes, v.to[last], v.extents[last])) return;
    std::size_t d = last;
    while (d-- > 0) {
      f += v.from[d];
      t += v.to[d];
      if (++index[d] < v.extents[d]) break;
      f -= v.extents[d] * v.from[d];
      t -= v.extents[d] * v.to[d];
      index[d] = 0;
    }
    if (d == std::numeric_limits<std::size_t>::max()) return;
  }
}

}  // namespace

void CopyView(std::span<const int64_t> dims, int element_bytes, const std::byte* from, const View& from_view,
              std::byte* to, const View& to_view) {
  const std::optional<ViewPair> views = Merged(dims, from_view, to_view);
  if (!views) return;
  from += from_view.offset * element_bytes;
  to += to_view.offset * element_bytes;
  if (views->extents.empty()) {
    std::memmove(to, from, At(element_bytes));
    return;
  }
  InterruptionPoll poll;
  const std::size_t partner = TilePartner(*views);
  if (partner + 1 != views->extents.size()) CopyInTiles(poll, *views, partner, element_bytes, from, to);
  else CopyInRows(poll, *views, element_bytes, from, to);
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
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kBF16:
    case KRAFLA_MINI_FLOATS:
    case KRAFLA_NO_ARRAY_TYPES:
    case KRAFLA_COMPLEX_TYPES: return 0;
  }
  return 0;
}

}  // namespace krafla::evaluator
