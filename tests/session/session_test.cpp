// SPDX-License-Identifier: Apache-2.0
// Sessions on every kind of device that is here: names, runs in the caller's memory and on buffers, in the background,
// ended early, at once, and without an allocation.
#include "krafla/session.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>

#include "allocations.h"
#include "krafla/custom_call.h"
#include "krafla/literal_util.h"

namespace krafla::testing {
namespace {

constexpr std::string_view kAffine = R"(HloModule affine, frontend_attributes={krafla.result_names="sum,the\\,other"}
ENTRY main {
  x = f32[4,3] parameter(0), metadata={op_name="image"}
  y = f32[3] parameter(1)
  b = f32[4,3] broadcast(y), dimensions={1}
  s = f32[4,3] add(x, b)
  n = f32[4,3] negate(s)
  ROOT t = (f32[4,3], f32[4,3]) tuple(s, n)
})";

constexpr std::string_view kForever = R"(HloModule forever
c { p = (f32[64,64]) parameter(0) ROOT yes = pred[] constant(true) }
b {
  p = (f32[64,64]) parameter(0)
  x = f32[64,64] get-tuple-element(p), index=0
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,64]) tuple(d)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  t = (f32[64,64]) tuple(x)
  w = (f32[64,64]) while(t), condition=c, body=b
  ROOT r = f32[64,64] get-tuple-element(w), index=0
})";

class SessionTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto client = LocalClient::Create(GetParam());
    if (!client) GTEST_SKIP() << client.error().ToString();
    client_.emplace(std::move(*client));
  }
  Session Load(std::string_view text, const SessionOptions& options = {}) {
    auto out = Session::LoadBytes(*client_, text, options);
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return std::move(*out);
  }
  bool IsCpu() const { return client_->device().is_cpu; }

  std::optional<LocalClient> client_;
};

std::string Name(const ::testing::TestParamInfo<const char*>& info) { return info.index == 0 ? "Cpu" : "Vulkan"; }
INSTANTIATE_TEST_SUITE_P(Devices, SessionTest, ::testing::Values("cpu", "vulkan"), Name);

std::vector<float> Numbers(std::size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 1.0f);
  return out;
}

TEST_P(SessionTest, NamesAndShapes) {
  const Session session = Load(kAffine);
  ASSERT_EQ(session.inputs().size(), 2u);
  EXPECT_EQ(session.inputs()[0].name, "image");
  EXPECT_EQ(session.inputs()[0].shape.ToString(false), "f32[4,3]");
  EXPECT_EQ(session.inputs()[1].name, "y");
  ASSERT_EQ(session.outputs().size(), 2u);
  EXPECT_EQ(session.outputs()[0].name, "sum");
  EXPECT_EQ(session.outputs()[1].name, "the,other");
  EXPECT_EQ(session.FindInput("y").value(), 1u);
  EXPECT_EQ(session.FindOutput("the,other").value(), 1u);
  auto missing = session.FindInput("z");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.error().message(), "The program has no input 'z'; its inputs are 'image', 'y'.");
}

// As JAX writes them: arguments have locations, results have an attribute.
TEST_P(SessionTest, NamesOfStablehlo) {
  const Session session = Load(R"mlir(module @m {
  func.func public @main(%arg0: tensor<2xf32> loc("params['w']"), %scale: tensor<f32>)
      -> (tensor<2xf32> {jax.result_info = "result['a,b']"}, tensor<f32>) {
    %0 = stablehlo.negate %arg0 : tensor<2xf32>
    return %0, %scale : tensor<2xf32>, tensor<f32>
  }
})mlir");
  ASSERT_EQ(session.inputs().size(), 2u);
  EXPECT_EQ(session.inputs()[0].name, "params['w']");
  EXPECT_EQ(session.inputs()[1].name, "scale");
  ASSERT_EQ(session.outputs().size(), 2u);
  EXPECT_EQ(session.outputs()[0].name, "result['a,b']");
  EXPECT_EQ(session.outputs()[1].name, "output1");
}

