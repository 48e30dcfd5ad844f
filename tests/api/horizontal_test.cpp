// SPDX-License-Identifier: Apache-2.0
// Products that are one launch, on devices: of small integers, so that every order of their sums gives the same.
#include <algorithm>
#include <random>
#include <vector>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

struct LayerSizes {
  int64_t rows = 1, depth = 64, wide = 48, narrow = 16, hidden = 96;
  const char* type = nullptr;  // of distances; null: the products read what is given
};

// What the products read: the distances of what is given to the largest element of its row, stored as `type`.
std::string Distances(const LayerSizes& s) {
  return Format(R"(
  inf = f32[] constant(-inf)
  most = f32[{0}] reduce(given, inf), dimensions={{1}}, to_apply=larger
  mosts = f32[{0},{1}] broadcast(most), dimensions={{0}}
  less = f32[{0},{1}] subtract(given, mosts)
  rounded = {2}[{0},{1}] convert(less)
  x = f32[{0},{1}] convert(rounded))",
                s.rows, s.depth, s.type);
}

// The parts of a layer: a wide and a narrow product, one that goes into a row of a cache, and a gated pair.
std::string LayerOf(const LayerSizes& s) {
  return Format(R"(HloModule layer, input_output_alias={{ {{2}}: (7, {{}}, may-alias) }}
larger {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY main {{
  given = f32[{0},{1}] parameter(0){5}
  wq = f32[{1},{2}] parameter(1)
  wk = f32[{1},{3}] parameter(2)
  wv = f32[{1},{3}] parameter(3)
  wg = f32[{1},{4}] parameter(4)
  wu = f32[{1},{4}] parameter(5)
  at = s32[] parameter(6)
  cache = f32[8,{0},{3}] parameter(7)
  zero = s32[] constant(0)
  low = f32[] constant(0)
  lows = f32[{0},{4}] broadcast(low), dimensions={{}}
  q = f32[{0},{2}] dot(x, wq), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  k = f32[{0},{3}] dot(x, wk), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  v = f32[{0},{3}] dot(x, wv), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  row = f32[1,{0},{3}] reshape(v)
  new = f32[8,{0},{3}] dynamic-update-slice(cache, row, at, zero, zero)
  g = f32[{0},{4}] dot(x, wg), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  u = f32[{0},{4}] dot(x, wu), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  a = f32[{0},{4}] maximum(g, lows)
  h = f32[{0},{4}] multiply(a, u)
  ROOT t = (f32[{0},{2}], f32[{0},{3}], f32[8,{0},{3}], f32[{0},{4}]) tuple(q, k, new, h)
}})",
                s.rows, s.depth, s.wide, s.narrow, s.hidden,
                s.type == nullptr ? Format("\n  x = f32[{},{}] copy(given)", s.rows, s.depth) : Distances(s));
}

std::vector<float> ThreeIntegers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = static_cast<float>(random() % 3) - 1;
  return out;
}

std::vector<float> ProductWith(const std::vector<float>& x, const std::vector<float>& w, int64_t rows,
                               int64_t columns) {
  const auto depth = static_cast<int64_t>(x.size()) / rows;
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += x[static_cast<std::size_t>(r * depth + k)] * w[static_cast<std::size_t>(k * columns + c)];
      out.push_back(sum);
    }
  return out;
}

// The x of the module.
std::vector<float> ReadOf(std::vector<float> given, const LayerSizes& s) {
  for (auto row = given.begin(); s.type != nullptr && row != given.end(); row += s.depth) {
    const float most = *std::max_element(row, row + s.depth);
    std::transform(row, row + s.depth, row, [&](float v) { return v - most; });
  }
  return given;
}

