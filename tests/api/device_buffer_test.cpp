// SPDX-License-Identifier: Apache-2.0
// Arrays that stay on a device from one run to the next.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "api/group/device_group.h"
#include "api_fixture.h"
#include "krafla/custom_call.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_buffer.h"
#endif

namespace krafla::testing {
namespace {

using Buffer = std::shared_ptr<DeviceBuffer>;
using Buffers = std::vector<Buffer>;

constexpr std::string_view kTwice = R"(HloModule m
ENTRY main {
  x = f32[64] parameter(0)
  one = f32[] constant(1)
  ones = f32[64] broadcast(one), dimensions={}
  y = f32[64] add(x, x)
  ROOT r = f32[64] add(y, ones)
})";

// Writes two numbers into a cache that is donated, and sums it up.
constexpr std::string_view kUpdate = R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  cache = f32[1024] parameter(0)
  new = f32[2] parameter(1)
  at = s32[] parameter(2)
  zero = f32[] constant(0)
  updated = f32[1024] dynamic-update-slice(cache, new, at)
  sum = f32[] reduce(updated, zero), dimensions={0}, to_apply=add
  ROOT r = (f32[1024], f32[]) tuple(updated, sum)
})";

std::vector<float> Ramp(std::size_t count, float first = 0) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = first + static_cast<float>(i);
  return out;
}

class DeviceBufferTest : public DeviceTest {
 protected:
  void TearDown() override {
    if (client_ == nullptr) return;
    EXPECT_EQ(client_->TakeValidationMessages(), std::vector<std::string>());
  }
  template <typename T>
  Buffer Put(std::string_view shape, std::vector<T> values) {
    auto out = client_->ToDevice(std::make_shared<const Literal>(MakeLiteral(shape, std::move(values))));
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return out ? *out : nullptr;
  }
  template <typename T>
  static std::vector<T> Get(const Buffer& buffer) {
    auto literal = buffer->ToLiteral();
    EXPECT_TRUE(literal.has_value()) << literal.error().ToString();
    if (!literal) return {};
    auto view = buffer->View();
    EXPECT_TRUE(view.has_value()) << view.error().ToString();
    if (!view) return {};
    EXPECT_EQ(std::vector(view->bytes.begin(), view->bytes.end()),
              std::vector((*literal)->bytes().begin(), (*literal)->bytes().end()));
    return Values<T>(**literal);
  }
  static Buffers RunOn(Executable& executable, std::vector<DeviceArgument> arguments) {
    auto out = executable.RunOnBuffers(std::move(arguments));
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return out ? std::move(*out) : Buffers(executable.results().size());
  }
  static const void* MemoryOf(const Buffer& buffer) {
#ifdef KRAFLA_HAVE_VULKAN
    if (const auto* v = dynamic_cast<const VulkanBuffer*>(buffer.get())) return v->memory().get();
#endif
    const auto* host = dynamic_cast<const HostBuffer*>(buffer.get());
    return host != nullptr ? host->literal().get() : nullptr;
  }
  static uint64_t DeviceBytes(const Buffer& buffer) {
#ifdef KRAFLA_HAVE_VULKAN
    if (const auto* v = dynamic_cast<const VulkanBuffer*>(buffer.get())) return v->memory()->device().allocated_bytes();
#endif
    (void)buffer;
    return 0;
  }
  static int64_t ResidentBytes() {
    std::ifstream file("/proc/self/statm");
    int64_t all = 0, resident = 0;
    file >> all >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  }
};

TEST_P(DeviceBufferTest, ResultsAreTheNextArguments) {
  auto executable = Compile(kTwice);
  ASSERT_NE(executable, nullptr);
  std::vector<float> expected = Ramp(64);
  Buffer x = Put("f32[64]", expected);
  Buffers all = {x};
  for (int run = 0; run < 8; ++run) {
    Buffers out = RunOn(*executable, {{all.back()}});
    ASSERT_EQ(out.size(), 1u);
    ASSERT_NE(out[0], nullptr);
    EXPECT_EQ(out[0]->shape().ToString(false), "f32[64]");
    all.push_back(out[0]);
  }
  // Every one of them is still what it was.
  for (const Buffer& b : all) {
    EXPECT_EQ(Get<float>(b), expected);
    for (float& v : expected) v = v + v + 1;
  }
  EXPECT_TRUE(all.back()->Wait().has_value());
  // The same program the other way, with arguments of its own.
  const auto got = Run(*executable, {MakeLiteral("f32[64]", Ramp(64))});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<float>(got[0]), Get<float>(all[1]));
  EXPECT_EQ(Get<float>(RunOn(*executable, {{x}})[0]), Get<float>(all[1]));
}