TEST_P(SessionTest, RunsInTheCallersMemory) {
  Session session = Load(kAffine);
  const std::vector<float> x = Numbers(12), y = {100, 200, 300};
  std::vector<float> sum(12), negative(12);
  auto done = session.Run({AsInput(x), AsInput(y)}, {AsOutput(sum), AsOutput(negative)});
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_EQ(sum[0], 101);
  EXPECT_EQ(sum[11], 312);
  EXPECT_EQ(negative[4], -205);
}

TEST_P(SessionTest, RefusesWrongMemory) {
  Session session = Load(kAffine);
  const std::vector<float> x = Numbers(13), y = {1, 2, 3};
  std::vector<float> sum(12), negative(12);
  const InputBytes right = AsInput(x).first(48);
  const auto code = [&](Span<InputBytes> in, Span<OutputBytes> out) {
    auto done = session.Run(in, out);
    return done ? StatusCode::kUnknown : done.error().code();
  };
  const auto kWrong = StatusCode::kInvalidArgument;
  EXPECT_EQ(code({right}, {AsOutput(sum), AsOutput(negative)}), kWrong);
  EXPECT_EQ(code({right, AsInput(y)}, {AsOutput(sum)}), kWrong);
  EXPECT_EQ(code({AsInput(x), AsInput(y)}, {AsOutput(sum), AsOutput(negative)}), kWrong);
  EXPECT_EQ(code({right, InputBytes(static_cast<const std::byte*>(nullptr), 12)}, {AsOutput(sum), AsOutput(negative)}),
            kWrong);
  EXPECT_EQ(code({AsInput(x).subspan(1, 48), AsInput(y)}, {AsOutput(sum), AsOutput(negative)}), kWrong);
  EXPECT_EQ(code({right, AsInput(y)}, {AsOutput(sum), AsOutput(negative).first(44)}), kWrong);
}

TEST_P(SessionTest, BuffersStayOnTheDevice) {
  Session session = Load(kAffine);
  const Shape shape = session.inputs()[0].shape, row = session.inputs()[1].shape;
  const std::vector<float> x = Numbers(12), y = {1, 2, 3};
  auto a = Buffer::FromHost(*client_, shape, AsInput(x));
  std::atomic<int> released = 0;
  auto b = Buffer::FromHost(*client_, row, AsInput(y), HostMemory::kShare, [&] { ++released; });
  ASSERT_TRUE(a && b);
  std::vector<BufferInput> inputs = {{*a}, {*b}};
  for (int run = 0; run < 3; ++run) {
    auto out = session.Run(inputs);
    ASSERT_TRUE(out) << out.error().ToString();
    ASSERT_EQ(out->size(), 2u);
    inputs[0] = {(*out)[0], run > 0};
  }
  std::vector<float> back(12);
  ASSERT_TRUE(inputs[0].buffer.ReadTo(AsOutput(back)));
  EXPECT_EQ(back[0], 4);
  EXPECT_EQ(back[11], 21);
  auto view = inputs[0].buffer.Read();
  ASSERT_TRUE(view);
  EXPECT_TRUE(std::ranges::equal(view->bytes, AsInput(back)));
  EXPECT_FALSE(inputs[0].buffer.ReadTo(AsOutput(back).first(40)));
  EXPECT_FALSE(Buffer::FromHost(*client_, shape, AsInput(y)));
  inputs.clear();
  b = Buffer::FromHost(*client_, row, AsInput(y), HostMemory::kCopy, [&] { released += 10; });
  EXPECT_EQ(released, 11);
}

