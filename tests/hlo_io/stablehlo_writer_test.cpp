// SPDX-License-Identifier: Apache-2.0
// What is written as StableHLO beside the operations: names, aliases, layouts, shardings, composites; and what is
// refused. Expected lines are as StableHLO's specification and JAX's own output have them.
#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "hlo_io/write_stablehlo.h"
#include "ir/value_names.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

std::unique_ptr<Module> Parsed(std::string_view text) {
  auto module = ParseHloText(text, "test.hlo");
  EXPECT_TRUE(module) << module.error().ToString();
  EXPECT_TRUE(Verify(**module)) << Verify(**module).error().ToString();
  return std::move(*module);
}

std::string Written(std::string_view text) {
  const auto module = Parsed(text);
  auto out = WriteStablehloText(*module);
  EXPECT_TRUE(out) << out.error().ToString();
  return out.value_or("");
}

// The module read again from both forms.
std::vector<std::unique_ptr<Module>> Again(const Module& module) {
  std::vector<std::unique_ptr<Module>> out;
  for (auto* write : {&WriteStablehloText, &WriteStablehloBytecode}) {
    auto bytes = write(module);
    EXPECT_TRUE(bytes) << bytes.error().ToString();
    auto read = ReadModule(*bytes, "again");
    EXPECT_TRUE(read) << read.error().ToString() << "\n" << *bytes;
    out.push_back(std::move(*read));
  }
  return out;
}

constexpr std::string_view kNamed = R"(
HloModule named, input_output_alias={ {1}: (1, {}, may-alias) }, buffer_donor={ (0, {}) }, replica_count=1,
  frontend_attributes={krafla.result_names="logits,state\\,next"}
ENTRY main {
  x = f32[2,3] parameter(0), metadata={op_name="params['w'][0]"}
  y = f32[2,3] parameter(1)
  sum = f32[2,3] add(x, y), metadata={op_name="jit(f)/add"}
  ROOT both = (f32[2,3], f32[2,3]) tuple(sum, y)
}
)";

TEST(StablehloWriter, NamesAndAliasesSurvive) {
  const auto module = Parsed(kNamed);
  for (const auto& again : Again(*module)) {
    EXPECT_EQ(ArgumentNames(*again), ArgumentNames(*module));
    EXPECT_EQ(ResultNames(*again), (std::vector<std::string>{"logits", "state,next"}));
    ASSERT_EQ(again->input_output_aliases.size(), 1u);
    EXPECT_EQ(again->input_output_aliases[0].parameter, 1);
    EXPECT_EQ(again->input_output_aliases[0].output_index, Dims{1});
    ASSERT_EQ(again->buffer_donors.size(), 1u);
    EXPECT_EQ(again->buffer_donors[0].parameter, 0);
    EXPECT_EQ(MetadataValue(again->entry()->root()->operand(0)->metadata().metadata, "op_name"), "jit(f)/add");
  }
}

TEST(StablehloWriter, TextIsStablehlos) {
  const std::string text = Written(kNamed);
  EXPECT_NE(text.find("%arg0: tensor<2x3xf32> {jax.buffer_donor = true} loc(\"params['w'][0]\")"), std::string::npos)
      << text;
  EXPECT_NE(text.find("%0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32> loc(\"jit(f)/add\")"), std::string::npos)
      << text;
  EXPECT_NE(text.find("(tensor<2x3xf32> {jax.result_info = \"logits\"}"), std::string::npos) << text;
}

TEST(StablehloWriter, TuplesAreTakenApart) {
  const auto module = Parsed(R"(
HloModule tuples
cond { s = (s32[], (f32[2], f32[])) parameter(0)  n = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)  ROOT less = pred[] compare(n, three), direction=LT }
body { s = (s32[], (f32[2], f32[])) parameter(0)  n = s32[] get-tuple-element(s), index=0
  pair = (f32[2], f32[]) get-tuple-element(s), index=1  one = s32[] constant(1)  next = s32[] add(n, one)
  ROOT r = (s32[], (f32[2], f32[])) tuple(next, pair) }
ENTRY main {
  p = (s32[], (f32[2], f32[])) parameter(0)
  w = (s32[], (f32[2], f32[])) while(p), condition=cond, body=body
  ROOT inner = (f32[2], f32[]) get-tuple-element(w), index=1
}
)");
  for (const auto& again : Again(*module)) {
    EXPECT_EQ(again->entry()->parameters().size(), 3u);
    EXPECT_EQ(again->entry()->root()->shape().ToString(false), "(f32[2], f32[])");
    EXPECT_TRUE(Verify(*again)) << PrintModule(*again);
  }
}

TEST(StablehloWriter, ShardingsAndCountsSurvive) {
  const auto module = Parsed(R"(
HloModule sharded, replica_count=1, num_partitions=2
ENTRY main {
  x = f32[4,2] parameter(0), sharding={devices=[2,1]0,1}
  y = f32[4,2] negate(x), sharding={replicated}
  ROOT t = (f32[4,2]) tuple(y), sharding={{devices=[2,1]0,1}}
}
)");
  for (const auto& again : Again(*module)) {
    EXPECT_EQ(again->num_partitions, 2);
    EXPECT_EQ(again->entry()->parameters()[0]->metadata().sharding, "{devices=[2,1]0,1}");
    EXPECT_EQ(again->entry()->root()->metadata().sharding, "{devices=[2,1]0,1}");
  }
}

