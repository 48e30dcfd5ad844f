// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "test_device.h"

namespace krafla::vk {
namespace {

class ProgramTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Modes, ProgramTest, ::testing::ValuesIn(AllModes()), ModeName);

TEST_P(ProgramTest, RunsOneKernel) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto a = MakeBuffer(Ramp(1000)), b = MakeBuffer(Ramp(1000, 7, 3)), c = MakeBuffer(Ramp(1000, 0, 0));
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(a), ProgramBuffer::Fixed(b), ProgramBuffer::Fixed(c)},
                                 MakePipelines({AxpyKernel(device_->profile())}), {Axpy(0, 1, 2, 1000, 5)});
  ASSERT_OK(program);
  ASSERT_OK((*program)->Run({}));
  EXPECT_EQ(Read(*c), Ramp(1000, 7, 8));
  EXPECT_EQ((*program)->statistics().submissions, 1);
}

// Slots are filled anew by each run; with addresses nothing is recorded again.
TEST_P(ProgramTest, SlotsMayChange) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto b = MakeBuffer(Ramp(256, 1, 0));
  auto program =
      Program::Create(device_, {ProgramBuffer::Slot(0, 1024), ProgramBuffer::Fixed(b), ProgramBuffer::Slot(1, 1024)},
                      MakePipelines({AxpyKernel(device_->profile())}), {Axpy(0, 1, 2, 256, 1)});
  ASSERT_OK(program);
  for (uint32_t turn = 0; turn < 6; ++turn) {
    auto in = MakeBuffer(Ramp(256, turn)), out = MakeBuffer(Ramp(256, 0, 0));
    std::vector<BufferBinding> slots = {{in.get()}, {out.get()}};
    ASSERT_OK((*program)->Run(slots));
    ASSERT_OK((*program)->Run(slots));
    EXPECT_EQ(Read(*out), Ramp(256, turn + 1)) << turn;
  }
  EXPECT_EQ((*program)->statistics().recordings, device_->uses_addresses() ? 1 : 6);
}

// Dropping the buffers right after Submit must be safe.
TEST_P(ProgramTest, BuffersMayBeDroppedInFlight) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto sum = MakeBuffer(Ramp(64, 0, 0));
  auto program = Program::Create(device_, {ProgramBuffer::Slot(0, 256), ProgramBuffer::Fixed(sum)},
                                 MakePipelines({AxpyKernel(device_->profile())}), {Axpy(0, 1, 1, 64, 1)});
  ASSERT_OK(program);
  Event last;
  for (uint32_t turn = 1; turn <= 20; ++turn) {
    auto in = MakeBuffer(Ramp(64, turn, 0));
    std::vector<BufferBinding> slots = {{in.get()}};
    auto event = (*program)->Submit(slots);
    ASSERT_OK(event);
    last = *event;
  }
  ASSERT_OK(device_->Wait(last));
  EXPECT_EQ(Read(*sum), Ramp(64, 210, 0));
  uint64_t held = device_->allocated_bytes();
  EXPECT_LE(held, 4096u + 2 * device_->options().staging_bytes) << "dropped buffers are freed";
}

// A long chain over one buffer: each step reads what the one before wrote.
TEST_P(ProgramTest, BarriersBetweenDependentSteps) {
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint32_t kWords = 100000;
  auto one = MakeBuffer(Ramp(kWords, 1, 0)), x = MakeBuffer(Ramp(kWords)), y = MakeBuffer(Ramp(kWords, 0, 0));
  std::vector<Step> steps;
  for (int i = 0; i < 10; ++i) {
    steps.push_back(Axpy(1, 0, 2, kWords, 2));  // y = 2x + 1
    steps.push_back(Copy{{2, 0, kWords * 4}, {1, 0, kWords * 4}});
  }
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(one), ProgramBuffer::Fixed(x), ProgramBuffer::Fixed(y)},
                                 MakePipelines({AxpyKernel(device_->profile())}), steps);
  ASSERT_OK(program);
  EXPECT_EQ((*program)->statistics().barriers, 19);
  ASSERT_OK((*program)->Run({}));
  EXPECT_EQ(Read(*x), Ramp(kWords, 1023, 1024));
}

