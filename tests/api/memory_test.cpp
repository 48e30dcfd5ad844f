// SPDX-License-Identifier: Apache-2.0
// Memory: arguments shared and not copied, results taken and not copied, runs that allocate nothing, and sizes that no
// machine has as errors.
#include <atomic>
#include <cstdlib>
#include <new>

#include "api_fixture.h"

namespace {
std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

void* Allocate(std::size_t size, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  size = (size + alignment - 1) / alignment * alignment;
  void* out = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, size) : std::malloc(size);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}
}  // namespace

// Replaced in the whole test program: allocations are counted while a test says so.
void* operator new(std::size_t size) { return Allocate(size == 0 ? 1 : size, 1); }
void* operator new(std::size_t size, std::align_val_t a) {
  return Allocate(size == 0 ? 1 : size, static_cast<std::size_t>(a));
}
// What std::stable_sort and blocks of arrays ask for; a sanitizer's own would not be for std::free.
void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size, a);
  } catch (const std::bad_alloc&) { return nullptr; }
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return ::operator new(size, std::align_val_t{1}, std::nothrow);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace krafla::testing {
namespace {

class MemoryTest : public DeviceTest {};

constexpr std::string_view kLarge = R"(HloModule m
ENTRY main {
  x = f32[1000,700] parameter(0)
  y = f32[700] parameter(1)
  yb = f32[1000,700] broadcast(y), dimensions={1}
  ROOT r = f32[1000,700] add(x, yb)
})";

Literal Counted(std::string_view shape, std::size_t count, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000) * step;
  return MakeLiteral(shape, values);
}

// More than 1 MiB: devices that work in the host's memory read these pages themselves.
TEST_P(MemoryTest, SharedArguments) {
  auto executable = Compile(kLarge);
  ASSERT_NE(executable, nullptr);
  auto x = std::make_shared<const Literal>(Counted("f32[1000,700]", 700000, 1));
  auto y = std::make_shared<const Literal>(Counted("f32[700]", 700, 0.5f));
  std::weak_ptr<const Literal> watched = x;
  const std::vector<float> before = Values<float>(*x);
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    auto got = executable->RunShared({x, y});
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    auto values = Values<float>((*got)[0]);
    EXPECT_EQ(values[701], before[701] + 0.5f);
    EXPECT_EQ(values[699999], before[699999] + 349.5f);
    if (run == 0) first = values;
    EXPECT_EQ(values, first);
  }
  EXPECT_EQ(Values<float>(*x), before) << "an argument was written to";
  // Other arguments take their place, shared or copied; the first ones are let go.
  auto z = std::make_shared<const Literal>(Counted("f32[1000,700]", 700000, 2));
  x.reset();
  auto other = executable->RunShared({z, y});
  ASSERT_TRUE(other.has_value()) << other.error().ToString();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ((*other)[0].data<float>()[701], 1402.5f);
  auto copied = executable->Run(std::vector<const Literal*>{z.get(), y.get()});
  ASSERT_TRUE(copied.has_value());
  EXPECT_EQ((*copied)[0], (*other)[0]);
  watched = z;
  z.reset();
  EXPECT_TRUE(watched.expired()) << "a copied argument is still held";
}

