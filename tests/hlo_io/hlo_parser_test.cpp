// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

std::unique_ptr<Module> Read(std::string_view text) {
  auto module = ParseHloText(text, "m.hlo");
  EXPECT_TRUE(module.has_value()) << module.error().ToString();
  return module ? std::move(*module) : nullptr;
}

std::string ErrorOf(std::string_view text, const HloTextLimits& limits = {}) {
  auto module = ParseHloText(text, "m.hlo", limits);
  EXPECT_FALSE(module.has_value()) << text;
  return module ? std::string() : module.error().message();
}

// A module of one computation around `body`.
std::string Around(std::string_view body) { return "HloModule m\nENTRY e {\n" + std::string(body) + "\n}\n"; }

const Instruction& Root(const Module& module) { return *module.entry()->root(); }

TEST(HloParser, GraphOfAModule) {
  auto m = Read(
      "HloModule net, replica_count=2, num_partitions=3, is_scheduled=true,\n"
      "  input_output_alias={ {1}: (0, {}, must-alias) }, buffer_donor={ (1, {0}) },\n"
      "  entry_computation_layout={(f32[2]{0}, s32[])->f32[2]{0}}, frontend_attributes={a={\"}\"}}\n"
      "%sum (x: f32[], y: f32[]) -> f32[] {\n"
      "  %x = f32[] parameter(0)\n"
      "  %y = f32[] parameter(1)\n"
      "  ROOT %s = f32[] add(f32[] %x, f32[] %y)\n"
      "}\n"
      "ENTRY %main {\n"
      "  p1 = s32[] parameter(1)\n"
      "  p0 = f32[2,3]{0,1} parameter(0), sharding={replicated}, metadata={op_name=\"a}\"}\n"
      "  zero = f32[] constant(0)\n"
      "  ROOT r = f32[2] reduce(p0, zero), to_apply=%sum, dimensions={1}, control-predecessors={p1}\n"
      "}\n");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->name(), "net");
  EXPECT_EQ(m->replica_count, 2);
  EXPECT_EQ(m->num_partitions, 3);
  EXPECT_TRUE(m->is_scheduled);
  ASSERT_EQ(m->input_output_aliases.size(), 1u);
  EXPECT_EQ(m->input_output_aliases[0], (InputOutputAlias{Dims{1}, 0, {}, true}));
  ASSERT_EQ(m->buffer_donors.size(), 1u);
  EXPECT_EQ(m->buffer_donors[0], (BufferDonor{1, Dims{0}}));
  EXPECT_EQ(m->entry_layout_parameters.size(), 2u);
  ASSERT_EQ(m->other_attributes.size(), 1u);
  EXPECT_EQ(m->other_attributes[0].second, "{a={\"}\"}}");
  ASSERT_EQ(m->computations().size(), 2u);
  const Computation& entry = *m->entry();
  EXPECT_EQ(entry.name(), "main");
  ASSERT_EQ(entry.parameters().size(), 2u);
  EXPECT_EQ(entry.parameters()[0]->name(), "p0");
  EXPECT_EQ(entry.parameters()[0]->metadata().sharding, "{replicated}");
  EXPECT_EQ(entry.parameters()[0]->metadata().metadata, "op_name=\"a}\"");
  EXPECT_EQ(entry.parameters()[0]->shape().layout().minor_to_major, (Dims{0, 1}));
  const Instruction& r = Root(*m);
  EXPECT_EQ(r.opcode(), Opcode::kReduce);
  EXPECT_EQ(r.operand(0)->name(), "p0");
  EXPECT_EQ(r.operand(1)->literal().data<float>()[0], 0.0f);
  EXPECT_EQ(r.called(0)->name(), "sum");
  EXPECT_EQ(r.attr<DimensionsAttributes>().dimensions, (Dims{1}));
  ASSERT_EQ(r.control_predecessors().size(), 1u);
  EXPECT_EQ(r.control_predecessors()[0]->name(), "p1");
  EXPECT_EQ(r.location().line, 13);
  EXPECT_EQ(r.location().column, 8);
}

