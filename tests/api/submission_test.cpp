// SPDX-License-Identifier: Apache-2.0
// Long work is cut into submissions, which changes no bit of it; and long sums lose little.
#include <cmath>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

constexpr std::string_view kSubmittedAdd = R"(
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = pred[] compare(p, q), direction=LT
}
)";

struct Family {
  std::string name, entry;
};

std::vector<Family> Families() {
  return {
      {"loop", "x = f32[300001] parameter(0)\n ROOT r = f32[300001] exponential(x)"},
      {"reduce_rows",
       "x = f32[300,1000] parameter(0)\n z = f32[] constant(1)\n"
       " ROOT r = f32[300] reduce(x, z), dimensions={1}, to_apply=add"},
      {"reduce_columns",
       "x = f32[3000,100] parameter(0)\n z = f32[] constant(1)\n"
       " ROOT r = f32[100] reduce(x, z), dimensions={0}, to_apply=add"},
      {"reduce_all",
       "x = f32[3000001] parameter(0)\n z = f32[] constant(1)\n"
       " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add"},
      {"window",
       "x = f32[40,5000] parameter(0)\n z = f32[] constant(1)\n"
       " ROOT r = f32[40,4951] reduce-window(x, z), window={size=1x50}, to_apply=add"},
      {"dot",
       "x = f32[200,300] parameter(0)\n y = f32[300,250] parameter(1)\n"
       " ROOT r = f32[200,250] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {"dot_few_rows",
       "x = f32[3,4096] parameter(0)\n y = f32[500,4096] parameter(1)\n"
       " ROOT r = f32[3,500] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}"},
      {"dot_in_parts",
       "x = f32[5,300001] parameter(0)\n y = f32[300001,6] parameter(1)\n"
       " ROOT r = f32[5,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {"batch_dot",
       "x = f32[30,40,64] parameter(0)\n y = f32[30,64,50] parameter(1)\n ROOT r = f32[30,40,50] dot(x, y),"
       " lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
      {"conv_gemm",
       "x = f32[2,20,20,16] parameter(0)\n k = f32[3,3,16,24] parameter(1)\n ROOT r = f32[2,18,18,24]"
       " convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f"},
      {"conv_in_parts",
       "x = f32[18,142,142,8] parameter(0)\n g = f32[18,140,140,16] parameter(1)\n ROOT r = f32[3,3,8,16]"
       " convolution(x, g), window={size=140x140}, dim_labels=f01b_i01o->01bf"},
      {"conv_direct",
       "x = f32[2,40,40,8] parameter(0)\n k = f32[3,3,1,8] parameter(1)\n ROOT r = f32[2,38,38,8]"
       " convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=8"},
      {"sort", "x = f32[20,3000] parameter(0)\n ROOT r = f32[20,3000] sort(x), dimensions={1}, to_apply=less"},
      {"scan_lines",
       "x = f32[300,500] parameter(0)\n z = f32[] constant(1)\n ROOT r = f32[300,500]"
       " reduce-window(x, z), window={size=1x500 pad=0_0x499_0}, to_apply=add"},
      {"scan_chunks",
       "x = f32[90000] parameter(0)\n z = f32[] constant(1)\n ROOT r = f32[90000]"
       " reduce-window(x, z), window={size=90000 pad=89999_0}, to_apply=add"},
      {"scatter",
       "o = f32[70,90] parameter(0)\n u = f32[70000,90] parameter(1)\n"
       " n = s32[70000,1] iota(), iota_dimension=0\n c = s32[] constant(70)\n"
       " cb = s32[70000,1] broadcast(c), dimensions={}\n i = s32[70000,1] remainder(n, cb)\n"
       " ROOT r = f32[70,90] scatter(o, i, u), update_window_dims={1}, inserted_window_dims={0},"
       " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
      {"fft", "x = f32[50,1000] parameter(0)\n ROOT r = c64[50,501] fft(x), fft_type=RFFT, fft_length={1000}"},
      {"triangular_solve",
       "a = f32[100,100] parameter(0)\n b = f32[100,80] parameter(1)\n ROOT r = f32[100,80]"
       " triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true,"
       " transpose_a=NO_TRANSPOSE"},
      {"cholesky",
       "a = f32[9,70,70] parameter(0)\n i = s32[9,70,70] iota(), iota_dimension=1\n"
       " j = s32[9,70,70] iota(), iota_dimension=2\n d = pred[9,70,70] compare(i, j), direction=EQ\n"
       " big = f32[] constant(1000)\n bb = f32[9,70,70] broadcast(big), dimensions={}\n"
       " s = f32[9,70,70] select(d, bb, a)\n ROOT r = f32[9,70,70] cholesky(s), lower=true"},
      {"qr", "a = f32[90,80] parameter(0)\n ROOT r = (f32[90,80], f32[80]) custom-call(a), custom_call_target=\"Qr\""},
  };
}

class SubmissionTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, SubmissionTest,
                         ::testing::Values(DeviceCase{"vulkan", "vulkan", {}},
                                           DeviceCase{"vulkan_descriptors", "vulkan", {"bda"}}),
                         [](const auto& of) { return of.param.name; });

std::vector<std::vector<std::byte>> BytesOf(const std::vector<Literal>& literals) {
  std::vector<std::vector<std::byte>> out;
  for (const Literal& l : literals) out.emplace_back(l.bytes().begin(), l.bytes().end());
  return out;
}

// From -1 to 1.
Literal SomeFloats(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  uint32_t state = 12345;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  auto out = Literal::FromBytes(shape, std::as_bytes(std::span(values)));
  EXPECT_TRUE(out.has_value());
  return std::move(*out);
}

TEST_P(SubmissionTest, CuttingChangesNoBit) {
  for (const Family& family : Families()) {
    const std::string text = "HloModule m\n" + std::string(kSubmittedAdd) + "\nENTRY e {\n " + family.entry + "\n}\n";
    std::vector<std::vector<std::byte>> whole;
    int submissions = 0;
    for (const double ms : {1e6, 0.02}) {
      options_.submission_ms = ms;
      auto executable = CompileText(*client_, text, options_);
      ASSERT_TRUE(executable.has_value()) << family.name << ": " << executable.error().ToString();
      EXPECT_TRUE((*executable)->report().fallbacks.empty()) << family.name;
      std::vector<Literal> arguments;
      for (const Shape& shape : (*executable)->arguments()) arguments.push_back(SomeFloats(shape));
      // The second and third run are measured, and may be cut anew.
      for (int run = 0; run < (ms < 1 ? 3 : 1); ++run) {
        auto results = (*executable)->Run(Pointers(arguments));
        ASSERT_TRUE(results.has_value()) << family.name << ": " << results.error().ToString();
        const DeviceWork work = (*executable)->device_work();
        if (whole.empty()) {
          EXPECT_EQ(work.submissions, 1) << family.name;
          whole = BytesOf(*results);
          submissions = work.submissions;
        } else {
          EXPECT_GT(work.submissions, submissions) << family.name;
          EXPECT_TRUE(BytesOf(*results) == whole) << family.name << ", run " << run;
        }
      }
    }
  }
}

// By dispatches, which is what can be told without a clock: what is bounded is more than one.
TEST_P(SubmissionTest, WhatOneWorkgroupDoesIsBounded) {
  const std::pair<std::string, int> cases[] = {
      {"x = f32[2,1048576] parameter(0)\n y = f32[2,1048576] parameter(1)\n"
       " ROOT r = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
       2},
      {"x = bf16[9,5000000] parameter(0)\n y = f32[9,5000000] convert(x)\n z = f32[] constant(0)\n"
       " ROOT r = f32[9] reduce(y, z), dimensions={1}, to_apply=add",
       2},
      {"x = f32[500000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[500000]"
       " reduce-window(x, z), window={size=500000 pad=499999_0}, to_apply=add",
       3},
      {"o = f32[7] parameter(0)\n i = s32[200000,1] parameter(1)\n u = f32[200000] parameter(2)\n ROOT r = f32[7]"
       " scatter(o, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
       " index_vector_dim=1, to_apply=add",
       4},
  };
  options_.submission_ms = 1e-3;
  for (const auto& [entry, least] : cases) {
    auto executable = CompileText(
        *client_, "HloModule m\n" + std::string(kSubmittedAdd) + "\nENTRY e {\n " + entry + "\n}\n", options_);
    ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
    EXPECT_GE((*executable)->device_work().submissions, least) << entry;
  }
}

// Terms of 0.1 in f32, whose sum is known: one after the other they lose six digits.
TEST(LongSums, LoseLittle) {
  auto client = SharedClient("vulkan:\"llvmpipe\"");
  if (!client) GTEST_SKIP() << client.error().ToString();
  const double tenth = static_cast<double>(0.1f);
  auto check = [&](const std::string& entry, std::vector<Literal> arguments, double want, int64_t at) {
    auto executable =
        CompileText(**client, "HloModule m\n" + std::string(kSubmittedAdd) + "\nENTRY e {\n " + entry + "\n}\n");
    ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
    auto results = (*executable)->Run(Pointers(arguments));
    ASSERT_TRUE(results.has_value()) << results.error().ToString();
    const double got = static_cast<double>((*results)[0].data<float>()[static_cast<std::size_t>(at)]);
    EXPECT_LT(std::abs(got - want) / want, 4e-7) << entry << ": " << got << " for " << want;
  };
  auto tenths = [](std::string_view shape, std::size_t count) {
    return MakeLiteral<float>(shape, std::vector<float>(count, 0.1f));
  };
  auto of = [](auto... literals) {
    std::vector<Literal> out;
    (out.push_back(std::move(literals)), ...);
    return out;
  };
  check(
      "x = f32[1000000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add",
      of(tenths("f32[1000000]", 1000000)), tenth * 1e6, 0);
  check(
      "x = f32[50000,8] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[8] reduce(x, z), dimensions={0}, to_apply=add",
      of(tenths("f32[50000,8]", 400000)), tenth * 5e4, 3);
  check(
      "x = f32[300,9000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[300] reduce(x, z), dimensions={1}, to_apply=add",
      of(tenths("f32[300,9000]", 2700000)), tenth * 9e3, 299);
  check(
      "x = f32[100000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[100000] reduce-window(x, z),"
      " window={size=100000 pad=99999_0}, to_apply=add",
      of(tenths("f32[100000]", 100000)), tenth * 1e5, 99999);
  check(
      "x = f32[100,2000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[100,2000] reduce-window(x, z),"
      " window={size=1x2000 pad=0_0x1999_0}, to_apply=add",
      of(tenths("f32[100,2000]", 200000)), tenth * 2e3, 1999);
  check(
      "x = f32[16,20000] parameter(0)\n y = f32[20000,16] parameter(1)\n ROOT r = f32[16,16] dot(x, y),"
      " lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      of(tenths("f32[16,20000]", 320000), tenths("f32[20000,16]", 320000)), tenth * tenth * 2e4, 100);
  check(
      "x = f32[4,300000] parameter(0)\n y = f32[300000,4] parameter(1)\n ROOT r = f32[4,4] dot(x, y),"
      " lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      of(tenths("f32[4,300000]", 1200000), tenths("f32[300000,4]", 1200000)), tenth * tenth * 3e5, 15);
  check(
      "x = f32[1,70,70,4] parameter(0)\n k = f32[68,68,4,8] parameter(1)\n ROOT r = f32[1,3,3,8] convolution(x, k),"
      " window={size=68x68}, dim_labels=b01f_01io->b01f",
      of(tenths("f32[1,70,70,4]", 19600), tenths("f32[68,68,4,8]", 147968)), tenth * tenth * 68 * 68 * 4, 70);
}

}  // namespace
}  // namespace krafla::testing
