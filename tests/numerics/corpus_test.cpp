// SPDX-License-Identifier: Apache-2.0
// The formulas, complex functions, reduce-precision, conversions and generators against XLA:CPU's answers, where
// KRAFLA_CORPUS names the corpus.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "corpus_cases.h"
#include "numerics/complex_math.h"
#include "numerics/formats.h"
#include "numerics/rng.h"
#include "numerics/scalar_math.h"

namespace krafla {
namespace {

using corpus_test::Array;
using corpus_test::Case;
using corpus_test::Matches;
using corpus_test::ReadFamily;

#define KRAFLA_SKIP_WITHOUT_CORPUS() \
  if (std::getenv("KRAFLA_CORPUS") == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set."

// The opcode of the root of a one-instruction module: what stands before the first '(' after the last "= type ".
std::string OpcodeOf(const Case& c) {
  const std::size_t equals = c.text.find("= ", c.text.find("ROOT "));
  const std::size_t type = equals + 2, space = c.text.find(' ', type), parenthesis = c.text.find('(', space);
  if (equals == std::string::npos || parenthesis == std::string::npos) return "";
  return c.text.substr(space + 1, parenthesis - space - 1);
}

template <class T>
int CheckUnary(const Case& c, const std::function<T(T)>& f, int* compared) {
  const auto x = c.inputs[0].As<T>();
  const auto want = c.outputs[0].As<T>();
  const auto other = c.alternatives.empty() ? want : c.alternatives[0].As<T>();
  int wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const T got = f(x[i]);
    ++*compared;
    if (Matches(got, want[i], c.tolerance) || Matches(got, other[i], c.tolerance)) continue;
    if (++wrong <= 3) ADD_FAILURE() << c.name << " at " << x[i] << ": got " << got << ", XLA " << want[i];
  }
  return wrong;
}
template <class T>
int CheckBinary(const Case& c, const std::function<T(T, T)>& f, int* compared) {
  const auto x = c.inputs[0].As<T>();
  const auto y = c.inputs[1].As<T>();
  const auto want = c.outputs[0].As<T>();
  const auto other = c.alternatives.empty() ? want : c.alternatives[0].As<T>();
  int wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const T got = f(x[i], y[i]);
    ++*compared;
    if (Matches(got, want[i], c.tolerance) || Matches(got, other[i], c.tolerance)) continue;
    if (++wrong <= 3) {
      ADD_FAILURE() << c.name << " at " << x[i] << ", " << y[i] << ": got " << got << ", XLA " << want[i];
    }
  }
  return wrong;
}

// Those of ops.def, and what has no row of a formula.
template <class T>
std::map<std::string, std::function<T(T)>> RealUnary() {
  return {
#define KRAFLA_REAL_1(hlo, Function) {hlo, [](T x) { return scalar::Function(x); }},
#define KRAFLA_REAL_2(...)
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_REAL_##arity(hlo, Function)
#include "ir/ops.def"
#undef KRAFLA_REAL_1
#undef KRAFLA_REAL_2
      {"sign", [](T x) { return scalar::Sign(x); }},
      {"abs", [](T x) { return scalar::Abs(x); }},
      {"floor", [](T x) { return scalar::Floor(x); }},
      {"ceil", [](T x) { return scalar::Ceil(x); }},
      {"round-nearest-even", [](T x) { return scalar::RoundNearestEven(x); }},
      {"round-nearest-afz", [](T x) { return scalar::RoundNearestAfz(x); }}};
}
template <class T>
std::map<std::string, std::function<T(T, T)>> RealBinary() {
  return {
#define KRAFLA_REAL_1(...)
#define KRAFLA_REAL_2(hlo, Function) {hlo, [](T x, T y) { return scalar::Function(x, y); }},
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_REAL_##arity(hlo, Function)
#include "ir/ops.def"
#undef KRAFLA_REAL_1
#undef KRAFLA_REAL_2
      {"remainder", [](T x, T y) { return scalar::Remainder(x, y); }},
      {"maximum", [](T x, T y) { return scalar::Max(x, y); }},
      {"minimum", [](T x, T y) { return scalar::Min(x, y); }}};
}
template <class T>
std::map<std::string, std::function<std::complex<T>(std::complex<T>)>> ComplexUnary() {
  using C = std::complex<T>;
  return {
#define KRAFLA_PAIR_1(hlo, Function) {hlo, [](C z) { return Complex##Function(z); }},
#define KRAFLA_PAIR_2(...)
#define KRAFLA_FORMULA(...)
#define KRAFLA_COMPLEX_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_PAIR_##arity(hlo, Function)
#include "ir/ops.def"
#undef KRAFLA_PAIR_1
#undef KRAFLA_PAIR_2
      {"sign", [](C z) { return ComplexSign(z); }}};
}
template <class T>
std::map<std::string, std::function<std::complex<T>(std::complex<T>, std::complex<T>)>> ComplexBinary() {
  using C = std::complex<T>;
  return {
#define KRAFLA_PAIR_1(...)
#define KRAFLA_PAIR_2(hlo, Function) {hlo, [](C x, C y) { return Complex##Function(x, y); }},
#define KRAFLA_FORMULA(...)
#define KRAFLA_COMPLEX_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_PAIR_##arity(hlo, Function)
#include "ir/ops.def"
#undef KRAFLA_PAIR_1
#undef KRAFLA_PAIR_2
      {"multiply", [](C x, C y) { return ComplexMultiply(x, y); }},
      {"divide", [](C x, C y) { return ComplexDivide(x, y); }}};
}

template <class T, class Table>
void RunUnary(const Case& c, const Table& table, const std::string& opcode, int* cases, int* compared) {
  const auto found = table.find(opcode);
  if (found == table.end()) return;
  ++*cases;
  EXPECT_EQ(CheckUnary<T>(c, found->second, compared), 0) << c.name;
}
template <class T, class Table>
void RunBinary(const Case& c, const Table& table, const std::string& opcode, int* cases, int* compared) {
  const auto found = table.find(opcode);
  if (found == table.end()) return;
  ++*cases;
  EXPECT_EQ(CheckBinary<T>(c, found->second, compared), 0) << c.name;
}

TEST(Corpus, Elementwise) {
  KRAFLA_SKIP_WITHOUT_CORPUS();
  int cases = 0, compared = 0;
  for (const char* family : {"unary", "unary_hyperbolic", "unary_denormal", "unary_large", "binary", "binary_denormal",
                             "binary_large", "power_quirks"}) {
    for (const Case& c : ReadFamily(family)) {
      const std::string opcode = OpcodeOf(c);
      if (c.outputs.size() != 1 || c.inputs.empty()) continue;
      const std::string& type = c.inputs[0].type;
      if (c.outputs[0].type != type) {
        if (opcode == "abs" && type == "c64" && c.outputs[0].type == "f32") {
          ++cases;
          const auto z = c.inputs[0].As<std::complex<float>>();
          const auto want = c.outputs[0].As<float>();
          for (std::size_t i = 0; i < z.size(); ++i, ++compared) {
            EXPECT_TRUE(Matches(ComplexAbs(z[i]), want[i], c.tolerance)) << c.name << " " << z[i] << want[i];
          }
        } else if (opcode == "abs" && type == "c128") {
          ++cases;
          const auto z = c.inputs[0].As<std::complex<double>>();
          const auto want = c.outputs[0].As<double>();
          for (std::size_t i = 0; i < z.size(); ++i, ++compared) {
            EXPECT_TRUE(Matches(ComplexAbs(z[i]), want[i], c.tolerance)) << c.name << " " << z[i] << want[i];
          }
        }
        continue;
      }
      if (c.inputs.size() == 1) {
        if (type == "f32") RunUnary<float>(c, RealUnary<float>(), opcode, &cases, &compared);
        if (type == "f64") RunUnary<double>(c, RealUnary<double>(), opcode, &cases, &compared);
        if (type == "c64") RunUnary<std::complex<float>>(c, ComplexUnary<float>(), opcode, &cases, &compared);
        if (type == "c128") RunUnary<std::complex<double>>(c, ComplexUnary<double>(), opcode, &cases, &compared);
      } else if (c.inputs.size() == 2 && c.inputs[1].type == type && c.inputs[0].dims == c.inputs[1].dims) {
        if (type == "f32") RunBinary<float>(c, RealBinary<float>(), opcode, &cases, &compared);
        if (type == "f64") RunBinary<double>(c, RealBinary<double>(), opcode, &cases, &compared);
        if (type == "c64") RunBinary<std::complex<float>>(c, ComplexBinary<float>(), opcode, &cases, &compared);
        if (type == "c128") RunBinary<std::complex<double>>(c, ComplexBinary<double>(), opcode, &cases, &compared);
      }
    }
  }
  std::printf("  %d cases, %d values\n", cases, compared);
  EXPECT_GT(cases, 200);
}

TEST(Corpus, IntegerPowersAndShifts) {
  KRAFLA_SKIP_WITHOUT_CORPUS();
  int cases = 0;
  const auto run = [&]<class T>(T, const Case& c, const std::string& opcode) {
    const auto check = [&](auto f) {
      ++cases;
      const auto x = c.inputs[0].As<T>(), y = c.inputs[1].As<T>(), want = c.outputs[0].As<T>();
      const auto other = c.alternatives.empty() ? want : c.alternatives[0].As<T>();
      for (std::size_t i = 0; i < want.size(); ++i) {
        const T got = f(x[i], y[i]);
        EXPECT_TRUE(got == want[i] || got == other[i])
            << c.name << " " << +x[i] << ", " << +y[i] << ": got " << +got << ", XLA " << +want[i];
      }
    };
    if (opcode == "power") check([](T x, T y) { return PowInt(x, y); });
    if (opcode == "divide") check([](T x, T y) { return DivideInt(x, y); });
    if (opcode == "remainder") check([](T x, T y) { return RemainderInt(x, y); });
    if (opcode == "shift-left") check([](T x, T y) { return ShiftLeftInt(x, y); });
    if (opcode == "shift-right-logical") check([](T x, T y) { return ShiftRightLogicalInt(x, y); });
    if (opcode == "shift-right-arithmetic") check([](T x, T y) { return ShiftRightArithmeticInt(x, y); });
    if (opcode == "mulhi" || opcode == "multiply-high") check([](T x, T y) { return MulhiInt(x, y); });
  };
  for (const char* family : {"binary", "power_quirks", "mulhi"}) {
    for (const Case& c : ReadFamily(family)) {
      if (c.inputs.size() != 2 || c.inputs[0].dims != c.inputs[1].dims || c.outputs.size() != 1) continue;
      const std::string opcode = OpcodeOf(c);
      const std::string& type = c.inputs[0].type;
      if (type == "s8") run(int8_t{}, c, opcode);
      if (type == "s16") run(int16_t{}, c, opcode);
      if (type == "s32") run(int32_t{}, c, opcode);
      if (type == "s64") run(int64_t{}, c, opcode);
      if (type == "u8") run(uint8_t{}, c, opcode);
      if (type == "u16") run(uint16_t{}, c, opcode);
      if (type == "u32") run(uint32_t{}, c, opcode);
      if (type == "u64") run(uint64_t{}, c, opcode);
    }
  }
  std::printf("  %d cases\n", cases);
  EXPECT_GT(cases, 50);
}

TEST(Corpus, ReducePrecision) {
  KRAFLA_SKIP_WITHOUT_CORPUS();
  int cases = 0;
  for (const Case& c : ReadFamily("reduce_precision")) {
    char type[5] = {};
    int e = 0, m = 0;
    ASSERT_EQ(std::sscanf(c.name.c_str(), "%4[a-z0-9]_e%dm%d", type, &e, &m), 3) << c.name;
    ++cases;
    const auto check = [&]<class U>(U, int se, int sm, auto as_number) {
      const auto x = c.inputs[0].As<U>(), want = c.outputs[0].As<U>();
      for (std::size_t i = 0; i < want.size(); ++i) {
        const U got = ReducePrecisionBits<U>(x[i], se, sm, e, m);
        EXPECT_TRUE(Matches(as_number(got), as_number(want[i]), c.tolerance))
            << c.name << " " << as_number(x[i]) << ": got " << as_number(got) << ", XLA " << as_number(want[i]);
      }
    };
    if (std::string_view(type) == "f16") check(uint16_t{}, 5, 10, [](uint16_t b) { return F16ToFloat(b); });
    if (std::string_view(type) == "bf16") check(uint16_t{}, 8, 7, [](uint16_t b) { return BF16ToFloat(b); });
    if (std::string_view(type) == "f32") check(uint32_t{}, 8, 23, [](uint32_t b) { return std::bit_cast<float>(b); });
    if (std::string_view(type) == "f64") check(uint64_t{}, 11, 52, [](uint64_t b) { return std::bit_cast<double>(b); });
  }
  EXPECT_GT(cases, 40);
}

TEST(Corpus, ConversionsToNarrowFloats) {
  KRAFLA_SKIP_WITHOUT_CORPUS();
  const std::map<std::string, MiniFloat> formats = {{"f16", kF16Format},
                                                    {"bf16", kBF16Format},
                                                    {"f8e5m2", kF8E5M2Format},
                                                    {"f8e4m3fn", kF8E4M3FNFormat},
                                                    {"f8e4m3", kF8E4M3Format},
                                                    {"f8e3m4", kF8E3M4Format},
                                                    {"f8e4m3b11fnuz", kF8E4M3B11FNUZFormat},
                                                    {"f8e5m2fnuz", kF8E5M2FNUZFormat},
                                                    {"f8e4m3fnuz", kF8E4M3FNUZFormat},
                                                    {"f4e2m1fn", kF4E2M1FNFormat},
                                                    {"f8e8m0fnu", kF8E8M0FNUFormat}};
  const auto codes = [](const Array& a) {
    std::vector<uint32_t> out;
    if (a.type == "f16" || a.type == "bf16") {
      for (uint16_t v : a.As<uint16_t>()) out.push_back(v);
    } else {
      for (uint8_t v : a.As<uint8_t>()) out.push_back(v);
    }
    return out;
  };
  int cases = 0;
  for (const char* family : {"convert", "convert_denormal"}) {
    for (const Case& c : ReadFamily(family)) {
      if (c.inputs.size() != 1 || c.outputs.size() != 1) continue;
      const auto to = formats.find(c.outputs[0].type);
      const std::string& from = c.inputs[0].type;
      const auto from_format = formats.find(from);
      if (to == formats.end()) {
        if (from_format == formats.end() || c.outputs[0].type != "f32") continue;
        ++cases;
        const auto x = codes(c.inputs[0]);
        const auto want = c.outputs[0].As<float>();
        const auto other = c.alternatives.empty() ? want : c.alternatives[0].As<float>();
        for (std::size_t i = 0; i < want.size(); ++i) {
          const float got = DecodeMiniFloat(x[i], from_format->second);
          EXPECT_TRUE(Matches(got, want[i], c.tolerance) || Matches(got, other[i], c.tolerance))
              << c.name << " code " << x[i] << ": got " << got << ", XLA " << want[i];
        }
        continue;
      }
      std::vector<double> x;
      if (from == "f32") {
        for (float v : c.inputs[0].As<float>()) x.push_back(static_cast<double>(v));
      } else if (from == "f64") {
        x = c.inputs[0].As<double>();
      } else if (from_format != formats.end()) {
        for (uint32_t v : codes(c.inputs[0])) x.push_back(static_cast<double>(DecodeMiniFloat(v, from_format->second)));
      } else {
        continue;
      }
      ++cases;
      const auto want = codes(c.outputs[0]);
      const auto other = c.alternatives.empty() ? want : codes(c.alternatives[0]);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const uint32_t direct = EncodeMiniFloat(x[i], to->second);
        const uint32_t got = from == "f64" ? direct : EncodeMiniFloat(static_cast<float>(x[i]), to->second);
        const auto same = [&](uint32_t code) {
          const float a = DecodeMiniFloat(got, to->second), b = DecodeMiniFloat(code, to->second);
          return got == code || (a != a && b != b);
        };
        EXPECT_TRUE(same(want[i]) || same(other[i]))
            << c.name << " " << x[i] << ": got " << got << ", XLA " << want[i] << " or " << other[i];
      }
    }
  }
  std::printf("  %d cases\n", cases);
  EXPECT_GT(cases, 100);
}