class HorizontalDeviceTest : public DeviceTest {
 protected:
  void Check(const LayerSizes& s) {
    const std::vector<float> given = ThreeIntegers(s.rows * s.depth, 1), x = ReadOf(given, s),
                             wq = ThreeIntegers(s.depth * s.wide, 2), wk = ThreeIntegers(s.depth * s.narrow, 3),
                             wv = ThreeIntegers(s.depth * s.narrow, 4), wg = ThreeIntegers(s.depth * s.hidden, 5),
                             wu = ThreeIntegers(s.depth * s.hidden, 6);
    std::vector<float> cache = ThreeIntegers(8 * s.rows * s.narrow, 7);
    auto executable = Compile(LayerOf(s));
    ASSERT_NE(executable, nullptr);
    const auto matrix = [&](int64_t columns, const std::vector<float>& values) {
      return MakeLiteral<float>(Format("f32[{},{}]", s.depth, columns), values);
    };
    const std::vector<Literal> results =
        Run(*executable,
            {MakeLiteral<float>(Format("f32[{},{}]", s.rows, s.depth), given), matrix(s.wide, wq), matrix(s.narrow, wk),
             matrix(s.narrow, wv), matrix(s.hidden, wg), matrix(s.hidden, wu), MakeLiteral<int32_t>("s32[]", {5}),
             MakeLiteral<float>(Format("f32[8,{},{}]", s.rows, s.narrow), cache)});
    ASSERT_EQ(results.size(), 4u);
    const std::vector<float> g = ProductWith(x, wg, s.rows, s.hidden), u = ProductWith(x, wu, s.rows, s.hidden);
    std::vector<float> h;
    for (std::size_t i = 0; i < g.size(); ++i) h.push_back(std::max(g[i], 0.0f) * u[i]);
    const std::vector<float> v = ProductWith(x, wv, s.rows, s.narrow);
    std::ranges::copy(v, cache.begin() + 5 * s.rows * s.narrow);
    EXPECT_EQ(Values<float>(results[0]), ProductWith(x, wq, s.rows, s.wide)) << s.depth;
    EXPECT_EQ(Values<float>(results[1]), ProductWith(x, wk, s.rows, s.narrow)) << s.depth;
    EXPECT_EQ(Values<float>(results[2]), cache) << s.depth;
    EXPECT_EQ(Values<float>(results[3]), h) << s.depth;
  }
};

constexpr LayerSizes kLayerSizes[] = {{},
                                      {1, 896, 200, 40, 328},
                                      {1, 5003, 64, 24, 72},
                                      {3, 130, 36, 20, 68},
                                      {1, 896, 200, 40, 328, "f32"},
                                      {1, 515, 64, 24, 72, "bf16"},
                                      {3, 130, 36, 20, 68, "f16"},
                                      {2, 1024, 300, 20, 68, "s8"}};

TEST_P(HorizontalDeviceTest, ProductsOfOneVector) {
  for (const LayerSizes& s : kLayerSizes) Check(s);
}

// Sums are split along the depth there, in two dispatches.
TEST_P(HorizontalDeviceTest, ProductsOfOneVectorAsGpusHaveThem) {
  options_.disabled.insert("host_cores");
  for (const LayerSizes& s : kLayerSizes) Check(s);
}

TEST_P(HorizontalDeviceTest, ALayerHasFewLaunches) {
  auto executable = Compile(LayerOf(kLayerSizes[1]));
  ASSERT_NE(executable, nullptr);
  const bool is_fused = options_.disabled.count("fusion") == 0;
  EXPECT_EQ(executable->report().launches == 1, is_fused) << executable->report().launches << " launches";
}

// What the products read is computed by their workgroups where a GPU runs them: no launch of its own.
TEST_P(HorizontalDeviceTest, ALayerComputesItsRows) {
  options_.disabled.insert("host_cores");
  auto executable = Compile(LayerOf(kLayerSizes[4]));
  ASSERT_NE(executable, nullptr);
  const bool is_fused = options_.disabled.count("fusion") == 0 && client_->device().profile.has_value();
  EXPECT_EQ(executable->report().launches == 1, is_fused) << executable->report().launches << " launches";
}

INSTANTIATE_TEST_SUITE_P(Devices, HorizontalDeviceTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
