// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/stablehlo_text/stablehlo_text.h"

#include <gtest/gtest.h>

#include <random>

#include "corpus_files.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "hlo_io/stablehlo/to_module.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

std::vector<std::filesystem::path> Programs() {
  return testing::FilesBelow(std::filesystem::path(KRAFLA_SOURCE_DIR) / "tests/models", ".mlir");
}

// The instruction of an opcode in the entry computation, as HLO text; empty where there is none.
std::string Line(const Module& module, Opcode opcode) {
  for (const auto& i : module.entry()->instructions())
    if (i->opcode() == opcode) return PrintInstruction(*i);
  return {};
}

constexpr std::string_view kForms = R"mlir(
#map = loc("somewhere")
module @forms attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<6x5xf32>, %arg2: tensor<i1>) -> (tensor<4x6xf32> {jax.result_info = "x"}, tensor<4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
    %cst = stablehlo.constant dense<-0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32> loc(#map)
    %2 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 4, 3>, start_indices = array<i64: 0, 1>, strides = array<i64: 2, 1>}> : (tensor<4x6xf32>) -> tensor<2x2xf32>
    %3 = stablehlo.pad %2, %cst, low = [1, 0], high = [0, -1], interior = [0, 1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    %4:2 = "stablehlo.sort"(%arg0, %arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) : (tensor<4x6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)
    %5 = stablehlo.exponential %4#1 {result_accuracy = #stablehlo.result_accuracy<atol = 0.5, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4x6xf32>
    %6 = "stablehlo.if"(%arg2) ({
      stablehlo.return %5 : tensor<4x6xf32>
    }, {
      %n = stablehlo.negate %arg0 : tensor<4x6xf32>
      stablehlo.return %n : tensor<4x6xf32>
    }) : (tensor<i1>) -> tensor<4x6xf32>
    %7 = stablehlo.reduce_precision %6, format = e5m10 : tensor<4x6xf32>
    %i = stablehlo.constant dense<0> : tensor<i32>
    %8:2 = stablehlo.while(%it = %i, %acc = %7) : tensor<i32>, tensor<4x6xf32>
    cond {
      %lim = stablehlo.constant dense<3> : tensor<i32>
      %go = stablehlo.compare LT, %it, %lim, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %it, %one : tensor<i32>
      %sum = stablehlo.add %acc, %arg0 : tensor<4x6xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<4x6xf32>
    }
    %9 = func.call @twice(%8#1) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %9, %1 : tensor<4x6xf32>, tensor<4xf32>
  }
  func.func private @twice(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.add %x, %x : tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
)mlir";

TEST(StablehloText, PrettyAndGenericForms) {
  auto module = ReadModule(kForms, "forms.mlir");
  ASSERT_TRUE(module) << module.error().ToString();
  auto verified = Verify(**module);
  ASSERT_TRUE(verified) << verified.error().ToString();
  const Module& m = **module;
  EXPECT_NE(Line(m, Opcode::kDot).find("operand_precision={highest,default}, algorithm=dot_bf16_bf16_f32_x3"),
            std::string::npos)
      << Line(m, Opcode::kDot);
  EXPECT_NE(Line(m, Opcode::kSlice).find("slice={[0:4:2], [1:3]}"), std::string::npos) << Line(m, Opcode::kSlice);
  EXPECT_NE(Line(m, Opcode::kPad).find("padding=1_0x0_-1_1"), std::string::npos) << Line(m, Opcode::kPad);
  EXPECT_NE(Line(m, Opcode::kConstant).find("-0.0"), std::string::npos) << Line(m, Opcode::kConstant);
  EXPECT_NE(Line(m, Opcode::kReducePrecision).find("exponent_bits=5, mantissa_bits=10"), std::string::npos);
  EXPECT_NE(Line(m, Opcode::kSort).find("dimensions={1}, is_stable=true"), std::string::npos);
  EXPECT_NE(Line(m, Opcode::kExp).find("ulps=2"), std::string::npos) << Line(m, Opcode::kExp);
  ASSERT_EQ(m.input_output_aliases.size(), 1u);
  EXPECT_EQ(m.input_output_aliases[0].output_index, Dims{0});
}

// As a composite, in which jax.export writes it for platforms that have the operation.
TEST(StablehloText, CompositeRaggedDot) {
  auto module = ReadModule(R"mlir(
func.func @main(%l: tensor<6x3xf32>, %r: tensor<2x3x4xf32>, %g: tensor<2xi32>) -> tensor<6x4xf32> {
  %0 = stablehlo.composite "chlo.ragged_dot" %l, %r, %g {composite_attributes = {
    precision_config = ["DEFAULT", "DEFAULT"], ragged_dot_dimension_numbers = [array<i64>, array<i64>, array<i64: 1>,
    array<i64: 1>, array<i64: 0>, array<i64: 0>]}, decomposition = @impl, version = 1 : i32} :
    (tensor<6x3xf32>, tensor<2x3x4xf32>, tensor<2xi32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
func.func private @impl(%l: tensor<6x3xf32>, %r: tensor<2x3x4xf32>, %g: tensor<2xi32>) -> tensor<6x4xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<6x4xf32>
  return %c : tensor<6x4xf32>
}
)mlir",
                           "composite.mlir");
  ASSERT_TRUE(module) << module.error().ToString();
  const std::string line = Line(**module, Opcode::kRaggedDot);
  for (std::string_view part :
       {"lhs_contracting_dims={1}", "rhs_contracting_dims={1}", "lhs_ragged_dims={0}", "rhs_group_dims={0}"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
}

// Forms that are printed seldom: a function without a body, raw dimension numbers, bounds of some dimensions, flags
// that stand by themselves, CHLO's region and structure.
TEST(StablehloText, SeldomForms) {
  auto module = ReadModule(R"mlir(
func.func private @elsewhere(tensor<?xf32>, i32) -> tensor<2xf32>
func.func @main(%x: tensor<1x4x4x2xf32>, %k: tensor<3x3x2x5xf32>, %v: tensor<4xi32>, %g: tensor<2xi64>,
                %l: tensor<6x3xf32>, %r: tensor<2x3x4xf32>) -> (tensor<1x2x2x5xf32>, tensor<4xi32>, tensor<6x4xf32>, tensor<4xi32>) {
  %0 = "stablehlo.convolution"(%x, %k) {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
    dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 3,
      input_spatial_dimensions = [1, 2], kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3,
      kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, output_feature_dimension = 3,
      output_spatial_dimensions = [1, 2]>} : (tensor<1x4x4x2xf32>, tensor<3x3x2x5xf32>) -> tensor<1x2x2x5xf32>
  %c = stablehlo.constant() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %1:2 = chlo.scan(%v) inits(%c) dimension=0 attributes {is_reverse = true} {
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s, %s : tensor<i32>, tensor<i32>
  } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
  %2 = "chlo.ragged_dot"(%l, %r, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [],
    rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
    lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>,
    precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>]} :
    (tensor<6x3xf32>, tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<6x4xf32>
  %3 = "stablehlo.all_reduce"(%v) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {replica_groups = dense<0> : tensor<1x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>,
      use_global_device_ids} : (tensor<4xi32>) -> tensor<4xi32>
  return %0, %1#0, %2, %3 : tensor<1x2x2x5xf32>, tensor<4xi32>, tensor<6x4xf32>, tensor<4xi32>
}
)mlir",
                           "seldom.mlir");
  ASSERT_TRUE(module) << module.error().ToString();
  auto verified = Verify(**module);
  ASSERT_TRUE(verified) << verified.error().ToString();
  EXPECT_NE(Line(**module, Opcode::kConvolution).find("dim_labels=b01f_01io->b01f"), std::string::npos)
      << Line(**module, Opcode::kConvolution);
  EXPECT_NE(Line(**module, Opcode::kScan).find("is_reverse=true"), std::string::npos) << Line(**module, Opcode::kScan);
  EXPECT_NE(Line(**module, Opcode::kRaggedDot).find("highest"), std::string::npos)
      << Line(**module, Opcode::kRaggedDot);
  EXPECT_NE(Line(**module, Opcode::kAllReduce).find("use_global_device_ids=true"), std::string::npos)
      << Line(**module, Opcode::kAllReduce);

  auto bounded = ReadModule(
      "func.func @main(%a: tensor<?x3xf32, #stablehlo.type_extensions<bounds = [5, ?]>>) -> "
      "tensor<?x3xf32, #stablehlo.bounds<5, ?>> {\n"
      "  %0 = stablehlo.abs %a : tensor<?x3xf32, #stablehlo.bounds<5, ?>>\n"
      "  return %0 : tensor<?x3xf32, #stablehlo.bounds<5, ?>>\n}\n",
      "bounded.mlir");
  ASSERT_TRUE(bounded) << bounded.error().ToString();
  EXPECT_TRUE((*bounded)->entry()->root()->shape().IsDynamic());
  EXPECT_EQ((*bounded)->entry()->root()->shape().dim(0), 5);
}

// Sizes that types leave open follow from constants and static shapes, or they are refused.
TEST(StablehloText, OpenSizes) {
  auto module = ReadModule(R"mlir(
func.func @main(%a: tensor<4x3xf32>) -> (tensor<?x3xf32>, tensor<?xf32>) {
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<4x3xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %m = stablehlo.multiply %n, %two : tensor<i32>
  %m1 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %c3 = stablehlo.constant dense<3> : tensor<1xi32>
  %s = stablehlo.concatenate %m1, %c3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
  %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x3xf32>
  %t = stablehlo.add %b, %i : tensor<?x3xf32>
  %c = stablehlo.constant dense<24> : tensor<1xi32>
  %f = stablehlo.dynamic_reshape %t, %c : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %t, %f : tensor<?x3xf32>, tensor<?xf32>
}
)mlir",
                           "open.mlir");
  ASSERT_TRUE(module) << module.error().ToString();
  auto verified = Verify(**module);
  ASSERT_TRUE(verified) << verified.error().ToString();
  EXPECT_EQ((*module)->entry()->root()->shape().ToString(false), "(f32[8,3], f32[24])");
  auto unknown = ReadModule(
      "func.func @main(%a: tensor<4xf32>, %s: tensor<1xi32>) -> tensor<?xf32> {\n"
      "  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
      "  return %0 : tensor<?xf32>\n}\n",
      "unknown.mlir");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), StatusCode::kUnimplemented) << unknown.error().ToString();
  auto wrong = ReadModule(
      "func.func @main(%a: tensor<4xf32>) -> tensor<?x2xf32> {\n"
      "  %s = stablehlo.constant dense<[1, 4]> : tensor<2xi32>\n"
      "  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x2xf32>\n"
      "  return %0 : tensor<?x2xf32>\n}\n",
      "wrong.mlir");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), StatusCode::kInvalidArgument) << wrong.error().ToString();
}

