// SPDX-License-Identifier: Apache-2.0
// Sums that stay in parts, one on each device, until something needs them whole.
#include "hlo_io/read_module.h"
#include "ir/sharding.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

// A program over the mesh {i=2, j=2} in StableHLO, of x: f32[4,8] cut along i and j and y: f32[8,4] cut along j; and
// the same for one device.
class SumsInParts : public Spmd {
 protected:
  struct Ran {
    std::vector<std::vector<Literal>> results;  // by device
    std::vector<std::string> shardings;
    int64_t all_reduces = 0, all_gathers = 0;
  };
  static constexpr std::string_view kX = R"(<@mesh, [{"i"}, {"j"}]>)", kY = R"(<@mesh, [{"j"}, {}]>)";

  Ran Run(int64_t devices, std::string_view results, std::string_view body) {
    Ran out;
    const int64_t axis = devices == 1 ? 1 : 2;
    const std::string text = Format(R"mlir(module @m attributes {{mhlo.num_partitions = {} : i32}} {{
  sdy.mesh @mesh = <["i"={}, "j"={}]>
  func.func public @main(%x: tensor<4x8xf32> {{sdy.sharding = #sdy.sharding{}}}, %y: tensor<8x4xf32> {{sdy.sharding = #sdy.sharding{}}}) -> {} {{
{}
  }}
}})mlir",
                                    devices, axis, axis, kX, kY, results, body);
    auto module = ReadModule(text, "test");
    if (!module) {
      ADD_FAILURE() << module.error().ToString();
      return out;
    }
    auto executable = group_->Compile(std::move(*module), {});
    if (!executable) {
      ADD_FAILURE() << executable.error().ToString();
      return out;
    }
    for (const auto& c : (*executable)->module().computations())
      for (const auto& i : c->instructions()) {
        out.all_reduces += i->opcode() == Opcode::kAllReduce;
        out.all_gathers += i->opcode() == Opcode::kAllGather;
      }
    out.shardings = (*executable)->result_shardings();
    const std::vector<Literal> whole = Arguments();
    for (int64_t d = 0; d < devices; ++d) {
      std::vector<Literal> blocks;
      for (std::size_t p = 0; p < 2; ++p)
        blocks.push_back(*BlockOf(
            whole[p], devices == 1 ? Sharding() : *ParseSharding((*executable)->parameter_shardings()[p], 4), d));
      const Literal* pointers[] = {&blocks[0], &blocks[1]};
      EXPECT_TRUE((*executable)->SetArguments(d, pointers));
    }
    const auto ran = (*executable)->Execute();
    EXPECT_TRUE(ran) << ran.error().ToString();
    for (int64_t d = 0; ran && d < devices; ++d) out.results.push_back(*(*executable)->Results(d));
    return out;
  }

  // Whether the first results of devices 2 * i and 2 * i + 1, which differ in j, come to the whole.
  static void ExpectPartsOf(const Literal& whole, const Ran& ran) {
    for (std::size_t i = 0; i < 2; ++i)
      for (int64_t e = 0; e < whole.shape().element_count(); ++e) {
        const auto n = static_cast<std::size_t>(e);
        EXPECT_EQ(ran.results[2 * i][0].data<float>()[n] + ran.results[2 * i + 1][0].data<float>()[n],
                  whole.data<float>()[n]);
      }
  }
};

TEST_F(SumsInParts, AreAsTheyCome) {
  const std::string result = R"((tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"j"}>}))";
  const std::string body =
      R"(    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"j"}> : tensor<4x4xf32>
    return %1 : tensor<4x4xf32>)";
  const Ran one = Run(1, result, body), four = Run(4, result, body);
  ASSERT_EQ(four.results.size(), 4u);
  EXPECT_EQ(four.all_reduces, 0);
  ExpectPartsOf(one.results[0][0], four);
  // Both have a share.
  EXPECT_FALSE(four.results[0][0] == one.results[0][0]);
}

TEST_F(SumsInParts, OfBlocksAreTheBlocks) {
  const std::string result = R"((tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"j"}>}))";
  const Ran four = Run(4, result, "    return %y : tensor<8x4xf32>");
  ASSERT_EQ(four.results.size(), 4u);
  EXPECT_EQ(four.all_gathers + four.all_reduces, 0);
  const Literal y = std::move(Arguments()[1]);
  ExpectPartsOf(y, four);
  for (std::size_t e = 0; e < 32; ++e) {
    EXPECT_EQ(four.results[0][0].data<float>()[e], e < 16 ? y.data<float>()[e] : 0) << e;
    EXPECT_EQ(four.results[1][0].data<float>()[e], e < 16 ? 0 : y.data<float>()[e]) << e;
  }
}