TEST(Corpus, RngBitGenerator) {
  KRAFLA_SKIP_WITHOUT_CORPUS();
  int cases = 0;
  for (const Case& c : ReadFamily("rng_bit_generator")) {
    const bool three_fry = c.text.find("rng_three_fry") != std::string::npos;
    const bool philox = c.text.find("rng_philox") != std::string::npos;
    const RngMethod algorithm = three_fry ? RngMethod::kThreeFry : philox ? RngMethod::kPhilox : kDefaultRngMethod;
    auto state = c.inputs[0].As<uint64_t>();
    std::vector<Array> arrays;
    for (const Array& a : c.outputs) {
      if (a.type != "u64" || a.dims != c.inputs[0].dims) arrays.push_back(a);
    }
    // A u64[2] or u64[3] output among others is the state; alone it is the data.
    ASSERT_FALSE(c.outputs.empty());
    if (arrays.empty()) arrays.push_back(c.outputs.back());
    ++cases;
    for (const Array& a : arrays) {
      const int bits = std::stoi(a.type.substr(1));
      const auto plan = PlanRng(algorithm, static_cast<int64_t>(state.size()), a.dims, bits);
      ASSERT_TRUE(plan.has_value()) << c.name;
      const RngStart start = StartOf(*plan, state);
      const std::size_t bytes = static_cast<std::size_t>(bits) / 8;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i * bytes < a.bytes.size(); ++i) {
        uint64_t want = 0;
        std::memcpy(&want, a.bytes.data() + i * bytes, bytes);
        wrong += RngElement(*plan, start, i) != want;
      }
      EXPECT_EQ(wrong, 0u) << c.name;
      const auto next = NextState(*plan, state);
      state.assign(next.begin(), next.begin() + plan->state_words);
    }
    for (const Array& a : c.outputs) {
      if (a.type == "u64" && a.dims == c.inputs[0].dims && c.outputs.size() > arrays.size()) {
        EXPECT_EQ(a.As<uint64_t>(), state) << c.name;
      }
    }
  }
  std::printf("  %d cases\n", cases);
  EXPECT_GT(cases, 50);
}

}  // namespace
}  // namespace krafla