TEST(HloParser, LastComputationIsTheEntryWithoutTheWord) {
  auto m = Read("HloModule m\na { ROOT x = f32[] parameter(0) }\nb { ROOT x = f32[] parameter(0) }\n");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->entry()->name(), "b");
}

TEST(HloParser, LastInstructionIsTheRootWithoutTheWord) {
  auto m = Read(Around("a = f32[] parameter(0)\nb = f32[] negate(a)"));
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(Root(*m).name(), "b");
}

TEST(HloParser, ComputationsMayComeAfterTheirUse) {
  auto m = Read(
      "HloModule m\nENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f }\n"
      "f { y = f32[] parameter(0) ROOT z = f32[] negate(y) }\n");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(Root(*m).called(0)->name(), "f");
  EXPECT_EQ(m->entry()->name(), "e");
}

TEST(HloParser, AsyncSugarMakesAComputation) {
  auto m =
      Read(Around("x = f32[2] parameter(0)\n"
                  "s = ((f32[2]), f32[2], u32[]) exponential-start(x), result_accuracy={mode=highest}\n"
                  "u = ((f32[2]), f32[2], u32[]) exponential-update(s)\n"
                  "ROOT d = f32[2] exponential-done(u)"));
  ASSERT_NE(m, nullptr);
  const Instruction& start = *Root(*m).operand(0)->operand(0);
  EXPECT_EQ(start.opcode(), Opcode::kAsyncStart);
  EXPECT_EQ(Root(*m).opcode(), Opcode::kAsyncDone);
  ASSERT_EQ(start.called().size(), 1u);
  const Instruction& inner = *start.called(0)->root();
  EXPECT_EQ(inner.opcode(), Opcode::kExp);
  EXPECT_TRUE(inner.attr<ResultAccuracyAttributes>().highest);
  EXPECT_EQ(inner.operand(0)->opcode(), Opcode::kParameter);
  EXPECT_EQ(m->entry()->name(), "e");
}

TEST(HloParser, InlineComputation) {
  auto m =
      Read(Around("x = f32[3] parameter(0)\nz = f32[] constant(0)\n"
                  "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply={ a = f32[] parameter(0)\n"
                  " b = f32[] parameter(1)\n ROOT s = f32[] maximum(a, b) }"));
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(Root(*m).called(0)->root()->opcode(), Opcode::kMaximum);
  EXPECT_EQ(m->entry()->name(), "e");
}

TEST(HloParser, WindowsAndDimLabels) {
  auto m =
      Read(Around("x = f32[1,4,4,2] parameter(0)\nw = f32[3,2,2,5] parameter(1)\n"
                  "ROOT c = f32[1,4,4,5] convolution(x, w), dim_labels=b01f_01io->b01f, feature_group_count=1,\n"
                  "window={size=3x2 stride=1x2 pad=1_-1x0_2 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=0x1}"));
  ASSERT_NE(m, nullptr);
  const auto& c = Root(*m).attr<ConvolutionAttributes>();
  ASSERT_EQ(c.window.size(), 2u);
  EXPECT_EQ(c.window[0], (WindowDim{3, 1, 1, -1, 2, 1, false}));
  EXPECT_EQ(c.window[1], (WindowDim{2, 2, 0, 2, 1, 2, true}));
  EXPECT_EQ(c.input_spatial, (Dims{1, 2}));
  EXPECT_EQ(c.kernel_input_feature, 2);
  EXPECT_EQ(c.kernel_output_feature, 3);
  EXPECT_EQ(c.output_feature, 3);
}

