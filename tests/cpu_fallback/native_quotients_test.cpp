// SPDX-License-Identifier: Apache-2.0
// Divisions by what stays the same, by a product that is mended, have the bits of divisions.
#include <cmath>

#include "program_fixture.h"

namespace krafla {
namespace {

// The number for which m divides 2^power times it less one.
uint64_t InverseOfPower(uint64_t m, int power) {
  uint64_t x = 1 % m;
  for (int i = 0; i < power; ++i) x = x % 2 != 0 ? (x + m) / 2 : x / 2;
  return x;
}

// The product is at most 1.5 units away and the reciprocal half a unit, so a quotient whose mended product is rounded
// the wrong way is closer than 1.5 * 2^-24 units to the middle between two floats: x 2^(s + 1) - odd y, a whole number,
// is not larger than 3. For each significand y those x are found and tried; here for every 97th, all hold.
TEST(NativeQuotients, MendedProductsAreQuotients) {
  int64_t tried = 0;
  for (uint64_t y = (1u << 23) + 1; y < 1u << 24; y += 97) {
    const float divisor = static_cast<float>(y), reciprocal = 1.0f / divisor;
    const int even = std::countr_zero(y);
    const uint64_t m = y >> even;
    if (m < 16) continue;
    for (int s : {23, 24}) {
      const uint64_t inverse = InverseOfPower(m, s + 1 - even);
      const uint64_t low = s == 23 ? y : 1u << 23, high = s == 23 ? 1u << 24 : y;
      for (int64_t rest = -4; rest <= 4; ++rest) {
        if ((rest & ((int64_t{1} << even) - 1)) != 0) continue;
        const int64_t part = rest >> even, modulus = static_cast<int64_t>(m);
        const uint64_t x0 = static_cast<uint64_t>((part % modulus + modulus) % modulus) * inverse % m;
        for (uint64_t x = low + (x0 + m - low % m) % m; x < high; x += m, ++tried) {
          const float a = static_cast<float>(x), q = a * reciprocal;
          ASSERT_EQ(std::fma(std::fma(-q, divisor, a), reciprocal, q), a / divisor) << x << " / " << y;
        }
      }
    }
  }
  EXPECT_GT(tried, 500000);
}

// Floats of all bits, as u32 numbers spread over their range.
std::string Floats(const std::string& name, const std::string& dims, int rank) {
  const std::string u = "u32[" + dims + "]";
  std::string sum = name + "i0";
  std::string out = "  " + name + "k = u32[] constant(2654435761)\n  " + name + "ks = " + u + " broadcast(" + name +
                    "k), dimensions={}\n  " + name + "i0 = " + u + " iota(), iota_dimension=0\n";
  for (int d = 1; d < rank; ++d) {
    const std::string n = std::to_string(d);
    out += "  " + name + "i" + n + " = " + u + " iota(), iota_dimension=" + n + "\n  " + name + "m" + n + " = " + u +
           " multiply(" + sum + ", " + name + "ks)\n  " + name + "s" + n + " = " + u + " add(" + name + "m" + n + ", " +
           name + "i" + n + ")\n";
    sum = name + "s" + n;
  }
  return out + "  " + name + "b = " + u + " multiply(" + sum + ", " + name + "ks)\n  " + name + " = f32[" + dims +
         "] bitcast-convert(" + name + "b)\n";
}

TEST(NativeQuotients, ByConstants) {
  for (const char* divisor :
       {"255", "-0.1", "3", "8", "-0.25", "1e-20", "1e30", "1.17e-38", "0.0009765625", "0", "inf", "nan"})
    ExpectSameBits("HloModule m\nENTRY e {\n" + Floats("x", "70001", 1) + "  d = f32[] constant(" + divisor +
                   ")\n  ds = f32[70001] broadcast(d), dimensions={}\n  n = s32[70001] parameter(0)\n"
                   "  f = f32[70001] convert(n)\n  q = f32[70001] divide(f, ds)\n  p = f32[70001] divide(x, ds)\n"
                   "  ROOT r = (f32[70001], f32[70001]) tuple(p, q)\n}\n");
}

TEST(NativeQuotients, ByValuesOfRows) {
  for (const char* dims : {"257,300", "300,64", "1,70000"}) {
    const std::string all(dims), rows = all.substr(0, all.find(','));
    ExpectSameBits("HloModule m\nENTRY e {\n" + Floats("x", all, 2) + Floats("y", rows, 1) + "  ys = f32[" + all +
                   "] broadcast(y), dimensions={0}\n  k = f32[] constant(3)\n  ks = f32[" + all +
                   "] broadcast(k), dimensions={}\n  z = f32[" + rows + "] parameter(0)\n  zs = f32[" + all +
                   "] broadcast(z), dimensions={0}\n  u = f32[" + all + "] divide(x, zs)\n  v = f32[" + all +
                   "] divide(x, ys)\n  ROOT r = (f32[" + all + "], f32[" + all + "]) tuple(u, v)\n}\n");
  }
}

// Channels of pixels: vectors repeat themselves after one, or three.
TEST(NativeQuotients, ByRowsThatComeAgain) {
  for (int channels : {2, 3, 4, 5, 6, 7, 8, 12}) {
    const std::string n = std::to_string(channels);
    for (const char* rows : {"5", "16", "1001", "30000"}) {
      const std::string all = std::string(rows) + "," + n;
      ExpectSameBits("HloModule m\nENTRY e {\n  x = u8[" + all + "] parameter(0)\n  f = f32[" + all +
                     "] convert(x)\n  k = f32[] constant(255)\n  ks = f32[" + all +
                     "] broadcast(k), dimensions={}\n  p = f32[" + all + "] divide(f, ks)\n  mean = f32[" + n +
                     "] parameter(1)\n  means = f32[" + all + "] broadcast(mean), dimensions={1}\n  c = f32[" + all +
                     "] subtract(p, means)\n  scale = f32[" + n + "] parameter(2)\n  scales = f32[" + all +
                     "] broadcast(scale), dimensions={1}\n  ROOT r = f32[" + all + "] divide(c, scales)\n}\n");
      ExpectSameBits("HloModule m\nENTRY e {\n" + Floats("x", all, 2) + Floats("y", n, 1) + "  ys = f32[" + all +
                     "] broadcast(y), dimensions={1}\n  w = f32[" + n + "] parameter(0)\n  ws = f32[" + all +
                     "] broadcast(w), dimensions={1}\n  q = f32[" + all + "] divide(x, ws)\n  ROOT r = f32[" + all +
                     "] add(q, ys)\n}\n");
    }
  }
}

}  // namespace
}  // namespace krafla
