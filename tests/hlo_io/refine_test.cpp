// SPDX-License-Identifier: Apache-2.0
// StableHLO programs that leave sizes open, for sizes that are given.
#include <gtest/gtest.h>

#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/read_module.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

// As JAX exports it: sizes are read in main, checked, and handed to the function that computes.
constexpr const char* kExported = R"mlir(
#loc1 = loc("x")
module @jit_f attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%arg0: tensor<?x8xf32> loc(unknown)) -> (tensor<?xf32>, tensor<?x8xf32>) {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "Expected b >= 2, got {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2:2 = call @inner(%0, %arg0) : (tensor<i32>, tensor<?x8xf32>) -> (tensor<?xf32>, tensor<?x8xf32>)
    return %2#0, %2#1 : tensor<?xf32>, tensor<?x8xf32>
  }
  func.func private @inner(%b: tensor<i32>, %x: tensor<?x8xf32> loc(#loc1)) -> (tensor<?xf32>, tensor<?x8xf32>) {
    %c = stablehlo.constant dense<16> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %1 = stablehlo.multiply %b, %c : tensor<i32>
    %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.dynamic_reshape %0, %2 : (tensor<?x8xf32>, tensor<1xi32>) -> tensor<?xf32>
    %4:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<?x8xf32>
    cond {
      %5 = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %6 = func.call @step(%1, %a) : (tensor<i32>, tensor<?x8xf32>) -> tensor<?x8xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %7, %6 : tensor<i32>, tensor<?x8xf32>
    }
    return %3, %4#1 : tensor<?xf32>, tensor<?x8xf32>
  }
  func.func private @step(%n: tensor<i32>, %a: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %2 = stablehlo.slice %1 [0:8] : (tensor<?xf32>) -> tensor<8xf32>
    %4 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
    %5 = stablehlo.reshape %4 : (tensor<i32>) -> tensor<1xi32>
    %c = stablehlo.constant dense<8> : tensor<1xi32>
    %6 = stablehlo.concatenate %5, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %7 = stablehlo.dynamic_broadcast_in_dim %2, %6, dims = [1] : (tensor<8xf32>, tensor<2xi32>) -> tensor<?x8xf32>
    %8 = stablehlo.add %a, %7 : tensor<?x8xf32>
    return %8 : tensor<?x8xf32>
  }
}
)mlir";

TEST(Refine, SizesFollowFromThoseOfTheArguments) {
  for (const char* argument : {"0", "x"}) {
    auto module = ReadModule(kExported, "f.mlir", {{argument, {5, 8}}});
    ASSERT_TRUE(module) << module.error().ToString();
    EXPECT_EQ((*module)->entry()->root()->shape().ToString(false), "(f32[80], f32[5,8])");
    EXPECT_EQ((*module)->entry()->parameters()[0]->name(), "x");
    auto verified = Verify(**module);
    ASSERT_TRUE(verified) << verified.error().ToString();
  }
}

TEST(Refine, SizesThatDoNotFit) {
  auto error = [](const ArgumentSizes& shapes) {
    auto module = ReadModule(kExported, "f.mlir", shapes);
    return module ? std::string("read") : module.error().ToString();
  };
  EXPECT_NE(error({}).find("Argument 0 (x) is f32[?,8]: the size of dimension 0 is not known"), std::string::npos)
      << error({});
  EXPECT_NE(error({}).find("--shape 'x=1,8'"), std::string::npos);
  EXPECT_NE(error({{"x", {5, 9}}}).find("Argument 0 (x) is f32[?,8], for which the sizes 5,9 are given"),
            std::string::npos);
  EXPECT_NE(error({{"x", {5}}}).find("the sizes 5 are given"), std::string::npos);
  EXPECT_NE(error({{"y", {5, 8}}}).find("'y', which is not an argument; the arguments are: 0 (x) f32[?,8]"),
            std::string::npos);
  EXPECT_NE(error({{"0", {1, 8}}}).find("Expected b >= 2, got 1"), std::string::npos);
  EXPECT_NE(error({{"0", {-4, 8}}}), "read");
}

