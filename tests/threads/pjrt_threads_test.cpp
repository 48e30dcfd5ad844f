// SPDX-License-Identifier: Apache-2.0
// The plugin from sixteen threads: clients made and destroyed, programs compiled and run, one executable and one client
// for all, and programs for several devices.
#ifdef KRAFLA_PJRT_PLUGIN
#include <thread>

#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

constexpr int kThreads = 16, kTurns = 8;
constexpr std::string_view kSum = R"(HloModule sum, num_partitions=4
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[2] parameter(0)
  ROOT sum = f32[2] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
})";

void RunAdd(const Client& client, const Loaded& add, float start) {
  PJRT_Device* const device = Devices(client)[0];
  Buffer sum = Floats(client, device, {start, 1, 2, 3});
  const Buffer one = Floats(client, device, {1, 1, 1, 1});
  for (int i = 0; i < 10; ++i) {
    Outcome out = Execute(add, {{sum.get(), one.get()}});
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    sum = std::move(out.results[0][0]);
  }
  EXPECT_EQ(ToHost<float>(sum), (std::vector<float>{start + 10, 11, 12, 13}));
}

void RunTogether(const Client& client) {
  const Loaded loaded = Compile(client, kSum, "hlo", Options(1, 4));
  std::vector<Buffer> arguments;
  std::vector<std::vector<PJRT_Buffer*>> lists;
  for (PJRT_Device* d : Devices(client)) lists.push_back({arguments.emplace_back(Floats(client, d, {1, 2})).get()});
  for (int round = 0; round < 3; ++round) {
    const Outcome out = Execute(loaded, lists);
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    for (const auto& results : out.results) EXPECT_EQ(ToHost<float>(results[0]), (std::vector<float>{4, 8}));
  }
}

class ManyPluginThreads : public ::testing::TestWithParam<const char*> {};

TEST_P(ManyPluginThreads, CompileRunOpenAndClose) {
  const std::string name = GetParam();
  const Client client = NewClient(name), four = NewClient(name.empty() ? "cpu*4" : name + "*4");
  const Loaded shared = Compile(client, kAdd);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < kTurns; ++n) {
        const auto start = static_cast<float>(100 * t + n);
        switch ((t + n) % 5) {
          case 0: RunAdd(client, shared, start); break;
          case 1: RunAdd(client, Compile(client, kAdd), start); break;
          case 2: {
            const Client own = NewClient(name);
            RunAdd(own, Compile(own, kAdd), start);
            break;
          }
          case 3: RunTogether(four); break;
          default:
            EXPECT_NE(TryCompile(client, "HloModule m\nENTRY e { x = f32[2] parameter(0)").second.code, 0u);
            break;
        }
      }
    });
}

INSTANTIATE_TEST_SUITE_P(Devices, ManyPluginThreads, ::testing::Values("cpu", ""), [](const auto& device) {
  return std::string(device.param).empty() ? std::string("best") : std::string(device.param);
});

}  // namespace
}  // namespace krafla::pjrt_test
#endif
