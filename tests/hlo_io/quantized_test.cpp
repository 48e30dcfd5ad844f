// SPDX-License-Identifier: Apache-2.0
// Quantised types of StableHLO. The numbers are worked out by hand from its specification.
#include <gtest/gtest.h>

#include "evaluator/evaluator.h"
#include "hlo_io/read_module.h"
#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_bytecode/container.h"
#include "hlo_io/stablehlo_bytecode/entries.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

// Of each form: for a whole array, for each column, unsigned in a range of their own, and for bf16.
constexpr std::string_view kQuantizedForms = R"mlir(
!act = !quant.uniform<i8:f32, 0.5:-3>
module @quantized {
  func.func public @main(%x: tensor<2x3x!act>, %w: tensor<3x2x!quant.uniform<i8<-127:127>:f32:1, {0.25,0.125:4}>>,
                         %y: tensor<2x2x!quant.uniform<u8<0:15>:f32, 1.0:8>>, %h: tensor<4xbf16>)
      -> (tensor<2x2x!quant.uniform<i8:f32, 0.25:1>>, tensor<2x2xi1>, tensor<4x!quant.uniform<i16:bf16, 0.125>>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3x!act>, tensor<3x2x!quant.uniform<i8<-127:127>:f32:1, {0.25,0.125:4}>>) -> tensor<2x2x!quant.uniform<i32:f32, 0.125>>
    %1 = stablehlo.add %0, %y : (tensor<2x2x!quant.uniform<i32:f32, 0.125>>, tensor<2x2x!quant.uniform<u8<0:15>:f32, 1.0:8>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.25:1>>
    %2 = stablehlo.transpose %y, dims = [1, 0] : (tensor<2x2x!quant.uniform<u8<0:15>:f32, 1.0:8>>) -> tensor<2x2x!quant.uniform<u8<0:15>:f32, 1.0:8>>
    %3 = stablehlo.compare GT, %1, %2, SIGNED : (tensor<2x2x!quant.uniform<i8:f32, 0.25:1>>, tensor<2x2x!quant.uniform<u8<0:15>:f32, 1.0:8>>) -> tensor<2x2xi1>
    %4 = stablehlo.uniform_quantize %h : (tensor<4xbf16>) -> tensor<4x!quant.uniform<i16:bf16, 0.125>>
    return %1, %3, %4 : tensor<2x2x!quant.uniform<i8:f32, 0.25:1>>, tensor<2x2xi1>, tensor<4x!quant.uniform<i16:bf16, 0.125>>
  }
})mlir";

template <typename T>
Literal Of(ElementType type, Dims dims, std::vector<T> values) {
  auto shape = Shape::MakeArray(type, dims);
  auto literal = Literal::FromBytes(*shape, std::as_bytes(std::span(values)));
  return std::move(*literal);
}

template <typename T>
std::vector<T> QuantizedValues(const Literal& literal) {
  const auto data = literal.data<T>();
  return {data.begin(), data.end()};
}

TEST(Quantized, ComputesWithTheNumbers) {
  auto module = ReadModule(kQuantizedForms, "quantized.mlir");
  ASSERT_TRUE(module) << module.error().ToString();
  ASSERT_TRUE(Verify(**module));
  std::vector<Literal> arguments;
  arguments.push_back(Of<int8_t>(ElementType::kS8, {2, 3}, {-3, -1, 1, 5, -128, 127}));          // 0 1 2 / 4 -62.5 65
  arguments.push_back(Of<int8_t>(ElementType::kS8, {3, 2}, {4, 12, -8, 4, 2, -4}));              // 1 1 / -2 0 / 0.5 -1
  arguments.push_back(Of<uint8_t>(ElementType::kU8, {2, 2}, {15, 0, 8, 9}));                     // 7 -8 / 0 1
  arguments.push_back(Of<uint16_t>(ElementType::kBF16, {4}, {0x3F80, 0xBE00, 0x3D80, 0x7F80}));  // 1 -0.125 0.0625 inf
  std::vector<const Literal*> pointers;
  for (const Literal& argument : arguments) pointers.push_back(&argument);
  auto results = Evaluate(*(*module)->entry(), pointers);
  ASSERT_TRUE(results) << results.error().ToString();
  const std::vector<Literal>& out = results->elements();
  ASSERT_EQ(out.size(), 3u);
  // The product is -1 -2 / 161.5 -61; with y 6 -10 / 161.5 -60.
  EXPECT_EQ(QuantizedValues<int8_t>(out[0]), (std::vector<int8_t>{25, -39, 127, -128}));
  // 6 > 7, -10 > 0, 31.5 > -8, -32.25 > 1
  EXPECT_EQ(QuantizedValues<uint8_t>(out[1]), (std::vector<uint8_t>{0, 0, 1, 0}));
  // Half way goes to the even one.
  EXPECT_EQ(QuantizedValues<int16_t>(out[2]), (std::vector<int16_t>{8, -1, 0, 32767}));
}