// Programs in order without waits, the way a loop's condition and body are run.
TEST_P(ProgramTest, ProgramsFollowEachOther) {
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint32_t kWords = 5000;
  auto one = MakeBuffer(Ramp(kWords, 1, 0)), x = MakeBuffer(Ramp(kWords)), y = MakeBuffer(Ramp(kWords, 0, 0));
  std::vector<ProgramBuffer> buffers = {ProgramBuffer::Fixed(one), ProgramBuffer::Fixed(x), ProgramBuffer::Fixed(y)};
  auto pipelines = MakePipelines({AxpyKernel(device_->profile())});
  auto there = Program::Create(device_, buffers, pipelines, {Axpy(1, 0, 2, kWords, 2)});
  auto back = Program::Create(device_, buffers, pipelines, {Axpy(2, 0, 1, kWords, 1)});
  ASSERT_OK(there);
  ASSERT_OK(back);
  Event last;
  for (int i = 0; i < 10; ++i) {  // x = 2x + 2
    ASSERT_OK((*there)->Submit({}));
    auto event = (*back)->Submit({});
    ASSERT_OK(event);
    last = *event;
  }
  ASSERT_OK(device_->Wait(last));
  EXPECT_TRUE(*device_->IsComplete(last));
  EXPECT_EQ(Read(*x), Ramp(kWords, 2046, 1024));
  EXPECT_EQ(*device_->DownloadWord(*x, 4), 2046u + 1024u);
}

TEST_P(ProgramTest, FillAndCopyOfSlots) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<Step> steps = {Fill{{0, 16, 32}, 0xabcdef01}, Copy{{0, 0, 61}, {1, 3, 61}}};
  auto program = Program::Create(device_, {ProgramBuffer::Slot(0, 64), ProgramBuffer::Slot(1, 64)}, {}, steps);
  ASSERT_OK(program);
  for (int turn = 0; turn < 3; ++turn) {
    auto a = MakeBuffer(Ramp(16)), b = MakeBuffer(Ramp(16, 0, 0));
    std::vector<BufferBinding> slots = {{a.get()}, {b.get()}};
    ASSERT_OK((*program)->Run(slots));
    std::vector<uint32_t> expected = Ramp(16);
    std::fill(expected.begin() + 4, expected.begin() + 12, 0xabcdef01);
    EXPECT_EQ(Read(*a), expected);
    std::vector<uint32_t> shifted(16);
    std::memcpy(reinterpret_cast<char*>(shifted.data()) + 3, expected.data(), 61);
    EXPECT_EQ(Read(*b), shifted);
  }
}

// Slots at an offset in one buffer, and the checks of what a slot is given.
TEST_P(ProgramTest, SlotsAtOffsets) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto all = MakeBuffer(Ramp(3 * 256)), one = MakeBuffer(Ramp(256, 1, 0));
  auto program =
      Program::Create(device_, {ProgramBuffer::Slot(0, 1024), ProgramBuffer::Fixed(one), ProgramBuffer::Slot(1, 1024)},
                      MakePipelines({AxpyKernel(device_->profile())}), {Axpy(0, 1, 2, 256, 1)});
  ASSERT_OK(program);
  auto run = [&](uint64_t in, uint64_t out) {
    std::vector<BufferBinding> slots = {{all.get(), in}, {all.get(), out}};
    return (*program)->Run(slots);
  };
  ASSERT_OK(run(0, 2048));
  std::vector<uint32_t> expected = Ramp(3 * 256);
  for (uint32_t i = 0; i < 256; ++i) expected[512 + i] = i + 1;
  EXPECT_EQ(Read(*all), expected);
  EXPECT_EQ(run(0, 512).error().code(), StatusCode::kInvalidArgument) << "overlap";
  EXPECT_EQ(run(0, 2049).error().code(), StatusCode::kInvalidArgument) << "alignment";
  EXPECT_EQ(run(0, 2304).error().code(), StatusCode::kInvalidArgument) << "past the end";
  EXPECT_EQ((*program)->Run({}).error().code(), StatusCode::kInvalidArgument) << "number of slots";
  EXPECT_EQ(Read(*all), expected) << "a refused run does nothing";
  ASSERT_OK(run(2048, 0));
}