TEST_P(SessionTest, SubmissionsRunInOrder) {
  Session session = Load(kAffine);
  const std::vector<float> x = Numbers(12), y = {1, 2, 3};
  constexpr std::size_t kRuns = 20;
  std::vector<std::vector<float>> sums(kRuns, std::vector<float>(12)), negatives = sums;
  std::vector<Submission> submitted;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kRuns; ++i) {
    auto one = session.Submit({AsInput(x), AsInput(y)}, {AsOutput(sums[i]), AsOutput(negatives[i])}, {},
                              [&order, i](const Result<>& result) {
                                if (result) order.push_back(i);
                              });
    ASSERT_TRUE(one);
    submitted.push_back(*one);
  }
  for (const Submission& s : submitted) EXPECT_TRUE(s.Wait());
  EXPECT_TRUE(submitted[3].IsDone());
  ASSERT_EQ(order.size(), kRuns);
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(negatives[19], negatives[0]);
  EXPECT_EQ(sums[19][11], 15);
  EXPECT_FALSE(session.Submit({AsInput(x)}, {AsOutput(sums[0]), AsOutput(negatives[0])}));
}

TEST_P(SessionTest, EndsWhenAskedTo) {
  Session session = Load(kForever);
  const std::vector<float> x(4096, 0.0f);
  std::vector<float> out(4096);
  RunOptions soon;
  soon.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  auto late = session.Run({AsInput(x)}, {AsOutput(out)}, soon);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded);
  auto running = session.Submit({AsInput(x)}, {AsOutput(out)});
  std::stop_source stop;
  RunOptions stopped;
  stopped.stop = stop.get_token();
  auto waiting = session.Submit({AsInput(x)}, {AsOutput(out)}, stopped);
  ASSERT_TRUE(running && waiting);
  EXPECT_FALSE(running->WaitFor(std::chrono::milliseconds(20)));
  running->Cancel();
  EXPECT_EQ(running->Wait().error().code(), StatusCode::kCancelled);
  stop.request_stop();
  EXPECT_EQ(waiting->Wait().error().code(), StatusCode::kCancelled);
}

TEST_P(SessionTest, WarmsAndProfiles) {
  SessionOptions options;
  options.for_profile = true;
  std::atomic<int> most = 0, calls = 0;
  options.progress = [&](int done, int total) {
    ++calls;
    EXPECT_LE(done, total);
    most = std::max(most.load(), done);
  };
  // Pipelines that live already are not made again.
  Session session = Load("HloModule w ENTRY main { x = f32[77] parameter(0) ROOT y = f32[77] cosine(x) }", options);
  EXPECT_GE(calls, 1);
  EXPECT_EQ(calls, most);
  auto warm = session.Warm();
  ASSERT_TRUE(warm) << warm.error().ToString();
  auto profile = session.Profile(3);
  ASSERT_TRUE(profile) << profile.error().ToString();
  EXPECT_EQ(profile->steps.size(), 1u);
  EXPECT_EQ(Load(kAffine).Profile(1).error().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(CustomCallRegistry::Global().AddFunction("session_test.seen", [](const CustomCallFrame&) -> Result<> {
    return InvalidArgument("It ran.");
  }) || GetParam() != std::string_view("cpu"));
  Session seen = Load(R"(HloModule s
    ENTRY main { x = f32[7] parameter(0) ROOT y = f32[7] custom-call(x), custom_call_target="session_test.seen" })");
  EXPECT_EQ(seen.Warm().error().code(), StatusCode::kFailedPrecondition);
}

TEST_P(SessionTest, KeepsToItsMemory) {
  ClientOptions options;
  options.memory_limit = 1000;
  auto small = LocalClient::Create(GetParam(), options);
  ASSERT_TRUE(small);
  auto shape = Shape::MakeArray(ElementType::kF32, std::vector<int64_t>{200});
  const std::vector<float> x(200);
  {
    auto first = Buffer::FromHost(*small, *shape, AsInput(x));
    ASSERT_TRUE(first);
    auto second = Buffer::FromHost(*small, *shape, AsInput(x));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(Buffer::FromHost(*small, *shape, AsInput(x)));
}

// The bounds say what a buffer may be; results have the size that they come out with.
TEST_P(SessionTest, DynamicSizesRunOnBuffers) {
  Session session = Load(R"(HloModule d
    ENTRY main {
      x = f32[<=8] parameter(0)
      ROOT y = f32[<=8] negate(x)
    })");
  EXPECT_TRUE(session.inputs()[0].shape.IsDynamic());
  const std::vector<float> x = Numbers(8);
  std::vector<float> y(8);
  EXPECT_EQ(session.Run({AsInput(x)}, {AsOutput(y)}).error().code(), StatusCode::kUnimplemented);
  auto five = Shape::MakeArray(ElementType::kF32, std::vector<int64_t>{5});
  auto buffer = Buffer::FromHost(*client_, *five, AsInput(x).first(20));
  ASSERT_TRUE(buffer);
  auto out = session.Run(std::vector<BufferInput>{{*buffer}});
  ASSERT_TRUE(out) << out.error().ToString();
  EXPECT_EQ((*out)[0].shape().ToString(false), "f32[5]");
  std::vector<float> back(5);
  ASSERT_TRUE((*out)[0].ReadTo(AsOutput(back)));
  EXPECT_EQ(back, (std::vector<float>{-1, -2, -3, -4, -5}));
}

constexpr std::string_view kSteps = R"(HloModule steps
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[128,128] parameter(0)
  zero = f32[] constant(0)
  d = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[128,128] tanh(d)
  f = f32[128,128] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[128] reduce(f, zero), dimensions={1}, to_apply=add
})";

