// SPDX-License-Identifier: Apache-2.0
// Forms of StableHLO that other front ends write: attributes of every type, functions as custom calls of MHLO, bytes
// behind the module, Shardy's operations. Numbers are from the text or, where it says so, from XLA's CPU back end.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "evaluator/evaluator.h"
#include "hlo_io/read_module.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"
#include "ir/verifier.h"
#include "krafla/hooks.h"

namespace krafla {
namespace {

std::string FormProgram(std::string_view type, std::string_view body, std::string_view behind = "") {
  return Format("func.func @main(%x: {0}) -> {0} {{\n{1}\nreturn %r : {0}\n}}\n{2}", type, body, behind);
}

// What a program of one argument, of zeros, gives; its bytes.
std::string FormBytes(std::string_view text) {
  auto module = ReadModule(text, "forms.mlir");
  if (!module) return module.error().ToString();
  if (auto verified = Verify(**module); !verified) return verified.error().ToString();
  auto zeros = Literal::Create((*module)->entry()->parameters()[0]->shape());
  const Literal* argument = &*zeros;
  auto result = Evaluate(*(*module)->entry(), {&argument, 1});
  if (!result) return result.error().ToString();
  const Literal& first = result->shape().IsTuple() ? result->elements()[0] : *result;
  return std::string(reinterpret_cast<const char*>(first.bytes().data()), first.bytes().size());
}

template <typename T>
std::string BytesOf(std::vector<T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string FormError(std::string_view text) {
  auto module = ReadModule(text, "forms.mlir");
  return module ? "" : module.error().ToString();
}

std::string LikeBytes(std::string_view type, std::string_view value) {
  return FormBytes(FormProgram(Format("tensor<2x{}>", type),
                               Format("%r = \"chlo.constant_like\"(%x) <{{value = {1}}}> : (tensor<2x{0}>) -> "
                                      "tensor<2x{0}>",
                                      type, value)));
}

TEST(FrontEndForms, ConstantLikeOfEveryType) {
  EXPECT_EQ(LikeBytes("i64", "9007199254740993 : i64"), BytesOf<int64_t>({9007199254740993, 9007199254740993}));
  EXPECT_EQ(LikeBytes("ui64", "18446744073709551615 : ui64"), BytesOf<uint64_t>({~uint64_t{0}, ~uint64_t{0}}));
  EXPECT_EQ(LikeBytes("i8", "-3 : i8"), BytesOf<int8_t>({-3, -3}));
  EXPECT_EQ(LikeBytes("i4", "-3 : i4"), BytesOf<int8_t>({-3, -3}));
  EXPECT_EQ(LikeBytes("i1", "true"), BytesOf<uint8_t>({1, 1}));
  EXPECT_EQ(LikeBytes("bf16", "1.5 : bf16"), BytesOf<uint16_t>({0x3FC0, 0x3FC0}));
  EXPECT_EQ(LikeBytes("f16", "0x7C00 : f16"), BytesOf<uint16_t>({0x7C00, 0x7C00}));
  EXPECT_EQ(LikeBytes("f8E4M3FN", "1.0 : f8E4M3FN"), BytesOf<uint8_t>({0x38, 0x38}));
  EXPECT_EQ(LikeBytes("f64", "-1.0e+300 : f64"), BytesOf<double>({-1e300, -1e300}));
  EXPECT_EQ(LikeBytes("complex<f32>", "#complex.number<:f32 1.0, -2.5> : complex<f32>"),
            BytesOf<float>({1, -2.5F, 1, -2.5F}));
  EXPECT_EQ(LikeBytes("complex<f64>", "#complex.number<:f64 1.0, 2.0>"), BytesOf<double>({1, 2, 1, 2}));
  EXPECT_NE(LikeBytes("f64", "-0x3FF0000000000000 : f64").find("is not a value of type f64"), std::string::npos);
  EXPECT_NE(LikeBytes("i8", "1 : i128").find("a value of type i128"), std::string::npos);
}

// What nobody computes with ends no reading.
TEST(FrontEndForms, AttributesThatNobodyReads) {
  for (std::string_view attribute : {"1.0 : f16",
                                     "0x7F : f8E5M2",
                                     "1.0 : f80",
                                     "7 : i128",
                                     "3 : ui24",
                                     "-1 : si32",
                                     "true",
                                     "[1, 2 : i8]",
                                     "@a::@b",
                                     "dense<1> : vector<4xi32>",
                                     "dense<1> : tensor<4xi128>",
                                     "vector<[4]xf32>",
                                     "complex<bf16>",
                                     "affine_map<(d0, d1) -> (d1, d0 + 1)>",
                                     "affine_set<(d0) : (d0 >= 0, -d0 + 5 >= 0)>",
                                     "memref<4xf32, strided<[1], offset: ?>, 3>",
                                     "strided<[1], offset: 0>",
                                     "opaque<\"a\", \"b\">",
                                     "sparse<[[0]], [1]> : tensor<4xi32>",
                                     "distinct[0]<1 : i32>",
                                     "#foo.bar",
                                     "#foo.bar<1, [2]> : i32",
                                     "#foo<\"x\">",
                                     "#complex.number<:f16 1.0, 2.0> : complex<f16>",
                                     "array<i1: true, false>",
                                     "array<f32: 1.0>",
                                     "array<ui64: 18446744073709551615>",
                                     "dense_resource<nowhere> : tensor<4xf32>"}) {
    EXPECT_EQ(FormBytes(FormProgram("tensor<1xf32>",
                                    Format("%r = stablehlo.cosine %x {{note = {}}} : tensor<1xf32>", attribute))),
              BytesOf<float>({1}))
        << attribute;
  }
  EXPECT_NE(FormError("#a = affine_map<(d0 -> d0>"), "");
  EXPECT_NE(FormError("#a = affine_map<d0) -> d0>").find("never opened"), std::string::npos);
  EXPECT_NE(FormError("#a = #complex.number<:f32 1.0, x>").find("a part of a complex number"), std::string::npos);
}

std::string MhloCall(std::string_view name, std::string_view attributes, std::string_view types) {
  return Format("%r = stablehlo.custom_call @mhlo.{}(%x) {{mhlo.attributes = {{{}}}, mhlo.version = 1 : i64}} : {}",
                name, attributes, types);
}

TEST(FrontEndForms, CustomCallsOfMhlo) {
  const std::string_view same = "(tensor<1xf32>) -> tensor<1xf32>";
  for (std::string_view name : {"asin", "asinh", "atanh", "erf", "sinh", "tan"})
    EXPECT_EQ(FormBytes(FormProgram("tensor<1xf32>", MhloCall(name, "", same))), BytesOf<float>({0})) << name;
  EXPECT_EQ(FormBytes(FormProgram("tensor<1xf32>", MhloCall("cosh", "", same))), BytesOf<float>({1}));
  for (std::string_view name : {"erf", "asin", "copy"})
    EXPECT_EQ(FormBytes(FormProgram("tensor<1xf32>", Format("%r = \"mhlo.{}\"(%x) : {}", name, same))),
              BytesOf<float>({0}));
  EXPECT_NE(FormError(FormProgram("tensor<1xf32>", MhloCall("topk", "", same))).find("no attribute 'k'"),
            std::string::npos);
  for (std::string_view call :
       {"stablehlo.custom_call @mhlo.topk(%c) {mhlo.attributes = {k = 2 : i64, largest = ?}, mhlo.version = 1 : i64}",
        "\"mhlo.topk\"(%c) {k = 2 : i64, largest = ?}"}) {
    for (const bool largest : {true, false}) {
      std::string text(call);
      text.replace(text.find('?'), 1, largest ? "true" : "false");
      EXPECT_EQ(FormBytes(FormProgram("tensor<2xf32>",
                                      "%c = arith.constant dense<[3.0, 1.0, 2.0]> : tensor<3xf32>\n"
                                      "%k = arith.constant 1 : i32\n%r, %i = " +
                                          text + " : (tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi32>)")),
                largest ? BytesOf<float>({3, 2}) : BytesOf<float>({1, 2}));
    }
  }
  EXPECT_EQ(FormBytes(FormProgram("tensor<4xf32>",
                                  "%c = mhlo.constant dense<1.0> : tensor<2x4xf32>\n%z = mhlo.constant dense<0.0> : "
                                  "tensor<f32>\n%r = mhlo.reduce(%c init: %z) applies mhlo.add across dimensions = [0] "
                                  ": (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>")),
            BytesOf<float>({2, 2, 2, 2}));
}

TEST(FrontEndForms, KernelOfTheComplexArcSine) {
  const std::string bytes =
      FormBytes(FormProgram("tensor<5xcomplex<f32>>",
                            "%c = stablehlo.constant dense<[(1.0, 2.0), (0.3, -0.2), (-2.0, 0.1), (1.0e20, 3.0), "
                            "(0.5, 1.0e-20)]> : tensor<5xcomplex<f32>>\n"
                            "%r = chlo._asin_acos_kernel %c : tensor<5xcomplex<f32>> -> tensor<5xcomplex<f32>>"));
  ASSERT_EQ(bytes.size(), 40u) << bytes;
  float got[10];
  std::memcpy(got, bytes.data(), sizeof(got));
  // XLA's of jaxlib 0.10.
  const float wanted[10] = {2.19736838F, 1.52857089F, 0.97661382F, 0.207726389F, 0.115406238F,
                            1.31887662F, 3.0F,        46.7448463F, 0.866025388F, 1.15470051e-20F};
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6F * (1 + std::abs(wanted[i]))) << i;
}

std::string ResourceProgram(std::string_view digits, std::string_view type = "tensor<4xf32>") {
  return FormProgram(
      type, Format("%r = stablehlo.constant dense_resource<w.1> : {}", type),
      Format("{{-#\n  dialect_resources: {{\n    builtin: {{\n      w.1: \"{}\",\n other: \"0x04\"\n    "
             "}}\n  }},\n  external_resources: {{ mlir_reproducer: {{ pipeline: \"x\", verify_each: true "
             "}} }}\n#-}}\n",
             digits));
}

// MLIR's own answers for the same texts; twelve bits in two bytes are what older printers wrote.
TEST(FrontEndForms, BooleansInStringsOfBytes) {
  const auto read = [](int count, std::string_view digits) {
    const std::string type = Format("tensor<{}xi1>", count);
    return FormBytes(FormProgram(type, Format("%r = stablehlo.constant dense<\"0x{}\"> : {}", digits, type)));
  };
  EXPECT_EQ(read(4, "0A"), BytesOf<uint8_t>({1, 1, 1, 1}));
  EXPECT_EQ(read(8, "00"), std::string(8, '\0'));
  EXPECT_EQ(read(1, "02"), BytesOf<uint8_t>({1}));
  EXPECT_EQ(read(4, "02000001"), BytesOf<uint8_t>({1, 0, 0, 1}));
  EXPECT_EQ(read(12, "0A0B"), BytesOf<uint8_t>({0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1}));
}

TEST(FrontEndForms, ResourcesBehindTheModule) {
  EXPECT_EQ(FormBytes(ResourceProgram("0x040000000000803F000000400000404000008040")), BytesOf<float>({1, 2, 3, 4}));
  EXPECT_EQ(FormBytes(ResourceProgram("0x010000000100FF", "tensor<3xi1>")), BytesOf<uint8_t>({1, 0, 1}));
  EXPECT_EQ(FormBytes(ResourceProgram("0x0100000005", "tensor<3xi1>")), BytesOf<uint8_t>({1, 0, 1}));
  EXPECT_EQ(FormBytes(ResourceProgram("0x010000000F07", "tensor<2xi4>")), BytesOf<int8_t>({-1, 7}));
  EXPECT_NE(FormError(ResourceProgram("0x040000000000803F")).find("4 elements of 4 bytes are given as 4"),
            std::string::npos);
  EXPECT_NE(FormError(ResourceProgram("0x0400")).find("alignment"), std::string::npos);
  EXPECT_NE(FormError(ResourceProgram("0x0400000G")).find("hexadecimal"), std::string::npos);
  EXPECT_NE(FormError(FormProgram("tensor<4xf32>", "%r = stablehlo.constant dense_resource<w> : tensor<4xf32>"))
                .find("whose bytes the text does not have"),
            std::string::npos);
  // One resource as arrays of many types: bounded by the text's size.
  std::string digits = "0x01000000", body, ones;
  for (int i = 0; i < 16384; ++i) digits += "00";
  const auto uses = [&](int count) {
    for (int i = 0; i < count; ++i, ones += "1x")
      body += Format("%c{} = stablehlo.constant dense_resource<w> : tensor<{}16384xi8>\n", ones.size(), ones);
    return FormProgram("tensor<1xf32>", body + "%r = stablehlo.cosine %x : tensor<1xf32>",
                       "{-# dialect_resources: {builtin: {w: \"" + digits + "\"}} #-}");
  };
  EXPECT_EQ(FormBytes(uses(3)), BytesOf<float>({1}));
  EXPECT_NE(FormError(uses(200)).find("more than 16 times"), std::string::npos);
  for (std::string_view trailer : {"{-#", "{-# a", "{-# a: {", "{-# a: {b: {c: \"0x\"", "{-# a: {b: {c: [1]}} #-}",
                                   "#-}", "{-# a: {b: {c: \"0x\"}} } #-}"})
    EXPECT_NE(FormError(FormProgram("tensor<1xf32>", "%r = stablehlo.cosine %x : tensor<1xf32>", trailer)), "")
        << trailer;
}

TEST(FrontEndForms, OperationsOfShardy) {
  const auto program = [](std::string_view line, int64_t size = 1) {
    return Format("sdy.mesh @mesh = <[\"x\"={}]>\n", size) +
           FormProgram("tensor<2x2xf32>", Format("%c = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : "
                                                 "tensor<2x2xf32>\n{}",
                                                 line));
  };
  for (std::string_view line :
       {"%r = sdy.propagation_barrier %c allowed_direction=NONE : tensor<2x2xf32>",
        "%r = sdy.all_gather [{\"x\"}, {}] %c out_sharding=<@mesh, [{}, {}]> : tensor<2x2xf32>",
        "%r = sdy.all_slice [{\"x\"}, {}] %c out_sharding=<@mesh, [{\"x\"}, {}]> : tensor<2x2xf32>",
        "%r = sdy.all_to_all [{\"x\"}: 0->1] %c out_sharding=<@mesh, [{}, {\"x\"}]> {note = 1 : i3} : tensor<2x2xf32>",
        "%r = sdy.collective_permute %c out_sharding=<@mesh, [{\"x\"}, {}]> : tensor<2x2xf32>",
        "%r = sdy.all_reduce {\"x\"} %c out_sharding=<@mesh, [{}, {}]> : tensor<2x2xf32>",
        "%r = sdy.data_flow_edge %c sharding=<@mesh, [{\"x\"}, {}]> : tensor<2x2xf32>",
        "%r = sdy.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>",
        "%s, %r = sdy.named_computation<\"f\">(%x, %c) in_shardings=[<@mesh, [{\"x\"}, {}]>, <@mesh, [{}, {}]>] (%a: "
        "tensor<2x2xf32>, %b: tensor<2x2xf32>) {\n%k = stablehlo.add %a, %b : tensor<2x2xf32>\nsdy.return %a, %k : "
        "tensor<2x2xf32>, tensor<2x2xf32>\n} : (tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, "
        "tensor<2x2xf32>)"})
    EXPECT_EQ(FormBytes(program(line)), BytesOf<float>({1, 2, 3, 4})) << line;
  // A sum over devices is more than its operand where there are several.
  EXPECT_NE(FormError(program("%r = sdy.all_reduce {\"x\"} %c out_sharding=<@mesh, [{}, {}]> : tensor<2x2xf32>", 2))
                .find("several devices"),
            std::string::npos);
  for (std::string_view line :
       {"%r = sdy.all_gather [{\"x\"}, {} %c : tensor<2x2xf32>", "%r = sdy.propagation_barrier %c",
        "%r = sdy.propagation_barrier %c allowed_direction=\"x\" : tensor<2x2xf32>",
        "%r = sdy.unheard_of %c : tensor<2x2xf32>", "%r = sdy.all_reduce : tensor<2x2xf32>",
        "%r = sdy.named_computation<\"f\">(%c) (%a: tensor<4xf32>) {\nsdy.return %a : tensor<4xf32>\n} : "
        "(tensor<2x2xf32>) -> tensor<2x2xf32>"})
    EXPECT_NE(FormError(program(line)), "") << line;
}

// XLA's printer names instructions so, without a sign before the name, and its parser takes it of all types' words.
TEST(FrontEndForms, HloInstructionNamedTuple) {
  EXPECT_EQ(
      FormBytes("HloModule m\n\nENTRY main {\n  p = f32[1]{0} parameter(0)\n  tuple = (f32[1]{0}) tuple(p)\n  ROOT r = "
                "f32[1]{0} get-tuple-element(tuple), index=0, control-predecessors={tuple}\n}\n"),
      BytesOf<float>({0}));
  EXPECT_NE(FormError("HloModule m\n\nENTRY main {\n  ROOT f32 = f32[1]{0} parameter(0)\n}\n").find("element type"),
            std::string::npos);
}

// What is left out of a text is invented, which the log says.
TEST(FrontEndForms, HloConstantsLeftOut) {
  std::string said;
  SetLogSink([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::kWarning) said += message;
  });
  EXPECT_TRUE(ReadModule("HloModule m\n\nENTRY main {\n  ROOT c = f32[2]{0} constant({...})\n}\n", "m.hlo"));
  EXPECT_NE(said.find("leaves out ({...}): 1."), std::string::npos) << said;
  said.clear();
  EXPECT_TRUE(ReadModule("HloModule m\n\nENTRY main {\n  ROOT c = f32[2]{0} constant({1, 2})\n}\n", "m.hlo"));
  EXPECT_EQ(said, "");
  SetLogSink({});
}

TEST(FrontEndForms, AnyBytesGiveAModuleOrAnError) {
  std::mt19937 random(5);
  constexpr std::string_view kBytes = "%@#!<>(){}[],:=\"0123456789xfi?-*. \n";
  int accepted = 0;
  for (const std::string& text :
       {ResourceProgram("0x040000000000803F000000400000404000008040"),
        FormProgram("tensor<2xi1>",
                    "%r = \"chlo.constant_like\"(%x) <{value = true, a = #complex.number<:f32 1.0, 2.0> : "
                    "complex<f32>, b = affine_map<(d0) -> (d0)>, c = distinct[0]<1>, d = 1.0 : f16}> : "
                    "(tensor<2xi1>) -> tensor<2xi1>"),
        FormProgram("tensor<2xf32>",
                    MhloCall("topk", "k = 2 : i64", "(tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi32>)")),
        FormProgram("tensor<2xf32>",
                    "%s = sdy.all_to_all [{\"x\"}: 0->1] %x out_sharding=<@m, [{}]> : tensor<2xf32>\n%r = "
                    "sdy.named_computation<\"f\">(%s) (%a: tensor<2xf32>) {\nsdy.return %a : "
                    "tensor<2xf32>\n} : (tensor<2xf32>) -> tensor<2xf32>")}) {
    for (int round = 0; round < 2000; ++round) {
      std::string changed = text;
      for (unsigned k = 0; k <= random() % 3; ++k)
        changed[random() % changed.size()] = kBytes[random() % kBytes.size()];
      if (round % 8 == 0) changed.resize(random() % changed.size());
      auto module = ReadModule(changed, "forms.mlir");
      if (module && Verify(**module)) ++accepted;
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace krafla
