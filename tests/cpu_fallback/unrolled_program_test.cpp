// SPDX-License-Identifier: Apache-2.0
// Rows of a few elements that are written out: the same bits as element by element.
#include "cpu_fallback/executor/unrolled_program.h"

#include "program_fixture.h"

namespace krafla {
namespace {

constexpr char kCombiners[] =
    "HloModule m\nadd { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b) }\n"
    "addb { a = bf16[] parameter(0)\n  b = bf16[] parameter(1)\n  ROOT r = bf16[] add(a, b) }\n"
    "max { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] maximum(a, b) }\n"
    "least { a = f32[] parameter(0)\n  i = s32[] parameter(1)\n  b = f32[] parameter(2)\n  j = s32[] parameter(3)\n"
    "  l = pred[] compare(a, b), direction=LE\n  v = f32[] select(l, a, b)\n  k = s32[] select(l, i, j)\n  ROOT t = (f32[], s32[]) tuple(v, k) }\n";

// How many of a program's reductions are written out.
int UnrolledCount(const std::string& text) {
  auto executable = CompileFor(NativeUse::kWorthwhile, text);
  if (!executable) return -1;
  int count = 0;
  for (const plan::KernelPlan& k : (*executable)->plan().kernels)
    if (const auto* body = std::get_if<plan::ReduceKernel>(&k.body)) count += cpu::UnrolledReduction(*body, 1) ? 1 : 0;
  return count;
}

void CheckReduction(const std::string& body) {
  const std::string text = std::string(kCombiners) + "ENTRY e {\n  zero = f32[] constant(0)\n" + body + "\n}\n";
  ExpectSameBits(text);
  EXPECT_EQ(UnrolledCount(text), cpu::native::HasNativeCode() ? 1 : 0) << body;
}

// Sums that are exact. Over the last dimension and the first, of other types, several at once, and two that follow each
// other.
TEST(UnrolledProgram, Reductions) {
  for (int n : {2, 3, 5, 16}) {
    const std::string e = std::to_string(n);
    CheckReduction("  x = f32[1000," + e + "] parameter(0)\n  y = f32[1000," + e +
                   "] negate(x)\n  ROOT r = f32[1000] reduce(y, zero), dimensions={1}, to_apply=add");
    CheckReduction("  x = f32[" + e + ",1000] parameter(0)\n  y = f32[" + e +
                   ",1000] negate(x)\n  ROOT r = f32[1000] reduce(y, zero), dimensions={0}, to_apply=max");
    CheckReduction("  x = f32[1000," + e + "] parameter(0)\n  i = s32[1000," + e +
                   "] iota(), iota_dimension=1\n  inf = f32[] constant(inf)\n  none = s32[] constant(0)\n"
                   "  ROOT r = (f32[1000], s32[1000]) reduce(x, i, inf, none), dimensions={1}, to_apply=least");
    CheckReduction("  x = f32[20,50," + e +
                   "] parameter(0)\n  m = f32[20,50] reduce(x, zero), dimensions={2}, to_apply=max\n"
                   "  b = f32[20,50," +
                   e + "] broadcast(m), dimensions={0,1}\n  d = f32[20,50," + e + "] subtract(x, b)\n  y = f32[20,50," +
                   e +
                   "] exponential(d)\n"
                   "  ROOT r = f32[20,50," +
                   e + "] multiply(y, b)");
  }
  CheckReduction(
      "  x = bf16[1000,3] parameter(0)\n  z = bf16[] constant(0)\n  y = bf16[1000,3] negate(x)\n  ROOT r = bf16[1000] reduce(y, z), dimensions={1}, to_apply=addb");
}

// Rows that are put together of several arrays, and of padding: an element's number decides which of them has it.
TEST(UnrolledProgram, RowsPutTogether) {
  CheckReduction(
      "  x = f32[1000,4] parameter(0)\n  a = f32[1000,1] slice(x), slice={[0:1000],[3:4]}\n"
      "  b = f32[1000,2] slice(x), slice={[0:1000],[0:2]}\n  c = f32[1000,2] negate(b)\n"
      "  d = f32[1000,4] concatenate(a, c, a), dimensions={1}\n"
      "  ROOT r = f32[1000] reduce(d, zero), dimensions={1}, to_apply=add");
  CheckReduction(
      "  x = f32[1000,3] parameter(0)\n  low = f32[] constant(-7)\n"
      "  y = f32[1000,6] pad(x, low), padding=0_0x1_2\n  n = f32[1000,6] negate(y)\n"
      "  ROOT r = f32[1000] reduce(n, zero), dimensions={1}, to_apply=add");
}

// Narrow elements of which as many as a row has fill a word.
TEST(UnrolledProgram, NarrowElements) {
  for (const char* n : {"2", "4", "8"}) {
    SCOPED_TRACE(n);
    const std::string e = n;
    const std::string text =
        "HloModule m\nadd { a = u32[] parameter(0)\n  b = u32[] parameter(1)\n  ROOT s = u32[] add(a, b) }\n"
        "ENTRY e {\n  x = u8[1003," +
        e + "] parameter(0)\n  i = u8[1003," + e + "] iota(), iota_dimension=1\n  y = u8[1003," + e +
        "] multiply(x, i)\n  w = u32[1003," + e +
        "] convert(y)\n  zero = u32[] constant(0)\n"
        "  ROOT r = u32[1003] reduce(w, zero), dimensions={1}, to_apply=add\n}\n";
    ExpectSameBits(text);
    EXPECT_EQ(UnrolledCount(text), cpu::native::HasNativeCode() ? 1 : 0);
  }
}

// Long rows, and few of them, are reductions.
TEST(UnrolledProgram, OtherReductionsStay) {
  const auto count = [](const char* rows, const char* elements) {
    const std::string dims = std::string("[") + rows + "," + elements + "]";
    return UnrolledCount(std::string(kCombiners) + "ENTRY e {\n  x = f32" + dims +
                         " parameter(0)\n  zero = f32[] constant(0)\n  ROOT r = f32[" + rows +
                         "] reduce(x, zero), dimensions={1}, to_apply=add\n}\n");
  };
  EXPECT_EQ(count("1000", "17"), 0);
  EXPECT_EQ(count("10", "3"), 0);
  EXPECT_EQ(count("1000", "16"), cpu::native::HasNativeCode() ? 1 : 0);
}

// The lightness of pixels, from either side, with something done to it.
TEST(UnrolledProgram, ProductsOfFew) {
  const auto count = [](const std::string& text) {
    auto executable = CompileFor(NativeUse::kWorthwhile, text);
    int out = 0;
    for (const plan::KernelPlan& k : (*executable)->plan().kernels)
      if (const auto* body = std::get_if<plan::DotKernel>(&k.body)) out += cpu::UnrolledProduct(*body, 1) ? 1 : 0;
    return out;
  };
  for (int k : {1, 2, 3, 4, 5}) {
    const std::string e = std::to_string(k);
    const std::string left =
        "HloModule m\nENTRY e {\n  x = f32[5000," + e + "] parameter(0)\n  y = f32[" + e +
        "] parameter(1)\n"
        "  d = f32[5000] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT r = f32[5000] negate(d)\n}\n";
    const std::string right =
        "HloModule m\nENTRY e {\n  x = f32[4," + e + "] parameter(0)\n  y = f32[4," + e +
        ",2000] parameter(1)\n"
        "  ROOT r = f32[4,2000] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n";
    if (k < 5) ExpectSameBits(left), ExpectSameBits(right);
    // The pass pipeline may write products of one element as products of arrays.
    if (k > 1) { EXPECT_EQ(count(left) + count(right), cpu::native::HasNativeCode() && k < 5 ? 2 : 0) << k; }
  }
}

// Of integers matrices too: their sums have no order.
TEST(UnrolledProgram, ProductsOfIntegers) {
  for (const std::string type : {"s8", "u8", "s32"})
    for (int k : {1, 2, 4}) {
      const std::string e = std::to_string(k),
                        module =
                            "HloModule m\nENTRY e {\n  x = " + type + "[9,476," + e + "] parameter(0)\n  y = " + type +
                            "[9," + e + ",2] parameter(1)\n  ROOT r = " + type +
                            "[9,476,2] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                            "rhs_contracting_dims={1}\n}\n";
      ExpectSameBits(module);
      auto executable = CompileFor(NativeUse::kWorthwhile, module);
      for (const plan::KernelPlan& kernel : (*executable)->plan().kernels)
        if (const auto* body = std::get_if<plan::DotKernel>(&kernel.body)) {
          EXPECT_EQ(cpu::UnrolledProduct(*body, 1).has_value(), cpu::native::HasNativeCode()) << type << " " << k;
        }
    }
}

// A column by a row of few elements.
TEST(UnrolledProgram, NarrowOuterProducts) {
  for (const std::string type : {"f32", "f64"})
    for (int columns : {2, 3, 4, 5}) {
      const std::string n = std::to_string(columns),
                        module = "HloModule m\nENTRY e {\n  x = " + type + "[9,476] parameter(0)\n  y = " + type +
                                 "[9," + n + "] parameter(1)\n  ROOT r = " + type + "[9,476," + n +
                                 "] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={}, "
                                 "rhs_contracting_dims={}\n}\n";
      if (columns <= 4) ExpectSameBits(module);
      auto executable = CompileFor(NativeUse::kWorthwhile, module);
      ASSERT_TRUE(executable) << executable.error().ToString();
      for (const plan::KernelPlan& kernel : (*executable)->plan().kernels)
        if (const auto* body = std::get_if<plan::DotKernel>(&kernel.body)) {
          EXPECT_EQ(cpu::UnrolledProduct(*body, 1).has_value(), cpu::native::HasNativeCode() && columns <= 4) << n;
        }
    }
}

// A convolution of one element a result, whose product may be -0.
TEST(UnrolledProgram, ConvolutionsOfOneElement) {
  ExpectSameBits(
      "HloModule m\nENTRY e {\n  x = f32[2,15,10,1] parameter(0)\n  k = f32[1,1,1,2] parameter(1)\n"
      "  ROOT r = f32[2,15,10,2] convolution(x, k), window={size=1x1}, dim_labels=b01f_01io->b01f\n}\n");
}

// Rows of a table, named by numbers, times a number each: the operand is computed where it is read. Products of -0 are
// +0, as in sums.
TEST(UnrolledProgram, ProductsOfComputedVectors) {
  const std::string text =
      "HloModule m\nENTRY e {\n  t = f32[100,16] parameter(0)\n  i = s32[4000,1] parameter(1)\n"
      "  w = f32[4000] parameter(2)\n  g = f32[4000,16] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}\n  n = f32[4000,16] negate(g)\n"
      "  ROOT r = f32[4000,16] dot(w, n), lhs_batch_dims={0}, rhs_batch_dims={0}\n}\n";
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "no native loops in this build or on this processor";
  const auto run = [&](NativeUse use) {
    const NativeUse before = cpu::native::UseOfNativeCode();
    cpu::native::UseNativeCode(use);
    auto module = ParseHloText(text);
    auto verified = VerifiedModule::Make(std::move(*module));
    plan::PlanOptions options;
    options.fusion.computed_operands = true;
    auto plan = plan::PlanProgram(std::move(*verified), options);
    const auto* dot = std::get_if<plan::DotKernel>(&plan->kernels.back().body);
    EXPECT_TRUE(dot != nullptr && dot->computes_rhs());
    EXPECT_EQ(dot != nullptr && cpu::UnrolledProduct(*dot, 1), use != NativeUse::kNever);
    auto executable = CpuPlan::Create(std::move(*plan), {.threads = 1});
    cpu::native::UseNativeCode(before);
    Result<> status;
    auto out = Results(**executable, kUnlimited, status);
    EXPECT_TRUE(status);
    return out;
  };
  EXPECT_EQ(run(NativeUse::kAlways), run(NativeUse::kNever));
}

// A matrix times a vector in each turn of a loop, by numbers whose sums are exact in any order.
TEST(UnrolledProgram, ProductsOfALoop) {
  for (const char* size : {"2", "5", "8", "20"}) {
    const std::string n = size, vector = "f32[" + n + "]", matrix = "f32[" + n + "," + n + "]";
    const std::string state = "(s32[], " + vector + ", " + matrix + ")";
    const std::string text =
        "HloModule m\ncond { p = " + state +
        " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  k = s32[] constant(50)\n"
        "  ROOT c = pred[] compare(i, k), direction=LT }\nbody { p = " +
        state + " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  x = " + vector +
        " get-tuple-element(p), index=1\n  a = " + matrix +
        " get-tuple-element(p), index=2\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  d = " + vector +
        " dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  seven = f32[] constant(7)\n  sevens = " +
        vector + " broadcast(seven), dimensions={}\n  y = " + vector + " remainder(d, sevens)\n  ROOT q = " + state +
        " tuple(j, y, a) }\nENTRY e {\n  n = s32[" + n + "," + n + "] parameter(0)\n  m = s32[" + n +
        "] parameter(1)\n  five = s32[] constant(5)\n  fives = s32[" + n + "," + n +
        "] broadcast(five), dimensions={}\n  few = s32[" + n + "] broadcast(five), dimensions={}\n  r = s32[" + n +
        "," + n + "] remainder(n, fives)\n  s = s32[" + n + "] remainder(m, few)\n  a = " + matrix +
        " convert(r)\n  x = " + vector + " convert(s)\n  zero = s32[] constant(0)\n  t = " + state +
        " tuple(zero, x, a)\n  w = " + state + " while(t), condition=cond, body=body\n  ROOT o = " + vector +
        " get-tuple-element(w), index=1\n}\n";
    ExpectSameBits(text);
    auto executable = CompileFor(NativeUse::kWorthwhile, text);
    ASSERT_TRUE(executable) << executable.error().ToString();
    int count = 0;
    for (const plan::KernelPlan& k : (*executable)->plan().kernels)
      if (const auto* body = std::get_if<plan::DotKernel>(&k.body)) count += cpu::UnrolledProduct(*body, 50) ? 1 : 0;
    EXPECT_EQ(count, cpu::native::HasNativeCode() && n != "20" ? 1 : 0) << n;
  }
}

// Coordinates that lie in arrays of their own, rows by indices: the products of points.
TEST(UnrolledProgram, RowsFromFarApart) {
  for (const char* c : {"2", "3", "4"}) {
    const std::string n = c, rows = "[2000," + n + "]";
    const std::string text =
        "HloModule m\nENTRY e {\n  x = f32" + rows + " parameter(0)\n  y = f32[" + n +
        ",2000] parameter(1)\n  i = s32[2000,1] parameter(2)\n"
        "  g = f32" +
        rows +
        " gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1," +
        n +
        "}\n"
        "  t = f32" +
        rows + " transpose(y), dimensions={1,0}\n  p = f32" + rows + " multiply(t, x)\n  ROOT r = f32" + rows +
        " add(p, g)\n}\n";
    ExpectSameBits(text);
    auto executable = CompileFor(NativeUse::kWorthwhile, text);
    ASSERT_TRUE(executable) << executable.error().ToString();
    int count = 0;
    for (const plan::KernelPlan& k : (*executable)->plan().kernels)
      if (const auto* body = std::get_if<plan::LoopKernel>(&k.body)) count += cpu::UnrolledRows(body->program) ? 1 : 0;
    EXPECT_EQ(count, cpu::native::HasNativeCode() ? 1 : 0);
  }
}

}  // namespace
}  // namespace krafla
