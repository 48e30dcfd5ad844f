// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights, compared with sums in f64 of the weights that the same program without a dot gives:
// with `int-dot`, whose vectors are rounded to eight bits, within the bound that docs/ops.md states; and without it.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

constexpr int64_t kRoundedPlaces = 32;

struct WeightForm {
  std::string name;
  // The computation of w, f32[K,N], or f32[N,K] where `is_transposed`; parameters from 1 on.
  std::string weights;
  bool rounds_weights = false;  // to bf16, which the integers' sums leave out
  bool is_transposed = false;
};

constexpr const char* kScaledCodes = R"(
  s = f32[G,N] parameter(2)
  sb = f32[G,g,N] broadcast(s), dimensions={0,2}
  p = f32[G,g,N] multiply(c, sb)
  w = f32[K,N] reshape(p))";
constexpr const char* kHalvesOfBytes = R"(q = u8[HK,N] parameter(1)
  fifteen = u8[] constant(15)
  fb = u8[HK,N] broadcast(fifteen), dimensions={}
  four = u8[] constant(4)
  ob = u8[HK,N] broadcast(four), dimensions={}
  lo = u8[HK,N] and(q, fb)
  hi = u8[HK,N] shift-right-logical(q, ob)
)";

std::vector<WeightForm> WeightForms() {
  return {
      {"int8 by column", R"(q = s8[K,N] parameter(1)
  s = bf16[N] parameter(2)
  c = bf16[K,N] convert(q)
  sb = bf16[K,N] broadcast(s), dimensions={1}
  p = bf16[K,N] multiply(c, sb)
  w = f32[K,N] convert(p))",
       true},
      {"int8 alone", "q = s8[K,N] parameter(1)\n  w = f32[K,N] convert(q)"},
      {"int8, transposed", R"(q = s8[N,K] parameter(1)
  s = f32[N,G] parameter(2)
  r = s8[N,G,g] reshape(q)
  c = f32[N,G,g] convert(r)
  sb = f32[N,G,g] broadcast(s), dimensions={0,1}
  p = f32[N,G,g] multiply(c, sb)
  w = f32[N,K] reshape(p))",
       false, true},
      {"u8 less a constant", R"(q = u8[K,N] parameter(1)
  s = f16[N] parameter(2)
  c = f32[K,N] convert(q)
  zero = f32[] constant(117)
  zb = f32[K,N] broadcast(zero), dimensions={}
  d = f32[K,N] subtract(c, zb)
  sf = f32[N] convert(s)
  sb = f32[K,N] broadcast(sf), dimensions={1}
  w = f32[K,N] multiply(sb, d))"},
      {"int8 rounded to f16", R"(q = s8[K,N] parameter(1)
  s = f16[N] parameter(2)
  c = f16[K,N] convert(q)
  sb = f16[K,N] broadcast(s), dimensions={1}
  p = f16[K,N] multiply(c, sb)
  w = f32[K,N] convert(p))",
       true},
      {"int8 in f32 with scales of bf16", R"(q = s8[K,N] parameter(1)
  s = bf16[N] parameter(2)
  c = f32[K,N] convert(q)
  sf = f32[N] convert(s)
  sb = f32[K,N] broadcast(sf), dimensions={1}
  w = f32[K,N] multiply(c, sb))"},
      {"int4 less zeros of any size", R"(q = s4[K,N] parameter(1)
  s = bf16[G,N] parameter(2)
  z = s32[G,N] parameter(3)
  r = s4[G,g,N] reshape(q)
  i = s32[G,g,N] convert(r)
  zb = s32[G,g,N] broadcast(z), dimensions={0,2}
  d = s32[G,g,N] subtract(i, zb)
  c = bf16[G,g,N] convert(d)
  sb = bf16[G,g,N] broadcast(s), dimensions={0,2}
  p = bf16[G,g,N] multiply(c, sb)
  o = bf16[K,N] reshape(p)
  w = f32[K,N] convert(o))",
       true},
      {"int8 rounded to bf16, transposed", R"(q = s8[N,K] parameter(1)
  s = bf16[N] parameter(2)
  c = bf16[N,K] convert(q)
  sb = bf16[N,K] broadcast(s), dimensions={0}
  p = bf16[N,K] multiply(c, sb)
  w = f32[N,K] convert(p))",
       true, true},
      {"int4 rounded to bf16, transposed", R"(q = s4[N,K] parameter(1)
  s = bf16[N,G] parameter(2)
  r = s4[N,G,g] reshape(q)
  c = bf16[N,G,g] convert(r)
  sb = bf16[N,G,g] broadcast(s), dimensions={0,1}
  p = bf16[N,G,g] multiply(c, sb)
  o = bf16[N,K] reshape(p)
  w = f32[N,K] convert(o))",
       true, true},
      {"int4 divided in bf16", R"(q = s4[K,N] parameter(1)
  s = bf16[N] parameter(2)
  c = bf16[K,N] convert(q)
  sb = bf16[K,N] broadcast(s), dimensions={1}
  p = bf16[K,N] divide(c, sb)
  w = f32[K,N] convert(p))",
       true},
      {"int4 in groups", std::string(R"(q = s4[K,N] parameter(1)
  r = s4[G,g,N] reshape(q)
  c = f32[G,g,N] convert(r))") +
                             kScaledCodes},
      {"int4 in groups with zeros", R"(q = s4[K,N] parameter(1)
  s = bf16[G,N] parameter(2)
  z = s4[G,N] parameter(3)
  r = s4[G,g,N] reshape(q)
  c = bf16[G,g,N] convert(r)
  zf = bf16[G,N] convert(z)
  zb = bf16[G,g,N] broadcast(zf), dimensions={0,2}
  d = bf16[G,g,N] subtract(c, zb)
  sb = bf16[G,g,N] broadcast(s), dimensions={0,2}
  p = bf16[G,g,N] multiply(d, sb)
  o = bf16[K,N] reshape(p)
  w = f32[K,N] convert(o))",
       true},
      {"int4 divided by a column's scale", R"(q = s4[K,N] parameter(1)
  s = f32[N] parameter(2)
  c = f32[K,N] convert(q)
  sb = f32[K,N] broadcast(s), dimensions={1}
  w = f32[K,N] divide(c, sb))"},
      {"u4 with two scales", R"(q = u4[K,N] parameter(1)
  s = f32[G,N] parameter(2)
  t = f32[N] parameter(3)
  r = u4[G,g,N] reshape(q)
  c = f32[G,g,N] convert(r)
  sb = f32[G,g,N] broadcast(s), dimensions={0,2}
  tb = f32[G,g,N] broadcast(t), dimensions={2}
  p = f32[G,g,N] multiply(c, sb)
  o = f32[G,g,N] multiply(p, tb)
  w = f32[K,N] reshape(o))"},
      {"two to a byte, rows side by side", std::string(kHalvesOfBytes) + R"(  l3 = u8[HK,1,N] reshape(lo)
  h3 = u8[HK,1,N] reshape(hi)
  both = u8[HK,2,N] concatenate(l3, h3), dimensions={1}
  r = u8[G,g,N] reshape(both)
  i = s8[G,g,N] convert(r)
  eight = s8[] constant(8)
  eb = s8[G,g,N] broadcast(eight), dimensions={}
  d = s8[G,g,N] subtract(i, eb)
  c = f32[G,g,N] convert(d))" + kScaledCodes},
      {"two to a byte, in halves", std::string(kHalvesOfBytes) + R"(  both = u8[K,N] concatenate(lo, hi), dimensions={0}
  r = u8[G,g,N] reshape(both)
  c = f32[G,g,N] convert(r))" + kScaledCodes},
      {"two to a byte, columns side by side", std::string(R"(q = u8[K,HN] parameter(1)
  b4 = s4[K,HN,2] bitcast-convert(q)
  r = s4[G,g,N] reshape(b4)
  c = f32[G,g,N] convert(r))") + kScaledCodes},
      {"eight to a word, with zeros", std::string(R"(q = s32[OK,N] parameter(1)
  z = s32[G,N] parameter(3)
  q8 = s32[OK,8,N] broadcast(q), dimensions={0,2}
  i = s32[8] iota(), iota_dimension=0
  four = s32[] constant(4)
  fours = s32[8] broadcast(four), dimensions={}
  by = s32[8] multiply(i, fours)
  byb = s32[OK,8,N] broadcast(by), dimensions={1}
  sh = s32[OK,8,N] shift-right-logical(q8, byb)
  fifteen = s32[] constant(15)
  fb = s32[OK,8,N] broadcast(fifteen), dimensions={}
  n = s32[OK,8,N] and(sh, fb)
  r = s32[G,g,N] reshape(n)
  fm = s32[G,N] broadcast(fifteen), dimensions={}
  zm = s32[G,N] and(z, fm)
  zb = s32[G,g,N] broadcast(zm), dimensions={0,2}
  d = s32[G,g,N] subtract(r, zb)
  c = f32[G,g,N] convert(d))") + kScaledCodes},
  };
}