std::string QuantizedError(std::string_view type, std::string_view body = "return") {
  const std::string text =
      "module { func.func @main(%a: tensor<2x2x" + std::string(type) + ">) { " + std::string(body) + " } }";
  auto module = ReadModule(text, "t.mlir");
  return module ? "" : module.error().ToString();
}

TEST(Quantized, TypesThatBreakAConstraint) {
  EXPECT_EQ(QuantizedError("!quant.uniform<i4:f16:1, {0.5:-8, 2.0:7}>"), "");
  for (const auto& [type, part] : std::vector<std::pair<std::string, std::string>>{
           {"!quant.uniform<f32:f32, 0.5>", "of another type"},
           {"!quant.uniform<i8:i8, 0.5>", "stands for s8"},
           {"!quant.uniform<i8<-129:127>:f32, 0.5>", "integers from -129 to 127"},
           {"!quant.uniform<u8<5:5>:f32, 0.5>", "integers from 5 to 5"},
           {"!quant.uniform<i8:f32, 0.0>", "the scale 0"},
           {"!quant.uniform<i8:f32, -1.0>", "the scale -1"},
           {"!quant.uniform<i8:f32, 1e999>", "a scale"},
           {"!quant.uniform<i8:f32, 0.5:128>", "the zero point 128"},
           {"!quant.uniform<i8:f32:1, {0.5}>", "2 indices and 1 scales"},
           {"!quant.uniform<i8:f32:2, {0.5,0.5}>", "quantized along dimension 2"},
           {"!quant.uniform<i8:f32:-1, {0.5,0.5}>", "negative dimension"},
           {"!quant.uniform<i8:f32:{0:1}, {{0.5}}>", "blocks"},
           {"!quant.uniform<i8:f32>", "','"}}) {
    EXPECT_NE(QuantizedError(type).find(part), std::string::npos) << type << ": " << QuantizedError(type);
  }
}

TEST(Quantized, WhatCannotBe) {
  const std::string type = "tensor<2x2x!quant.uniform<i8:f32, 0.5>>";
  EXPECT_NE(QuantizedError("!quant.uniform<i8:f32, 0.5>",
                           "%0 = stablehlo.uniform_dequantize %a : (" + type + ") -> " + type + " return")
                .find("is quantized"),
            std::string::npos);
  EXPECT_NE(QuantizedError("f16", "%0 = stablehlo.uniform_quantize %a : (tensor<2x2xf16>) -> " + type + " return")
                .find("stands for f32"),
            std::string::npos);
  // Every region's arguments have the parameters of what the operation is given.
  const std::string reduce = R"(%z = stablehlo.constant dense<0> : tensor<!quant.uniform<i8:f32, 0.5>>
      %0 = "stablehlo.reduce"(%a, %z) ({
        ^bb0(%x: tensor<!quant.uniform<i8:f32, SCALE>>, %y: tensor<!quant.uniform<i8:f32, SCALE>>):
          %s = stablehlo.add %x, %y : tensor<!quant.uniform<i8:f32, SCALE>>
          stablehlo.return %s : tensor<!quant.uniform<i8:f32, SCALE>>
      }) {dimensions = array<i64: 0>} : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>, tensor<!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
      return)";
  const auto with = [&](std::string_view scale) {
    std::string out = reduce;
    for (std::size_t at; (at = out.find("SCALE")) != std::string::npos;) out.replace(at, 5, scale);
    return QuantizedError("!quant.uniform<i8:f32, 0.5>", out);
  };
  EXPECT_EQ(with("0.5"), "");
  EXPECT_NE(with("0.25").find("in different ways"), std::string::npos) << with("0.25");
}

