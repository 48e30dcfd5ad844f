// SPDX-License-Identifier: Apache-2.0
// Small modules, of one operation each, whose kernels choices_test.cpp looks at.
#pragma once

#include <string>
#include <string_view>

#include "krafla/status.h"

namespace krafla::spirv::testing {

inline std::string Dot(const std::string& type, const std::string& result, int m, int n, int k,
                       bool rhs_by_rows = true) {
  const std::string rhs = rhs_by_rows ? Format("{},{}", k, n) : Format("{},{}", n, k);
  return Format(R"(ENTRY e {{
  a = {0}[{2},{4}] parameter(0)
  b = {0}[{5}] parameter(1)
  ROOT d = {1}[{2},{3}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{6}}}
}})",
                type, result, m, n, k, rhs, rhs_by_rows ? 0 : 1);
}

// Of size x size pixels and a window of 3 x 3.
inline std::string Convolution(const std::string& type, int size, int inputs, int outputs, bool features_last,
                               int groups = 1) {
  const auto image = [&](int features) {
    return features_last ? Format("1,{0},{0},{1}", size, features) : Format("1,{1},{0},{0}", size, features);
  };
  const std::string kernel =
      features_last ? Format("3,3,{},{}", inputs / groups, outputs) : Format("{},{},3,3", outputs, inputs / groups);
  const char* labels = features_last ? "b01f_01io->b01f" : "bf01_oi01->bf01";
  return Format(R"(ENTRY e {{
  a = {0}[{1}] parameter(0)
  b = {0}[{2}] parameter(1)
  ROOT c = {0}[{3}] convolution(a, b), window={{size=3x3 pad=1_1x1_1}}, dim_labels={4}, feature_group_count={5}
}})",
                type, image(inputs), kernel, image(outputs), labels, groups);
}

// Of rows x elements, over the elements; `columns`: which lie first.
inline std::string Reduction(int64_t rows, int64_t elements, bool columns = false) {
  return Format(R"(f {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}}
ENTRY e {{
  a = f32[{0}] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[{1}] reduce(a, z), dimensions={{{2}}}, to_apply=f
}})",
                columns ? Format("{},{}", elements, rows) : Format("{},{}", rows, elements), rows, columns ? 0 : 1);
}

inline std::string Sort(int64_t rows, int64_t length, bool by_keys = true) {
  return Format(R"(lt {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  p = f32[] multiply(x, y)
  q = f32[] subtract(x, p)
  ROOT z = pred[] compare({2}, y), direction=LT
}}
ENTRY e {{
  a = f32[{0},{1}] parameter(0)
  ROOT s = f32[{0},{1}] sort(a), dimensions={{1}}, to_apply=lt, is_stable=true
}})",
                rows, length, by_keys ? "x" : "q");
}

inline std::string Cumulative(int64_t lines, int64_t length) {
  return Format(R"(f {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}}
ENTRY e {{
  a = f32[{0},{1}] parameter(0)
  z = f32[] constant(0)
  ROOT s = f32[{0},{1}] reduce-window(a, z), window={{size=1x{1} pad=0_0x{2}_0}}, to_apply=f
}})",
                lines, length, length - 1);
}

inline std::string Scatter(bool unique, std::string_view type = "f32", int64_t row = 64) {
  return Format(R"(f {{
  x = {1}[] parameter(0)
  y = {1}[] parameter(1)
  ROOT z = {1}[] add(x, y)
}}
ENTRY e {{
  a = {1}[1000,{2}] parameter(0)
  i = s32[200,1] parameter(1)
  u = {1}[200,{2}] parameter(2)
  ROOT s = {1}[1000,{2}] scatter(a, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, unique_indices={0}, to_apply=f
}})",
                unique, type, row);
}

inline std::string Fft(int64_t length) {
  return Format(R"(ENTRY e {{
  a = c64[64,{0}] parameter(0)
  ROOT f = c64[64,{0}] fft(a), fft_type=FFT, fft_length={{{0}}}
}})",
                length);
}

inline std::string Cholesky(int64_t n) {
  return Format(R"(ENTRY e {{
  a = f32[50,{0},{0}] parameter(0)
  ROOT c = f32[50,{0},{0}] cholesky(a), lower=true
}})",
                n);
}

inline std::string Lu(int64_t n) {
  return Format(R"(ENTRY e {{
  a = f32[50,{0},{0}] parameter(0)
  ROOT f = (f32[50,{0},{0}], s32[50,{0}], s32[50,{0}]) custom-call(a), custom_call_target="LuDecomposition"
}})",
                n);
}

// Of `heads` heads, causal or not.
inline std::string Attention(const std::string& type, int rows, int keys, int heads, int depth, bool causal = false) {
  return Format(R"(max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  q = {0}[{1},{2},{4}] parameter(0)
  k = {0}[{1},{3},{4}] parameter(1)
  v = {0}[{1},{3},{4}] parameter(2)
  w = f32[{1},{2},{3}] dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  row = s32[{1},{2},{3}] iota(), iota_dimension=1
  column = s32[{1},{2},{3}] iota(), iota_dimension=2
  keep = pred[{1},{2},{3}] compare(row, column), direction=GE
  low = f32[] constant(-1e30)
  lows = f32[{1},{2},{3}] broadcast(low), dimensions={{}}
  masked = f32[{1},{2},{3}] select(keep, w, lows)
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  x = f32[{1},{2},{3}] copy({5})
  m = f32[{1},{2}] reduce(x, inf), dimensions={{2}}, to_apply=max
  mb = f32[{1},{2},{3}] broadcast(m), dimensions={{0,1}}
  y = f32[{1},{2},{3}] subtract(x, mb)
  e = f32[{1},{2},{3}] exponential(y)
  s = f32[{1},{2}] reduce(e, zero), dimensions={{2}}, to_apply=add
  sb = f32[{1},{2},{3}] broadcast(s), dimensions={{0,1}}
  p = f32[{1},{2},{3}] divide(e, sb)
  ph = {0}[{1},{2},{3}] convert(p)
  ROOT o = {0}[{1},{2},{4}] dot(ph, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
}})",
                type, heads, rows, keys, depth, causal ? "masked" : "w");
}

inline std::string Elementwise(int64_t count) {
  return Format(R"(ENTRY e {{
  a = f32[{0}] parameter(0)
  b = f32[{0}] parameter(1)
  ROOT c = f32[{0}] add(a, b)
}})",
                count);
}

// Four tangents one after the other, 40 additions each.
inline std::string Formulas(int64_t count) {
  std::string out = Format("ENTRY e {{\n  t0 = f32[{}] parameter(0)\n", count);
  for (int i = 1; i <= 4; ++i) out += Format("  {}t{} = f32[{}] tan(t{})\n", i == 4 ? "ROOT " : "", i, count, i - 1);
  return out + "}";
}

inline std::string Transpose(int64_t rows, int64_t columns) {
  return Format(R"(ENTRY e {{
  a = f32[{0},{1}] parameter(0)
  ROOT t = f32[{1},{0}] transpose(a), dimensions={{1,0}}
}})",
                rows, columns);
}

}  // namespace krafla::spirv::testing