// A donated argument: result slot 1 is argument slot 0.
TEST_P(ProgramTest, DonatedArgument) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto x = MakeBuffer(Ramp(256)), one = MakeBuffer(Ramp(256, 1, 0));
  ProgramBuffer result = ProgramBuffer::Slot(1, 1024);
  result.same_memory = 0;
  std::vector<Step> steps = {Axpy(0, 1, 2, 256, 2), Axpy(0, 1, 2, 256, 3)};
  auto program = Program::Create(device_, {ProgramBuffer::Slot(0, 1024), ProgramBuffer::Fixed(one), result},
                                 MakePipelines({AxpyKernel(device_->profile())}), steps);
  ASSERT_OK(program);
  EXPECT_EQ((*program)->statistics().barriers, 1);
  std::vector<BufferBinding> slots = {{x.get()}, {x.get()}};
  ASSERT_OK((*program)->Run(slots));
  EXPECT_EQ(Read(*x), Ramp(256, 4, 6));
}

TEST_P(ProgramTest, LongWorkIsCut) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto counts = MakeBuffer(Ramp(7 * 5 * 3, 0, 0)), one = MakeBuffer(Ramp(7 * 5 * 3, 1, 0));
  Launch groups;
  groups.grid[0] = 7;
  groups.grid[1] = 5;
  groups.grid[2] = 3;
  groups.bindings = {{0, 0, 7 * 5 * 3 * 4}};
  groups.push = {7, 5};
  groups.estimated_ms = 1000;
  Launch axpy = Axpy(0, 1, 0, 105, 1);
  axpy.pipeline = 1;
  axpy.access = {};
  axpy.estimated_ms = 60;
  std::vector<Step> steps = {groups, axpy, axpy, axpy, groups};
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(counts), ProgramBuffer::Fixed(one)},
                                 MakePipelines({GroupsKernel(device_->profile()), AxpyKernel(device_->profile())}),
                                 steps, {.submit_ms = 300, .launch_ms = 500});
  ASSERT_OK(program);
  // 1000 ms in 4 parts (2+2+2+1 of 7 groups along x: 286, 286, 286, 143 ms); 143+60+60 = 263, then 60; then 4 again.
  EXPECT_EQ((*program)->statistics().submissions, 4 + 1 + 4);
  ASSERT_OK((*program)->Run({}));
  EXPECT_EQ(Read(*counts), Ramp(105, 5, 0));  // 1, +3 times 1, +1
}

// Spins of an estimate that is far too low, which no grid cuts.
std::vector<Step> Spins(int count, double estimated_ms) {
  Launch spin;
  spin.bindings = {{0, 0, 4}, {1, 0, 4}};
  spin.push = {1'000'000};
  spin.estimated_ms = estimated_ms;
  return std::vector<Step>(static_cast<std::size_t>(count), spin);
}

void ExpectMeasured(Program& program) {
  EXPECT_EQ(program.statistics().submissions, 1);
  ASSERT_OK(program.Run({}));
  ASSERT_OK(program.Run({}));
  ASSERT_OK(program.Run({}));
  // Three spins of a millisecond or so, where 0.01 ms was asked for.
  EXPECT_EQ(program.statistics().submissions, 3);
  EXPECT_GT(program.statistics().longest_ms, 0.015);
  EXPECT_GE(program.statistics().total_ms, program.statistics().longest_ms);
  for (int i = 0; i < 4; ++i) ASSERT_OK(program.Run({}));
  const int recordings = program.statistics().recordings;
  for (int i = 0; i < 4; ++i) ASSERT_OK(program.Run({}));
  EXPECT_EQ(program.statistics().recordings, recordings) << "nothing is measured for ever";
}