// What JAX exports for a cumulative sum, the first k, random bits, a row that a loop looks up, a convolution whose
// padding is reckoned from sizes, and a library's call.
constexpr const char* kDynamicCalls = R"mlir(
module @m {
  func.func public @main(%x: tensor<?x?xf32>, %i: tensor<i32>, %s: tensor<2xui64>)
      -> (tensor<?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xi32>, tensor<2xui64>, tensor<?xui32>, tensor<1x?xf32>,
          tensor<1x?x1xf32>, tensor<?x?xf32>, tensor<?xi32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %minus = stablehlo.constant dense<-1> : tensor<i32>
    %ones = stablehlo.constant dense<1> : tensor<2xi32>
    %null0 = stablehlo.constant dense<0> : tensor<i32>
    %row = stablehlo.constant dense<1> : tensor<1xi32>
    %null = stablehlo.constant dense<0> : tensor<1xi32>
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %m = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %nv = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %mv = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
    %nm = stablehlo.concatenate %nv, %mv, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %c = stablehlo.convert %x : (tensor<?x?xf32>) -> tensor<?x?xbf16>
    %last = stablehlo.add %n, %minus : tensor<i32>
    %lastv = stablehlo.reshape %last : (tensor<i32>) -> tensor<1xi32>
    %p0 = stablehlo.concatenate %lastv, %null, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %p1 = stablehlo.concatenate %null, %null, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %q0 = stablehlo.reshape %p0 : (tensor<2xi32>) -> tensor<1x2xi32>
    %q1 = stablehlo.reshape %p1 : (tensor<2xi32>) -> tensor<1x2xi32>
    %pads = stablehlo.concatenate %q0, %q1, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %sizes = stablehlo.concatenate %nv, %row, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %sum = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %zero, %sizes, %ones, %ones, %ones, %pads) {
      api_version = 2 : i32, called_computations = [@add]} : (tensor<?x?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>,
      tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x?xf32>
    %k = stablehlo.add %m, %minus : tensor<i32>
    %top:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) {api_version = 2 : i32} : (tensor<?x?xf32>, tensor<i32>)
      -> (tensor<?x?xf32>, tensor<?x?xi32>)
    %rng:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%s, %nv) {api_version = 2 : i32,
      rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>, tensor<1xi32>) -> (tensor<2xui64>, tensor<?xui32>)
    %iv = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %starts = stablehlo.concatenate %iv, %null, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %slice = stablehlo.concatenate %row, %mv, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %limits = stablehlo.add %starts, %slice : tensor<2xi32>
    %at = stablehlo.real_dynamic_slice %x, %starts, %limits, %ones : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>,
      tensor<2xi32>) -> tensor<1x?xf32>
    %negated = stablehlo.multiply %n, %minus : tensor<i32>
    %half = stablehlo.divide %negated, %two : tensor<i32>
    %rest = stablehlo.remainder %negated, %two : tensor<i32>
    %odd = stablehlo.compare NE, %rest, %null0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %down = stablehlo.subtract %half, %one : tensor<i32>
    %floor = stablehlo.select %odd, %down, %half : tensor<i1>, tensor<i32>
    %up = stablehlo.multiply %floor, %minus : tensor<i32>
    %low = stablehlo.subtract %up, %one : tensor<i32>
    %lowv = stablehlo.reshape %low : (tensor<i32>) -> tensor<1xi32>
    %pc = stablehlo.concatenate %lowv, %null, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %padding = stablehlo.reshape %pc : (tensor<2xi32>) -> tensor<1x2xi32>
    %picture = stablehlo.constant dense<1.0> : tensor<1x9x1xf32>
    %kernel = stablehlo.constant dense<1.0> : tensor<3x1x1xf32>
    %conv = "stablehlo.dynamic_conv"(%picture, %kernel, %padding) <{batch_group_count = 1 : i64,
      dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64,
      window_strides = array<i64: 1>}> : (tensor<1x9x1xf32>, tensor<3x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>
    %call:2 = stablehlo.custom_call @a_library(%x, %nm, %nv) {indices_of_shape_operands = dense<[1, 2]> : tensor<2xi64>,
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>],
      result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>]} : (tensor<?x?xf32>, tensor<2xi32>,
      tensor<1xi32>) -> (tensor<?x?xf32>, tensor<?xi32>)
    return %c, %sum, %top#0, %top#1, %rng#0, %rng#1, %at, %conv, %call#0, %call#1 : tensor<?x?xbf16>, tensor<?x?xf32>,
      tensor<?x?xf32>, tensor<?x?xi32>, tensor<2xui64>, tensor<?xui32>, tensor<1x?xf32>, tensor<1x?x1xf32>, tensor<?x?xf32>,
      tensor<?xi32>
  }
  func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }
}
)mlir";