// Threads on one session: each gets the results of its own arguments.
TEST_P(SessionTest, ThreadsShareASession) {
  Session session = Load(kSteps);
  constexpr int kThreads = 4, kRuns = 50;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> x(128 * 128), first(128), again(128);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + t * 31) % 13) * 0.01f;
      if (!session.Run({AsInput(x)}, {AsOutput(first)})) ++wrong;
      for (int r = 0; r < kRuns; ++r)
        if (!session.Run({AsInput(x)}, {AsOutput(again)}) || again != first) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// One run waits in its loop until another one of the same session is done, which must be under way at once for that.
TEST(SessionOnCpuTest, RunsAtOnce) {
  std::atomic<int> done = 0;
  std::atomic<bool> was_overtaken = false, is_waiting = false;
  ClientOptions client_options;
  client_options.threads = 2;
  client_options.parallel_for = [&](int tasks, const std::function<void(int)>& task) {
    if (!is_waiting.exchange(true)) {
      for (int wait = 0; wait < 100 && done == 0; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      was_overtaken = done > 0;
    }
    for (int i = 0; i < tasks; ++i) task(i);
  };
  auto client = LocalClient::Create("cpu", client_options);
  ASSERT_TRUE(client);
  constexpr std::string_view kLarge =
      "HloModule l ENTRY main { x = f32[1000000] parameter(0) ROOT y = f32[1000000] cosine(x) }";
  SessionOptions options;
  for (const int runs : {2, 1}) {
    options.concurrent_runs = runs;
    auto session = Session::LoadBytes(*client, kLarge, options);
    ASSERT_TRUE(session) << session.error().ToString();
    done = 0;
    was_overtaken = is_waiting = false;
    const auto run = [&] {
      const std::vector<float> x(1000000, 0.0f);
      std::vector<float> y(1000000);
      EXPECT_TRUE(session->Run({AsInput(x)}, {AsOutput(y)}));
      EXPECT_EQ(y[999999], 1.0f);
      ++done;
    };
    std::thread first(run);
    while (!is_waiting) std::this_thread::yield();
    run();
    first.join();
    EXPECT_EQ(was_overtaken, runs == 2);
  }
}

// An application that feeds a network a frame each 16 ms for three seconds.
TEST(SessionOnCpuTest, FramesAllocateNothing) {
  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client);
  auto session = Session::LoadFile(*client, KRAFLA_SOURCE_DIR "/tests/models/mobilenetv2-tiny/module.mlirbc");
  ASSERT_TRUE(session) << session.error().ToString();
  std::vector<std::vector<float>> memory;
  std::vector<InputBytes> inputs;
  std::vector<OutputBytes> outputs;
  for (const TensorInfo& in : session->inputs()) {
    ASSERT_EQ(in.shape.element_type(), ElementType::kF32);
    memory.emplace_back(static_cast<std::size_t>(in.shape.element_count()), 0.01f);
  }
  for (const std::vector<float>& m : memory) inputs.push_back(AsInput(m));
  std::vector<std::vector<float>> results;
  for (const TensorInfo& out : session->outputs())
    results.emplace_back(static_cast<std::size_t>(out.shape.element_count()));
  for (std::vector<float>& r : results) outputs.push_back(AsOutput(r));
  ASSERT_TRUE(session->Run(inputs, outputs));
  const std::vector<std::vector<float>> first = results;
  constexpr int kFrames = 3000 / 16;
  std::vector<double> ms(kFrames);
  auto next = std::chrono::steady_clock::now();
  bool is_right = true;
  TakeAllocations();
  for (double& took : ms) {
    const auto start = std::chrono::steady_clock::now();
    is_right = is_right && session->Run(inputs, outputs).has_value();
    took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::this_thread::sleep_until(next += std::chrono::milliseconds(16));
  }
  const Allocations allocations = TakeAllocations();
  EXPECT_TRUE(is_right);
  EXPECT_EQ(results, first);
  EXPECT_EQ(allocations.all, 0);
  std::ranges::sort(ms);
  std::printf("%d frames: median %.3f ms, p99 %.3f ms, most %.3f ms; %lld allocations, and %lld of oneDNN's\n", kFrames,
              ms[kFrames / 2], ms[kFrames * 99 / 100], ms.back(), static_cast<long long>(allocations.all),
              static_cast<long long>(allocations.onednn));
}

