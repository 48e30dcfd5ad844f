// SPDX-License-Identifier: Apache-2.0
// The promise of numerics/ops_concept.h, kept: every elementwise operation gives the CPU's bits on the GPU and in the
// evaluator. All f8, f16 and bf16 numbers, 2^22 f32 numbers of every exponent, NaNs of every payload among them, and
// f64 where the device has it. The operations come from the table, so a new one is tested as soon as it has a row.
// Subnormal arguments are left out, and a subnormal result may be a zero of its sign.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "api_fixture.h"
#include "base/subnormals.h"
#include "evaluator/evaluator.h"
#include "ir/opcode.h"

namespace krafla::testing {
namespace {

struct FloatFormat {
  ElementType type;
  int bytes, mantissa, exponent;  // bits of the two fields
  int64_t count;
};
constexpr FloatFormat kFormats[] = {{ElementType::kF16, 2, 10, 5, 65536},
                                    {ElementType::kBF16, 2, 7, 8, 65536},
                                    {ElementType::kF8E5M2, 1, 2, 5, 65536},
                                    {ElementType::kF8E4M3FN, 1, 3, 4, 65536},
                                    {ElementType::kF8E4M3, 1, 3, 4, 65536},
                                    {ElementType::kF8E3M4, 1, 4, 3, 65536},
                                    {ElementType::kF8E4M3B11FNUZ, 1, 3, 4, 65536},
                                    {ElementType::kF8E5M2FNUZ, 1, 2, 5, 65536},
                                    {ElementType::kF8E4M3FNUZ, 1, 3, 4, 65536},
                                    {ElementType::kF32, 4, 23, 8, int64_t{1} << 22},
                                    {ElementType::kF64, 8, 52, 11, int64_t{1} << 15}};

uint64_t Load(const std::byte* p, int bytes) {
  uint64_t out = 0;
  std::memcpy(&out, p, static_cast<std::size_t>(bytes));
  return out;
}
uint64_t Mantissa(const FloatFormat& f, uint64_t x) { return x & ((uint64_t{1} << f.mantissa) - 1); }
uint64_t Exponent(const FloatFormat& f, uint64_t x) { return x >> f.mantissa & ((uint64_t{1} << f.exponent) - 1); }
bool IsSubnormal(const FloatFormat& f, uint64_t x) { return Exponent(f, x) == 0 && Mantissa(f, x) != 0; }
// Subnormals of the narrower formats are normal where they are computed.
bool Flushes(const FloatFormat& f) { return f.exponent >= 8; }
uint64_t Canonical(const FloatFormat& f, uint64_t x) {
  return Flushes(f) && IsSubnormal(f, x) ? x >> (f.mantissa + f.exponent) << (f.mantissa + f.exponent) : x;
}

uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 32;
}
// Number `i` of `count`: all bit patterns, or as many spread evenly, with the rest of their bits at random. `salt`:
// another order for another operand.
uint64_t Pattern(const FloatFormat& f, int64_t i, uint64_t salt) {
  if (f.bytes == 1) return (salt == 0 ? i : salt == 1 ? i >> 8 : i * 37 >> 4) & 255;  // all pairs
  const int bits = 8 * f.bytes, index_bits = std::countr_zero(static_cast<uint64_t>(f.count));
  auto n = static_cast<uint64_t>(i);
  if (salt != 0) n = (n * ((2 * salt + 0x9e3779b1u) | 1)) & (static_cast<uint64_t>(f.count) - 1);
  const int rest = bits - index_bits;
  uint64_t x = n << rest;
  if (rest > 0) x |= Mix(n + salt) >> (64 - rest);
  if (Flushes(f) && IsSubnormal(f, x)) x ^= Mantissa(f, x);
  return x;
}
Literal Input(const FloatFormat& f, uint64_t salt) {
  auto shape = Shape::MakeArray(f.type, Dims{f.count});
  Literal out = *Literal::Create(*shape);
  for (int64_t i = 0; i < f.count; ++i) {
    const uint64_t x = Pattern(f, i, salt);
    std::memcpy(out.bytes().data() + i * f.bytes, &x, static_cast<std::size_t>(f.bytes));
  }
  return out;
}

// The operations that take `type` and nothing but operands of it.
std::vector<const OpInfo*> Operations() {
  std::vector<const OpInfo*> out;
  for (const OpInfo& op : AllOps()) {
    const bool plain = op.attributes == "NoAttributes" || op.attributes == "ResultAccuracyAttributes";
    if (!IsElementwise(op.opcode) || (op.types & type_set::kFloat) == 0 || !plain) continue;
    if (op.arity < 1 || op.arity > 3 ||
        IsOneOf(op.opcode, {Opcode::kSelect, Opcode::kStochasticConvert, Opcode::kConvert}))
      continue;
    out.push_back(&op);
  }
  return out;
}

std::string Text(const OpInfo& op, const FloatFormat& f) {
  const std::string shape = krafla::Format("{}[{}]", ElementTypeName(f.type), f.count);
  std::string result = shape, operands;
  if (op.opcode == Opcode::kIsFinite) result = krafla::Format("pred[{}]", f.count);
  if (op.opcode == Opcode::kComplex) result = krafla::Format("{}[{}]", f.bytes == 8 ? "c128" : "c64", f.count);
  std::string text = "HloModule m\nENTRY main {\n";
  for (int n = 0; n < op.arity; ++n) {
    text += krafla::Format("  p{} = {} parameter({})\n", n, shape, n);
    operands += krafla::Format("{}p{}", n ? ", " : "", n);
  }
  return text + krafla::Format("  ROOT r = {} {}({})\n}}\n", result, op.name, operands);
}

class ElementwiseBits : public ::testing::TestWithParam<FloatFormat> {};
void PrintTo(const FloatFormat& f, std::ostream* out) { *out << ElementTypeName(f.type); }

TEST_P(ElementwiseBits, GpuIsCpu) {
  const FloatFormat& f = GetParam();
  auto cpu = SharedClient("cpu"), gpu = SharedClient("vulkan");
  ASSERT_TRUE(cpu.has_value());
  if (!gpu) GTEST_SKIP() << gpu.error().ToString();
  if (f.type == ElementType::kF64 && !(*gpu)->device().profile->features.float64)
    GTEST_SKIP() << "the device has no float64";
  std::vector<Literal> inputs;
  for (uint64_t n = 0; n < 3; ++n) inputs.push_back(Input(f, n));
  int tested = 0;
  for (const OpInfo* op : Operations()) {
    if (op->opcode == Opcode::kComplex && f.bytes < 4) continue;  // there is no complex type of these
    auto on_cpu = CompileText(**cpu, Text(*op, f)), on_gpu = CompileText(**gpu, Text(*op, f));
    ASSERT_TRUE(on_cpu.has_value()) << op->name << ": " << on_cpu.error().ToString();
    ASSERT_TRUE(on_gpu.has_value()) << op->name << ": " << on_gpu.error().ToString();
    EXPECT_TRUE((*on_gpu)->report().fallbacks.empty())
        << op->name << " in " << ElementTypeName(f.type) << " runs on the host";
    std::vector<const Literal*> arguments;
    for (int n = 0; n < op->arity; ++n) arguments.push_back(&inputs[static_cast<std::size_t>(n)]);
    auto want = (*on_cpu)->Run(arguments), got = (*on_gpu)->Run(arguments);
    ASSERT_TRUE(want.has_value() && got.has_value()) << op->name;
    const Literal &w = (*want)[0], &g = (*got)[0];
    ++tested;
    auto module = ParseHloText(Text(*op, f));
    ASSERT_TRUE(module.has_value());
    const auto judge = [&] {
      // As a run on the CPU does: not for bf16, whose smallest normal number f32's subnormal ones may round up to.
      const Subnormals subnormals(f.type == ElementType::kBF16 ? Subnormals::As::kNumbers : Subnormals::As::kZeros);
      return Evaluate(*(*module)->entry(), arguments);
    }();
    ASSERT_TRUE(judge.has_value()) << judge.error().ToString();
    const auto different_byte = std::ranges::mismatch(w.bytes(), judge->bytes()).in1 - w.bytes().begin();
    EXPECT_EQ(different_byte, static_cast<std::ptrdiff_t>(w.bytes().size()))
        << op->name << " in " << ElementTypeName(f.type)
        << krafla::Format(": the evaluator differs from the CPU of {:x} {:x}", Pattern(f, different_byte / f.bytes, 0),
                          Pattern(f, different_byte / f.bytes, 1));
    if (op->opcode == Opcode::kIsFinite) {
      EXPECT_EQ(std::memcmp(w.bytes().data(), g.bytes().data(), w.bytes().size()), 0) << op->name;
      continue;
    }
    const int64_t parts = static_cast<int64_t>(w.bytes().size()) / f.bytes;
    int64_t different = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const uint64_t x = Load(w.bytes().data() + i * f.bytes, f.bytes),
                     y = Load(g.bytes().data() + i * f.bytes, f.bytes);
      if (x == y || Canonical(f, x) == Canonical(f, y)) continue;
      if (++different > 1) continue;
      std::string of;
      for (int n = 0; n < op->arity; ++n)
        of += krafla::Format(" {:x}", Pattern(f, op->opcode == Opcode::kComplex ? i / 2 : i, static_cast<uint64_t>(n)));
      ADD_FAILURE() << op->name << " in " << ElementTypeName(f.type) << " of" << of
                    << krafla::Format(": the CPU gives {:x}, the GPU {:x}", x, y);
    }
    EXPECT_EQ(different, 0) << op->name << ": so many of " << parts << " numbers differ";
  }
  EXPECT_GE(tested, 40);
}
// Rounded to bf16, what is just below the smallest normal number is that: also where a subnormal f32 is taken for a
// zero.
TEST(OtherElementwiseBits, SmallestNormalProducts) {
  auto cpu = SharedClient("cpu"), gpu = SharedClient("vulkan");
  if (!gpu) GTEST_SKIP() << gpu.error().ToString();
  constexpr int64_t kCount = 4 * 128 * 128;
  Literal x = *Literal::Create(*Shape::MakeArray(ElementType::kBF16, Dims{kCount})), y = *Literal::Create(x.shape());
  for (const char* op : {"multiply", "divide"}) {
    const bool multiply = std::string_view(op) == "multiply";
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t way = i >> 14, exponent = (way & 1) != 0 ? 64 : 63;
      const uint64_t sign = (way & 2) << 14, a = static_cast<uint64_t>(exponent << 7 | (i >> 7 & 127)) | sign;
      const uint64_t b = static_cast<uint64_t>((multiply ? 64 : 190) << 7 | (i & 127));
      std::memcpy(x.bytes().data() + 2 * i, &a, 2), std::memcpy(y.bytes().data() + 2 * i, &b, 2);
    }
    const std::string text = krafla::Format(
        "HloModule m\nENTRY main {{\n  x = bf16[{0}] parameter(0)\n  y = bf16[{0}] parameter(1)\n  ROOT r = bf16[{0}] {1}(x, y)\n}}\n",
        kCount, op);
    const Literal* arguments[] = {&x, &y};
    auto want = (*CompileText(**cpu, text))->Run(arguments), got = (*CompileText(**gpu, text))->Run(arguments);
    ASSERT_TRUE(want.has_value() && got.has_value());
    int64_t smallest = 0, different = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const uint64_t w = Load((*want)[0].bytes().data() + 2 * i, 2), g = Load((*got)[0].bytes().data() + 2 * i, 2);
      const FloatFormat bf16{ElementType::kBF16, 2, 7, 8, 65536};
      smallest += (w & 0x7fff) == 0x0080;
      different += Canonical(bf16, w) != Canonical(bf16, g);
    }
    EXPECT_GT(smallest, 0) << op;
    EXPECT_EQ(different, 0) << op;
  }
}
// A NaN that is only moved keeps its bits; the sign of one can be looked at and changed.
TEST(OtherElementwiseBits, MovedNans) {
  const std::string text =
      "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  zero = f32[] constant(0)\n  z = f32[4] broadcast(zero), dimensions={}\n"
      "  r = f32[4] reverse(x), dimensions={0}\n  p = pred[4] compare(x, x), direction=EQ\n  s = f32[4] select(p, z, r)\n"
      "  n = f32[4] negate(x)\n  a = f32[4] abs(n)\n  q = f32[4] divide(z, z)\n  m = f32[4] negate(q)\n"
      "  u = u32[4] bitcast-convert(m)\n  h = f16[4] convert(m)\n  w = f64[4] convert(x)\n"
      "  ROOT t = (f32[4], f32[4], f32[4], f32[4], u32[4], f16[4], f64[4]) tuple(s, n, a, q, u, h, w)\n}\n";
  const uint32_t bits[] = {0x7f812345, 0xffc00001, 0x7fc00000, 0xff800001};
  Literal x = *Literal::Create(*Shape::MakeArray(ElementType::kF32, Dims{4}));
  std::memcpy(x.bytes().data(), bits, sizeof(bits));
  const Literal* arguments[] = {&x};
  for (const char* device : {"cpu", "vulkan"}) {
    auto client = SharedClient(device);
    if (!client) continue;
    if (const auto& profile = (*client)->device().profile; profile && !profile->features.float64) continue;
    auto executable = CompileText(**client, text);
    ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
    auto got = (*executable)->Run(arguments);
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    for (int i = 0; i < 4; ++i) {
      const auto word = [&](int n) { return Load((*got)[static_cast<std::size_t>(n)].bytes().data() + 4 * i, 4); };
      EXPECT_EQ(word(0), bits[3 - i]) << device;
      EXPECT_EQ(word(1), bits[i] ^ 0x80000000u) << device;
      EXPECT_EQ(word(2), bits[i] & 0x7fffffffu) << device;
      EXPECT_EQ(word(3), 0x7fc00000u) << device;
      EXPECT_EQ(word(4), 0xffc00000u) << device;
      EXPECT_EQ(Load((*got)[5].bytes().data() + 2 * i, 2), 0xfe00u) << device;
      EXPECT_EQ(Load((*got)[6].bytes().data() + 8 * i, 8),
                (bits[i] >> 31 != 0 ? 0xfff8000000000000u : 0x7ff8000000000000u))
          << device;
    }
  }
}
TEST(OtherElementwiseBits, SelectedNans) {
  for (const FloatFormat& f : kFormats) {
    if (f.bytes > 2) continue;
    const std::string type(ElementTypeName(f.type));
    const std::string text = krafla::Format(
        "HloModule m\nENTRY main {{\n  x = {0}[65536] parameter(0)\n  y = {0}[65536] parameter(1)\n  i = s32[65536] iota(), iota_dimension=0\n"
        "  z = s32[] constant(3)\n  b = s32[65536] broadcast(z), dimensions={{}}\n  a = s32[65536] and(i, b)\n"
        "  p = pred[65536] compare(a, b), direction=EQ\n  ROOT s = {0}[65536] select(p, x, y)\n}}\n",
        type);
    Literal x = Input(f, 0), y = Input(f, 1);
    const Literal* arguments[] = {&x, &y};
    for (const char* device : {"cpu", "vulkan"}) {
      auto client = SharedClient(device);
      if (!client) continue;
      auto executable = CompileText(**client, text);
      ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
      auto got = (*executable)->Run(arguments);
      ASSERT_TRUE(got.has_value()) << got.error().ToString();
      int64_t different = 0;
      for (int64_t i = 0; i < 65536; ++i)
        different += Load((*got)[0].bytes().data() + i * f.bytes, f.bytes) != Pattern(f, i, (i & 3) == 3 ? 0 : 1);
      EXPECT_EQ(different, 0) << type << " on " << device;
    }
  }
}
TEST(OtherElementwiseBits, ReducedNans) {
  constexpr int64_t kRows = 33, kColumns = 70;
  std::vector<float> numbers(kRows * kColumns, 1.0f);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; c += 7) {
      const float sign = c % 2 == 0 ? 1.0f : -1.0f;
      numbers[static_cast<std::size_t>(r * kColumns + c)] =
          r % 2 == 0 ? sign * INFINITY : std::bit_cast<float>(0xff812345u);
    }
  Literal x = *Literal::FromBytes(*Shape::MakeArray(ElementType::kF32, Dims{kRows, kColumns}),
                                  std::as_bytes(std::span(numbers)));
  const Literal* arguments[] = {&x};
  for (const char* op : {"add", "multiply", "maximum"}) {
    const std::string text = krafla::Format(
        "HloModule m\nc {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] {}(a, b)\n}}\n"
        "ENTRY main {{\n  x = f32[33,70] parameter(0)\n  z = f32[] constant(-0)\n  rows = f32[33] reduce(x, z), dimensions={{1}}, to_apply=c\n"
        "  columns = f32[70] reduce(x, z), dimensions={{0}}, to_apply=c\n"
        "  run = f32[33,70] reduce-window(x, z), window={{size=1x70 pad=0_0x69_0}}, to_apply=c\n"
        "  pool = f32[32,69] reduce-window(x, z), window={{size=2x2}}, to_apply=c\n"
        "  ROOT t = (f32[33], f32[70], f32[33,70], f32[32,69]) tuple(rows, columns, run, pool)\n}}\n",
        op);
    for (const char* device : {"cpu", "vulkan"}) {
      auto client = SharedClient(device);
      if (!client) continue;
      auto executable = CompileText(**client, text);
      ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
      auto got = (*executable)->Run(arguments);
      ASSERT_TRUE(got.has_value()) << got.error().ToString();
      int64_t nans = 0, others = 0;
      for (const Literal& part : *got)
        for (float v : part.data<float>()) {
          nans += v != v;
          others += v != v && std::bit_cast<uint32_t>(v) != 0x7fc00000u;
        }
      EXPECT_GT(nans, 0) << op;
      EXPECT_EQ(others, 0) << op << " on " << device;
    }
  }
}
// A number is true unless it is a zero; a device that takes subnormals for zeros has to look at their bits.
TEST_P(ElementwiseBits, SubnormalsAreTrue) {
  const FloatFormat& f = GetParam();
  const uint64_t sign = uint64_t{1} << (f.mantissa + f.exponent), one = (uint64_t{1} << (f.exponent - 1)) - 1;
  const uint64_t inf = ((uint64_t{1} << f.exponent) - 1) << f.mantissa;
  // There it is the NaN.
  const bool no_negative_zero = ElementTypeName(f.type).ends_with("fnuz");
  const uint64_t numbers[] = {1, sign | 1, (uint64_t{1} << f.mantissa) - 1, inf, inf | 1, one << f.mantissa, 0, sign};
  Literal x = *Literal::Create(*Shape::MakeArray(f.type, Dims{8}));
  for (int i = 0; i < 8; ++i)
    std::memcpy(x.bytes().data() + i * f.bytes, &numbers[i], static_cast<std::size_t>(f.bytes));
  const std::string text =
      krafla::Format("HloModule m\nENTRY main {{\n  x = {}[8] parameter(0)\n  ROOT r = pred[8] convert(x)\n}}\n",
                     ElementTypeName(f.type));
  for (const char* device : {"cpu", "vulkan"}) {
    auto client = SharedClient(device);
    if (!client) continue;
    auto executable = CompileText(**client, text);
    ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
    const Literal* arguments[] = {&x};
    auto got = (*executable)->Run(arguments);
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(static_cast<int>((*got)[0].bytes()[static_cast<std::size_t>(i)]), i < 6 || (i == 7 && no_negative_zero))
          << device << ", number " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Types, ElementwiseBits, ::testing::ValuesIn(kFormats),
                         [](const auto& c) { return std::string(ElementTypeName(c.param.type)); });

}  // namespace
}  // namespace krafla::testing