// Types that XLA has not: they are read, and named where something is to be computed with them.
TEST(StablehloText, TypesThatCannotBeComputedWith) {
  auto error = [](std::string_view line) {
    const std::string text = Format(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n  {}\n  return %a : "
        "tensor<2xf32>\n}}\n",
        line);
    EXPECT_TRUE(stablehlo::ParseText(text, "types.mlir")) << text;
    auto read = ReadModule(text, "types.mlir");
    EXPECT_FALSE(read) << text;
    if (read) return std::string();
    EXPECT_EQ(read.error().code(), StatusCode::kUnimplemented) << text;
    return read.error().ToString();
  };
  EXPECT_NE(error("%0 = stablehlo.constant dense<[0.5, 0x1F]> : tensor<2xf6E2M3FN>").find("f6E2M3FN"),
            std::string::npos);
  EXPECT_NE(error("%0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.any<i8<-16:15>:f32>>")
                .find("!quant.any<i8<-16:15>:f32>"),
            std::string::npos);
}

// The types that stand where values are used are those of the values; what MLIR refuses is refused.
TEST(StablehloText, TypesOfUsesAreThoseOfDefinitions) {
  auto error = [](std::string_view lines, std::string_view returned = "tensor<2xf32>") {
    auto read = ReadModule(Format("func.func @main(%a: tensor<2xf32>, %i: tensor<i32>) -> tensor<2xf32> {{\n  {}\n"
                                  "  return %r : {}\n}}\n",
                                  lines, returned),
                           "uses.mlir");
    return read ? std::string() : read.error().ToString();
  };
  const std::string_view used = "is used as", abs = "%r = stablehlo.abs %a : tensor<2xf32>";
  EXPECT_EQ(error(abs), "");
  EXPECT_NE(error(abs, "tensor<2xf64>").find("'return' is used as tensor<2xf64>, but it is defined as tensor<2xf32>"),
            std::string::npos);
  EXPECT_NE(error(abs, "tensor<2xf32>, tensor<2xf32>").find("1 operands but types for 2"), std::string::npos);
  for (std::string_view lines : {
           "%r = stablehlo.convert %a : (tensor<2xbf16>) -> tensor<2xf32>",
           "%0 = stablehlo.abs %a : tensor<3xf32>\n  %r = stablehlo.slice %0 [0:2] : (tensor<3xf32>) -> tensor<2xf32>",
           "%r = \"stablehlo.convert\"(%a) : (tensor<2xi32>) -> tensor<2xf32>",
           "%p = stablehlo.compare EQ, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
           "  %r = stablehlo.select %p, %a, %a : tensor<2xi1>, tensor<2xf32>",
           "%r = stablehlo.while(%b = %a) : tensor<2xf64> cond {\n"
           "    %t = stablehlo.constant dense<false> : tensor<i1>\n    stablehlo.return %t : tensor<i1>\n"
           "  } do {\n    stablehlo.return %b : tensor<2xf64>\n  }",
       })
    EXPECT_NE(error(lines).find(used), std::string::npos) << lines << "\n" << error(lines);
  EXPECT_NE(error("%c = stablehlo.constant dense<-1> : tensor<ui8>").find("'-1' is not a value of type u8"),
            std::string::npos);
}