struct ProductSizes {
  int64_t depth = 96, lines = 160, group = 32;
};

// `text` with numbers where it names sizes, which stand between brackets and commas.
std::string WithSizes(const std::string& text, const ProductSizes& s, int64_t rows) {
  const std::map<std::string, int64_t> sizes = {
      {"K", s.depth},      {"N", s.lines},      {"M", rows},    {"HK", s.depth / 2},
      {"HN", s.lines / 2}, {"OK", s.depth / 8}, {"g", s.group}, {"G", s.depth / s.group},
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool is_size = at > 0 && end > at && (text[at - 1] == '[' || text[at - 1] == ',') && end < text.size() &&
                         (text[end] == ']' || text[end] == ',');
    const auto found = is_size ? sizes.find(text.substr(at, end - at)) : sizes.end();
    if (end == at) ++end;
    out += found != sizes.end() ? std::to_string(found->second) : text.substr(at, end - at);
    at = end;
  }
  return out;
}

// Random bits for integers; numbers between 1/2 and 2 for scales; for the vectors of parameter 0 of both signs.
Literal RandomNumbers(const Shape& shape, bool is_vector, std::mt19937& random) {
  auto out = Literal::Create(shape);
  EXPECT_TRUE(out.has_value());
  const ElementType type = shape.element_type();
  if (type == ElementType::kF32) {
    std::normal_distribution<float> normal;
    for (float& v : out->data<float>())
      v = is_vector ? normal(random) : 0.5f + static_cast<float>(random() % 1024) / 700.0f;
  } else if (type == ElementType::kBF16 || type == ElementType::kF16) {
    const uint16_t half = type == ElementType::kBF16 ? 0x3f00 : 0x3800;
    const std::span<std::byte> bytes = out->bytes();
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      const auto bits = static_cast<uint16_t>(half + random() % 256);
      std::memcpy(&bytes[i], &bits, 2);
    }
  } else {
    const int bits = std::min(BitWidth(type), 8);
    for (std::byte& b : out->bytes()) {
      auto v = static_cast<uint8_t>(random() & ((1u << bits) - 1));
      if (IsSigned(type) && bits < 8 && ((v >> (bits - 1)) & 1) != 0) v = static_cast<uint8_t>(v | (0xffu << bits));
      b = static_cast<std::byte>(v);
    }
  }
  return std::move(*out);
}

