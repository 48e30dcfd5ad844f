// SPDX-License-Identifier: Apache-2.0
// A small program for each family of kernels: the twins do the same in GLSL, and the listings show what is generated.
#pragma once

namespace krafla::shaders {

struct FamilyProgram {
  const char* name;  // of the twin, and of the listing
  const char* hlo;
};

inline constexpr FamilyProgram kElementwise = {"elementwise", R"(HloModule elementwise
ENTRY main {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  product = f32[1000] multiply(x, y)
  sum = f32[1000] add(product, x)
  minus = f32[1000] negate(y)
  greater = f32[1000] maximum(sum, minus)
  quotient = f32[1000] divide(y, x)
  ROOT result = f32[1000] subtract(greater, quotient)
})"};

inline constexpr FamilyProgram kReduceRows = {"reduce_rows", R"(HloModule reduce_rows
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
ENTRY main {
  x = f32[24,700] parameter(0)
  zero = f32[] constant(0)
  ROOT sums = f32[24] reduce(x, zero), dimensions={1}, to_apply=add
})"};

inline constexpr FamilyProgram kGemmTile = {"gemm_tile", R"(HloModule gemm_tile
ENTRY main {
  x = f32[50,70] parameter(0)
  w = f32[70,90] parameter(1)
  ROOT product = f32[50,90] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"};

inline constexpr FamilyProgram kConv = {"conv", R"(HloModule conv
ENTRY main {
  x = f32[2,9,11,6] parameter(0)
  w = f32[3,3,6,10] parameter(1)
  ROOT y = f32[2,9,11,10] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
})"};

inline constexpr FamilyProgram kSortStep = {"sort_step", R"(HloModule sort_step
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = s32[3,256] parameter(0)
  ROOT sorted = s32[3,256] sort(x), dimensions={1}, to_apply=less
})"};

inline constexpr FamilyProgram kFamilyPrograms[] = {kElementwise, kReduceRows, kGemmTile, kConv, kSortStep};

}  // namespace krafla::shaders