// One all-reduce, behind everything that is linear.
TEST_F(SumsInParts, GoThroughLinearOperations) {
  const std::string body = R"(    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %c = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
    %p = stablehlo.constant dense<[[true], [false], [true], [true]]> : tensor<4x1xi1>
    %k = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2.0> : tensor<4x4xf32>
    %m = stablehlo.constant dense<[[1.0, 0.0], [2.0, 1.0], [0.0, 1.0], [3.0, 1.0]]> : tensor<4x2xf32>
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"j"}> : tensor<4x4xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<4x4xf32>
    %4 = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<4x4xf32>
    %5 = stablehlo.multiply %4, %3 : tensor<4x4xf32>
    %6 = stablehlo.divide %5, %two : tensor<4x4xf32>
    %7 = stablehlo.broadcast_in_dim %p, dims = [0, 1] : (tensor<4x1xi1>) -> tensor<4x4xi1>
    %8 = stablehlo.select %7, %6, %2 : tensor<4x4xi1>, tensor<4x4xf32>
    %9 = stablehlo.slice %8 [1:3, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %10 = stablehlo.negate %9 : tensor<2x4xf32>
    %11 = stablehlo.dynamic_update_slice %8, %10, %k, %k : (tensor<4x4xf32>, tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
    %12 = stablehlo.concatenate %11, %10, dim = 0 : (tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
    %13 = stablehlo.pad %12, %z, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<6x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %14 = stablehlo.reshape %13 : (tensor<8x4xf32>) -> tensor<2x4x4xf32>
    %15 = stablehlo.reduce(%14 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %16 = stablehlo.dot_general %15, %m, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %17 = stablehlo.dynamic_slice %16, %k, %k, sizes = [2, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
    %18 = stablehlo.reverse %17, dims = [0] : tensor<2x2xf32>
    %19 = sdy.sharding_constraint %18 <@mesh, [{}, {}]> : tensor<2x2xf32>
    return %19 : tensor<2x2xf32>)";
  const Ran one = Run(1, "tensor<2x2xf32>", body), four = Run(4, "tensor<2x2xf32>", body);
  ASSERT_EQ(four.results.size(), 4u);
  EXPECT_EQ(four.all_reduces, 1);
  for (const auto& results : four.results) EXPECT_EQ(results[0], one.results[0][0]);
}

// What is not linear, or linear in one operand only, takes the sum: once, however many need it.
TEST_F(SumsInParts, AreSettledForTheRest) {
  const std::string body = R"(    %one = stablehlo.constant dense<1.0> : tensor<4x4xf32>
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"j"}> : tensor<4x4xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<4x4xf32>
    %3 = stablehlo.add %1, %one : tensor<4x4xf32>
    %4 = stablehlo.maximum %1, %one : tensor<4x4xf32>
    %5 = stablehlo.add %2, %3 : tensor<4x4xf32>
    %6 = stablehlo.subtract %5, %4 : tensor<4x4xf32>
    %7 = sdy.sharding_constraint %6 <@mesh, [{}, {}]> : tensor<4x4xf32>
    return %7 : tensor<4x4xf32>)";
  const Ran one = Run(1, "tensor<4x4xf32>", body), four = Run(4, "tensor<4x4xf32>", body);
  ASSERT_EQ(four.results.size(), 4u);
  EXPECT_EQ(four.all_reduces, 1);
  for (const auto& results : four.results) EXPECT_EQ(results[0], one.results[0][0]);
}

// A result that nobody wants in parts is none.
TEST_F(SumsInParts, ComeOutWhereTheyAreAskedForOnly) {
  const std::string body =
      R"(    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"j"}> : tensor<4x4xf32>
    %2 = stablehlo.negate %1 : tensor<4x4xf32>
    return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>)";
  const std::string result = "(tensor<4x4xf32>, tensor<4x4xf32>)";
  const Ran one = Run(1, result, body), four = Run(4, result, body);
  ASSERT_EQ(four.results.size(), 4u);
  ExpectPartsOf(one.results[0][0], four);
  for (const auto& results : four.results) EXPECT_EQ(results[1], one.results[0][1]);
}

// Gradients of several batches are added up in parts, and over the devices once.
TEST_F(SumsInParts, AccumulateInLoops) {
  const std::string body = R"(    %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"j"}> : tensor<4x4xf32>
    %n = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %n, %acc = %start) : tensor<i32>, tensor<4x4xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %go = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"j"}> : tensor<4x4xf32>
      %2 = stablehlo.add %acc, %1 : tensor<4x4xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %2 : tensor<i32>, tensor<4x4xf32>
    }
    %sum = sdy.sharding_constraint %w#1 <@mesh, [{}, {}]> : tensor<4x4xf32>
    return %sum : tensor<4x4xf32>)";
  const Ran one = Run(1, "tensor<4x4xf32>", body), four = Run(4, "tensor<4x4xf32>", body);
  ASSERT_EQ(four.results.size(), 4u);
  EXPECT_EQ(four.all_reduces, 1);
  for (const auto& results : four.results) EXPECT_EQ(results[0], one.results[0][0]);
}

}  // namespace
}  // namespace krafla