TEST_P(ProgramTest, FirstRunsCorrectTheEstimates) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto in = MakeBuffer(Ramp(1, 3)), out = MakeBuffer(Ramp(1));
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(in), ProgramBuffer::Fixed(out)},
                                 MakePipelines({SpinKernel(device_->profile())}), Spins(3, 0.003),
                                 {.submit_ms = 0.01, .launch_ms = 0.015});
  ASSERT_OK(program);
  ExpectMeasured(**program);
}

TEST_P(ProgramTest, TheHostsClockMeasuresWhereThereAreNoTimestamps) {
  auto profile = physical().profile.WithDisabled(GetParam());
  ASSERT_OK(profile);
  profile->limits.timestamp_valid_bits = 0;
  auto device = Device::Create(instance_, physical(), *profile, {.cache_dir = ""});
  ASSERT_OK(device);
  device_ = *device;
  auto in = MakeBuffer(Ramp(1, 3)), out = MakeBuffer(Ramp(1));
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(in), ProgramBuffer::Fixed(out)},
                                 MakePipelines({SpinKernel(device_->profile())}), Spins(3, 0.003),
                                 {.submit_ms = 0.01, .launch_ms = 0.015});
  ASSERT_OK(program);
  ExpectMeasured(**program);
}

// A run that has a limit is two submissions ahead of the device at most, and ends between them.
TEST_P(ProgramTest, ALimitedRunEndsBetweenSubmissions) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto in = MakeBuffer(Ramp(1, 3)), out = MakeBuffer(Ramp(1));
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(in), ProgramBuffer::Fixed(out)},
                                 MakePipelines({SpinKernel(device_->profile())}), Spins(100, 100), {});
  ASSERT_OK(program);
  ASSERT_EQ((*program)->statistics().submissions, 100);
  const uint64_t before = device_->LastSubmitted().number;
  std::stop_source stop;
  std::jthread stopper([&] {
    while (device_->LastSubmitted().number == before) std::this_thread::yield();
    stop.request_stop();
  });
  const RunLimit limit{{}, stop.get_token()};
  Pacer pacer(*device_, limit, 200);
  auto event = (*program)->Submit({}, &pacer);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code(), StatusCode::kCancelled) << event.error().ToString();
  EXPECT_LT(device_->LastSubmitted().number - before, 100u);
  // The next one runs to its end.
  ASSERT_OK((*program)->Run({}));
}

TEST_P(ProgramTest, ManyKernelsAndSubmissionsFromThreads) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto pipelines = MakePipelines({AxpyKernel(device_->profile())});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto one = MakeBuffer(Ramp(300, 1, 0)), x = MakeBuffer(Ramp(300, static_cast<uint32_t>(t)));
      auto program = Program::Create(device_, {ProgramBuffer::Fixed(one), ProgramBuffer::Fixed(x)}, pipelines,
                                     {Axpy(1, 0, 1, 300, 1)});
      ASSERT_OK(program);
      for (int i = 0; i < 50; ++i) ASSERT_OK((*program)->Run({}));
      EXPECT_EQ(Read(*x), Ramp(300, static_cast<uint32_t>(t) + 50));
    });
  }
}

TEST_P(ProgramTest, WaitsHaveADeadline) {
  using namespace std::chrono_literals;
  ASSERT_NO_FATAL_FAILURE(Open({.wait_limit = 1ms, .cache_dir = ""}));
  auto in = device_->Allocate(16, MemoryKind::kDevice), out = device_->Allocate(16, MemoryKind::kDevice);
  ASSERT_OK(in);
  ASSERT_OK(out);
  Launch spin;
  spin.bindings = {{0, 0, 4}, {1, 0, 4}};
  spin.push = {5'000'000};
  auto program = Program::Create(device_, {ProgramBuffer::Fixed(*in), ProgramBuffer::Fixed(*out)},
                                 MakePipelines({SpinKernel(device_->profile())}), {spin});
  ASSERT_OK(program);
  auto event = (*program)->Submit({});
  ASSERT_OK(event);
  auto waited = device_->Wait(*event);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), StatusCode::kDeadlineExceeded) << waited.error().ToString();
  EXPECT_OK(device_->Alive());
  auto done = device_->IsComplete(*event);
  ASSERT_OK(done);
  EXPECT_FALSE(*done);
  // Not lost: it ends in its own time.
  auto until = Clock::now() + 60s;
  while (!device_->Wait(*event) && Clock::now() < until) std::this_thread::sleep_for(1ms);
  EXPECT_OK(device_->Wait(*event));
}