TEST(Refine, OperationsWhoseSizesAreOperands) {
  auto module = ReadModule(kDynamicCalls, "f.mlir", {{"0", {7, 5}}});
  ASSERT_TRUE(module) << module.error().ToString();
  auto verified = Verify(**module);
  ASSERT_TRUE(verified) << verified.error().ToString();
  const Instruction& root = *(*module)->entry()->root();
  // ceil(7 / 2) - 1 = 3 in front of nine, a window of three.
  EXPECT_EQ(root.shape().ToString(false),
            "(bf16[7,5], f32[7,5], f32[7,4], s32[7,4], u64[2], u32[7], f32[1,5], f32[1,10,1], f32[7,5], s32[7])");
  EXPECT_EQ(root.operand(6)->opcode(), Opcode::kDynamicSlice);
  const Instruction& call = *root.operand(8)->operand(0);
  EXPECT_EQ(call.opcode(), Opcode::kCustomCall);
  EXPECT_EQ(call.operand_count(), 1u);
}

// A program that calls itself twice at each level, deeper than anyone would wait.
TEST(Refine, CallsWithinCallsAreBounded) {
  std::string text =
      "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  %0 = call @f0(%a) : (tensor<?xf32>) -> "
      "tensor<?xf32>\n  return %0 : tensor<?xf32>\n}\n";
  for (int n = 0; n < 40; ++n)
    text += Format(
        "func.func private @f{}(%a: tensor<?xf32>) -> tensor<?xf32> {{\n  %0 = call @f{}(%a) : (tensor<?xf32>) -> "
        "tensor<?xf32>\n  %1 = call @f{}(%0) : (tensor<?xf32>) -> tensor<?xf32>\n  return %1 : tensor<?xf32>\n}}\n",
        n, n + 1, n + 1);
  text += "func.func private @f40(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}\n";
  auto module = ReadModule(text, "calls.mlir", {{"0", {4}}});
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code(), StatusCode::kUnimplemented) << module.error().ToString();
}

// What would end the process, or take longer than anyone would wait.
TEST(Refine, StrangeSizesAreRefused) {
  // A stride behind which no place is of 64 bits: the vector has one number.
  const std::string by_stride = R"mlir(
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %s = stablehlo.slice %c [1:4:9223372036854775807] : (tensor<4xi64>) -> tensor<1xi64>
  %r = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
})mlir";
  EXPECT_TRUE(ReadModule(by_stride, "stride.mlir", {{"0", {2}}}));
  EXPECT_FALSE(ReadModule(by_stride, "stride.mlir", {{"0", {4}}}));
  // More starts than dimensions.
  auto starts = ReadModule(R"mlir(
func.func public @main(%x: tensor<4xf32>, %s: tensor<1000000000xi32>) -> tensor<2xf32> {
  %ones = stablehlo.constant dense<1> : tensor<1xi32>
  %r = stablehlo.real_dynamic_slice %x, %s, %s, %ones : (tensor<4xf32>, tensor<1000000000xi32>,
    tensor<1000000000xi32>, tensor<1xi32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
})mlir",
                           "starts.mlir");
  ASSERT_FALSE(starts);
  EXPECT_EQ(starts.error().code(), StatusCode::kInvalidArgument) << starts.error().ToString();
  // Lists of nothing, each sixteen times the one before.
  std::string text =
      "func.func public @main(%x: tensor<4xf32>) -> tensor<?xf32> {\n  %ones = stablehlo.constant dense<1> : "
      "tensor<1xi32>\n  %a0 = stablehlo.constant dense<> : tensor<0xi32>\n  %b0 = stablehlo.constant dense<> : "
      "tensor<0xi32>\n";
  for (int n = 0; n < 8; ++n)
    for (const char* list : {"a", "b"}) {
      std::string operands, types;
      for (int k = 0; k < 16; ++k) {
        operands += Format("{}%{}{}", k == 0 ? "" : ", ", list, n);
        types += k == 0 ? "tensor<0xi32>" : ", tensor<0xi32>";
      }
      text +=
          Format("  %{}{} = stablehlo.concatenate {}, dim = 0 : ({}) -> tensor<0xi32>\n", list, n + 1, operands, types);
    }
  text +=
      "  %r = stablehlo.real_dynamic_slice %x, %a8, %b8, %ones : (tensor<4xf32>, tensor<0xi32>, tensor<0xi32>, "
      "tensor<1xi32>) -> tensor<?xf32>\n  return %r : tensor<?xf32>\n}\n";
  EXPECT_FALSE(ReadModule(text, "lists.mlir"));
}