TEST(HloParser, ReplicaGroupsInEveryForm) {
  using Groups = std::vector<std::vector<int64_t>>;
  auto groups = [](std::string_view text) {
    auto m =
        Read(Around(Format("x = f32[4] parameter(0)\n"
                           "ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply={{\n"
                           "a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }}",
                           text)));
    return m ? Root(*m).attr<CollectiveAttributes>().replica_groups : Groups{{-1}};
  };
  EXPECT_EQ(groups("{}"), Groups{});
  EXPECT_EQ(groups("{{0,2},{1,3}}"), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups("[2,4]<=[8]"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  // Columns of a 2x4 grid.
  EXPECT_EQ(groups("[4,2]<=[2,4]T(1,0)"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups("mesh['a'=2,'b'=2] {'a'}"), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups("mesh['a'=2,'b'=2] {'b','a'}"), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(groups("mesh['a'=2,'b'=1] {'a'}"), (Groups{{0, 1}}));
  // The middle of three binary digits of an axis of 8.
  EXPECT_EQ(groups("mesh['a'=8] {'a':(2)2}"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups("mesh['a'=4], device_ids=(3,2,1,0) {'a':(1)2}"), (Groups{{3, 1}, {2, 0}}));
}

TEST(HloParser, LayoutTails) {
  auto shape = ParseShape("f32[8,128]{1,0:T(8,128)(2,1) E(32)S(1)}");
  ASSERT_TRUE(shape.has_value()) << shape.error().ToString();
  EXPECT_EQ(shape->layout().tail, "T(8,128)(2,1)E(32)S(1)");
  EXPECT_EQ(shape->ToString(), "f32[8,128]{1,0:T(8,128)(2,1)E(32)S(1)}");
  auto plain = ParseShape("(f32[<=4,2]{1,0:S(0)}, token[], opaque[])");
  ASSERT_TRUE(plain.has_value()) << plain.error().ToString();
  EXPECT_EQ(plain->ToString(), "(f32[<=4,2]{1,0}, token[], opaque[])");
  EXPECT_TRUE(plain->tuple_elements()[0].IsDynamicDim(0));
  for (const char* bad :
       {"f32", "f32[", "f32[2", "f32[-1]", "f32[2]{0", "f32[2]{1}", "f32[2,2]{0}", "f32[2,2]{0,0}", "f32[]{0}",
        "f32[9999999999999999999]", "f32[?]", "f32[<=]", "(f32[]", "f32[2] x", "float[2]", "token[2]", ""})
    EXPECT_FALSE(ParseShape(bad).has_value()) << bad;
}

TEST(HloParser, TripCountOfAWhile) {
  for (const char* config :
       {"{\"known_trip_count\":{\"n\":\"7\"},\"x\":{}}", "\"{\\\"known_trip_count\\\":{\\\"n\\\":\\\"7\\\"}}\""}) {
    auto m = Read(
        Format("HloModule m\nc {{ a = s32[] parameter(0) ROOT p = pred[] constant(true) }}\n"
               "b {{ ROOT a = s32[] parameter(0) }}\n"
               "ENTRY e {{ x = s32[] parameter(0) ROOT w = s32[] while(x), condition=c, body=b, backend_config={} }}",
               config));
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(Root(*m).attr<WhileAttributes>().known_trip_count, 7);
    EXPECT_EQ(Root(*m).metadata().backend_config, config);
    std::string text = PrintModule(*m);
    EXPECT_EQ(text.find("known_trip_count"), text.rfind("known_trip_count"));
  }
}

TEST(HloParser, ErrorsShowTheirPlace) {
  EXPECT_EQ(ErrorOf("HloModule m\nENTRY e {\n\tx = f32[2] parameter(0)\n  ROOT r = f32[2] ad(x)\n}\n"),
            "m.hlo:4:19: Unknown opcode 'ad'.\n    ROOT r = f32[2] ad(x)\n                    ^");
  EXPECT_EQ(
      ErrorOf(Around("\tx = f32[2] parameter(0)\n\tROOT r = f32[2] negate(y)")),
      "m.hlo:4:25: No instruction 'y' is defined before this one.\n  \tROOT r = f32[2] negate(y)\n  \t                       ^");
  EXPECT_EQ(ErrorOf(""),
            "m.hlo:1:1: Expected 'HloModule' at the beginning of a module, found the end of the text.\n  \n  ^");
}

TEST(HloParser, WhatIsRefused) {
  const std::pair<const char*, const char*> kCases[] = {
      {"x = f32[2] parameter(0)\nr = f32[2] negate(x), dimensions={0}",
       "This instruction has no attribute 'dimensions'"},
      {"x = f32[2] parameter(0)\nr = f32[2] negate(x), turbo=1", "Unknown attribute 'turbo'"},
      {"x = f32[2] parameter(0)\nr = f32[2] reverse(x)", "reverse needs the attribute 'dimensions'"},
      {"x = f32[2] parameter(0)\nr = f32[2] reverse(x), dimensions={0}, dimensions={0}", "given twice"},
      {"x = f32[2] parameter(0)\nx = f32[2] negate(x)", "given twice"},
      {"x = f32[2] parameter(0)\nr = f32[2] negate(x, x)", "negate takes 1 operand, 2 were given."},
      {"x = f32[2] parameter(0)\nr = f32[2] call(x), to_apply=g", "No computation 'g' is defined."},
      {"x = f32[2] parameter(0)\nr = f32[2] call(x), to_apply=e", "leads back to it"},
      {"x = f32[2] parameter(0)\nr = f32[2] negate(f32[3] x)", "Operand 'x' is f32[2], not f32[3]"},
      {"x = f32[2] parameter(0)\ny = f32[2] parameter(0)", "given twice"},
      {"x = f32[2] parameter(1)", "has parameter 1 but no parameter 0"},
      {"x = f32[2] parameter(2147483647)", "more than this text has parameters"},
      {"x = f32[2] parameter(-1)", "negative"},
      {"x = f32[2] parameter(99999999999999999999)", "not an integer of 64 bits"},
      {"s32 = f32[2] parameter(0)", "element type"},
      {"ROOT x = f32[2] parameter(0)\nROOT r = f32[2] negate(x)", "more than one ROOT"},
      {"x = f32[4611686018427387904,4] parameter(0)", "does not fit 63 bits"},
      {"x = f64[1152921504606846976] parameter(0)", "does not fit 63 bits"},
      {"x = f32[2] parameter(0), metadata={op_name=}", "metadata"},
      {"x = f32[2] parameter(0), metadata={op_name=\"", "never closed"},
      {"x = f32[2] parameter(0), metadata={a=[/*\"*/\" ]}", "never closed"},
      {"x = f32[2] parameter(0), sharding={devices=[3]0,1}", "3 tiles cannot name 2 devices"},
      {"x = f32[2] parameter(0), sharding={sideways}", "sideways"},
      {"x = f32[2] parameter(0) /* open", "never closed"},
      {"", "no instruction"},
  };
  for (auto [body, what] : kCases) {
    std::string message = ErrorOf(Around(body));
    EXPECT_NE(message.find(what), std::string::npos) << body << "\n" << message;
    EXPECT_EQ(message.substr(0, 6), "m.hlo:") << message;
  }
}

TEST(HloParser, AnyNameSurvivesARoundTrip) {
  Module module("odd \"module\"\n");
  Computation* c = module.AddComputation("two words");
  module.set_entry(c);
  Instruction* last = nullptr;
  int64_t number = 0;
  for (const char* name :
       {"f32", "ROOT", "ENTRY", "1", "a b", "quote\"d", "back\\slash", "line\nbreak", "a-", "%x", "\xc3\xa9", "x.1-y"})
    last = c->Add(Opcode::kParameter, Shape::MakeScalar(ElementType::kF32), {}, ParameterAttributes{number++, {}}, {},
                  name);
  c->set_root(c->Add(Opcode::kNegate, last->shape(), {last}));
  for (bool percent : {false, true}) {
    HloPrintOptions options;
    options.percent = percent;
    std::string text = PrintModule(module, options);
    auto again = Read(text);
    ASSERT_NE(again, nullptr) << text;
    EXPECT_TRUE(SameModule(module, *again)) << text;
  }
}

TEST(HloParser, Limits) {
  HloTextLimits limits;
  limits.max_instructions = 2;
  EXPECT_NE(ErrorOf(Around("a = f32[] parameter(0)\nb = f32[] negate(a)\nc = f32[] negate(b)"), limits)
                .find("limit of 2 instructions"),
            std::string::npos);
  limits = {};
  limits.max_constant_bytes = 7;
  EXPECT_NE(ErrorOf(Around("a = s32[1] constant({1})\nb = s32[1] constant({...})"), limits).find("limit of 7 bytes"),
            std::string::npos);
  // Nesting of shapes, literals and computations ends at a limit, not at the end of the stack.
  std::string deep(100000, '('), braces(100000, '{');
  EXPECT_NE(ErrorOf(Around("a = " + deep)).find("deeper than the limit"), std::string::npos);
  EXPECT_NE(ErrorOf(Around("a = f32[2] constant(" + braces)).find("deeper than"), std::string::npos);
  std::string inside;
  for (int i = 0; i < 1000; ++i) inside += "a = f32[] parameter(0) r = f32[] map(a), to_apply={";
  EXPECT_NE(ErrorOf(Around(inside)).find("deeper than the limit"), std::string::npos);
  // A number of a few characters cannot ask for gigabytes.
  EXPECT_NE(ErrorOf(Around("a = f32[1000000000] constant({1, 2})")).find("more than the rest of the text"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf(
          Around(
              "x = f32[4] parameter(0)\nr = f32[4] all-gather(x), dimensions={0}, replica_groups=[1,1000000000]<=[1000000000]"))
          .find("past the limit"),
      std::string::npos);
}

constexpr std::string_view kSample =
    "HloModule sample, entry_computation_layout={(f32[2,3]{1,0})->(f32[2], s32[2,2])}, frontend_attributes={a=\"b\"}\n"
    "FileNames\n1 \"a.py\"\n\n%f (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
    "  ROOT %s = f32[] add(%a, %b), metadata={op_name=\"s\" source_line=1}\n}\n"
    "ENTRY %main { /* c */\n  x = f32[2,3]{1,0:T(2,128)} parameter(0), sharding={devices=[2,1]<=[2]}\n  z = f32[] constant(-nan(0x1))\n"
    "  c = s32[2,2] constant({{1,2},{3,4}})\n  r = f32[2] reduce(x, z), dimensions={1}, to_apply=%f\n"
    "  w = f32[2] reduce-window(r, z), window={size=1 pad=0_0}, to_apply=%f, backend_config={\"a\":[\"}\"]}\n"
    "  k = f32[2] custom-call(w), custom_call_target=\"a\\\"b\", output_to_operand_aliasing={{}: (0, {})}\n"
    "  g = f32[2] all-reduce(k), replica_groups=[1,2]<=[2]T(0), to_apply=%f\n"
    "  ROOT t = (f32[2], s32[2,2]) tuple(g, c), control-predecessors={x}\n}\n";

TEST(HloParser, EveryTruncationGivesAModuleOrAnError) {
  auto whole = Read(kSample);
  ASSERT_NE(whole, nullptr);
  int modules = 0;
  for (std::size_t n = 0; n < kSample.size(); ++n) {
    auto part = ParseHloText(kSample.substr(0, n), "cut");
    if (part) {
      ++modules;
      continue;
    }
    EXPECT_EQ(part.error().message().substr(0, 4), "cut:") << n;
  }
  // The module ends with its last brace; of what is cut before it, what ends behind a computation is a module too.
  EXPECT_LT(modules, 10);
}

TEST(HloParser, EveryChangedByteGivesAModuleOrAnError) {
  std::string text(kSample);
  for (std::size_t n = 0; n < text.size(); ++n)
    for (char c : {'\0', '{', '}', '"', '9', '-', '\xff'}) {
      std::string changed = text;
      changed[n] = c;
      auto module = ParseHloText(changed, "changed");
      if (!module) continue;
      auto again = ParseHloText(PrintModule(**module), "again");
      ASSERT_TRUE(again.has_value()) << changed << "\n" << again.error().ToString();
      EXPECT_TRUE(SameModule(**module, **again)) << changed << PrintModule(**module);
    }
}

TEST(HloParser, BinaryJunk) {
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::string junk = round % 2 ? "HloModule m\nENTRY e {\n" : "";
    for (int i = 0; i < 500; ++i) {
      state = state * 1664525 + 1013904223;
      junk += static_cast<char>(state >> 24);
    }
    EXPECT_FALSE(ParseHloText(junk).has_value());
  }
}

}  // namespace
}  // namespace krafla
