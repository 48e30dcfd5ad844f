// SPDX-License-Identifier: Apache-2.0
// Arrays of elements of fewer than 8 bits: a byte for each to callers, packed on the device.
#include "api/packed_executable.h"

#include <numeric>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

class PackedElementsTest : public DeviceTest {
 protected:
  static std::vector<int8_t> Numbers(int64_t count, int64_t first = 0) {
    std::vector<int8_t> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int8_t>((first + i * 5) % 16 - 8));
    return out;
  }
  std::shared_ptr<DeviceBuffer> Put(Literal literal) {
    auto out = client_->ToDevice(std::make_shared<const Literal>(std::move(literal)));
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return out ? *out : nullptr;
  }
};

// Sizes that fill bytes and that do not; s4 goes in and out in every way that there is.
TEST_P(PackedElementsTest, ArgumentsAndResults) {
  for (const auto& [dims, count] :
       {std::pair("3,6", 18), std::pair("3,5", 15), std::pair("1", 1), std::pair("4,32", 128)}) {
    auto executable =
        Compile(Format("HloModule m ENTRY main {{ x = s4[{0}] parameter(0) y = f32[{0}] convert(x)\n"
                       " n = s4[{0}] negate(x) ROOT r = (f32[{0}], s4[{0}]) tuple(y, n) }}",
                       dims));
    ASSERT_NE(executable, nullptr);
    EXPECT_EQ(executable->arguments()[0].ToString(false), Format("s4[{}]", dims));
    const std::vector<int8_t> x = Numbers(count);
    std::vector<float> wide;
    std::vector<int8_t> negated;
    for (const int8_t v : x) {
      wide.push_back(v);
      negated.push_back(static_cast<int8_t>(v == -8 ? -8 : -v));
    }
    const auto check = [&](const Literal& a, const Literal& b) {
      EXPECT_EQ(Values<float>(a), wide) << dims;
      EXPECT_EQ(Values<int8_t>(b), negated) << dims;
    };
    std::vector<Literal> out = Run(*executable, {MakeLiteral<int8_t>(Format("s4[{}]", dims), x)});
    ASSERT_EQ(out.size(), 2u);
    check(out[0], out[1]);

    std::vector<int8_t> narrow(x.size());
    const std::vector<std::span<const std::byte>> from = {std::as_bytes(std::span(x))};
    std::vector<float> numbers(x.size());
    ASSERT_TRUE(executable->RunInPlace(
        from, std::vector{std::as_writable_bytes(std::span(numbers)), std::as_writable_bytes(std::span(narrow))}));
    EXPECT_EQ(numbers, wide);
    EXPECT_EQ(narrow, negated);

    auto buffer = Put(MakeLiteral<int8_t>(Format("s4[{}]", dims), x));
    ASSERT_NE(dynamic_cast<PackedBuffer*>(buffer.get()), nullptr);
    const auto& packed = static_cast<PackedBuffer&>(*buffer).packed();
    EXPECT_EQ(packed->shape().byte_size(), (count + 1) / 2);
    // One that is not packed, as other clients' are.
    const auto plain =
        std::make_shared<HostBuffer>(std::make_shared<const Literal>(MakeLiteral<int8_t>(Format("s4[{}]", dims), x)));
    for (const std::shared_ptr<DeviceBuffer>& argument : {buffer, std::shared_ptr<DeviceBuffer>(plain)}) {
      auto results = executable->RunOnBuffers({{argument}});
      ASSERT_TRUE(results.has_value()) << results.error().ToString();
      check(**(*results)[0]->ToLiteral(), **(*results)[1]->ToLiteral());
      // A result is an argument again.
      auto again = executable->RunOnBuffers({{(*results)[1]}});
      ASSERT_TRUE(again.has_value()) << again.error().ToString();
      EXPECT_EQ(Values<int8_t>(**(*again)[1]->ToLiteral())[0], x[0]);
    }
  }
}