TEST_P(MemoryTest, WrongSharedArgumentsAreErrors) {
  auto executable = Compile(kLarge);
  ASSERT_NE(executable, nullptr);
  auto y = std::make_shared<const Literal>(Counted("f32[700]", 700, 0.5f));
  for (const std::vector<std::shared_ptr<const Literal>>& wrong :
       {std::vector<std::shared_ptr<const Literal>>{}, {y, y}, {nullptr, y}, {y}}) {
    auto got = executable->ShareArguments(wrong);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(MemoryTest, SharedDonatedArgumentIsNotChanged) {
  auto executable = Compile(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  cache = f32[1000,700] parameter(0)
  new = f32[1,700] parameter(1)
  at = s32[] constant(3)
  zero = s32[] constant(0)
  ROOT updated = f32[1000,700] dynamic-update-slice(cache, new, at, zero)
})");
  ASSERT_NE(executable, nullptr);
  auto cache = std::make_shared<const Literal>(Counted("f32[1000,700]", 700000, 1));
  auto row = std::make_shared<const Literal>(Counted("f32[1,700]", 700, -1));
  const std::vector<float> before = Values<float>(*cache);
  for (int run = 0; run < 2; ++run) {
    auto got = executable->RunShared({cache, row});
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    auto values = (*got)[0].data<float>();
    EXPECT_EQ(values[3 * 700 + 5], -5);
    EXPECT_EQ(values[4 * 700 + 5], before[4 * 700 + 5]);
    EXPECT_EQ(Values<float>(*cache), before);
  }
}

TEST_P(MemoryTest, ResultsTakeThePlaceOfDonatedArguments) {
  auto executable = Compile(R"(HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }
ENTRY main {
  state = f32[1000,10] parameter(0)
  row = f32[1,10] parameter(1)
  at = s32[] constant(3)
  zero = s32[] constant(0)
  old = f32[1,10] dynamic-slice(state, at, zero), dynamic_slice_sizes={1,10}
  new = f32[1,10] add(old, row)
  next = f32[1000,10] dynamic-update-slice(state, new, at, zero)
  twice = f32[1,10] add(row, row)
  ROOT out = (f32[1,10], f32[1000,10]) tuple(twice, next)
})");
  ASSERT_NE(executable, nullptr);
  const std::span<const int> aliases = executable->result_aliases();
  ASSERT_EQ(std::vector<int>(aliases.begin(), aliases.end()), (std::vector<int>{-1, 0}));
  const auto on_device = [&](std::string_view shape, std::size_t count) {
    return *client_->ToDevice(std::make_shared<const Literal>(Counted(shape, count, 1)));
  };
  std::shared_ptr<DeviceBuffer> state = on_device("f32[1000,10]", 10000);
  const std::shared_ptr<DeviceBuffer> row = on_device("f32[1,10]", 10);
  const uint64_t place = state->Address().value_or(0);
  for (int run = 0; run < 3; ++run) {
    auto results = executable->RunOnBuffers({{state, true}, {row, false}});
    ASSERT_TRUE(results.has_value()) << results.error().ToString();
    state = (*results)[1];
  }
  auto literal = state->ToLiteral();
  ASSERT_TRUE(literal.has_value());
  const Literal first = Counted("f32[1000,10]", 10000, 1), step = Counted("f32[1,10]", 10, 1);
  EXPECT_EQ((*literal)->data<float>()[37], first.data<float>()[37] + 3 * step.data<float>()[7]);
  EXPECT_EQ((*literal)->data<float>()[47], first.data<float>()[47]);
  if (place != 0) { EXPECT_EQ(state->Address().value_or(0), place); }
}

TEST_P(MemoryTest, ResultsAreTakenOnce) {
  auto executable = Compile(kLarge);
  ASSERT_NE(executable, nullptr);
  EXPECT_FALSE(executable->Results().has_value()) << "results before a run";
  auto x = Counted("f32[1000,700]", 700000, 1), y = Counted("f32[700]", 700, 1);
  ASSERT_TRUE(executable->SetArguments(std::vector<const Literal*>{&x, &y}).has_value());
  ASSERT_TRUE(executable->Execute().has_value());
  auto copy = executable->Results();
  auto taken = executable->TakeResults();
  ASSERT_TRUE(copy.has_value() && taken.has_value());
  EXPECT_EQ(*copy, *taken);
  ASSERT_TRUE(executable->Execute().has_value());
  auto again = executable->Results();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*copy, *again);
}

