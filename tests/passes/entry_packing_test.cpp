// SPDX-License-Identifier: Apache-2.0
#include "passes/entry_packing.h"

#include "pass_harness.h"

namespace krafla {
namespace {

// The module after PackEntry and the pipeline, verified; null where that fails.
std::unique_ptr<Module> Packed(std::string_view text) {
  auto module = ParseHloText(text);
  if (!module || !Verify(**module)) {
    ADD_FAILURE() << (module ? "" : module.error().ToString());
    return nullptr;
  }
  const Result<> done = PackEntry(**module);
  EXPECT_TRUE(done.has_value()) << done.error().ToString();
  const Result<> valid = Verify(**module);
  EXPECT_TRUE(valid.has_value()) << valid.error().ToString();
  if (!done || !valid) return nullptr;
  EXPECT_TRUE(RunPipeline(**module, {}).has_value());
  EXPECT_TRUE(Verify(**module).has_value());
  return std::move(*module);
}

TEST(EntryPacking, ParametersAndResultsAreBytes) {
  auto module = Packed(R"(HloModule m
ENTRY main { x = s4[3,6] parameter(0)
 y = u2[5] parameter(1)
 a = s4[3,6] negate(x)
 ROOT r = (s4[3,6], u2[5]) tuple(a, y) })");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(
      Expression(*module->entry()->root()),
      "(bitcast-convert u8[3,3](reshape s4[3,3,2](negate s4[3,6](reshape s4[3,6](bitcast-convert s4[3,3,2](p0))))), "
      "bitcast-convert u8[2](reshape u2[2,4](pad u2[8](slice{0:5:1} u2[5](reshape u2[8](bitcast-convert "
      "u2[2,4](p1))), u2[](00)))))");
}

TEST(EntryPacking, WhatIsPassedOnStaysPacked) {
  auto module = Packed(R"(HloModule m
ENTRY main { x = (s4[4,2], f32[2]) parameter(0)
 ROOT r = (s4[4,2], f32[2]) copy(x) })");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Find(*module, Opcode::kBitcastConvert).size(), 0u);
  EXPECT_EQ(module->entry()->root()->shape().ToString(false), "(u8[4,1], f32[2])");
}

TEST(EntryPacking, CachesAreUpdatedAsBytes) {
  auto module = Packed(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main { cache = s4[8,16] parameter(0)
 new = s4[1,16] parameter(1)
 at = s32[] parameter(2)
 zero = s32[] constant(0)
 ROOT r = s4[8,16] dynamic-update-slice(cache, new, at, zero) })");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Expression(*module->entry()->root()), "dynamic-update-slice u8[8,8](p0, p1, p2, s32[](0))");
}

TEST(EntryPacking, LoopsPassOnBytes) {
  auto module = Packed(R"(HloModule m
c { s = (s32[], s4[4,256,128], s32[128]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(4)
 ROOT r = pred[] compare(i, n), direction=LT }
b { s = (s32[], s4[4,256,128], s32[128]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 one = s32[] constant(1)
 j = s32[] add(i, one)
 w = s4[4,256,128] get-tuple-element(s), index=1
 zero = s32[] constant(0)
 l = s4[1,1,128] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,1,128}
 f = s4[128] reshape(l)
 g = s32[128] convert(f)
 x = s32[128] get-tuple-element(s), index=2
 y = s32[128] subtract(g, x)
 ROOT r = (s32[], s4[4,256,128], s32[128]) tuple(j, w, y) }
ENTRY main { w = s4[4,256,128] parameter(0)
 x = s32[128] parameter(1)
 i = s32[] constant(0)
 t = (s32[], s4[4,256,128], s32[128]) tuple(i, w, x)
 l = (s32[], s4[4,256,128], s32[128]) while(t), condition=c, body=b
 ROOT r = s32[128] get-tuple-element(l), index=2 })");
  ASSERT_NE(module, nullptr);
  auto loops = Find(*module, Opcode::kWhile);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_NE(loops[0]->shape().ToString(false).find("u8[4,256,64]"), std::string::npos);
  EXPECT_EQ(loops[0]->shape().ToString(false).find("s4["), std::string::npos) << loops[0]->shape().ToString(false);
}

TEST(EntryPacking, LargeConstantsArePacked) {
  std::string row, rows;
  for (int i = 0; i < 64; ++i) row += Format("{}{}", i == 0 ? "" : ",", i % 16 - 8);
  for (int i = 0; i < 64; ++i) rows += Format("{}{{{}}}", i == 0 ? "" : ",", row);
  auto module = RunOn(Format(R"(HloModule m
ENTRY main {{ x = s32[64] parameter(0)
 w = s4[64,64] constant({{{}}})
 f = s32[64,64] convert(w)
 ROOT d = s32[64] dot(x, f), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }})",
                             rows),
                      {"constant_packer"});
  ASSERT_NE(module, nullptr);
  auto constants = Find(*module, Opcode::kConstant);
  ASSERT_EQ(constants.size(), 1u);
  EXPECT_EQ(constants[0]->shape().ToString(false), "u8[64,32]");
}

TEST(ConstantPacker, EvenStepsThatAreBroadcastAreIotas) {
  const std::string text = Entry(R"(x = s32[4,8] parameter(0)
 c = s32[8] constant({0,4,8,12,16,20,24,28})
 b = s32[4,8] broadcast(c), dimensions={1}
 ROOT r = s32[4,8] shift-right-logical(x, b))");
  auto module = RunOn(text, {"constant_packer"});
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Find(*module, Opcode::kIota).size(), 1u);
  // Uneven ones stay.
  std::string uneven = text;
  uneven.replace(uneven.find("28}"), 3, "29}");
  module = RunOn(uneven, {"constant_packer"});
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(Find(*module, Opcode::kIota).size(), 0u);
}

TEST(EntryPacking, DynamicBordersStay) {
  auto module = ParseHloText(R"(HloModule m
ENTRY main { x = s4[<=8] parameter(0)
 w = s4[8] parameter(1)
 ROOT r = (s4[<=8], s4[8]) tuple(x, w) })");
  ASSERT_TRUE(module.has_value());
  ASSERT_TRUE(PackEntry(**module).has_value());
  EXPECT_EQ((*module)->entry()->parameters()[1]->shape().ToString(false), "s4[8]");
}

}  // namespace
}  // namespace krafla