// Gathers, transposes, slices, concatenations, reductions and sorts of packed arrays.
TEST_P(PackedElementsTest, OperationsThatMoveElements) {
  constexpr std::string_view kText = R"(HloModule m
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
less { a = u4[] parameter(0) b = u4[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
 x = u4[6,10] parameter(0)
 i = s32[3] parameter(1)
 g = u4[3,10] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,10}
 t = u4[10,3] transpose(g), dimensions={1,0}
 s = u4[6,3] slice(x), slice={[0:6], [1:10:3]}
 c = u4[16,3] concatenate(t, s), dimensions={0}
 w = s32[16,3] convert(c)
 zero = s32[] constant(0)
 sum = s32[3] reduce(w, zero), dimensions={0}, to_apply=add
 o = u4[6,10] sort(x), dimensions={1}, to_apply=less
 ROOT r = (u4[16,3], s32[3], u4[6,10]) tuple(c, sum, o) })";
  std::vector<uint8_t> x;
  for (int i = 0; i < 60; ++i) x.push_back(static_cast<uint8_t>(i * 11 % 16));
  const std::vector<int32_t> rows = {4, 0, 5};
  std::vector<Literal> out = Run(kText, {MakeLiteral<uint8_t>("u4[6,10]", x), MakeLiteral<int32_t>("s32[3]", rows)});
  ASSERT_EQ(out.size(), 3u);
  std::vector<uint8_t> c, sorted = x;
  for (std::size_t column = 0; column < 10; ++column)
    for (const int32_t row : rows) c.push_back(x[static_cast<std::size_t>(row) * 10 + column]);
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t column = 1; column < 10; column += 3) c.push_back(x[row * 10 + column]);
  std::vector<int32_t> sums(3, 0);
  for (std::size_t e = 0; e < c.size(); ++e) sums[e % 3] += c[e];
  for (std::size_t row = 0; row < 6; ++row)
    std::sort(sorted.begin() + static_cast<int64_t>(row) * 10, sorted.begin() + static_cast<int64_t>(row + 1) * 10);
  EXPECT_EQ(Values<uint8_t>(out[0]), c);
  EXPECT_EQ(Values<int32_t>(out[1]), sums);
  EXPECT_EQ(Values<uint8_t>(out[2]), sorted);
}

// A donated cache is updated where it lies.
TEST_P(PackedElementsTest, DonatedCaches) {
  auto executable = Compile(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main { cache = s4[8,16] parameter(0)
 new = s4[1,16] parameter(1)
 at = s32[] parameter(2)
 zero = s32[] constant(0)
 ROOT r = s4[8,16] dynamic-update-slice(cache, new, at, zero) })");
  ASSERT_NE(executable, nullptr);
  std::vector<int8_t> cache(128, 3);
  std::shared_ptr<DeviceBuffer> buffer = Put(MakeLiteral<int8_t>("s4[8,16]", cache));
  for (int32_t at = 0; at < 8; ++at) {
    const std::vector<int8_t> row = Numbers(16, at);
    std::ranges::copy(row, cache.begin() + int64_t{at} * 16);
    const auto address = buffer->Address();
    auto out = executable->RunOnBuffers(
        {{buffer, true}, {Put(MakeLiteral<int8_t>("s4[1,16]", row))}, {Put(MakeLiteral<int32_t>("s32[]", {at}))}});
    ASSERT_TRUE(out.has_value()) << out.error().ToString();
    EXPECT_FALSE(buffer->Wait().has_value());
    buffer = (*out)[0];
    if (address) { EXPECT_EQ(*buffer->Address(), *address); }
  }
  EXPECT_EQ(Values<int8_t>(**buffer->ToLiteral()), cache);
}

TEST_P(PackedElementsTest, WrongArgumentsAreErrors) {
  auto executable = Compile("HloModule m ENTRY main { x = s4[4] parameter(0) ROOT r = f32[4] convert(x) }");
  ASSERT_NE(executable, nullptr);
  const Literal wrong = MakeLiteral<uint8_t>("u8[2]", {1, 2});
  const Literal* given[] = {&wrong};
  const auto out = executable->Run(given);
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().message(), "Argument 0 is u8[2], the module takes s4[4].");
}

INSTANTIATE_TEST_SUITE_P(Devices, PackedElementsTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
