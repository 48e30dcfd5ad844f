// SPDX-License-Identifier: Apache-2.0
// Products of matrices that lie in every way in their arrays: right to the bit, and nothing outside of them is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/checked_math.h"
#include "base/thread_pool.h"
#include "cpu_fallback/executor/onednn.h"

namespace krafla::cpu {
namespace {

constexpr std::size_t kMargin = 4096;  // bytes before and after an array
constexpr std::byte kUntouched{0x5a};

struct Array {
  TensorView view;
  std::vector<std::byte> memory;

  std::byte* data() { return memory.data() + kMargin; }
  int64_t bytes() const { return std::ssize(memory) - 2 * static_cast<int64_t>(kMargin); }
  bool MarginsAreUntouched() const {
    const auto untouched = [](std::byte b) { return b == kUntouched; };
    return std::all_of(memory.begin(), memory.begin() + kMargin, untouched) &&
           std::all_of(memory.end() - kMargin, memory.end(), untouched);
  }
};

class RandomProducts {
 public:
  explicit RandomProducts(uint32_t seed) : random_(seed) {}

  int64_t Pick(std::initializer_list<int64_t> from) {
    return *(from.begin() + static_cast<std::ptrdiff_t>(random_() % from.size()));
  }
  bool OneIn(uint32_t n) { return random_() % n == 0; }
  float Whole() { return static_cast<float>(random_() % 9) - 4; }

  // The dimensions in any order, with gaps between them here and there.
  Array Lay(Dims dims, ElementType type, bool columns_last) {
    Array out;
    out.view.type = type;
    std::vector<std::size_t> order(dims.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    if (columns_last) {
      std::erase(order, dims.size() - 1);
      order.push_back(dims.size() - 1);
    }
    out.view.strides = dims;
    int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      out.view.strides[order[i]] = stride;
      stride *= dims[order[i]];
      if (OneIn(6)) stride *= 2;
      if (OneIn(6) && stride > 1) stride += 3;
    }
    out.view.dims = std::move(dims);
    out.memory.assign(static_cast<std::size_t>(stride * StorageBytes(type)) + 2 * kMargin, kUntouched);
    return out;
  }

 private:
  std::mt19937 random_;
};

void Store(std::byte* at, ElementType type, float value) {
  if (type == ElementType::kF32) std::memcpy(at, &value, 4);
  else if (type == ElementType::kBF16) {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    std::memcpy(at, &bits, 2);
  } else {
    *at = static_cast<std::byte>(static_cast<int8_t>(value));
  }
}

// The offset of element `index` of an array whose dimensions of one element are repeated.
int64_t At(const TensorView& view, const std::vector<int64_t>& index) {
  int64_t out = 0;
  for (std::size_t d = 0; d < index.size(); ++d) out += view.dims[d] == 1 ? 0 : index[d] * view.strides[d];
  return out;
}

void Check(uint32_t seed, ElementType type, ElementType result_type) {
  RandomProducts random(seed);
  Dims batch, a_dims, b_dims;
  for (int64_t rank = random.Pick({0, 1, 1, 2, 2, 3}); rank > 0; --rank) {
    const int64_t size = random.Pick({2, 3, 5, 8});
    batch.push_back(size);
    a_dims.push_back(random.OneIn(4) ? 1 : size);
    b_dims.push_back(random.OneIn(4) ? 1 : size);
    if (a_dims.back() == 1 && b_dims.back() == 1) a_dims.back() = size;
  }
  const int64_t m = random.Pick({1, 2, 3, 4, 5, 8, 16, 17, 33, 64}), n = random.Pick({1, 2, 3, 4, 5, 8, 16, 17, 33, 64});
  const int64_t k = random.Pick({1, 2, 3, 5, 8, 16, 17, 33, 64});
  a_dims.push_back(m), a_dims.push_back(k);
  b_dims.push_back(k), b_dims.push_back(n);
  Dims dims = batch;
  dims.push_back(m), dims.push_back(n);
  Array a = random.Lay(a_dims, type, false), b = random.Lay(b_dims, type, false), result = random.Lay(dims, result_type, true);
  const int threads = static_cast<int>(random.Pick({1, 3}));
  const auto problem = MakeOneDnnMatmul(a.view, b.view, result.view, threads);
  if (problem == nullptr) return;
  for (Array* array : {&a, &b})
    for (int64_t i = 0; i < array->bytes(); i += StorageBytes(type)) Store(array->data() + i, type, random.Whole());
  ThreadPool pool(threads);
  std::vector<std::byte> scratch(static_cast<std::size_t>(problem->scratch_bytes()) + 64);
  auto* aligned = reinterpret_cast<std::byte*>(RoundUp(static_cast<int64_t>(reinterpret_cast<uintptr_t>(scratch.data())), 64));
  ASSERT_TRUE(problem->Run(a.data(), b.data(), result.data(), pool, aligned));
  EXPECT_TRUE(result.MarginsAreUntouched()) << "seed " << seed;

  const auto value = [type](Array& array, int64_t at) {
    const std::byte* p = array.data() + at * StorageBytes(type);
    float out = 0;
    if (type == ElementType::kF32) std::memcpy(&out, p, 4);
    else if (type == ElementType::kBF16) {
      uint16_t bits;
      std::memcpy(&bits, p, 2);
      out = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    } else {
      out = static_cast<float>(static_cast<int8_t>(*p));
    }
    return out;
  };
  int64_t wrong = 0;
  std::vector<int64_t> index(dims.size(), 0);
  for (bool more = true; more;) {
    std::vector<int64_t> row = index, column = index;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      row.back() = i;
      column[dims.size() - 2] = i;
      sum += value(a, At(a.view, row)) * value(b, At(b.view, column));
    }
    float got = 0;
    int32_t whole = 0;
    const std::byte* p = result.data() + 4 * At(result.view, index);
    if (result_type == ElementType::kF32) std::memcpy(&got, p, 4);
    else std::memcpy(&whole, p, 4), got = static_cast<float>(whole);
    wrong += got == sum ? 0 : 1;
    more = false;
    for (std::size_t d = dims.size(); d-- > 0 && !more;) {
      if (++index[d] < dims[d]) more = true;
      else index[d] = 0;
    }
  }
  EXPECT_EQ(wrong, 0) << "seed " << seed << ", " << m << " x " << k << " x " << n << ", " << batch.size() << " batch dimensions";
}

TEST(OneDnnMatmul, IsRightHoweverMatricesLie) {
  for (uint32_t seed = 0; seed < 2000; ++seed) Check(seed, ElementType::kF32, ElementType::kF32);
}
TEST(OneDnnMatmul, IsRightForNarrowTypes) {
  for (uint32_t seed = 0; seed < 1000; ++seed) Check(seed, ElementType::kBF16, ElementType::kF32);
  for (uint32_t seed = 0; seed < 1000; ++seed) Check(seed, ElementType::kS8, ElementType::kS32);
}

}  // namespace
}  // namespace krafla::cpu