TEST_P(DeviceBufferTest, Address) {
  auto executable = Compile(kTwice);
  ASSERT_NE(executable, nullptr);
  Buffer a = RunOn(*executable, {{Put("f32[64]", Ramp(64))}})[0], b = RunOn(*executable, {{a}})[0];
  ASSERT_NE(b, nullptr);
  auto at = a->Address(), other = b->Address();
#ifdef KRAFLA_HAVE_VULKAN
  if (const auto* v = dynamic_cast<const VulkanBuffer*>(a.get()); v != nullptr && v->memory()->address() == 0) {
    ASSERT_FALSE(at.has_value());
    EXPECT_EQ(at.error().code(), StatusCode::kUnimplemented);
    return;
  }
#endif
  ASSERT_TRUE(at.has_value() && other.has_value());
  EXPECT_EQ(*at, *a->Address());
  EXPECT_GE(std::max(*at, *other) - std::min(*at, *other), 64 * sizeof(float)) << "both lie in the same place";
  a->Release();
  EXPECT_EQ(a->Address().error().code(), StatusCode::kFailedPrecondition);
}

TEST_P(DeviceBufferTest, DonatedIsOverwrittenWhereItLies) {
  auto executable = Compile(kUpdate);
  ASSERT_NE(executable, nullptr);
  std::vector<float> expected(1024, 1.0f);
  Buffer first = Put("f32[1024]", expected);
  Buffer two = Put("f32[2]", std::vector<float>{3, 4});
  // What came from the host is not ours to write to: begin with a result.
  Buffer cache = RunOn(*executable, {{first}, {two}, {Put("s32[]", std::vector<int32_t>{0})}})[0];
  EXPECT_EQ(Get<float>(first), expected) << "an argument that was not donated was written to";
  expected[0] = 3, expected[1] = 4;
  const void* memory = MemoryOf(cache);
  for (int32_t at = 100; at < 110; at += 2) {
    Buffer before = cache;
    Buffers out = RunOn(*executable, {{before, /*donated=*/true}, {two}, {Put("s32[]", std::vector<int32_t>{at})}});
    ASSERT_NE(out[0], nullptr);
    EXPECT_EQ(MemoryOf(out[0]), memory) << "was copied";
    auto gone = before->ToLiteral();
    ASSERT_FALSE(gone.has_value());
    EXPECT_EQ(gone.error().code(), StatusCode::kFailedPrecondition);
    auto again = executable->RunOnBuffers({{before}, {two}, {two}});
    ASSERT_FALSE(again.has_value());
    cache = out[0];
    const auto k = static_cast<std::size_t>(at);
    expected[k] = 3, expected[k + 1] = 4;
    float sum = 0;
    for (float v : expected) sum += v;
    EXPECT_EQ(Get<float>(out[1]), std::vector<float>{sum});
  }
  EXPECT_EQ(Get<float>(cache), expected);
}

TEST_P(DeviceBufferTest, DonatedIsCopiedWhereOthersReadIt) {
  auto executable = Compile(kUpdate);
  ASSERT_NE(executable, nullptr);
  Buffer two = Put("f32[2]", std::vector<float>{3, 4}), at = Put("s32[]", std::vector<int32_t>{7});
  Buffer cache = RunOn(*executable, {{Put("f32[1024]", Ramp(1024))}, {two}, {at}})[0];
  const std::vector<float> before = Get<float>(cache);
  auto view = cache->View();
  ASSERT_TRUE(view.has_value()) << view.error().ToString();
  Buffer nine = Put("s32[]", std::vector<int32_t>{9});
  Buffers out = RunOn(*executable, {{cache, true}, {two}, {nine}});
  std::vector<float> after = before;
  after[9] = 3, after[10] = 4;
  EXPECT_EQ(Get<float>(out[0]), after);
  EXPECT_EQ(std::memcmp(view->bytes.data(), before.data(), view->bytes.size()), 0) << "somebody was reading that";

  // One buffer, donated and read.
  auto both = Compile(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  c = f32[1] parameter(2)
  zero = s32[] constant(0)
  u = f32[4] dynamic-update-slice(a, c, zero)
  d = f32[4] add(u, b)
  ROOT r = (f32[4], f32[4]) tuple(u, d)
})");
  ASSERT_NE(both, nullptr);
  auto twice = Compile("HloModule m\nENTRY main {\n x = f32[4] parameter(0)\n ROOT r = f32[4] add(x, x)\n}\n");
  ASSERT_NE(twice, nullptr);
  Buffer x = RunOn(*twice, {{Put("f32[4]", Ramp(4, 1))}})[0];
  out = RunOn(*both, {{x, true}, {x}, {Put("f32[1]", std::vector<float>{50})}});
  EXPECT_EQ(Get<float>(out[0]), (std::vector<float>{50, 4, 6, 8}));
  EXPECT_EQ(Get<float>(out[1]), (std::vector<float>{52, 8, 12, 16}));
}

