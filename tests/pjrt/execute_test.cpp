// SPDX-License-Identifier: Apache-2.0
// Compiling and running: results, donation, errors, serialization, threads.
#include <fstream>
#include <thread>

#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

class ExecuteTest : public testing::TestWithParam<const char*> {
 protected:
  const Client client_ = NewClient(GetParam());
  PJRT_Device* const device_ = Devices(client_)[0];

  Buffer Make4(float start) { return Floats(client_, device_, {start, start + 1, start + 2, start + 3}); }
};

constexpr std::string_view kDonating = R"(HloModule donating, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT sum = f32[4] add(a, b)
})";

constexpr std::string_view kStableHlo = R"(
module @text {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32>, tensor<f32>) {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    %1 = stablehlo.constant dense<2.0> : tensor<f32>
    return %0, %1 : tensor<4xf32>, tensor<f32>
  }
})";

TEST_P(ExecuteTest, Runs) {
  const Loaded loaded = Compile(client_, kAdd);
  const Buffer a = Make4(1), b = Make4(10);
  for (int i = 0; i < 3; ++i) {
    const Outcome out = Execute(loaded, {{a.get(), b.get()}});
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    EXPECT_EQ(ToHost<float>(out.results[0][0]), (std::vector<float>{11, 13, 15, 17}));
    EXPECT_EQ(Await(out.done[0]).code, 0u);
  }
}

TEST_P(ExecuteTest, RunsOnItsOwnResults) {
  const Loaded loaded = Compile(client_, kAdd);
  const Buffer one = Floats(client_, device_, {1, 1, 1, 1});
  Buffer sum = Make4(0);
  for (int i = 0; i < 300; ++i) {
    Outcome out = Execute(loaded, {{sum.get(), one.get()}});
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    sum = std::move(out.results[0][0]);
  }
  EXPECT_EQ(ToHost<float>(sum), (std::vector<float>{300, 301, 302, 303}));
}

TEST_P(ExecuteTest, StableHloWithSeveralResults) {
  const Loaded loaded = Compile(client_, kStableHlo, "mlir");
  const Buffer a = Make4(1), b = Make4(10);
  const Outcome out = Execute(loaded, {{a.get(), b.get()}});
  ASSERT_EQ(out.error.code, 0u) << out.error.message;
  ASSERT_EQ(out.results[0].size(), 2u);
  EXPECT_EQ(ToHost<float>(out.results[0][0]), (std::vector<float>{11, 13, 15, 17}));
  EXPECT_EQ(ToHost<float>(out.results[0][1]), std::vector<float>{2});
  EXPECT_FALSE(IsDeleted(a));
  EXPECT_TRUE(IsDeleted(b));
}

TEST_P(ExecuteTest, DonatedBuffersAreGone) {
  const Loaded loaded = Compile(client_, kDonating);
  Buffer sum = Make4(0);
  const Buffer one = Floats(client_, device_, {1, 1, 1, 1});
  for (int i = 0; i < 50; ++i) {
    Outcome out = Execute(loaded, {{sum.get(), one.get()}});
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    EXPECT_TRUE(IsDeleted(sum));
    EXPECT_FALSE(IsDeleted(one));
    EXPECT_EQ(Execute(loaded, {{sum.get(), one.get()}}).error.code, 3u);
    sum = std::move(out.results[0][0]);
  }
  EXPECT_EQ(ToHost<float>(sum), (std::vector<float>{50, 51, 52, 53}));

  const Outcome kept = Execute(loaded, {{sum.get(), one.get()}}, {0});
  ASSERT_EQ(kept.error.code, 0u);
  EXPECT_FALSE(IsDeleted(sum));
  EXPECT_EQ(ToHost<float>(sum), (std::vector<float>{50, 51, 52, 53}));
  EXPECT_EQ(ToHost<float>(kept.results[0][0]), (std::vector<float>{51, 52, 53, 54}));

  EXPECT_EQ(Execute(loaded, {{sum.get(), sum.get()}}).error.code, 3u) << "donated and read by one call";
  EXPECT_FALSE(IsDeleted(sum)) << "a call that is refused donates nothing";
}