class IntDotTest : public ::testing::Test {
 protected:
  static Client& Cpu() { return **SharedClient("cpu"); }
  static std::unique_ptr<Executable> Compile(const std::string& text, const CompileOptions& options) {
    auto out = CompileText(Cpu(), text, options);
    EXPECT_TRUE(out.has_value()) << out.error().ToString() << text;
    return out ? std::move(*out) : nullptr;
  }
  static std::vector<float> RunOn(Executable& executable, std::span<const Literal> arguments) {
    std::vector<const Literal*> pointers;
    for (const Literal& l : arguments) pointers.push_back(&l);
    auto out = executable.Run(pointers);
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return Values<float>((*out)[0]);
  }
  static CompileOptions IntDot() {
    CompileOptions options;
    options.enabled = {"int-dot"};
    return options;
  }

  // y = x * w for `rows` rows of x, or the same with exchanged operands.
  void Check(const WeightForm& form, const ProductSizes& s, int64_t rows, bool is_left = false, bool rounds = true) {
    const std::string what = form.name + ", " + std::to_string(s.depth) + " x " + std::to_string(s.lines) + ", " +
                             std::to_string(rows) + " rows" + (is_left ? ", on the left" : "");
    const std::string k = form.is_transposed ? "{1}" : "{0}";
    const std::string dot = is_left ? "f32[N,M] dot(w, x), lhs_contracting_dims=" + k + ", rhs_contracting_dims={1}"
                                    : "f32[M,N] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims=" + k;
    const std::string product = WithSizes(
        "HloModule m\nENTRY main {\n  x = f32[M,K] parameter(0)\n  " + form.weights + "\n  ROOT y = " + dot + "\n}\n",
        s, rows);
    const std::string alone =
        WithSizes("HloModule m\nENTRY main {\n  x = f32[M,K] parameter(0)\n  " + form.weights +
                      "\n  ROOT alone = f32[" + (form.is_transposed ? "N,K" : "K,N") + "] copy(w)\n}\n",
                  s, rows);
    auto rounded = Compile(product, rounds ? IntDot() : CompileOptions()), plain = Compile(alone, {});
    ASSERT_TRUE(rounded != nullptr && plain != nullptr) << what;
    EXPECT_EQ(rounded->report().rounding_kernels, rounds && rows <= 4 ? 1 : 0) << what;
    std::mt19937 random(7);
    std::vector<Literal> arguments;
    for (const Shape& shape : rounded->arguments())
      arguments.push_back(RandomNumbers(shape, arguments.empty(), random));
    const std::vector<float> got = RunOn(*rounded, arguments), w = RunOn(*plain, arguments);
    const std::vector<float> x = Values<float>(arguments[0]);
    const auto weight = [&](int64_t i, int64_t j) {
      return w[static_cast<std::size_t>(form.is_transposed ? j * s.depth + i : i * s.lines + j)];
    };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < s.lines; ++j) {
        double sum = 0, bound = 0;
        // No block of the vector's is longer than 32 places, and none reaches over a group.
        for (int64_t begin = 0, end = 0; begin < s.depth; begin = end) {
          end = std::min({s.depth, begin + kRoundedPlaces, (begin / s.group + 1) * s.group});
          double most = 0, weights_of_block = 0;
          for (int64_t i = begin; i < end; ++i) {
            const double v = x[static_cast<std::size_t>(r * s.depth + i)];
            sum += v * weight(i, j);
            bound += (rounds && form.rounds_weights ? std::ldexp(1, -7)
                      : rounds                      ? 1e-5
                                                    : 1e-6) *
                     std::fabs(v * weight(i, j));
            most = std::max(most, std::fabs(v));
            weights_of_block += std::fabs(weight(i, j));
          }
          if (rounds) bound += most / 254 * weights_of_block;
        }
        const float y = got[static_cast<std::size_t>(is_left ? j * rows + r : r * s.lines + j)];
        ASSERT_NEAR(y, sum, bound) << what << ", element " << r << ", " << j;
      }
    }
  }
};