// Donated, but no result takes its place.
TEST_P(DeviceBufferTest, DonatedWithoutAnAlias) {
  auto executable = Compile(kTwice);
  ASSERT_NE(executable, nullptr);
  Buffer x = Put("f32[64]", Ramp(64));
  std::vector<float> expected = Ramp(64);
  for (int run = 0; run < 5; ++run) {
    x = RunOn(*executable, {{x, true}})[0];
    for (float& v : expected) v = v + v + 1;
  }
  EXPECT_EQ(Get<float>(x), expected);
}

TEST_P(DeviceBufferTest, WrongArguments) {
  auto executable = Compile(kUpdate);
  ASSERT_NE(executable, nullptr);
  Buffer cache = Put("f32[1024]", Ramp(1024)), two = Put("f32[2]", std::vector<float>{3, 4});
  Buffer at = Put("s32[]", std::vector<int32_t>{7}), other = Put("f32[1023]", Ramp(1023)),
         type = Put("u32[]", std::vector<uint32_t>{7});
  const std::vector<std::vector<DeviceArgument>> wrong = {{},
                                                          {{cache, true}, {two}},
                                                          {{cache, true}, {two}, {at}, {at}},
                                                          {{other, true}, {two}, {at}},
                                                          {{cache, true}, {two}, {type}},
                                                          {{cache, true}, {two}, {nullptr}}};
  for (const auto& arguments : wrong) {
    auto out = executable->RunOnBuffers(arguments);
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code(), StatusCode::kInvalidArgument) << out.error().ToString();
  }
  EXPECT_EQ(Get<float>(cache), Ramp(1024)) << "a run that never began took what was donated to it";
}

TEST_P(DeviceBufferTest, OutlivesExecutableAndClient) {
  auto made = Client::Create(GetParam().selector);
  ASSERT_TRUE(made.has_value()) << made.error().ToString();
  std::shared_ptr<Client> own = std::move(*made);
  auto executable = CompileText(*own, kTwice, options_);
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
  auto x = own->ToDevice(std::make_shared<const Literal>(MakeLiteral("f32[64]", Ramp(64))));
  ASSERT_TRUE(x.has_value()) << x.error().ToString();
  Buffers out;
  for (int run = 0; run < 20; ++run) out.push_back(RunOn(**executable, {{*x}})[0]);
  executable->reset();
  own.reset();
  std::vector<float> expected = Ramp(64);
  for (float& v : expected) v = v + v + 1;
  for (const Buffer& b : out) EXPECT_EQ(Get<float>(b), expected);
  // The last ones go on another thread.
  std::thread([gone = std::move(out)] {}).join();
}

