// SPDX-License-Identifier: Apache-2.0
// Programs whose elements do not lie one behind the other.
#include "cpu_fallback/executor/reduce_tiling.h"
#include "program_fixture.h"

namespace krafla {
namespace {

std::string Of(const std::string& parameters, const std::string& body) {
  return "HloModule m\nENTRY e {\n" + parameters + body + "\n}\n";
}

// All bytes of a word are asked for: it is loaded once.
TEST(NativeProgram, PartsOfWords) {
  for (const char* t : {"u8", "s8", "u16"}) {
    const std::string type(t);
    for (int parts : {2, 4}) {
      std::string body, last;
      for (int p = 0; p < parts; ++p) {
        const std::string n = std::to_string(p);
        body += "  a" + n + " = " + type + "[1001] slice(x), slice={[" + n + ":" + std::to_string(1001 * parts) + ":" +
                std::to_string(parts) + "]}\n";
        body += "  k" + n + " = " + type + "[] constant(" + std::to_string(p + 1) + ")\n  b" + n + " = " + type +
                "[1001] broadcast(k" + n + "), dimensions={}\n";
        body += "  c" + n + " = " + type + "[1001] shift-left(a" + n + ", b" + n + ")\n";
        body += "  d" + n + " = " + type + "[1001] xor(c" + n + ", " + (p == 0 ? "a0" : last) + ")\n";
        last = "d" + n;
      }
      body += "  ROOT r = " + type + "[1001] shift-right-logical(" + last + ", b0)";
      ExpectSameBits(Of("  x = " + type + "[" + std::to_string(1001 * parts) + "] parameter(0)\n", body));
    }
  }
}

// Short rows whose reduction is unrolled: all elements of a row are loaded, and stored, at once. Of some programs a row
// has gaps, or goes elsewhere in another order, or lies in an array that it is stored to again in a loop.
TEST(NativeProgram, LinesOfShortRows) {
  for (const char* t : {"f32", "f64", "s32"}) {
    const std::string type(t), max = "max { a = " + type + "[] parameter(0)\n  b = " + type +
                                     "[] parameter(1)\n  ROOT r = " + type + "[] maximum(a, b) }\n";
    for (int columns : {5, 9, 10, 12, 16}) {
      const std::string n = std::to_string(columns), rows = type + "[1501]", all = type + "[1501," + n + "]";
      const auto less = [&](const std::string& from, const std::string& out) {
        return "  z = " + type + "[] constant(-3)\n  m = " + rows + " reduce(" + from +
               ", z), dimensions={1}, to_apply=max\n  ms = " + all + " broadcast(m), dimensions={0}\n  " + out + " = " +
               all + " subtract(" + from + ", ms)\n";
      };
      ExpectSameBits("HloModule m\n" + max + "ENTRY e {\n  x = " + all + " parameter(0)\n" + less("x", "ROOT r") +
                     "}\n");
      ExpectSameBits("HloModule m\n" + max + "ENTRY e {\n  x = " + all + " parameter(0)\n" + less("x", "d") +
                     "  ROOT r = " + all + " reverse(d), dimensions={1}\n}\n");
      const std::string state = "(s32[], " + all + ")";
      ExpectSameBits("HloModule m\n" + max + "body { p = " + state +
                     " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  x = " + all +
                     " get-tuple-element(p), index=1\n" + less("x", "d") +
                     "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  ROOT r = " + state +
                     " tuple(j, d) }\ncond { p = " + state +
                     " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(3)\n  ROOT c = "
                     "pred[] compare(i, n), direction=LT }\nENTRY e {\n  x = " +
                     all + " parameter(0)\n  z = s32[] constant(0)\n  t = " + state + " tuple(z, x)\n  w = " + state +
                     " while(t), condition=cond, body=body\n  ROOT r = " + all + " get-tuple-element(w), index=1\n}\n");
    }
    // Columns 1, 2, 4, 5 and 6 of twenty.
    std::string body, last;
    for (int c : {1, 2, 4, 5, 6}) {
      const std::string k = std::to_string(c);
      body +=
          "  a" + k + " = " + type + "[1501,1] slice(x), slice={[0:1501], [" + k + ":" + std::to_string(c + 1) + "]}\n";
      body += "  b" + k + " = " + type + "[1501,1] multiply(a" + k + ", " + (last.empty() ? "a" + k : last) + ")\n";
      last = "b" + k;
    }
    body += "  ROOT r = " + type + "[1501,1] negate(" + last + ")";
    ExpectSameBits(Of("  x = " + type + "[1501,20] parameter(0)\n", body));
  }
}

// Bits and nibbles: elements of a byte or two that lie side by side, loaded and stored as whole vectors.
TEST(NativeProgram, BytesSideBySide) {
  for (const char* t : {"u8", "s8", "u16", "s16"}) {
    const std::string type(t);
    for (int parts : {2, 4, 8}) {
      if (parts == 8 && type.back() != '8') continue;
      const std::string n = std::to_string(parts), all = type + "[1001," + n + "]";
      const std::string add = "add { a = " + type + "[] parameter(0)\n  b = " + type +
                              "[] parameter(1)\n  ROOT r = " + type + "[] add(a, b) }\n";
      // Each row becomes one number.
      ExpectSameBits("HloModule m\n" + add + "ENTRY e {\n  x = " + all + " parameter(0)\n  y = " + type + "[" + n +
                     "] parameter(1)\n  ys = " + all + " broadcast(y), dimensions={1}\n  k = " + type +
                     "[] constant(9)\n  ks = " + all + " broadcast(k), dimensions={}\n  p = pred[1001," + n +
                     "] compare(x, ks), direction=GT\n  q = " + all + " convert(p)\n  s = " + all +
                     " shift-left(q, ys)\n  z = " + type + "[] constant(0)\n  ROOT r = " + type +
                     "[1001] reduce(s, z), dimensions={1}, to_apply=add\n}\n");
      // Each number becomes a row.
      ExpectSameBits(Of("  x = " + type + "[1001] parameter(0)\n  y = " + type + "[" + n + "] parameter(1)\n",
                        "  xs = " + all + " broadcast(x), dimensions={0}\n  ys = " + all +
                            " broadcast(y), dimensions={1}\n  a = " + all + " shift-right-logical(xs, ys)\n  b = " +
                            all + " shift-right-arithmetic(xs, ys)\n  c = " + all + " and(a, ys)\n  d = " + all +
                            " xor(b, c)\n  p = pred[1001," + n + "] compare(d, c), direction=LT\n  ROOT r = (" + all +
                            ", pred[1001," + n + "]) tuple(d, p)"));
    }
  }
}

// Rows of a table that numbers pick, and what is one value for each of them: a row may end anywhere in a vector.
TEST(NativeProgram, RowsOfATable) {
  for (const char* t : {"f32", "f64", "s32", "bf16", "u8", "s16"})
    for (int columns : {16, 37, 128}) {
      const std::string type(t), n = std::to_string(columns), all = type + "[301," + n + "]";
      const std::string gather =
          " gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
          "index_vector_dim=1, slice_sizes={1," +
          n + "}\n";
      ExpectSameBits(Of("  x = " + type + "[57," + n + "] parameter(0)\n  j = s32[301] parameter(1)\n  y = " + type +
                            "[301] parameter(2)\n",
                        "  k = s32[] constant(61)\n  ks = s32[301] broadcast(k), dimensions={}\n  i = s32[301] "
                        "remainder(j, ks)\n  g = " +
                            all + gather + "  ys = " + all + " broadcast(y), dimensions={0}\n  a = " + all +
                            " multiply(g, ys)\n  m = " + type + "[301] add(y, y)\n  ms = " + all +
                            " broadcast(m), dimensions={0}\n  p = pred[301," + n +
                            "] compare(a, ms), direction=GT\n  ROOT r = " + all + " select(p, a, g)"));
    }
}

// Rows of 8 and of 16 elements, each of which becomes numbers: as many vectors hold as many rows.
TEST(NativeProgram, RowsOfAVector) {
  for (const char* t : {"f32", "f64", "s32"})
    for (int columns : {8, 16}) {
      const std::string type(t), n = std::to_string(columns), all = type + "[1001," + n + "]";
      const std::string combine = "c { a = " + type + "[] parameter(0)\n  b = " + type +
                                  "[] parameter(1)\n  s = " + type + "[] add(a, b)\n  ROOT r = " + type +
                                  "[] subtract(s, b) }\n";
      ExpectSameBits("HloModule m\n" + combine + "ENTRY e {\n  x = " + all + " parameter(0)\n  y = " + type + "[" + n +
                     "] parameter(1)\n  ys = " + all + " broadcast(y), dimensions={1}\n  m = " + all +
                     " multiply(x, ys)\n  z = " + type + "[] constant(3)\n  ROOT r = " + type +
                     "[1001] reduce(m, z), dimensions={1}, to_apply=c\n}\n");
      std::string body, last;
      for (int c = 0; c < columns - 3; ++c) {
        const std::string i = std::to_string(c);
        body += "  part" + i + " = " + type + "[1001,1] slice(x), slice={[0:1001], [" + i + ":" +
                std::to_string(c + 1) + "]}\n  sum" + i + " = " + type + "[1001,1] add(part" + i + ", " +
                (c == 0 ? "part0" : last) + ")\n";
        last = "sum" + i;
      }
      ExpectSameBits(Of("  x = " + all + " parameter(0)\n",
                        body + "  ROOT r = " + type + "[1001,1] multiply(" + last + ", sum0)"));
    }
}

TEST(NativeProgram, DividesBytes) {
  for (int d : {2, 3, 7, 10, 127, 128, 200, 255})
    for (const char* op : {"divide", "remainder"})
      ExpectSameBits(Of("  x = u8[256] parameter(0)\n",
                        "  k = u8[] constant(" + std::to_string(d) +
                            ")\n  b = u8[256] broadcast(k), dimensions={}\n  ROOT r = u8[256] " + op + "(x, b)"));
}

// Rows of three elements that go backwards, or come again and again.
TEST(NativeProgram, ShortRows) {
  for (const char* t : {"f32", "f64"}) {
    const std::string type(t);
    ExpectSameBits(Of("  x = " + type + "[5,37,3] parameter(0)\n  y = " + type + "[3] parameter(1)\n",
                      "  a = " + type + "[5,37,3] reverse(x), dimensions={1}\n  b = " + type +
                          "[5,37,3] broadcast(y), dimensions={2}\n  c = " + type +
                          "[5,37,3] multiply(a, b)\n  ROOT r = " + type + "[5,37,3] add(c, x)"));
  }
}

// Few columns that are cut off a wide array: a tile has some of the rows that they lie in, and the last one fewer.
TEST(NativeProgram, CutShortRows) {
  for (const char* t : {"f32", "s32", "f64"})
    for (const char* width : {"2", "3"}) {
      const std::string type(t), w(width), all = type + "[300,500]", some = type + "[300," + w + "]",
                                           rest = type + "[300," + std::to_string(500 - std::stoi(w)) + "]";
      ExpectSameBits(Of("  x = " + type + "[302,500] parameter(0)\n",
                        "  z = " + type + "[] constant(0)\n  t = " + type +
                            "[2,500] slice(x), slice={[300:302], [0:500]}\n  a = " + all +
                            " slice(x), slice={[0:300], [0:500]}\n  p = " + all +
                            " pad(t, z), padding=297_1x0_0\n  u = " + all + " add(a, p)\n  b = " + some +
                            " slice(u), slice={[0:300], [0:" + w + "]}\n  c = " + rest +
                            " slice(u), slice={[0:300], [" + w + ":500]}\n  d = " + all + " pad(c, z), padding=0_0x0_" +
                            w + "\n  e = " + all + " pad(b, z), padding=0_0x" + std::to_string(500 - std::stoi(w)) +
                            "_0\n  ROOT r = " + all + " add(d, e)"));
    }
}

// Tiles of several planes: what is one value for each image, one for each line, gathered, or a number of the plane's.
TEST(NativeProgram, PlanesOfShortRows) {
  for (const char* t : {"f32", "f64", "u8"}) {
    const std::string type(t), all = type + "[6,40,150,3]";
    ExpectSameBits(Of("  x = " + all + " parameter(0)\n  y = " + type + "[3] parameter(1)\n  z = " + type +
                          "[6] parameter(2)\n  w = " + type + "[6,40] parameter(3)\n",
                      "  a = " + all + " reverse(x), dimensions={2}\n  b = " + all +
                          " broadcast(y), dimensions={3}\n  c = " + all +
                          " multiply(a, b)\n"
                          "  d = " +
                          all + " broadcast(z), dimensions={0}\n  e = " + all + " add(c, d)\n  f = " + all +
                          " broadcast(w), dimensions={0,1}\n"
                          "  g = " +
                          all + " add(e, f)\n  h = pred[6,40,150,3] compare(d, f), direction=LT\n  i = " + all +
                          " select(h, g, x)\n"
                          "  j = " +
                          all + " iota(), iota_dimension=1\n  ROOT r = " + all + " add(i, j)"));
    ExpectSameBits(Of(
        "  x = " + type + "[6,40,60,3] parameter(0)\n  i = s32[6,40,90] parameter(1)\n",
        "  k = s32[] constant(59)\n  ks = s32[6,40,90] broadcast(k), dimensions={}\n  l = s32[6,40,90] remainder(i, ks)\n"
        "  g = " +
            type +
            "[6,40,90,3] gather(x, l), offset_dims={3}, collapsed_slice_dims={2}, operand_batching_dims={0,1}, "
            "start_indices_batching_dims={0,1}, start_index_map={2}, index_vector_dim=3, slice_sizes={1,1,1,3}\n"
            "  ROOT r = " +
            type + "[6,40,90,3] add(g, g)"));
  }
}

// Computed values of many elements are folded at a call, where a row of columns is half a line of memory at least.
TEST(NativeProgram, ColumnsOfComputedValuesAreFoldedTogether) {
  const auto layout = [](const char* columns) {
    const std::string c = columns;
    auto executable = CompileFor(
        NativeUse::kWorthwhile,
        "HloModule m\nor { a = pred[] parameter(0)\n  b = pred[] parameter(1)\n  ROOT r = pred[] or(a, b) }\n"
        "ENTRY e {\n  x = f32[96,128," +
            c + "] parameter(0)\n  y = f32[96,128," + c +
            "] parameter(1)\n"
            "  z = pred[96,128," +
            c +
            "] compare(x, y), direction=GT\n  no = pred[] constant(false)\n"
            "  ROOT r = pred[96," +
            c + "] reduce(z, no), dimensions={1}, to_apply=or\n}\n");
    EXPECT_TRUE(executable) << executable.error().ToString();
    const auto& body = std::get<plan::ReduceKernel>((*executable)->plan().kernels.at(0).body);
    return cpu::ChooseReduceTiling(body, cpu::FindReduceLanes(body)).layout;
  };
  EXPECT_EQ(layout("80"), cpu::ReduceLayout::kRowsByElements);
  EXPECT_EQ(layout("24"), cpu::ReduceLayout::kRows);
}

// Sums of what is computed of short lines go along the lines, and not over strided elements.
TEST(NativeProgram, SumsOfComputedShortLinesGoAlongThem) {
  for (const std::string columns : {"8", "16"}) {
    auto executable = CompileFor(NativeUse::kWorthwhile, R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[1000,26,)" + columns + R"(] parameter(0)
  y = f32[1000,26,)" + columns + R"(] multiply(x, x)
  no = f32[] constant(0)
  ROOT r = f32[1000,)" + columns + R"(] reduce(y, no), dimensions={1}, to_apply=add
})");
    ASSERT_TRUE(executable) << executable.error().ToString();
    const auto& body = std::get<plan::ReduceKernel>((*executable)->plan().kernels.at(0).body);
    EXPECT_EQ(cpu::ChooseReduceTiling(body, cpu::FindReduceLanes(body)).layout, cpu::ReduceLayout::kRowsByElements)
        << columns;
  }
}

TEST(NativeProgram, ElementsFromAnywhere) {
  for (const char* t : {"f32", "f64"}) {
    for (int n : {300, 317}) {
      const std::string type(t), many = "[" + std::to_string(n) + "]";
      ExpectSameBits(Of(
          "  x = " + type + "[1000] parameter(0)\n  i = s32[" + std::to_string(n) + ",1] parameter(1)\n",
          "  g = " + type + many +
              " gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n"
              "  ROOT r = " +
              type + many + " multiply(g, g)"));
    }
  }
}

TEST(NativeProgram, ComparesPreds) {
  for (const char* d : {"EQ", "NE", "LT", "LE", "GT", "GE"})
    ExpectSameBits(
        Of("  x = f32[300] parameter(0)\n  y = f32[300] parameter(1)\n",
           std::string("  z = f32[300] negate(y)\n  a = pred[300] compare(x, y), direction=LT\n"
                       "  b = pred[300] compare(x, z), direction=GT\n  c = pred[300] compare(a, b), direction=") +
               d + "\n  ROOT r = f32[300] select(c, x, y)"));
}

// Numbers of all exponents, both signs, NaNs and subnormals; every code of a byte.
TEST(NativeProgram, NarrowFormats) {
  for (const char* t :
       {"f8e5m2", "f8e4m3fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e8m0fnu"}) {
    const std::string type(t);
    ExpectSameBits(Of(
        "  z = u32[65536] parameter(0)\n",
        "  i = u32[65536] iota(), iota_dimension=0\n  k = u32[] constant(65537)\n"
        "  ks = u32[65536] broadcast(k), dimensions={}\n  b = u32[65536] multiply(i, ks)\n  n = f32[65536] bitcast-convert(b)\n"
        "  c = " +
            type +
            "[65536] convert(n)\n  d = f32[65536] convert(c)\n"
            "  ROOT r = (" +
            type + "[65536], f32[65536], u32[65536]) tuple(c, d, z)"));
    ExpectSameBits(
        Of("  x = u8[512] parameter(0)\n", "  i = u8[512] add(x, x)\n  k = u8[512] xor(i, x)\n  c = " + type +
                                               "[512] bitcast-convert(k)\n  ROOT r = f32[512] convert(c)"));
  }
  for (const char* bits :
       {"exponent_bits=5, mantissa_bits=10", "exponent_bits=8, mantissa_bits=7", "exponent_bits=4, mantissa_bits=23"})
    ExpectSameBits(Of(
        "  z = u32[65536] parameter(0)\n",
        std::string(
            "  i = u32[65536] iota(), iota_dimension=0\n  k = u32[] constant(65537)\n"
            "  ks = u32[65536] broadcast(k), dimensions={}\n  b = u32[65536] multiply(i, ks)\n  n = f32[65536] bitcast-convert(b)\n"
            "  p = f32[65536] reduce-precision(n), ") +
            bits + "\n  ROOT r = (f32[65536], u32[65536]) tuple(p, z)"));
}

// Places by several dimensions of indices are those of the same indices in one.
TEST(NativeProgram, ScattersByJoinedDimensions) {
  const auto scatter = [](const char* name, const char* to, const char* of, const std::string& dims) {
    return std::string("  ") + name + " = s32[50,9] scatter(z, " + to + ", " + of +
           "), update_window_dims={}, inserted_window_dims={0,1}, " +
           "scatter_dims_to_operand_dims={0,1}, index_vector_dim=" + dims + ", to_apply=add\n";
  };
  const std::string text =
      "HloModule m\nadd { a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] add(a, b) }\nENTRY e {\n"
      "  i = s32[5,4,3,2] parameter(0)\n  u = s32[5,4,3] parameter(1)\n  zero = s32[] constant(0)\n  z = s32[50,9] broadcast(zero), dimensions={}\n"
      "  nine = s32[] constant(9)\n  nines = s32[5,4,3,2] broadcast(nine), dimensions={}\n  j = s32[5,4,3,2] remainder(i, nines)\n" +
      scatter("x", "j", "u", "3") + "  k = s32[60,2] reshape(j)\n  v = s32[60] reshape(u)\n" +
      scatter("y", "k", "v", "1") +
      "  t = s32[4,5,3,2] transpose(j), dimensions={1,0,2,3}\n  w = s32[4,5,3] transpose(u), dimensions={1,0,2}\n" +
      scatter("q", "t", "w", "3") + "  ROOT r = (s32[50,9], s32[50,9], s32[50,9]) tuple(x, y, q)\n}\n";
  auto executable = CompileFor(NativeUse::kWorthwhile, text);
  ASSERT_TRUE(executable) << executable.error().ToString();
  Result<> status;
  const auto got = Results(**executable, kUnlimited, status);
  ASSERT_TRUE(status) << status.error().ToString();
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[2], got[1]);
}

}  // namespace
}  // namespace krafla
