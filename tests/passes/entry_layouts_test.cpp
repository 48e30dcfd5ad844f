// SPDX-License-Identifier: Apache-2.0
#include "passes/entry_layouts.h"

#include "pass_harness.h"

namespace krafla {
namespace {

// The module after LayOutEntry, verified; null where that fails.
std::unique_ptr<Module> LaidOut(std::string_view text) {
  auto module = ParseHloText(text);
  if (!module || !Verify(**module)) {
    ADD_FAILURE() << (module ? "" : module.error().ToString());
    return nullptr;
  }
  const Result<EntryInterface> done = LayOutEntry(**module);
  EXPECT_TRUE(done.has_value()) << done.error().ToString();
  const Result<> valid = Verify(**module);
  EXPECT_TRUE(valid.has_value()) << valid.error().ToString();
  return done && valid ? std::move(*module) : nullptr;
}

TEST(EntryLayouts, ParametersAndResultsAreWhatLiesInMemory) {
  auto module = LaidOut(R"(HloModule m, entry_computation_layout={(f32[2,3,4]{0,2,1}, f32[2])->f32[2,3,4]{0,1,2}}
ENTRY main { x = f32[2,3,4] parameter(0)
 y = f32[2] parameter(1)
 b = f32[2,3,4] broadcast(y), dimensions={0}
 ROOT r = f32[2,3,4] add(x, b) })");
  ASSERT_NE(module, nullptr);
  EXPECT_FALSE(module->entry_layout_result.has_value());
  EXPECT_EQ(module->entry()->parameters()[0]->shape().ToString(), "f32[3,4,2]{2,1,0}");
  EXPECT_EQ(module->entry()->parameters()[1]->shape().ToString(), "f32[2]{0}");
  EXPECT_EQ(
      Expression(*module->entry()->root()),
      "transpose{2,1,0} f32[4,3,2](add f32[2,3,4](transpose{2,0,1} f32[2,3,4](p0), broadcast{0} f32[2,3,4](p1)))");
}

TEST(EntryLayouts, TransposesThatTheLayoutsAskForCancel) {
  auto module = LaidOut(R"(HloModule m, entry_computation_layout={(f32[2,3])->(f32[3,2]{0,1}, f32[2,3])}
ENTRY main { x = f32[2,3] parameter(0)
 t = f32[3,2] transpose(x), dimensions={1,0}
 ROOT r = (f32[3,2], f32[2,3]) tuple(t, x) })");
  ASSERT_NE(module, nullptr);
  ASSERT_TRUE(RunPipeline(*module, {}).has_value());
  EXPECT_EQ(Expression(*module->entry()->root()), "(p0, p0)");
}

TEST(EntryLayouts, ResultsThatAreNoTupleInstruction) {
  auto module = LaidOut(R"(HloModule m, entry_computation_layout={(f32[2,3])->(f32[2,3]{0,1}, f32[2,3]{1,0})}
f { x = f32[2,3] parameter(0)
 n = f32[2,3] negate(x)
 ROOT r = (f32[2,3], f32[2,3]) tuple(x, n) }
ENTRY main { x = f32[2,3] parameter(0)
 ROOT r = (f32[2,3], f32[2,3]) call(x), to_apply=f })");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->shape().ToString(false), "(f32[3,2], f32[2,3])");
}

TEST(EntryLayouts, AliasesOfOtherOrdersGo) {
  for (const auto& [layout, aliases] : {std::pair("{0,1}", 1), std::pair("{1,0}", 0)}) {
    auto module = LaidOut(Format(
        R"(HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}, entry_computation_layout={{(f32[2,3]{{0,1}})->f32[2,3]{}}}
ENTRY main {{ x = f32[2,3] parameter(0)
 ROOT r = f32[2,3] negate(x) }})",
        layout));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(std::ssize(module->input_output_aliases), aliases) << layout;
  }
}

// What callers are told: the arrays of the header, in its orders.
TEST(EntryLayouts, TheInterfaceIsTheHeaders) {
  auto module =
      ParseHloText(R"(HloModule m, entry_computation_layout={(f32[2,3]{0,1:S(5)}, f32[2,3])->(f32[2,3]{0,1}, token[])}
ENTRY main { x = f32[2,3] parameter(0)
 y = f32[2,3] parameter(1)
 s = f32[2,3] add(x, y)
 t = token[] after-all()
 ROOT r = (f32[2,3], token[]) tuple(s, t) })");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  const Result<EntryInterface> interface = LayOutEntry(**module);
  ASSERT_TRUE(interface.has_value()) << interface.error().ToString();
  EXPECT_TRUE(interface->has_own_transposes);
  ASSERT_EQ(interface->arguments.size(), 2u);
  EXPECT_EQ(interface->arguments[0].ToString(), "f32[2,3]{0,1}");
  EXPECT_EQ(interface->arguments[1].ToString(), "f32[2,3]{1,0}");
  ASSERT_EQ(interface->results.size(), 2u);
  EXPECT_EQ(interface->results[0].ToString(), "f32[2,3]{0,1}");
  EXPECT_TRUE(interface->results[1].IsToken());
  // A plan's shapes are those of memory.
  std::vector<Shape> arguments{(*module)->entry()->parameters()[0]->shape()}, results;
  ASSERT_TRUE(arguments[0].SetLayout(interface->arguments[0].layout()));
  interface->ApplyLayouts(arguments, results);
  EXPECT_EQ(arguments[0].ToString(), "f32[3,2]{1,0}");
}

TEST(EntryLayouts, TuplesForParametersAndDynamicDimensionsAreRowMajor) {
  for (const char* text : {R"(HloModule m, entry_computation_layout={((f32[2,3]{0,1}))->f32[2,3]{0,1}}
ENTRY main { x = (f32[2,3]) parameter(0)
 ROOT r = f32[2,3] get-tuple-element(x), index=0 })",
                           R"(HloModule m, entry_computation_layout={(f32[<=2,3]{0,1})->f32[<=2,3]{0,1}}
ENTRY main { x = f32[<=2,3] parameter(0)
 ROOT r = f32[<=2,3] negate(x) })"}) {
    auto module = ParseHloText(text);
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    const int64_t before = std::ssize((*module)->entry()->instructions());
    const Result<EntryInterface> interface = LayOutEntry(**module);
    ASSERT_TRUE(interface.has_value()) << interface.error().ToString();
    EXPECT_FALSE(interface->has_own_transposes);
    EXPECT_FALSE((*module)->entry_layout_result.has_value());
    EXPECT_TRUE(interface->arguments[0].layout().IsRowMajor());
    EXPECT_TRUE(interface->results[0].layout().IsRowMajor());
    EXPECT_EQ(std::ssize((*module)->entry()->instructions()), before);
  }
}

}  // namespace
}  // namespace krafla