TEST_P(DeviceBufferTest, MemoryIsFlat) {
  auto update = Compile(kUpdate);
  auto twice = Compile(kTwice);
  ASSERT_NE(update, nullptr);
  ASSERT_NE(twice, nullptr);
  Buffer two = Put("f32[2]", std::vector<float>{3, 4}), x = Put("f32[64]", Ramp(64));
  Buffer cache = Put("f32[1024]", std::vector<float>(1024, 0.0f));
  [[maybe_unused]] uint64_t device_bytes = 0;
  [[maybe_unused]] int64_t resident = 0;
  constexpr int kRuns = 3000, kWarm = 200;
  for (int run = 0; run < kRuns; ++run) {
    if (run == kWarm) {
      device_bytes = DeviceBytes(x);
      resident = ResidentBytes();
    }
    Buffers out = RunOn(*update, {{cache, true}, {two}, {Put("s32[]", std::vector<int32_t>{run % 1000})}});
    ASSERT_NE(out[0], nullptr);
    cache = out[0];
    x = RunOn(*twice, {{x}})[0];
    ASSERT_NE(x, nullptr);
  }
#ifndef __SANITIZE_THREAD__
  // What the device still works on is freed later: never the same number of buffers where the host is slowed down so.
  EXPECT_EQ(DeviceBytes(x), device_bytes);
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // A sanitizer keeps what is freed.
  EXPECT_LT(ResidentBytes() - resident, 4 << 20);
#endif
}

// As large as a network's, where a leak of one a run or a copy kept is seen at once.
TEST_P(DeviceBufferTest, LargeArraysAreRecycled) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  x = f32[2097152] parameter(0)
  one = f32[] constant(1)
  ones = f32[2097152] broadcast(one), dimensions={}
  ROOT r = f32[2097152] add(x, ones)
})");
  ASSERT_NE(executable, nullptr);
  Buffer x = Put("f32[2097152]", std::vector<float>(2097152, 0.0f));
  [[maybe_unused]] uint64_t device_bytes = 0;
  for (int run = 0; run < 30; ++run) {
    x = RunOn(*executable, {{x}})[0];
    ASSERT_NE(x, nullptr);
    if (run == 9) device_bytes = DeviceBytes(x);
  }
  EXPECT_EQ(DeviceBytes(x), device_bytes);
  EXPECT_EQ(Get<float>(x), std::vector<float>(2097152, 30.0f));
}

TEST_P(DeviceBufferTest, BuffersOfOtherClients) {
  auto executable = Compile(kTwice);
  ASSERT_NE(executable, nullptr);
  std::vector<float> expected = Ramp(64);
  for (float& v : expected) v = v + v + 1;
  for (const DeviceCase& other : DeviceCases()) {
    SCOPED_TRACE(other.name);
    auto client = SharedClient(other.selector);
    if (!client) continue;
    auto theirs = CompileText(**client, kTwice, CompileOptions{.disabled = other.disabled, .enabled = {}});
    ASSERT_TRUE(theirs.has_value()) << theirs.error().ToString();
    auto x = (*client)->ToDevice(std::make_shared<const Literal>(MakeLiteral("f32[64]", Ramp(64))));
    ASSERT_TRUE(x.has_value()) << x.error().ToString();
    Buffer here = RunOn(*executable, {{*x}})[0];
    EXPECT_EQ(Get<float>(here), expected);
    std::vector<float> next = expected;
    for (float& v : next) v = v + v + 1;
    EXPECT_EQ(Get<float>(RunOn(**theirs, {{here, true}})[0]), next);
    EXPECT_FALSE(here->ToLiteral().has_value());
  }
}

// Loops with their condition on the device, branches, and a step that the host does in between.
TEST_P(DeviceBufferTest, ControlFlowAndStepsOfTheHost) {
  CustomCallRegistry registry;
  auto added = registry.AddFunction("halve", [](const CustomCallFrame& frame) -> Result<> {
    for (std::size_t i = 0; i < 16; ++i) frame.result->data<float>()[i] = frame.operands[0]->data<float>()[i] / 2;
    return {};
  });
  ASSERT_TRUE(added.has_value());
  options_.custom_calls = &registry;
  auto executable = Compile(R"(HloModule m
condition { s = (s32[], f32[16]) parameter(0) i = s32[] get-tuple-element(s), index=0 z = s32[] constant(0)
  ROOT go = pred[] compare(i, z), direction=GT }
body { s = (s32[], f32[16]) parameter(0) i = s32[] get-tuple-element(s), index=0
  v = f32[16] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] subtract(i, one)
  w = f32[16] add(v, v) ROOT r = (s32[], f32[16]) tuple(j, w) }
yes { x = f32[16] parameter(0) ROOT r = f32[16] negate(x) }
no { x = f32[16] parameter(0) ROOT r = f32[16] copy(x) }
ENTRY main {
  n = s32[] parameter(0)
  p = pred[] parameter(1)
  x = f32[16] parameter(2)
  h = f32[16] custom-call(x), custom_call_target="halve"
  init = (s32[], f32[16]) tuple(n, h)
  loop = (s32[], f32[16]) while(init), condition=condition, body=body
  v = f32[16] get-tuple-element(loop), index=1
  ROOT r = f32[16] conditional(p, v, v), true_computation=yes, false_computation=no
})");
  ASSERT_NE(executable, nullptr);
  Buffer x = Put("f32[16]", Ramp(16));
  std::vector<float> expected = Ramp(16);
  for (int turns : {1, 3, 0, 2}) {
    for (uint8_t p : {1, 0}) {
      x = RunOn(*executable,
                {{Put("s32[]", std::vector<int32_t>{turns})}, {Put("pred[]", std::vector<uint8_t>{p})}, {x}})[0];
      ASSERT_NE(x, nullptr);
      for (float& v : expected) v = std::ldexp(v / 2, turns) * (p ? -1.0f : 1.0f);
      EXPECT_EQ(Get<float>(x), expected);
    }
  }
}

