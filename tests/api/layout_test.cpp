// SPDX-License-Identifier: Apache-2.0
// Layouts at the edge: memory in the order that the module promises, arrays in logical order inside.
#include "api_fixture.h"

namespace krafla::testing {
namespace {

class LayoutTest : public DeviceTest {};

template <typename T>
std::span<const std::byte> Bytes(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

TEST_P(LayoutTest, BytesInPromisedLayouts) {
  auto executable =
      Compile(R"(HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[3]{0})->(f32[3,2]{0,1}, f32[2,3]{1,0})}
ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
  y = f32[3] parameter(1)
  b = f32[2,3] broadcast(y), dimensions={1}
  s = f32[2,3] add(x, b)
  t = f32[3,2] transpose(s), dimensions={1,0}
  ROOT r = (f32[3,2]{0,1}, f32[2,3]{1,0}) tuple(t, s)
})");
  ASSERT_NE(executable, nullptr);
  EXPECT_EQ(executable->arguments()[0].ToString(), "f32[2,3]{0,1}");
  EXPECT_EQ(executable->results()[0].ToString(), "f32[3,2]{0,1}");
  const std::vector<float> x = {1, 4, 2, 5, 3, 6};  // {{1,2,3},{4,5,6}} by columns
  const std::vector<float> y = {10, 20, 30};
  std::vector<std::span<const std::byte>> given = {Bytes(x), Bytes(y)};
  ASSERT_TRUE(executable->SetArgumentBytes(given).has_value());
  ASSERT_TRUE(executable->Execute().has_value());
  std::vector<float> t(6), s(6);
  std::vector<std::span<std::byte>> wanted = {std::as_writable_bytes(std::span(t)),
                                              std::as_writable_bytes(std::span(s))};
  auto copied = executable->CopyResultBytes(wanted);
  ASSERT_TRUE(copied.has_value()) << copied.error().ToString();
  const std::vector<float> expected = {11, 22, 33, 14, 25, 36};
  EXPECT_EQ(s, expected);
  EXPECT_EQ(t, expected);  // the transposed array by columns
  // Literals are in logical order whatever the layout.
  auto got = Run(*executable, {MakeLiteral<float>("f32[2,3]", {1, 2, 3, 4, 5, 6}), MakeLiteral("f32[3]", y)});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{11, 14, 22, 25, 33, 36}));
  EXPECT_EQ(Values<float>(got[1]), expected);
}

TEST_P(LayoutTest, WrongSizes) {
  auto executable = Compile("HloModule m\nENTRY main { x = f32[2,3]{0,1} parameter(0)\n ROOT r = f32[2,3] negate(x) }");
  ASSERT_NE(executable, nullptr);
  const std::vector<float> x(5);
  std::vector<std::span<const std::byte>> given = {Bytes(x)};
  auto set = executable->SetArgumentBytes(given);
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(executable->SetArgumentBytes({}).has_value());
}

INSTANTIATE_TEST_SUITE_P(Devices, LayoutTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
