// SPDX-License-Identifier: Apache-2.0
// The promise of numerics/ops_concept.h, kept: every elementwise operation gives the CPU's bits on the GPU. All f16 and
// bf16 numbers, 2^22 f32 numbers of every exponent, and f64 where the device has it. The operations come from the table,
// so a new one is tested as soon as it has a row. Subnormal arguments are left out, and a subnormal result may be a zero
// of its sign; NaN is NaN, whatever its sign and payload.
#include <bit>
#include <cstring>

#include "api_fixture.h"
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
                               {ElementType::kF32, 4, 23, 8, int64_t{1} << 22},
                               {ElementType::kF64, 8, 52, 11, int64_t{1} << 15}};

uint64_t Load(const std::byte* p, int bytes) {
  uint64_t out = 0;
  std::memcpy(&out, p, static_cast<std::size_t>(bytes));
  return out;
}
uint64_t Mantissa(const FloatFormat& f, uint64_t x) { return x & ((uint64_t{1} << f.mantissa) - 1); }
uint64_t Exponent(const FloatFormat& f, uint64_t x) { return x >> f.mantissa & ((uint64_t{1} << f.exponent) - 1); }
bool IsNan(const FloatFormat& f, uint64_t x) { return Exponent(f, x) == (uint64_t{1} << f.exponent) - 1 && Mantissa(f, x) != 0; }
bool IsSubnormal(const FloatFormat& f, uint64_t x) { return Exponent(f, x) == 0 && Mantissa(f, x) != 0; }
// f16 subnormals are normal where they are computed.
bool Flushes(const FloatFormat& f) { return f.type != ElementType::kF16; }
uint64_t Canonical(const FloatFormat& f, uint64_t x) {
  if (IsNan(f, x)) return ~uint64_t{0};
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
    if (op.arity < 1 || op.arity > 3 || IsOneOf(op.opcode, {Opcode::kSelect, Opcode::kStochasticConvert, Opcode::kConvert})) continue;
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
  if (f.type == ElementType::kF64 && !(*gpu)->device().profile.features.float64)
    GTEST_SKIP() << "the device has no float64";
  std::vector<Literal> inputs;
  for (uint64_t n = 0; n < 3; ++n) inputs.push_back(Input(f, n));
  int tested = 0;
  for (const OpInfo* op : Operations()) {
    if (op->opcode == Opcode::kComplex && f.bytes == 2) continue;  // there is no complex type of these
    auto on_cpu = CompileText(**cpu, Text(*op, f)), on_gpu = CompileText(**gpu, Text(*op, f));
    ASSERT_TRUE(on_cpu.has_value()) << op->name << ": " << on_cpu.error().ToString();
    ASSERT_TRUE(on_gpu.has_value()) << op->name << ": " << on_gpu.error().ToString();
    EXPECT_TRUE((*on_gpu)->report().fallbacks.empty()) << op->name << " in " << ElementTypeName(f.type) << " runs on the host";
    std::vector<const Literal*> arguments;
    for (int n = 0; n < op->arity; ++n) arguments.push_back(&inputs[static_cast<std::size_t>(n)]);
    auto want = (*on_cpu)->Run(arguments), got = (*on_gpu)->Run(arguments);
    ASSERT_TRUE(want.has_value() && got.has_value()) << op->name;
    const Literal &w = (*want)[0], &g = (*got)[0];
    ++tested;
    if (op->opcode == Opcode::kIsFinite) {
      EXPECT_EQ(std::memcmp(w.bytes().data(), g.bytes().data(), w.bytes().size()), 0) << op->name;
      continue;
    }
    const int64_t parts = static_cast<int64_t>(w.bytes().size()) / f.bytes;
    int64_t different = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const uint64_t x = Load(w.bytes().data() + i * f.bytes, f.bytes), y = Load(g.bytes().data() + i * f.bytes, f.bytes);
      if (x == y || Canonical(f, x) == Canonical(f, y)) continue;
      if (++different > 1) continue;
      std::string of;
      for (int n = 0; n < op->arity; ++n) of += krafla::Format(" {:x}", Pattern(f, op->opcode == Opcode::kComplex ? i / 2 : i, static_cast<uint64_t>(n)));
      ADD_FAILURE() << op->name << " in " << ElementTypeName(f.type) << " of" << of << krafla::Format(": the CPU gives {:x}, the GPU {:x}", x, y);
    }
    EXPECT_EQ(different, 0) << op->name << ": so many of " << parts << " numbers differ";
  }
  EXPECT_GE(tested, 40);
}
// A number is true unless it is a zero; a device that takes subnormals for zeros has to look at their bits.
TEST_P(ElementwiseBits, SubnormalsAreTrue) {
  const FloatFormat& f = GetParam();
  const uint64_t sign = uint64_t{1} << (f.mantissa + f.exponent), one = (uint64_t{1} << (f.exponent - 1)) - 1;
  const uint64_t inf = ((uint64_t{1} << f.exponent) - 1) << f.mantissa;
  const uint64_t numbers[] = {1, sign | 1, (uint64_t{1} << f.mantissa) - 1, inf, inf | 1, one << f.mantissa, 0, sign};
  Literal x = *Literal::Create(*Shape::MakeArray(f.type, Dims{8}));
  for (int i = 0; i < 8; ++i) std::memcpy(x.bytes().data() + i * f.bytes, &numbers[i], static_cast<std::size_t>(f.bytes));
  const std::string text = krafla::Format("HloModule m\nENTRY main {{\n  x = {}[8] parameter(0)\n  ROOT r = pred[8] convert(x)\n}}\n",
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
      EXPECT_EQ(static_cast<int>((*got)[0].bytes()[static_cast<std::size_t>(i)]), i < 6) << device << ", number " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Types, ElementwiseBits, ::testing::ValuesIn(kFormats),
                         [](const auto& c) { return std::string(ElementTypeName(c.param.type)); });

}  // namespace
}  // namespace krafla::testing