TEST_F(IntDotTest, WithinItsBound) {
  for (const WeightForm& form : WeightForms()) {
    for (const int64_t rows : {1, 2, 4, 5}) Check(form, {}, rows);
    Check(form, {.depth = 96, .lines = 160, .group = 16}, 1);
    Check(form, {.depth = 128, .lines = 398, .group = 64}, 1);
    Check(form, {.depth = 240, .lines = 66, .group = 40}, 3);
    Check(form, {.depth = 256, .lines = 4230, .group = 128}, 1);
  }
}

TEST_F(IntDotTest, WeightsOnTheLeft) {
  for (const WeightForm& form : WeightForms())
    for (const int64_t rows : {1, 3}) Check(form, {}, rows, true);
}

// The weights are those of the program, whatever makes and multiplies them.
TEST_F(IntDotTest, ExactProducts) {
  for (const WeightForm& form : WeightForms()) {
    for (const int64_t rows : {1, 3, 5}) Check(form, {}, rows, false, false);
    Check(form, {}, 2, true, false);
    Check(form, {.depth = 96, .lines = 160, .group = 16}, 1, false, false);
    Check(form, {.depth = 128, .lines = 398, .group = 64}, 1, false, false);
    Check(form, {.depth = 240, .lines = 66, .group = 40}, 1, false, false);
    Check(form, {.depth = 256, .lines = 4230, .group = 128}, 1, false, false);
    if (!form.name.starts_with("int8") && !form.name.starts_with("u8")) continue;
    for (const int64_t lines : {65, 131}) Check(form, {.depth = 99, .lines = lines, .group = 33}, 2, false, false);
  }
}