// As bytecode has varints, and numbers of 64 bits (byte_stream.h).
std::string Varint(uint64_t value) {
  if (value < 128) return std::string(1, static_cast<char>(value << 1 | 1));
  std::string out(9, '\0');
  std::memcpy(out.data() + 1, &value, 8);
  return out;
}
std::string Signed(int64_t value) {
  return Varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}
std::string Real(double value) { return Signed(std::bit_cast<int64_t>(value)); }

// The fields in the order of stablehlo/dialect/VhloBytecode.cpp.
Result<stablehlo::Type> FromBytecode(const std::string& quantized, stablehlo::Tree& tree) {
  stablehlo::Container container;
  const std::string s8 = Varint(11), f32 = Varint(4),
                    tensor = Varint(20) + Varint(2) + Signed(2) + Signed(3) + Varint(2);
  for (const std::string* bytes : {&s8, &f32, &quantized, &tensor})
    container.types.push_back({.dialect = stablehlo::Dialect::kVhlo, .custom = true, .bytes = *bytes});
  KRAFLA_ASSIGN(stablehlo::TypeRef type, stablehlo::Entries(container, tree).TypeAt(3));
  return *type;
}

TEST(Quantized, FromBytecode) {
  stablehlo::Tree tree;
  const std::string types = Varint(0) + Varint(1);
  auto whole = FromBytecode(Varint(24) + Varint(1) + types + Real(34) + Signed(16) + Signed(-128) + Signed(127), tree);
  ASSERT_TRUE(whole) << whole.error().ToString();
  EXPECT_EQ(whole->element, ElementType::kS8);
  ASSERT_NE(whole->quantization, nullptr);
  EXPECT_EQ(whole->quantization->expressed, ElementType::kF32);
  EXPECT_EQ(whole->quantization->scales, std::vector<double>{34});
  EXPECT_EQ(whole->quantization->zero_points, std::vector<int64_t>{16});
  EXPECT_EQ(whole->quantization->dimension, -1);
  // The integers' type says nothing of their sign; a flag does.
  const std::string column = Varint(30) + Varint(0) + types + Varint(1) + Signed(0) + Signed(255);
  auto columns = FromBytecode(
      column + Varint(3) + Real(1) + Real(2) + Real(0.5) + Varint(3) + Signed(1) + Signed(2) + Signed(3), tree);
  ASSERT_TRUE(columns) << columns.error().ToString();
  EXPECT_EQ(columns->element, ElementType::kU8);
  EXPECT_EQ(columns->quantization->dimension, 1);
  EXPECT_EQ(columns->quantization->scales, (std::vector<double>{1, 2, 0.5}));
  EXPECT_EQ(columns->quantization->zero_points, (std::vector<int64_t>{1, 2, 3}));
  // Two scales for three columns; more than there are bytes; a zero point too few.
  EXPECT_FALSE(FromBytecode(column + Varint(2) + Real(1) + Real(2) + Varint(2) + Signed(1) + Signed(2), tree));
  EXPECT_FALSE(FromBytecode(column + Varint(100) + Real(1), tree));
  EXPECT_FALSE(
      FromBytecode(column + Varint(3) + Real(1) + Real(2) + Real(0.5) + Varint(2) + Signed(1) + Signed(2), tree));
}

}  // namespace
}  // namespace krafla
