// SPDX-License-Identifier: Apache-2.0
// A dot whose rows are put into an array writes them there: a step of decoding into its caches.
#include <algorithm>
#include <string>
#include <vector>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

class UpdateTest : public DeviceTest {
 protected:
  // The answers are those without fusion. All numbers are small integers, so that sums are exact.
  void Check(const std::string& text, int kernels) {
    auto executable = Compile(text);
    ASSERT_NE(executable, nullptr) << text;
    std::vector<Literal> arguments;
    for (const Shape& s : executable->arguments()) {
      auto made = Literal::Create(s);
      ASSERT_TRUE(made.has_value());
      if (s.element_type() == ElementType::kS32) made->data<int32_t>()[0] = 5;
      else
        for (std::size_t i = 0; i < made->data<float>().size(); ++i)
          made->data<float>()[i] = static_cast<float>((i * 7919 + arguments.size()) % 13) - 6;
      arguments.push_back(std::move(*made));
    }
    CompileOptions unfused;
    unfused.disabled = {"fusion"};
    auto plain = CompileText(**SharedClient("cpu"), text, unfused);
    ASSERT_TRUE(plain.has_value());
    const std::vector<Literal> got = Run(*executable, arguments), expected = Run(**plain, arguments);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t r = 0; r < got.size(); ++r)
      EXPECT_TRUE(std::ranges::equal(got[r].bytes(), expected[r].bytes())) << text << " result " << r;
    if (GetParam().selector == "cpu" && GetParam().disabled.empty()) {
      EXPECT_EQ(executable->report().kernels, kernels) << text;
    }
  }
};

std::string ModuleOf(const std::string& body, const std::string& aliases = "") {
  return "HloModule m" + aliases + "\nENTRY main {\n  x = f32[2,64] parameter(0)\n  w = f32[64,48] parameter(1)\n" +
         body + "}\n";
}

TEST_P(UpdateTest, RowsOfACache) {
  const std::string body = R"(  c = f32[4,16,2,12] parameter(2)
  p = s32[] parameter(3)
  z = s32[] constant(0)
  d = f32[2,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[2,48] negate(d)
  v = f32[4,1,2,12] reshape(n)
  ROOT r = f32[4,16,2,12] dynamic-update-slice(c, v, z, p, z, z)
)";
  Check(ModuleOf(body), 1);
  Check(ModuleOf(body, ", input_output_alias={ {}: (2, {}, may-alias) }"), 1);
}

TEST_P(UpdateTest, TransposedRows) {
  Check(ModuleOf(R"(  c = f32[48,16] parameter(2)
  p = s32[] parameter(3)
  z = s32[] constant(0)
  d = f32[2,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[48,2] transpose(d), dimensions={1,0}
  ROOT r = f32[48,16] dynamic-update-slice(c, v, z, p)
)"),
        1);
}

// The array that is updated is an operand of the dot, and has to be as it was until all of it is read: the update is a
// kernel of its own, in place.
TEST_P(UpdateTest, OfTheOperandItself) {
  Check(ModuleOf(R"(  p = s32[] parameter(2)
  z = s32[] constant(0)
  e = f32[64,48] negate(w)
  d = f32[2,48] dot(x, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,48] dynamic-update-slice(e, d, p, z)
)"),
        3);
}

INSTANTIATE_TEST_SUITE_P(Devices, UpdateTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