// Depths that are no multiple of what an instruction adds up, and lines that come in ones.
TEST_F(IntDotTest, OddSizes) {
  for (const WeightForm& form : WeightForms()) {
    if (!form.name.starts_with("int8") && !form.name.starts_with("u8")) continue;
    for (const int64_t lines : {65, 131}) Check(form, {.depth = 99, .lines = lines, .group = 33}, 2);
  }
}

// Products of groups, each of a part of the vector, which are scaled and added up behind the dot.
TEST_F(IntDotTest, Batches) {
  const std::string text = R"(HloModule m
ENTRY main {
  x = f32[4,1,32] parameter(0)
  q = s4[4,32,96] parameter(1)
  c = f32[4,32,96] convert(q)
  ROOT y = f32[4,1,96] dot(x, c), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
})";
  auto rounded = Compile(text, IntDot()), exact = Compile(text, {});
  ASSERT_TRUE(rounded != nullptr && exact != nullptr);
  EXPECT_EQ(rounded->report().rounding_kernels, 1);
  std::mt19937 random(5);
  std::vector<Literal> arguments;
  for (const Shape& shape : rounded->arguments()) arguments.push_back(RandomNumbers(shape, arguments.empty(), random));
  const std::vector<float> got = RunOn(*rounded, arguments), x = Values<float>(arguments[0]);
  const std::span<const std::byte> q = arguments[1].bytes();
  for (std::size_t b = 0; b < 4; ++b) {
    double most = 0;
    for (std::size_t i = 0; i < 32; ++i) most = std::max<double>(most, std::fabs(x[b * 32 + i]));
    for (std::size_t j = 0; j < 96; ++j) {
      double sum = 0, weights = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        const auto w = static_cast<int8_t>(q[(b * 32 + i) * 96 + j]);
        sum += x[b * 32 + i] * static_cast<double>(w), weights += std::abs(w);
      }
      EXPECT_NEAR(got[b * 96 + j], sum, most / 254 * weights + 1e-4) << b << ", " << j;
    }
  }
}

// What is not finite makes NaN of its vector's sums, and zeros are exact.
TEST_F(IntDotTest, NumbersThatAreNotFinite) {
  const std::string text = WithSizes(R"(HloModule m
ENTRY main {
  x = f32[M,K] parameter(0)
  q = s8[K,N] parameter(1)
  w = f32[K,N] convert(q)
  ROOT y = f32[M,N] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                     {}, 4);
  auto rounded = Compile(text, IntDot());
  ASSERT_NE(rounded, nullptr);
  EXPECT_TRUE(rounded->PlacementLine().contains("round to 8 bits")) << rounded->PlacementLine();
  std::mt19937 random(3);
  std::vector<Literal> arguments;
  for (const Shape& shape : rounded->arguments()) arguments.push_back(RandomNumbers(shape, arguments.empty(), random));
  const std::span<float> x = arguments[0].data<float>();
  x[10] = std::numeric_limits<float>::infinity();
  x[96 + 40] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < 96; ++i) x[192 + i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (std::size_t i = 0; i < 96; ++i) x[288 + i] = i == 0 ? 1e-40f : 0.0f;
  const std::vector<float> got = RunOn(*rounded, arguments);
  for (std::size_t j = 0; j < 160; ++j) {
    EXPECT_TRUE(std::isnan(got[j])) << j;
    EXPECT_TRUE(std::isnan(got[160 + j])) << j;
    EXPECT_EQ(got[320 + j], 0) << j;
    EXPECT_EQ(got[480 + j], 0) << j;
  }
}

TEST_F(IntDotTest, OffUnlessAskedFor) {
  const std::string text =
      WithSizes("HloModule m\nENTRY main {\n  x = f32[M,K] parameter(0)\n  " + WeightForms()[1].weights +
                    "\n  ROOT y = f32[M,N] dot(x, w), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}\n}\n",
                {}, 1);
  auto exact = Compile(text, {});
  ASSERT_NE(exact, nullptr);
  EXPECT_EQ(exact->report().rounding_kernels, 0);
  EXPECT_FALSE(exact->PlacementLine().contains("round to 8 bits"));
}

}  // namespace
}  // namespace krafla::testing
