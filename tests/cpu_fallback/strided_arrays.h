// SPDX-License-Identifier: Apache-2.0
// Arrays of small whole numbers whose dimensions lie in any order and with gaps, between margins that nobody may touch.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <random>
#include <vector>

#include "base/checked_math.h"
#include "cpu_fallback/kernels/convolution_problem.h"

namespace krafla::cpu {

inline constexpr std::size_t kMargin = 4096;  // bytes before and after an array
inline constexpr std::byte kUntouched{0x5a};

struct Array {
  TensorView view;
  std::vector<std::byte> memory;

  std::byte* data() { return memory.data() + kMargin; }
  const std::byte* data() const { return memory.data() + kMargin; }
  int64_t bytes() const { return std::ssize(memory) - 2 * static_cast<int64_t>(kMargin); }
  bool MarginsAreUntouched() const {
    const auto untouched = [](std::byte b) { return b == kUntouched; };
    return std::all_of(memory.begin(), memory.begin() + kMargin, untouched) &&
           std::all_of(memory.end() - kMargin, memory.end(), untouched);
  }
};

inline void StoreWhole(std::byte* at, ElementType type, float value) {
  if (type == ElementType::kF32) std::memcpy(at, &value, 4);
  else if (type == ElementType::kBF16) {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    std::memcpy(at, &bits, 2);
  } else if (type == ElementType::kF16) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(at, &half, 2);
  } else {
    *at = static_cast<std::byte>(static_cast<int8_t>(value));
  }
}

class RandomArrays {
 public:
  explicit RandomArrays(uint32_t seed) : random_(seed) {}

  int64_t Pick(std::initializer_list<int64_t> from) {
    return *(from.begin() + static_cast<std::ptrdiff_t>(random_() % from.size()));
  }
  bool OneIn(uint32_t n) { return random_() % n == 0; }

  // Bytes of any value: their sums are exact whatever they are. Others so small that sums of them are.
  float Whole(ElementType type) {
    if (type == ElementType::kS8) return static_cast<float>(random_() % 256) - 128;
    return static_cast<float>(random_() % 9) - 4;
  }
  void Fill(Array& array) {
    for (int64_t i = 0; i < array.bytes(); i += StorageBytes(array.view.type))
      StoreWhole(array.data() + i, array.view.type, Whole(array.view.type));
  }

  // The dimensions in any order, with gaps between them here and there.
  Array Lay(Dims dims, ElementType type, bool columns_last) {
    std::vector<std::size_t> order(dims.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    if (columns_last) {
      std::erase(order, dims.size() - 1);
      order.push_back(dims.size() - 1);
    }
    return Lay(std::move(dims), type, order, true);
  }

  // The dimensions in the order given, the fastest one last.
  Array Lay(Dims dims, ElementType type, const std::vector<std::size_t>& order, bool gaps) {
    Array out;
    out.view.type = type;
    out.view.strides = dims;
    int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      // The index expressions of a plan name no dimension of one element: its stride is 0 there.
      out.view.strides[order[i]] = dims[order[i]] == 1 && OneIn(2) ? 0 : stride;
      stride *= dims[order[i]];
      if (gaps && OneIn(6)) stride *= 2;
      if (gaps && OneIn(6) && stride > 1) stride += 3;
    }
    out.view.dims = std::move(dims);
    out.memory.assign(static_cast<std::size_t>(stride * StorageBytes(type)) + 2 * kMargin, kUntouched);
    return out;
  }

 private:
  std::mt19937 random_;
};

// Element `at`, of f32, bf16, f16, s8 or s32.
inline double LoadWhole(const Array& array, int64_t at) {
  const std::byte* p = array.data() + at * StorageBytes(array.view.type);
  switch (StorageBytes(array.view.type)) {
    case 1: return static_cast<double>(static_cast<int8_t>(*p));
    case 2: {
      if (array.view.type == ElementType::kF16) {
        _Float16 half;
        std::memcpy(&half, p, 2);
        return static_cast<double>(half);
      }
      uint16_t bits;
      std::memcpy(&bits, p, 2);
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    default:
      if (array.view.type == ElementType::kS32) {
        int32_t whole;
        std::memcpy(&whole, p, 4);
        return static_cast<double>(whole);
      }
      float out;
      std::memcpy(&out, p, 4);
      return out;
  }
}

// The offset of element `index`; dimensions of one element are repeated.
inline int64_t OffsetOf(const TensorView& view, const std::vector<int64_t>& index) {
  int64_t out = 0;
  for (std::size_t d = 0; d < index.size(); ++d) out += view.dims[d] == 1 ? 0 : index[d] * view.strides[d];
  return out;
}

// The next index in row-major order; false after the last.
inline bool NextIndex(std::vector<int64_t>& index, const Dims& dims) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

inline std::byte* Aligned64(std::vector<std::byte>& scratch) {
  return reinterpret_cast<std::byte*>(RoundUp(static_cast<int64_t>(reinterpret_cast<uintptr_t>(scratch.data())), 64));
}

}  // namespace krafla::cpu
