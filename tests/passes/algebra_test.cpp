// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "pass_harness.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"
#include "same_results.h"

namespace krafla {
namespace {

std::string Simplified(std::string_view body) {
  return After({"constant_folding", "algebraic_simplifier", "constant_folding"}, body);
}

// "ROOT r = T[4] op(x, c)" with c a broadcast of `value`.
std::string WithConstant(std::string_view type, std::string_view op, std::string_view value, bool left = false) {
  return Simplified(
      Format("x = {0}[4] parameter(0)\n s = {0}[] constant({2})\n"
             "c = {0}[4] broadcast(s), dimensions={{}}\n ROOT r = {0}[4] {1}({3})",
             type, op, value, left ? "c, x" : "x, c"));
}

TEST(AlgebraicSimplifier, FloatIdentitiesKeepSignedZeros) {
  EXPECT_EQ(WithConstant("f32", "multiply", "1"), "p0");
  EXPECT_EQ(WithConstant("bf16", "multiply", "1", true), "p0");
  EXPECT_EQ(WithConstant("f32", "divide", "1"), "p0");
  EXPECT_EQ(WithConstant("f32", "subtract", "0"), "p0");
  // -0 + 0 is 0.
  EXPECT_EQ(WithConstant("f32", "add", "0"), "add f32[4](p0, broadcast{} f32[4](f32[](0)))");
  EXPECT_EQ(WithConstant("f32", "subtract", "0", true), "subtract f32[4](broadcast{} f32[4](f32[](0)), p0)");
  // 0 * NaN is NaN.
  EXPECT_EQ(WithConstant("f32", "multiply", "0"), "multiply f32[4](p0, broadcast{} f32[4](f32[](0)))");
  EXPECT_EQ(WithConstant("f32", "multiply", "-1"), "negate f32[4](p0)");
}

TEST(AlgebraicSimplifier, NegativeZeroIsNeutral) {
  // Text reads -0 as +0, so the zero is made.
  std::string body =
      "x = f32[4] parameter(0)\n s = f32[] constant(0)\n n = f32[] negate(s)\n"
      "c = f32[4] broadcast(n), dimensions={}\n ROOT r = f32[4] add(x, c)";
  EXPECT_EQ(Simplified(body), "p0");
  body.replace(body.find("add(x, c)"), 9, "subtract(c, x)");
  EXPECT_EQ(Simplified(body), "negate f32[4](p0)");
}

TEST(AlgebraicSimplifier, ANumberForEachBatchIsMultiplied) {
  EXPECT_EQ(Simplified("m = f32[4] parameter(0)\n w = f32[3,4,5] parameter(1)\n ROOT r = f32[4,3,5] dot(m, w), "
                       "lhs_batch_dims={0}, rhs_batch_dims={1}"),
            "multiply f32[4,3,5](broadcast{0} f32[4,3,5](p0), broadcast{1,0,2} f32[4,3,5](p1))");
  EXPECT_EQ(Simplified("s = s32[] parameter(0)\n x = s32[3,5] parameter(1)\n ROOT r = s32[3,5] dot(x, s)"),
            "multiply s32[3,5](p1, broadcast{} s32[3,5](p0))");
  // An outer product has kernels of its own; what is contracted is a sum.
  EXPECT_EQ(Simplified("x = f32[3] parameter(0)\n y = f32[4] parameter(1)\n ROOT r = f32[3,4] dot(x, y)").substr(0, 3),
            "dot");
  EXPECT_EQ(Simplified("x = f32[3,1] parameter(0)\n y = f32[3,1] parameter(1)\n ROOT r = f32[3] dot(x, y), "
                       "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}")
                .substr(0, 3),
            "dot");
}

TEST(AlgebraicSimplifier, DivisionByPowersOfTwo) {
  EXPECT_EQ(WithConstant("f32", "divide", "8"), "multiply f32[4](p0, broadcast{} f32[4](f32[](0.125)))");
  EXPECT_EQ(WithConstant("f32", "divide", "-0.5"), "multiply f32[4](p0, broadcast{} f32[4](f32[](-2)))");
  EXPECT_EQ(WithConstant("f32", "divide", "3"), "divide f32[4](p0, broadcast{} f32[4](f32[](3)))");
  // The reciprocal of 2^127 is not a normal number.
  EXPECT_EQ(WithConstant("f32", "divide", "1.7014118346046923e+38").substr(0, 6), "divide");
  EXPECT_EQ(WithConstant("u32", "divide", "8"), "shift-right-logical u32[4](p0, broadcast{} u32[4](u32[](3)))");
  EXPECT_EQ(WithConstant("s32", "divide", "8"), "divide s32[4](p0, broadcast{} s32[4](s32[](8)))");
  EXPECT_EQ(WithConstant("u32", "remainder", "8"), "and u32[4](p0, broadcast{} u32[4](u32[](7)))");
  EXPECT_EQ(WithConstant("s32", "remainder", "8"), "remainder s32[4](p0, broadcast{} s32[4](s32[](8)))");
}

// Roots and products in the place of a power, also of what has no root: -0, and -infinity.
TEST(AlgebraicSimplifier, PowersOfRoots) {
  EXPECT_EQ(WithConstant("f32", "power", "3"), "multiply f32[4](p0, multiply f32[4](p0, p0))");
  EXPECT_EQ(WithConstant("f32", "power", "2.5").substr(0, 5), "power");
  EXPECT_EQ(WithConstant("f8e5m2", "power", "3").substr(0, 5), "power");
  auto x = Literal::Create(ArrayShape(ElementType::kF32, Dims{9}));
  ASSERT_TRUE(x);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::ranges::copy(std::array{-kInf, -4.0F, -0.0F, 0.0F, kInf, 4.0F, 2.25F, 0x1p-60F, NAN}, x->data<float>().begin());
  for (const char* exponent : {"0.5", "1.5", "3"}) {
    const std::string text = Format(
        "HloModule m\nENTRY main {{ x = f32[9] parameter(0)\n c = f32[] constant({})\n"
        " b = f32[9] broadcast(c), dimensions={{}}\n ROOT r = f32[9] power(x, b) }}",
        exponent);
    auto module = ExpectSame(text, {"algebraic_simplifier"}, 0, &*x);
    ASSERT_TRUE(module);
    EXPECT_TRUE(Find(*module, Opcode::kPower).empty()) << exponent;
  }
}

TEST(AlgebraicSimplifier, Integers) {
  EXPECT_EQ(WithConstant("s32", "add", "0"), "p0");
  EXPECT_EQ(WithConstant("s32", "multiply", "0"), "broadcast{} s32[4](s32[](0))");
  EXPECT_EQ(WithConstant("s32", "and", "-1"), "p0");
  EXPECT_EQ(WithConstant("s32", "xor", "-1"), "not s32[4](p0)");
  EXPECT_EQ(WithConstant("u32", "or", "4294967295"), "broadcast{} u32[4](u32[](4294967295))");
  EXPECT_EQ(WithConstant("s32", "maximum", "-2147483648"), "p0");
  EXPECT_EQ(WithConstant("s32", "subtract", "0", true), "negate s32[4](p0)");
  EXPECT_EQ(Simplified("x = s32[4] parameter(0)\n ROOT r = s32[4] subtract(x, x)"), "broadcast{} s32[4](s32[](0))");
  EXPECT_EQ(Simplified("x = f32[4] parameter(0)\n ROOT r = f32[4] subtract(x, x)"), "subtract f32[4](p0, p0)");
  EXPECT_EQ(After({"algebraic_simplifier", "constant_folding"},
                  "x = s32[] parameter(0)\n a = s32[] constant(3)\n b = s32[] constant(4)\n c = s32[] add(x, a)\n"
                  "ROOT d = s32[] add(b, c)"),
            "add s32[](p0, s32[](7))");
}

TEST(AlgebraicSimplifier, MinimumAndMaximum) {
  EXPECT_EQ(WithConstant("f32", "maximum", "-inf"), "p0");
  EXPECT_EQ(WithConstant("f32", "minimum", "inf"), "p0");
  EXPECT_EQ(WithConstant("f32", "maximum", "inf").substr(0, 7), "maximum");
  EXPECT_EQ(Simplified("x = f32[4] parameter(0)\n ROOT r = f32[4] maximum(x, x)"), "p0");
}

TEST(AlgebraicSimplifier, ComparisonsAndSelects) {
  EXPECT_EQ(Simplified("x = s32[4] parameter(0)\n ROOT r = pred[4] compare(x, x), direction=LE"),
            "broadcast{} pred[4](pred[](true))");
  EXPECT_EQ(Simplified("x = f32[4] parameter(0)\n ROOT r = pred[4] compare(x, x), direction=EQ"),
            "compare{EQ} pred[4](p0, p0)");
  EXPECT_EQ(Simplified("x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
                       "c = pred[4] compare(x, y), direction=LT\n ROOT r = pred[4] not(c)"),
            "not pred[4](compare{LT} pred[4](p0, p1))");
  EXPECT_EQ(Simplified("x = s32[4] parameter(0)\n y = s32[4] parameter(1)\n"
                       "c = pred[4] compare(x, y), direction=LT\n ROOT r = pred[4] not(c)"),
            "compare{GE} pred[4](p0, p1)");
  EXPECT_EQ(Simplified("x = pred[4] parameter(0)\n c = s32[4] convert(x)\n z = s32[] constant(0)\n"
                       "b = s32[4] broadcast(z), dimensions={}\n ROOT r = pred[4] compare(c, b), direction=NE"),
            "p0");
  EXPECT_EQ(Simplified("p = pred[4] parameter(0)\n x = f32[4] parameter(1)\n y = f32[4] parameter(2)\n"
                       "n = pred[4] not(p)\n ROOT r = f32[4] select(n, x, y)"),
            "select f32[4](p0, p2, p1)");
  EXPECT_EQ(Simplified("p = pred[] constant(true)\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                       "ROOT r = f32[] select(p, x, y)"),
            "p0");
}

TEST(AlgebraicSimplifier, ConversionsMergeOnlyWhereNothingRounds) {
  auto chain = [](std::string_view a, std::string_view b, std::string_view c) {
    return Simplified(Format("x = {}[4] parameter(0)\n y = {}[4] convert(x)\n ROOT r = {}[4] convert(y)", a, b, c));
  };
  EXPECT_EQ(chain("bf16", "f32", "bf16"), "p0");
  EXPECT_EQ(chain("bf16", "f32", "f16"), "convert f16[4](p0)");
  EXPECT_EQ(chain("f32", "bf16", "f32"), "convert f32[4](convert bf16[4](p0))");
  EXPECT_EQ(chain("s8", "s32", "u8"), "convert u8[4](p0)");
  // -1 becomes 0 on its way through a float, 255 directly.
  EXPECT_EQ(chain("s8", "f32", "u8"), "convert u8[4](convert f32[4](p0))");
  EXPECT_EQ(chain("s32", "f32", "f64"), "convert f64[4](convert f32[4](p0))");
  EXPECT_EQ(chain("s16", "f32", "f64"), "convert f64[4](p0)");
  EXPECT_EQ(chain("pred", "s32", "f32"), "convert f32[4](p0)");
  EXPECT_EQ(chain("f8e4m3fn", "bf16", "f32"), "convert f32[4](p0)");
}

// Bytes that quantised products want of the other kind are read as what they were.
TEST(AlgebraicSimplifier, ZeroPointsOfTurnedBytes) {
  const auto minus = [](std::string_view from, std::string_view to, std::string_view bit, std::string_view zero_point) {
    return Format(
        "x = {0}[4] parameter(0)\n s = {0}[] constant({2})\n c = {0}[4] broadcast(s), dimensions={{}}\n"
        "t = {0}[4] xor(x, c)\n b = {1}[4] bitcast-convert(t)\n f = f32[4] convert(b)\n"
        "z = f32[] constant({3})\n y = f32[4] broadcast(z), dimensions={{}}\n"
        "ROOT r = f32[4] subtract(f, y)",
        from, to, bit, zero_point);
  };
  EXPECT_EQ(Simplified(minus("u8", "s8", "128", "-128")), "convert f32[4](p0)");
  EXPECT_EQ(Simplified(minus("u8", "s8", "128", "-3")),
            "subtract f32[4](convert f32[4](p0), broadcast{} f32[4](f32[](125)))");
  EXPECT_EQ(Simplified(minus("s8", "u8", "-128", "131")),
            "subtract f32[4](convert f32[4](p0), broadcast{} f32[4](f32[](3)))");
  for (const auto& [bit, zero_point] : {std::pair("64", "-128"), std::pair("128", "0.5")})
    EXPECT_NE(Simplified(minus("u8", "s8", bit, zero_point)).find("xor"), std::string::npos);
  for (const auto& [from, to, bit] : {std::tuple("u8", "s8", "128"), std::tuple("s8", "u8", "-128")})
    for (const char* zero_point : {"-128", "128", "7", "-1000"})
      EXPECT_TRUE(ExpectSame(Entry(minus(from, to, bit, zero_point)), {"algebraic_simplifier"}));
}

TEST(AlgebraicSimplifier, WorkMovesBeforeBroadcasts) {
  EXPECT_EQ(Simplified("x = f32[3] parameter(0)\n a = f32[4,3] broadcast(x), dimensions={1}\n"
                       "ROOT r = f32[4,3] rsqrt(a)"),
            "broadcast{1} f32[4,3](rsqrt f32[3](p0))");
  EXPECT_EQ(Simplified("x = f32[3] parameter(0)\n a = f32[4,3] broadcast(x), dimensions={1}\n"
                       "s = f32[] constant(3)\n b = f32[4,3] broadcast(s), dimensions={}\n"
                       "ROOT r = f32[4,3] divide(a, b)"),
            "broadcast{1} f32[4,3](divide f32[3](p0, broadcast{} f32[3](f32[](3))))");
  EXPECT_EQ(Simplified("x = f32[3] parameter(0)\n y = f32[4] parameter(1)\n"
                       "a = f32[4,3] broadcast(x), dimensions={1}\n b = f32[4,3] broadcast(y), dimensions={0}\n"
                       "ROOT r = f32[4,3] divide(a, b)"),
            "divide f32[4,3](broadcast{1} f32[4,3](p0), broadcast{0} f32[4,3](p1))");
}

TEST(AlgebraicSimplifier, ReshapesOfOnesSink) {
  // The mean over the last dimension with keepdims, taken away again: one division per row and no [2,3,1] left.
  EXPECT_EQ(After({"algebraic_simplifier", "movement_simplifier"},
                  "x = f32[2,3] parameter(0)\n k = f32[2,3,1] reshape(x)\n s = f32[] constant(7)\n"
                  "c = f32[2,3,1] broadcast(s), dimensions={}\n d = f32[2,3,1] divide(k, c)\n"
                  "e = f32[2,3] reshape(d)\n ROOT r = f32[2,3,7] broadcast(e), dimensions={0,1}"),
            "broadcast{0,1} f32[2,3,7](divide f32[2,3](p0, broadcast{} f32[2,3](f32[](7))))");
  EXPECT_EQ(Simplified("x = f32[6] parameter(0)\n k = f32[2,3] reshape(x)\n ROOT r = f32[2,3] negate(k)"),
            "negate f32[2,3](reshape f32[2,3](p0))");
}

TEST(AlgebraicSimplifier, Signs) {
  EXPECT_EQ(Simplified("x = f32[] parameter(0)\n n = f32[] negate(x)\n c = f32[] constant(3)\n"
                       "ROOT r = f32[] multiply(n, c)"),
            "multiply f32[](p0, f32[](-3))");
  EXPECT_EQ(Simplified("x = f32[] parameter(0)\n y = f32[] parameter(1)\n n = f32[] negate(y)\n"
                       "ROOT r = f32[] add(x, n)"),
            "subtract f32[](p0, p1)");
  EXPECT_EQ(Simplified("x = f32[] parameter(0)\n y = f32[] parameter(1)\n n = f32[] negate(y)\n"
                       "ROOT r = f32[] subtract(x, n)"),
            "add f32[](p0, p1)");
}

TEST(AlgebraicSimplifier, ShiftsThatLeaveNothing) {
  EXPECT_EQ(WithConstant("u32", "shift-right-logical", "32"), "broadcast{} u32[4](u32[](0))");
  EXPECT_EQ(WithConstant("s32", "shift-left", "-1"), "broadcast{} s32[4](s32[](0))");
  EXPECT_EQ(WithConstant("s32", "shift-right-arithmetic", "40").substr(0, 5), "shift");
  EXPECT_EQ(WithConstant("u32", "shift-right-logical", "31").substr(0, 5), "shift");
}

TEST(AlgebraicSimplifier, CountersOfRandomBitsBecomeNarrow) {
  // iota_2x32_shape of JAX: the halves of a 64-bit count over an array too large to fold.
  constexpr std::string_view kCount =
      "i = u64[1000,1000] iota(), iota_dimension=0\n j = u64[1000,1000] iota(), iota_dimension=1\n"
      "f = u64[] constant(1000)\n fb = u64[1000,1000] broadcast(f), dimensions={}\n m = u64[1000,1000] multiply(i, fb)\n"
      "n = u64[1000,1000] add(m, j)\n t = u64[] constant(32)\n tb = u64[1000,1000] broadcast(t), dimensions={}\n"
      "h = u64[1000,1000] shift-right-logical(n, tb)\n";
  EXPECT_EQ(Simplified(std::string(kCount) + "ROOT r = u32[1000,1000] convert(h)"),
            "broadcast{} u32[1000,1000](u32[](0))");
  EXPECT_EQ(
      Simplified(std::string(kCount) + "ROOT r = u32[1000,1000] convert(n)"),
      "add u32[1000,1000](multiply u32[1000,1000](iota{0} u32[1000,1000](), broadcast{} u32[1000,1000](u32[](1000))), iota{1} u32[1000,1000]())");
  // A count past the narrow type's range stays as it is.
  EXPECT_EQ(Simplified("i = s32[300] iota(), iota_dimension=0\n ROOT r = s8[300] convert(i)"),
            "convert s8[300](iota{0} s32[300]())");
}

TEST(ConstantFolding, FoldsSmallKeepsSymbolic) {
  EXPECT_EQ(Simplified("a = s32[3] constant({1, 2, 3})\n b = s32[3] constant({10, 20, 30})\n"
                       "ROOT r = s32[3] add(a, b)"),
            "s32[3](11,22,33)");
  EXPECT_EQ(Simplified("ROOT a = f32[2,2] constant({{7, 7}, {7, 7}})"), "broadcast{} f32[2,2](f32[](7))");
  EXPECT_EQ(Simplified("ROOT a = s32[5] constant({0, 1, 2, 3, 4})"), "iota{0} s32[5]()");
  EXPECT_EQ(Simplified("ROOT a = s32[5] constant({0, 1, 2, 3, 5})"), "s32[5](0,1,2,3,5)");
  // Nothing is gained by writing out what an iota and a scalar say.
  EXPECT_EQ(Simplified("a = s32[100000] iota(), iota_dimension=0\n s = s32[] constant(3)\n"
                       "b = s32[100000] broadcast(s), dimensions={}\n ROOT r = s32[100000] multiply(a, b)"),
            "multiply s32[100000](iota{0} s32[100000](), broadcast{} s32[100000](s32[](3)))");
  EXPECT_EQ(Simplified("a = f32[] constant(2)\n b = f32[1000,1000] broadcast(a), dimensions={}\n"
                       "ROOT r = f32[1000,1000] negate(b)"),
            "broadcast{} f32[1000,1000](f32[](-2))");
}

TEST(ScalarFacts, RoundsToNarrowFloats) {
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kF16, 1.0)), 0x3c00u);
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kF16, 65520.0)), 0x7c00u);  // halfway to 2^16: inf
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kF16, 65519.0)), 0x7bffu);
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kF16, 0x1p-24)), 0x0001u);
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kF16, 0x1p-25)), 0x0000u);       // tie to even
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kBF16, -1.00390625)), 0xbf80u);  // 1 + 2^-8: tie to even
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kBF16, 3.0)), 0x4040u);
  EXPECT_EQ(ScalarBits(ScalarLiteral(ElementType::kBF16, std::nan(""))), 0x7fc0u);
}

TEST(ScalarFacts, IdentityOfASumIsANegativeZero) {
  Module module("m");
  for (auto [type, bits] : {std::pair(ElementType::kF16, 0x8000u), std::pair(ElementType::kBF16, 0x8000u),
                            std::pair(ElementType::kF32, 0x80000000u)}) {
    const Computation* sum = AddBinaryComputation(module, Opcode::kAdd, Shape::MakeScalar(type));
    ASSERT_TRUE(IdentityOf(*sum, type).has_value());
    EXPECT_EQ(ScalarBits(*IdentityOf(*sum, type)), bits);
  }
}

}  // namespace
}  // namespace krafla