// 4 TB, and more than 63 bits count.
TEST_P(MemoryTest, TooLargeProgramsAreErrors) {
  for (std::string_view count : {"1000000000000", "1000000000000000000"}) {
    std::string text = Format(R"(HloModule m
less {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }}
ENTRY main {{
  x = s32[] parameter(0)
  i = s32[{0}] broadcast(x), dimensions={{}}
  s = s32[{0}] sort(i), dimensions={{0}}, to_apply=less
  v = s32[{0}] reverse(s), dimensions={{0}}
  t = s32[{0}] sort(v), dimensions={{0}}, to_apply=less
  ROOT r = s32[3] slice(t), slice={{[5:8]}}
}})",
                              count);
    auto executable = CompileText(*client_, text, options_);
    Result<> outcome;
    if (!executable) {
      outcome = Failure(executable.error());
    } else {
      const Literal x = MakeLiteral<int32_t>("s32[]", {1});
      auto got = (*executable)->Run(std::vector<const Literal*>{&x});
      if (!got) outcome = Failure(got.error());
    }
    ASSERT_FALSE(outcome.has_value()) << count;
    EXPECT_EQ(outcome.error().code(), StatusCode::kResourceExhausted) << outcome.error().ToString();
  }
}

TEST(LiteralMemoryTest, TooLargeLiteralsAreErrors) {
  for (std::string_view text : {"f32[1000000000000]", "u8[60000000000,1000000]"}) {
    auto shape = ParseShape(text);
    ASSERT_TRUE(shape.has_value());
    auto literal = Literal::Create(*shape);
    ASSERT_FALSE(literal.has_value());
    EXPECT_EQ(literal.error().code(), StatusCode::kResourceExhausted) << literal.error().ToString();
  }
}

// Our own code, that is: oneDNN, which convolutions and large products go to, allocates a little in every call.
TEST(SteadyStateTest, RunsOnTheCpuAllocateNothing) {
  auto cpu = SharedClient("cpu");
  ASSERT_TRUE(cpu.has_value());
  auto executable = CompileText(**cpu, R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
condition {
  s = (s32[], f32[8,64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT go = pred[] compare(n, three), direction=LT
}
body {
  s = (s32[], f32[8,64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[8,64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  w = f32[8,64] tanh(v)
  ROOT r = (s32[], f32[8,64]) tuple(m, w)
}
ENTRY main {
  x = f32[8,128] parameter(0)
  w = f32[128,64] parameter(1)
  b = f32[64] parameter(2)
  start = s32[] parameter(3)
  d = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[8,64] broadcast(b), dimensions={1}
  h = f32[8,64] add(d, bb)
  zero = f32[] constant(0)
  ninf = f32[] constant(-inf)
  zeros = f32[8,64] broadcast(zero), dimensions={}
  relu = f32[8,64] maximum(h, zeros)
  init = (s32[], f32[8,64]) tuple(start, relu)
  loop = (s32[], f32[8,64]) while(init), condition=condition, body=body
  l = f32[8,64] get-tuple-element(loop), index=1
  m = f32[8] reduce(l, ninf), dimensions={1}, to_apply=max
  s = f32[8,64] sort(l), dimensions={1}, to_apply=less
  ROOT r = (f32[8], f32[8,64]) tuple(m, s)
})");
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
  std::vector<Literal> arguments;
  arguments.push_back(Counted("f32[8,128]", 1024, 0.01f));
  arguments.push_back(Counted("f32[128,64]", 8192, 0.001f));
  arguments.push_back(Counted("f32[64]", 64, 0.1f));
  arguments.push_back(MakeLiteral<int32_t>("s32[]", {0}));
  ASSERT_TRUE((*executable)->SetArguments(Pointers(arguments)).has_value());
  for (int warm = 0; warm < 3; ++warm) ASSERT_TRUE((*executable)->Execute().has_value());
  allocations = 0;
  counting = true;
  bool fine = true;
  for (int run = 0; run < 10; ++run) fine = (*executable)->Execute().has_value() && fine;
  counting = false;
  EXPECT_TRUE(fine);
  EXPECT_EQ(allocations.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