TEST_P(ProgramTest, StepsAreProfiled) {
  ASSERT_NO_FATAL_FAILURE(Open());
  if (device_->profile().limits.timestamp_valid_bits == 0) GTEST_SKIP() << "The device has no timestamps.";
  auto in = MakeBuffer(Ramp(1, 3)), out = MakeBuffer(Ramp(1)), big = MakeBuffer(Ramp(1 << 16));
  Launch spin;
  spin.bindings = {{0, 0, 4}, {1, 0, 4}};
  spin.push = {5'000'000};
  auto program =
      Program::Create(device_, {ProgramBuffer::Fixed(in), ProgramBuffer::Fixed(out), ProgramBuffer::Fixed(big)},
                      MakePipelines({SpinKernel(device_->profile())}), {Fill{{2, 0, 16}, 1}, spin, Fill{{2, 0, 0}, 1}});
  ASSERT_OK(program);
  ASSERT_OK((*program)->Run({}));
  auto begin = Clock::now();
  auto ms = (*program)->Profile({});
  double wall = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  ASSERT_OK(ms);
  ASSERT_EQ(ms->size(), 3u);
  EXPECT_GT((*ms)[1], (*ms)[0]);
  EXPECT_GT((*ms)[1], 1.0);
  EXPECT_LT((*ms)[1], wall);
  EXPECT_EQ((*ms)[2], 0.0);
}

TEST_P(ProgramTest, BadProgramsAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto a = MakeBuffer(Ramp(64));
  auto pipelines = MakePipelines({AxpyKernel(device_->profile())});
  auto refused = [&](std::vector<ProgramBuffer> buffers, Step step, std::string_view part) {
    auto program = Program::Create(device_, std::move(buffers), pipelines, {std::move(step)});
    ASSERT_FALSE(program) << part;
    EXPECT_EQ(program.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(program.error().message().find(part), std::string::npos) << program.error().ToString();
  };
  std::vector<ProgramBuffer> one = {ProgramBuffer::Fixed(a)};
  Launch good = Axpy(0, 0, 0, 64, 1);
  refused(one, Axpy(0, 0, 1, 64, 1), "binds buffer 1");
  refused(one, Axpy(0, 0, 0, 65, 1), "binds bytes 0 to 260");
  Launch bad = good;
  bad.pipeline = 1;
  refused(one, bad, "pipeline 1");
  bad = good;
  bad.bindings.pop_back();
  refused(one, bad, "it has 3");
  bad = good;
  bad.grid[2] = device_->profile().limits.max_workgroup_count[2];
  if (bad.grid[2]++ != UINT32_MAX) refused(one, bad, "workgroups along axis 2");
  bad = good;
  bad.push.resize(15);
  refused(one, bad, "pushes 15 words");
  bad = good;
  bad.bindings[1].offset = UINT64_MAX - 3;
  refused(one, bad, "binds");
  refused(one, Copy{{0, 0, 8}, {0, 4, 8}}, "onto themselves");
  refused(one, Copy{{0, 0, 8}, {0, 16, 4}}, "copies 8 bytes to 4");
  refused(one, Fill{{0, 2, 4}, 0}, "whole words");
  refused({ProgramBuffer{}}, Fill{{0, 0, 0}, 0}, "either fixed or a slot");
  refused({ProgramBuffer::Slot(0, 4), ProgramBuffer::Slot(0, 4)}, Fill{{0, 0, 4}, 0}, "Two buffers");
  ProgramBuffer self = ProgramBuffer::Fixed(a);
  self.same_memory = 0;
  refused({self}, Fill{{0, 0, 4}, 0}, "shares the memory");
}

TEST_P(ProgramTest, NothingToDoIsFine) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto program = Program::Create(device_, {}, {}, {});
  ASSERT_OK(program);
  ASSERT_OK((*program)->Run({}));
}

}  // namespace
}  // namespace krafla::vk