TEST_P(DeviceBufferTest, SeveralThreads) {
  auto shared = Compile(kTwice);
  ASSERT_NE(shared, nullptr);
  const Buffer x = Put("f32[64]", Ramp(64));
  std::vector<float> expected = Ramp(64);
  for (int run = 0; run < 4; ++run)
    for (float& v : expected) v = v + v + 1;
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      auto own = CompileText(*client_, kTwice, options_);
      if (!own) wrong[t] = 1000000;
      for (int round = 0; own && round < 20; ++round) {
        Buffer y = x;
        for (int run = 0; run < 4; ++run) {
          auto out = (run % 2 == 0 ? **own : *shared).RunOnBuffers({{y, run > 0}});
          if (!out) {
            ++wrong[t];
            break;
          }
          y = (*out)[0];
        }
        auto literal = y->ToLiteral();
        if (!literal || Values<float>(**literal) != expected) ++wrong[t];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST_P(DeviceBufferTest, DynamicSizes) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  x = f32[<=8] parameter(0)
  ROOT r = f32[<=8] add(x, x)
})");
  ASSERT_NE(executable, nullptr);
  Buffer x = RunOn(*executable, {{Put("f32[3]", Ramp(3))}})[0];
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->shape().dims()[0], 3);
  Buffer y = RunOn(*executable, {{x, true}})[0];
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(Get<float>(y), (std::vector<float>{0, 4, 8}));
  EXPECT_FALSE(x->ToLiteral().has_value());
}

// Virtual devices of one device: what one of them made is another's argument.
TEST_P(DeviceBufferTest, Group) {
  auto group = DeviceGroup::Create(GetParam().selector + "*2");
  ASSERT_TRUE(group.has_value()) << group.error().ToString();
  auto module = ParseHloText(R"(HloModule m, replica_count=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[64] parameter(0)
  two = f32[] constant(2)
  twos = f32[64] broadcast(two), dimensions={}
  y = f32[64] multiply(x, twos)
  ROOT r = f32[64] all-reduce(y), replica_groups={{0,1}}, to_apply=add
})");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  auto executable = (*group)->Compile(std::move(*module), options_);
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
  Buffers x;
  for (int64_t d = 0; d < 2; ++d) {
    auto literal = std::make_shared<const Literal>(MakeLiteral("f32[64]", Ramp(64, static_cast<float>(d))));
    auto made = (*group)->client(d).ToDevice(std::move(literal));
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    x.push_back(*made);
  }
  std::vector<float> expected = Ramp(64);
  for (float& v : expected) v = 4 * v + 2;
  for (int run = 0; run < 5; ++run) {
    auto out = (*executable)->RunOnBuffers({{{x[0], run > 0}}, {{x[1], run > 0}}});
    ASSERT_TRUE(out.has_value()) << out.error().ToString();
    x = {(*out)[1][0], (*out)[0][0]};
    EXPECT_EQ(Get<float>(x[0]), expected);
    EXPECT_EQ(Get<float>(x[1]), expected);
    for (float& v : expected) v *= 4;
  }
  auto few = (*executable)->RunOnBuffers({{{x[0]}}});
  ASSERT_FALSE(few.has_value());
  EXPECT_EQ(few.error().code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceBufferTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