// A run that others' reading depends on does not overwrite: copies share the array.
TEST_P(ExecuteTest, DonationSparesCopies) {
  const Loaded loaded = Compile(client_, kDonating);
  const Buffer a = Make4(1), b = Make4(10);
  auto copy = Make<PJRT_Buffer_CopyToDevice_Args>();
  copy.buffer = a.get();
  copy.dst_device = device_;
  EXPECT_PJRT_OK(Api().PJRT_Buffer_CopyToDevice(&copy));
  const Buffer other(copy.dst_buffer);
  const Outcome out = Execute(loaded, {{a.get(), b.get()}});
  ASSERT_EQ(out.error.code, 0u);
  EXPECT_EQ(ToHost<float>(out.results[0][0]), (std::vector<float>{11, 13, 15, 17}));
  EXPECT_EQ(ToHost<float>(other), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(ExecuteTest, ArgumentsAreChecked) {
  const Loaded loaded = Compile(client_, kAdd);
  const Buffer a = Make4(1), small = Floats(client_, device_, {1});
  EXPECT_EQ(Execute(loaded, {{a.get()}}).error.code, 3u);
  EXPECT_EQ(Execute(loaded, {{a.get(), nullptr}}).error.code, 3u);
  EXPECT_EQ(Execute(loaded, {{a.get(), small.get()}}).error.code, 3u);
  EXPECT_EQ(Execute(loaded, {{a.get(), a.get()}, {a.get(), a.get()}}).error.code, 3u);
  EXPECT_EQ(Execute(loaded, {}).error.code, 3u);
}

TEST_P(ExecuteTest, ProgramsThatAreNoneAreErrors) {
  for (const std::string_view code : {"", "nonsense", "ML\xefR\x0dStableHLO_v1.17.0", "HloModule x"})
    for (const std::string_view format : {"mlir", "hlo", "hlo_with_config", "cuda"}) {
      auto [loaded, error] = TryCompile(client_, code, format);
      EXPECT_NE(error.code, 0u) << code << " as " << format;
    }
  EXPECT_EQ(TryCompile(client_, kAdd, "hlo", "\xff\xff\xff").second.code, 3u);
  EXPECT_EQ(TryCompile(client_, kAdd, "hlo", Options(1, 100)).second.code, 3u);
}

TEST_P(ExecuteTest, LivesThroughBytes) {
  const Loaded loaded = Compile(client_, kStableHlo, "mlir");
  auto get = Make<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_GetExecutable(&get));
  const Executable executable(get.executable);
  auto args = Make<PJRT_Executable_Serialize_Args>();
  args.executable = executable.get();
  EXPECT_PJRT_OK(Api().PJRT_Executable_Serialize(&args));
  const std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);

  auto load = [&](std::string_view from) {
    auto back = Make<PJRT_Executable_DeserializeAndLoad_Args>();
    back.client = client_.get();
    back.serialized_executable = from.data();
    back.serialized_executable_size = from.size();
    Error error = Take(Api().PJRT_Executable_DeserializeAndLoad(&back));
    return std::pair{Loaded(back.loaded_executable), std::move(error)};
  };
  auto [again, error] = load(bytes);
  ASSERT_EQ(error.code, 0u) << error.message;
  const Buffer a = Make4(1), b = Make4(10);
  const Outcome out = Execute(again, {{a.get(), b.get()}});
  ASSERT_EQ(out.error.code, 0u) << out.error.message;
  EXPECT_EQ(ToHost<float>(out.results[0][0]), (std::vector<float>{11, 13, 15, 17}));

  for (std::size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_NE(load(damaged).second.code, 0u) << i;
    EXPECT_NE(load(std::string_view(bytes).substr(0, i)).second.code, 0u) << i;
  }
}

TEST_P(ExecuteTest, TellsOfItself) {
  const Loaded loaded = Compile(client_, kStableHlo, "mlir");
  auto get = Make<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_GetExecutable(&get));
  const Executable executable(get.executable);
  auto types = Make<PJRT_Executable_OutputElementTypes_Args>();
  types.executable = executable.get();
  EXPECT_PJRT_OK(Api().PJRT_Executable_OutputElementTypes(&types));
  ASSERT_EQ(types.num_output_types, 2u);
  EXPECT_EQ(types.output_types[0], kF32);
  auto dims = Make<PJRT_Executable_OutputDimensions_Args>();
  dims.executable = executable.get();
  EXPECT_PJRT_OK(Api().PJRT_Executable_OutputDimensions(&dims));
  ASSERT_EQ(dims.num_outputs, 2u);
  EXPECT_EQ(dims.dim_sizes[0], 1u);
  EXPECT_EQ(dims.dim_sizes[1], 0u);
  EXPECT_EQ(dims.dims[0], 4);
  auto cost = Make<PJRT_Executable_GetCostAnalysis_Args>();
  cost.executable = executable.get();
  EXPECT_PJRT_OK(Api().PJRT_Executable_GetCostAnalysis(&cost));
  ASSERT_GE(cost.num_properties, 1u);
  EXPECT_EQ(std::string_view(cost.properties[0].name, cost.properties[0].name_size), "flops");
  EXPECT_EQ(cost.properties[0].float_value, 4);
  auto text = Make<PJRT_Executable_OptimizedProgram_Args>();
  auto program = Make<PJRT_Program>();
  text.executable = executable.get();
  text.program = &program;
  EXPECT_PJRT_OK(Api().PJRT_Executable_OptimizedProgram(&text));
  EXPECT_EQ(program.code_size, kStableHlo.size());
  std::string code(program.code_size, ' ');
  program.code = code.data();
  EXPECT_PJRT_OK(Api().PJRT_Executable_OptimizedProgram(&text));
  EXPECT_EQ(code, kStableHlo);
}