// Nothing is read or written beside the caller's memory: each array ends where pages that nobody may touch begin, or
// begins where such pages end.
TEST(SessionOnCpuTest, TouchesNoMoreThanItWasGiven) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client);
  struct Guarded {
    Guarded(std::size_t size, bool at_end, std::size_t page) : pages((size + page - 1) / page * page + 2 * page) {
      whole =
          static_cast<std::byte*>(::mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      ::mprotect(whole, page, PROT_NONE);
      ::mprotect(whole + pages - page, page, PROT_NONE);
      data = {at_end ? whole + pages - page - size : whole + page, size};
    }
    Guarded(Guarded&& other) noexcept
        : pages(other.pages), whole(std::exchange(other.whole, nullptr)), data(other.data) {}
    ~Guarded() {
      if (whole != nullptr) ::munmap(whole, pages);
    }
    std::size_t pages;
    std::byte* whole;
    std::span<std::byte> data;
  };
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KRAFLA_SOURCE_DIR "/tests/models")) {
    const std::string path = entry.path() / "module.hlo";
    if (!std::filesystem::exists(path)) continue;
    auto session = Session::LoadFile(*client, path);
    if (!session) continue;  // for several devices
    for (const bool at_end : {true, false}) {
      std::vector<Guarded> memory;
      std::vector<InputBytes> inputs;
      std::vector<OutputBytes> outputs;
      for (const TensorInfo& in : session->inputs()) {
        memory.emplace_back(static_cast<std::size_t>(in.shape.byte_size()), at_end, page);
        inputs.push_back(memory.back().data);
      }
      for (const TensorInfo& out : session->outputs()) {
        memory.emplace_back(static_cast<std::size_t>(out.shape.byte_size()), at_end, page);
        outputs.push_back(memory.back().data);
      }
      auto done = session->Run(inputs, outputs);
      EXPECT_TRUE(done) << path << ": " << done.error().ToString();
    }
    ++programs;
  }
  EXPECT_GE(programs, 30);
}

}  // namespace
}  // namespace krafla::testing