TEST(StablehloWriter, LayoutsOfTheEntrySurvive) {
  const auto module = Parsed(R"(
HloModule laid_out, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}
ENTRY main { x = f32[2,3] parameter(0)  ROOT y = f32[2,3] negate(x) }
)");
  for (const auto& again : Again(*module)) {
    ASSERT_TRUE(again->entry_layout_result);
    EXPECT_EQ(again->entry_layout_result->ToString(), "f32[2,3]{0,1}");
    EXPECT_EQ(again->entry_layout_parameters[0].ToString(), "f32[2,3]{0,1}");
  }
}

TEST(StablehloWriter, CompositesKeepWhatTheySay) {
  const auto module = Parsed(R"(
HloModule composite
inner { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }
ENTRY main {
  x = f32[2] parameter(0)
  ROOT c = f32[2] call(x), to_apply=inner, is_composite=true,
    frontend_attributes={composite.attributes={a = 1 : i64, b = "x", c = 1.5 : bf16, d = -0.25 : f8E4M3FN},composite.name="my.op",composite.version="3"}
}
)");
  for (const auto& again : Again(*module)) {
    const Instruction& call = *again->entry()->root();
    EXPECT_TRUE(call.attr<CallAttributes>().is_composite);
    EXPECT_EQ(call.metadata().frontend_attributes, module->entry()->root()->metadata().frontend_attributes);
  }
}

TEST(StablehloWriter, ConstantsKeepTheirBits) {
  const auto module = Parsed(R"(
HloModule constants
ENTRY main {
  a = f32[4] constant({nan, -0, inf, 1.1})
  b = bf16[3] constant({1.5, -inf, 0.1})
  c = s4[3] constant({-8, 7, -1})
  d = pred[9] constant({1,0,0,1,1,0,1,0,1})
  e = c64[2] constant({(1, -2), (nan, 0.1)})
  f = f8e4m3fn[2] constant({448, -0.5})
  g = u64[2] constant({18446744073709551615, 0})
  h = f64[2] constant({0.1, 5e-324})
  i = s32[0,2] constant({})
  j = pred[] constant(true)
  ROOT t = (f32[4], bf16[3], s4[3], pred[9], c64[2], f8e4m3fn[2], u64[2], f64[2], s32[0,2], pred[])
    tuple(a, b, c, d, e, f, g, h, i, j)
}
)");
  for (const auto& again : Again(*module))
    for (std::size_t n = 0; n < 10; ++n)
      EXPECT_EQ(again->entry()->root()->operand(n)->literal(), module->entry()->root()->operand(n)->literal()) << n;
}

TEST(StablehloWriter, TheVersionIsTheLowestThatHolds) {
  const auto producer = [](std::string_view text) {
    auto bytes = WriteStablehloBytecode(*Parsed(text));
    EXPECT_TRUE(bytes) << bytes.error().ToString();
    return bytes->substr(5, bytes->find('\0', 5) - 5);
  };
  EXPECT_EQ(producer("HloModule a\nENTRY main { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }"),
            "StableHLO_v1.0.0");
  EXPECT_EQ(producer("HloModule a\nENTRY main { x = f32[] parameter(0)  ROOT y = f32[] tan(x) }"), "StableHLO_v1.4.0");
  EXPECT_EQ(producer("HloModule a\nENTRY main { x = s2[3] parameter(0)  ROOT y = s2[3] negate(x) }"),
            "StableHLO_v1.2.0");
  // StableHLO's reader does not bring up to date what lies in an operation that it does: a tanh of the first form is in
  // a scatter of the second.
  constexpr std::string_view kScatter =
      "HloModule a\nf {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] {}(q) }}\n"
      "ENTRY main {{ x = f32[7] parameter(0)  i = s32[2,1] parameter(1)  u = f32[2] parameter(2)\n"
      " ROOT s = f32[7] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},"
      " scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f }}";
  EXPECT_EQ(producer(Format(kScatter, "negate")), "StableHLO_v1.0.0");
  EXPECT_EQ(producer(Format(kScatter, "tanh")), "StableHLO_v1.1.0");
}

TEST(StablehloWriter, WhatHasNoFormIsRefusedByName) {
  const auto module = Parsed(R"(
HloModule state
ENTRY main { ROOT seed = u64[2] rng-get-and-update-state(), delta=1 }
)");
  auto text = WriteStablehloText(*module);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), StatusCode::kUnimplemented);
  EXPECT_NE(text.error().message().find("'seed'"), std::string::npos) << text.error().message();
  EXPECT_NE(text.error().message().find("'rng-get-and-update-state'"), std::string::npos) << text.error().message();
}

TEST(StablehloWriter, ChloIsOfTextAlone) {
  const auto module = Parsed("HloModule a\nENTRY main { x = f32[3] parameter(0)  ROOT y = f32[3] erf(x) }");
  EXPECT_NE(WriteStablehloText(*module)->find("\"chlo.erf\"(%arg0)"), std::string::npos);
}

}  // namespace
}  // namespace krafla
