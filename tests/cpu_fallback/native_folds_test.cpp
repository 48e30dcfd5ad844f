// SPDX-License-Identifier: Apache-2.0
// Computed values that native code folds along rows, in registers.
#include "cpu_fallback/executor/block_program.h"
#include "program_fixture.h"

namespace krafla {
namespace {

std::string Combiner(const std::string& name, const std::string& type, const std::string& op) {
  return name + " { a = " + type + "[] parameter(0)\n  b = " + type + "[] parameter(1)\n  ROOT r = " + type + "[] " +
         op + "(a, b) }\n";
}

// Rows of every length have the order of the loops that fold arrays, and so their bits.
TEST(NativeFolds, RowsOfComputedValues) {
  for (const char* t : {"f32", "f64", "s32", "s64", "u32"})
    for (const char* op : {"add", "multiply", "maximum", "minimum"})
      for (int columns : {31, 32, 33, 47, 64, 79, 127, 128, 135, 200, 255, 512, 1000}) {
        const std::string type(t), all = type + "[33," + std::to_string(columns) + "]";
        const bool is_float = type[0] == 'f', multiplies = std::string(op) == "multiply";
        // Factors are close to one, so that products of many are numbers.
        ExpectSameBits("HloModule m\n" + Combiner("c", type, op) + "ENTRY e {\n  x = " + all +
                       " parameter(0)\n  k = " + type + "[] constant(" + (is_float ? "0.0000003" : "3") +
                       ")\n  ks = " + all + " broadcast(k), dimensions={}\n  o = " + type +
                       "[] constant(1)\n  os = " + all + " broadcast(o), dimensions={}\n  y = " + all +
                       " multiply(x, ks)\n  w = " + all + " multiply(y, x)\n  v = " + all +
                       " add(y, os)\n  z = " + type + "[] constant(2)\n  ROOT r = " + type + "[33] reduce(" +
                       (multiplies ? "v" : "w") + ", z), dimensions={1}, to_apply=c\n}\n");
      }
}

// Columns that fill a vector or more, with a factor for each and one for each row.
TEST(NativeFolds, ColumnsOfComputedValues) {
  for (const char* t : {"f32", "f64", "s32", "u32", "s64"})
    for (const char* op : {"add", "multiply", "maximum", "minimum"})
      for (int rows : {17, 20, 31, 41})
        for (int columns : {16, 17, 32, 33, 47, 48}) {
          const std::string type(t), c = std::to_string(columns), r = std::to_string(rows);
          const std::string all = type + "[" + r + "," + c + "]";
          const bool is_float = type[0] == 'f', multiplies = std::string(op) == "multiply";
          ExpectSameBits("HloModule m\n" + Combiner("c", type, op) + "ENTRY e {\n  x = " + all +
                         " parameter(0)\n  p = " + type + "[" + c + "] parameter(1)\n  q = " + type + "[" + r +
                         "] parameter(2)\n  ps = " + all + " broadcast(p), dimensions={1}\n  qs = " + all +
                         " broadcast(q), dimensions={0}\n  k = " + type + "[] constant(" +
                         (is_float ? "0.0000003" : "3") + ")\n  ks = " + all +
                         " broadcast(k), dimensions={}\n  o = " + type + "[] constant(1)\n  os = " + all +
                         " broadcast(o), dimensions={}\n  d = " + all + " subtract(x, ps)\n  w = " + all +
                         " multiply(d, qs)\n  y = " + all + " multiply(w, ks)\n  v = " + all +
                         " add(y, os)\n  z = " + type + "[] constant(2)\n  ROOT r = " + type + "[" + c + "] reduce(" +
                         (multiplies ? "v" : "w") + ", z), dimensions={0}, to_apply=c\n}\n");
        }
}

// Several places of a further dimension of rows at a call: whole calls, and a last one of fewer.
TEST(NativeFolds, ColumnsAtSeveralPlaces) {
  for (const char* t : {"f32", "f64", "s32"})
    for (const char* op : {"add", "maximum"})
      for (const char* shape : {"[100,20,16]", "[71,17,48]", "[3,40,24,33]", "[5,31,23,16]"}) {
        const std::string type(t), all = type + shape;
        const bool has_four = std::ranges::count(all, ',') == 3;
        std::string out = all;
        const std::size_t end = out.rfind(','), begin = out.rfind(',', end - 1);
        out.erase(begin, end - begin);
        const std::string first = has_four ? out.substr(0, out.rfind(',')) + "]" : out.substr(0, out.find(',')) + "]";
        const std::string dims = has_four ? "0,1" : "0", reduced = has_four ? "2" : "1";
        ExpectSameBits("HloModule m\n" + Combiner("c", type, op) + "ENTRY e {\n  x = " + all +
                       " parameter(0)\n  q = " + first + " parameter(1)\n  qs = " + all +
                       " broadcast(q), dimensions={" + dims + "}\n  y = " + all + " multiply(x, qs)\n  w = " + all +
                       " add(y, x)\n  z = " + type + "[] constant(2)\n  r = " + out + " reduce(w, z), dimensions={" +
                       reduced + "}, to_apply=c\n  ROOT n = " + out + " negate(r)\n}\n");
      }
}

// Of a NaN and a number a NaN, of two zeros the one with the sign: wherever they lie in a row or a column.
TEST(NativeFolds, ExtremaOfNansAndZeros) {
  for (const char* t : {"f32", "f64"})
    for (const char* op : {"maximum", "minimum"})
      for (int columns : {33, 64, 79, 128})
        for (const char* kept : {"0", "1"}) {
          // The remainder of the place by a prime is where the zeros, the NaN of 0 / 0 and the infinities are.
          const std::string type(t), c = std::to_string(columns), ints = "s32[23," + c + "]";
          const std::string all = type + "[23," + c + "]", dims = kept[0] == '0' ? "1" : "0";
          const std::string out = type + "[" + (kept[0] == '0' ? "23" : c) + "]";
          ExpectSameBits(
              "HloModule m\n" + Combiner("c", type, op) + "ENTRY e {\n  x = " + all + " parameter(0)\n  i = " + ints +
              " iota(), iota_dimension=0\n  j = " + ints +
              " iota(), iota_dimension=1\n  f = s32[] constant(37)\n  fs = " + ints +
              " broadcast(f), dimensions={}\n  ij = " + ints + " multiply(i, fs)\n  n = " + ints +
              " add(ij, j)\n  p = s32[] constant(61)\n  ps = " + ints + " broadcast(p), dimensions={}\n  r = " + ints +
              " remainder(n, ps)\n  v = " + all + " convert(r)\n  ten = " + type + "[] constant(10)\n  tens = " + all +
              " broadcast(ten), dimensions={}\n  w = " + all + " subtract(v, tens)\n  z = " + type +
              "[] constant(-0.0)\n  zs = " + all + " broadcast(z), dimensions={}\n  g = " + all +
              " multiply(w, zs)\n  h = " + all + " multiply(x, zs)\n  k = " + all + " divide(g, w)\n  m = " + all +
              " add(h, k)\n  ROOT q = " + out + " reduce(m, " + "z), dimensions={" + dims + "}, to_apply=c\n}\n");
        }
}

// Two sums of a value, and exponentials that a later stage reads again.
TEST(NativeFolds, StagesThatReadTheValuesAgain) {
  for (const char* t : {"f32", "f64"})
    for (int columns : {33, 128, 300, 777}) {
      const std::string type(t), rows = type + "[41]", all = type + "[41," + std::to_string(columns) + "]";
      ExpectSameBits("HloModule m\n" + Combiner("add", type, "add") + Combiner("max", type, "maximum") +
                     "ENTRY e {\n  x = " + all + " parameter(0)\n  k = " + type + "[] constant(0.001)\n  ks = " + all +
                     " broadcast(k), dimensions={}\n  y = " + all + " multiply(x, ks)\n  low = " + type +
                     "[] constant(-inf)\n  zero = " + type + "[] constant(0)\n  m = " + rows +
                     " reduce(y, low), dimensions={1}, to_apply=max\n  ms = " + all +
                     " broadcast(m), dimensions={0}\n  d = " + all + " subtract(y, ms)\n  p = " + all +
                     " exponential(d)\n  s = " + rows + " reduce(p, zero), dimensions={1}, to_apply=add\n  q = " + all +
                     " multiply(p, d)\n  u = " + rows + " reduce(q, zero), dimensions={1}, to_apply=add\n  ss = " +
                     all + " broadcast(s), dimensions={0}\n  r = " + all + " divide(p, ss)\n  ROOT out = (" + all +
                     ", " + rows + ") tuple(r, u)\n}\n");
    }
}

// All of a tile at once: several dimensions of elements, and few rows of many.
TEST(NativeFolds, WholeTiles) {
  for (const char* shape : {"f32[7,12,40]", "f32[3,1000]", "f32[5,3,333]"}) {
    const std::string all(shape), rows = all.substr(0, all.find(',')) + "]";
    const std::string dims = std::ranges::count(all, ',') == 2 ? "{1,2}" : "{1}";
    ExpectSameBits("HloModule m\n" + Combiner("add", "f32", "add") + "ENTRY e {\n  x = " + all +
                   " parameter(0)\n  y = " + all + " multiply(x, x)\n  zero = f32[] constant(0)\n  ROOT r = " + rows +
                   " reduce(y, zero), dimensions=" + dims + ", to_apply=add\n}\n");
  }
}

// The values are no array any more: without that, all of the above would hold as well.
TEST(NativeFolds, LeaveNoArray) {
  if (!cpu::native::HasNativeCode()) GTEST_SKIP() << "no native loops in this build or on this processor";
  const int64_t dims[] = {64, 512};
  plan::ProgramBuilder b(dims);
  const int in = b.AddBuffer(ElementType::kF32, 64 * 512, false);
  const auto x = b.Load(in, ElementType::kF32, b.space().Add(b.space().Mul(b.space().Iter(0), 512), b.space().Iter(1)));
  b.AddResult(b.Hlo(Opcode::kMultiply, ElementType::kF32, {x, x}));
  const plan::ElementProgram program = std::move(b).Finish();
  const std::optional<cpu::native::LaneOp> folds[] = {cpu::native::LaneOp::kAdd};
  cpu::BlockProgram::Options options{.tile = {.row_dim = 0, .column_dim = 1, .rows = 4, .columns = 512}};
  const auto arrays = cpu::BlockProgram::Compile(program, options);
  options.folds = folds, options.fold_side = cpu::FoldSide::kRows;
  const auto folded = cpu::BlockProgram::Compile(program, options);
  ASSERT_TRUE(arrays && folded);
  EXPECT_EQ(arrays->FoldBuffer(0), -1);
  EXPECT_EQ(folded->FoldBuffer(0), 1);
  EXPECT_LE(folded->frame_bytes() + 4 * 512 * 4, arrays->frame_bytes());
}

}  // namespace
}  // namespace krafla