// In the memory that the program names.
TEST_P(ExecuteTest, ResultsMayLieInTheHostsMemory) {
  const Loaded loaded = Compile(client_, R"(
module @memories {
  func.func public @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {mhlo.memory_kind = "pinned_host"}) {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %a, %0 : tensor<4xf32>, tensor<4xf32>
  }
})",
                                "mlir");
  const Buffer a = Make4(1);
  const Outcome out = Execute(loaded, {{a.get()}});
  ASSERT_EQ(out.error.code, 0u) << out.error.message;
  for (const auto& [result, kind] : {std::pair{0, "device"}, {1, "pinned_host"}}) {
    const Buffer& buffer = out.results[0][static_cast<std::size_t>(result)];
    auto memory = Make<PJRT_Buffer_Memory_Args>();
    memory.buffer = buffer.get();
    EXPECT_PJRT_OK(Api().PJRT_Buffer_Memory(&memory));
    auto name = Make<PJRT_Memory_Kind_Args>();
    name.memory = memory.memory;
    EXPECT_PJRT_OK(Api().PJRT_Memory_Kind(&name));
    EXPECT_EQ(std::string_view(name.kind, name.kind_size), kind);
    EXPECT_EQ(ToHost<float>(buffer)[3], result == 0 ? 4 : 8);
  }
}

// Ten thousand calls leave nothing behind.
TEST_P(ExecuteTest, MemoryStaysFlat) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep what is freed";
#endif
  const auto resident_pages = [] {
    int64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident;
  };
  const Loaded loaded = Compile(client_, kAdd);
  const Buffer one = Floats(client_, device_, {1, 1, 1, 1});
  Buffer sum = Make4(0);
  auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      Outcome out = Execute(loaded, {{sum.get(), one.get()}});
      ASSERT_EQ(out.error.code, 0u) << out.error.message;
      sum = std::move(out.results[0][0]);
    }
    EXPECT_EQ(Ready(sum).code, 0u);
  };
  run(2000);
  const int64_t before = resident_pages();
  run(10000);
  EXPECT_LE(resident_pages() - before, 256) << "pages";
  EXPECT_EQ(ToHost<float>(sum)[0], 12000);
  auto stats = Make<PJRT_Device_MemoryStats_Args>();
  stats.device = device_;
  EXPECT_PJRT_OK(Api().PJRT_Device_MemoryStats(&stats));
  EXPECT_EQ(stats.bytes_in_use, 32);
}

TEST_P(ExecuteTest, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const Loaded loaded = Compile(client_, t % 2 == 0 ? kAdd : kDonating);
      Buffer sum = Make4(static_cast<float>(t));
      const Buffer one = Floats(client_, device_, {1, 1, 1, 1});
      for (int i = 0; i < 100; ++i) {
        Outcome out = Execute(loaded, {{sum.get(), one.get()}});
        ASSERT_EQ(out.error.code, 0u) << out.error.message;
        sum = std::move(out.results[0][0]);
        if (i % 10 == t) { EXPECT_EQ(ToHost<float>(sum)[0], static_cast<float>(t + i + 1)); }
      }
      EXPECT_EQ(ToHost<float>(sum)[3], static_cast<float>(t + 103));
    });
  }
  for (std::thread& t : threads) t.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecuteTest, testing::Values("cpu", ""), [](const auto& device) {
  return std::string(device.param).empty() ? std::string("best") : std::string(device.param);
});

}  // namespace
}  // namespace krafla::pjrt_test