// HLO has no order of complex numbers.
TEST(StablehloText, LargerComplexNumber) {
  auto module = ReadModule(
      "func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {\n"
      "  %b = stablehlo.negate %a : tensor<2xcomplex<f32>>\n"
      "  %0 = stablehlo.maximum %a, %b : tensor<2xcomplex<f32>>\n"
      "  return %0 : tensor<2xcomplex<f32>>\n}\n",
      "complex.mlir");
  ASSERT_TRUE(module) << module.error().ToString();
  auto verified = Verify(**module);
  ASSERT_TRUE(verified) << verified.error().ToString();
  EXPECT_EQ((*module)->entry()->root()->opcode(), Opcode::kSelect);
}

// jaxlib writes every array of equal numbers so; spelled out they would take many times the memory of the program's
// run.
TEST(StablehloText, ArraysOfOneValueStayOneValue) {
  Result<std::unique_ptr<Module>> module = ReadModule(R"mlir(
module @m {
  func.func public @main() -> (tensor<4096x4096xf32>, tensor<2x3xi32>) {
    %0 = stablehlo.constant dense<2.5> : tensor<4096x4096xf32>
    %1 = stablehlo.constant dense<7> : tensor<2x3xi32>
    return %0, %1 : tensor<4096x4096xf32>, tensor<2x3xi32>
  }
})mlir",
                                                      "splats.mlir");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  int64_t elements = 0;
  for (const auto& i : (*module)->entry()->instructions())
    if (i->opcode() == Opcode::kConstant) elements += i->shape().element_count();
  EXPECT_EQ(elements, 1 + 6);
  EXPECT_NE(Line(**module, Opcode::kBroadcast).find("f32[4096,4096]"), std::string::npos);
}