TEST(Refine, HloStatesItsSizes) {
  constexpr const char* kText = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n";
  EXPECT_TRUE(ReadModule(kText, "m.hlo", {{"x", {4}}}));
  EXPECT_FALSE(ReadModule(kText, "m.hlo", {{"x", {5}}}));
  EXPECT_FALSE(ReadModule(kText, "m.hlo", {{"y", {4}}}));
}

// The length of the name is '#', or '!'.
TEST(ReadModule, ProtosWhoseNamesAreAsLongAsASign) {
  for (const std::size_t length : {33, 35}) {
    const std::string text =
        Format("HloModule {}\nENTRY e {{\n  ROOT x = f32[4] parameter(0)\n}}\n", std::string(length, 'n'));
    auto module = ReadModule(text, "m.hlo");
    ASSERT_TRUE(module);
    auto proto = SerializeHloProto(**module);
    ASSERT_TRUE(proto);
    auto again = ReadModule(*proto, "m.pb");
    EXPECT_TRUE(again) << again.error().ToString();
  }
}

TEST(OtherFormats, AreNamed) {
  using namespace std::string_view_literals;
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"\x08\x08\x12\x07pytorch\x3a\x02\x0a\x00"sv, "an ONNX model"},
      {"GGUF\x03\x00\x00\x00\x00\x00\x00\x00"sv, "a GGUF file"},
      {"\x1c\x00\x00\x00TFL3\x00\x00\x00\x00"sv, "a TensorFlow Lite model"},
      {"\x11\x00\x00\x00\x00\x00\x00\x00{\"w\":{\"x\":[0,1]}}\x00\x00"sv, "a safetensors file"},
      {"PK\x03\x04\x14\x00 model/data.pkl"sv, "a PyTorch or TorchScript file"},
      {"PK\x03\x04\x14\x00 krafla-0.1.0.dist-info/WHEEL"sv, "a Python wheel"},
      {"\x3c\x00\x00\x00\x38\x00\x64\x00 table ML\xefR\x0dStableHLO"sv, "an archive of jax.export"},
      {"\x89HDF\r\n\x1a\n\x00\x00"sv, "an HDF5 file (Keras)"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"sv, "a pointer of Git LFS"},
      {"\x93NUMPY\x01\x00"sv, "an array (.npy)"}};
  for (const auto& [bytes, what] : rows) {
    auto module = ReadModule(bytes, "given");
    ASSERT_FALSE(module) << what;
    EXPECT_NE(module.error().ToString().find(what), std::string::npos) << module.error().ToString();
  }
  std::string saved = "\x08\x01\x12\xac\x02";
  saved += std::string(300, '\n');
  auto module = ReadModule(saved, "saved_model.pb");
  ASSERT_FALSE(module);
  EXPECT_NE(module.error().ToString().find("a TensorFlow SavedModel"), std::string::npos);
}

}  // namespace
}  // namespace krafla