TEST(StablehloText, SaysWhereAndWhat) {
  auto bad = [](std::string_view line) {
    auto read = ReadModule(
        Format(
            "module {{\n  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n    {}\n    return %r : tensor<2xf32>\n  }}\n}}\n",
            line),
        "bad.mlir");
    return read ? std::string() : read.error().ToString();
  };
  EXPECT_EQ(bad("%r = stablehlo.abs %a : tensor<2xf32>"), "");
  EXPECT_NE(bad("%r = stablehlo.abs %b : tensor<2xf32>").find("bad.mlir:3:"), std::string::npos);
  EXPECT_NE(bad("%r = stablehlo.frobnicate %a : tensor<2xf32>").find("frobnicate"), std::string::npos);
  EXPECT_NE(bad("%r = stablehlo.abs %a : tensor<3xf32>").find("abs"), std::string::npos);
  EXPECT_NE(bad("%r = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<2xf32>").find("3 elements"),
            std::string::npos);
  EXPECT_NE(bad("%r = stablehlo.constant dense<1.0> : tensor<9999999999x9999999999xf32>").find("bad.mlir:3:"),
            std::string::npos);
}

TEST(StablehloText, KeptProgramsGiveValidModules) {
  ASSERT_FALSE(Programs().empty());
  for (const auto& path : Programs()) {
    auto module = ReadModule(testing::ReadText(path), path.string());
    ASSERT_TRUE(module) << module.error().ToString();
    auto verified = Verify(**module);
    EXPECT_TRUE(verified) << path << verified.error().ToString();
  }
}

TEST(StablehloText, AnyBytesGiveAModuleOrAnError) {
  std::mt19937 random(3);
  int accepted = 0, refused = 0;
  constexpr std::string_view kBytes = "%@#!<>(){}[],:=\"0123456789xfi?-*. \n";
  std::vector<std::string> texts{std::string(kForms)};
  for (const auto& path : Programs()) texts.push_back(testing::ReadText(path));
  for (const std::string& text : texts) {
    if (text.size() > 30000) continue;
    for (int round = 0; round < 1200; ++round) {
      std::string changed = text;
      for (unsigned k = 0; k <= random() % 3; ++k)
        changed[random() % changed.size()] = kBytes[random() % kBytes.size()];
      if (round % 8 == 0) changed.resize(random() % changed.size());
      auto tree = stablehlo::ParseText(changed);
      auto module = tree ? stablehlo::ToModule(**tree) : Result<std::unique_ptr<Module>>(InvalidArgument("no tree"));
      if (module && Verify(**module)) ++accepted;
      else ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace krafla
