// SPDX-License-Identifier: Apache-2.0
// What a run costs that computes next to nothing, on the CPU and on the best Vulkan device:
//   result_as_argument  each run's result is the next one's argument; the host waits for each
//   unwaited            the same; the host waits for the last one only
//   donated             a cache updated where it lies
//   from_host           a number goes to the device with each run, and one comes back
//   execute             SetArguments once, then Execute
#include <benchmark/benchmark.h>

#include <string>

#include "api/client.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

constexpr std::string_view kAdd = R"(HloModule m
ENTRY main {
  x = f32[256] parameter(0)
  one = f32[] constant(1)
  ones = f32[256] broadcast(one), dimensions={}
  ROOT r = f32[256] add(x, ones)
})";
// Two steps, the first where the argument lies.
constexpr std::string_view kUpdate = R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  cache = f32[1024] parameter(0)
  at = s32[] parameter(1)
  zero = f32[] constant(0)
  one = f32[1] constant({1})
  updated = f32[1024] dynamic-update-slice(cache, one, at)
  sum = f32[] reduce(updated, zero), dimensions={0}, to_apply=add
  ROOT r = (f32[1024], f32[]) tuple(updated, sum)
})";

using Buffer = std::shared_ptr<DeviceBuffer>;

std::shared_ptr<const Literal> Zeros(std::string_view shape) {
  return std::make_shared<const Literal>(*Literal::Create(*ParseShape(shape)));
}

std::unique_ptr<Executable> Compile(benchmark::State& state, Client& client, std::string_view text) {
  auto module = ParseHloText(text);
  auto out = client.Compile(std::move(*module), {});
  if (out) return std::move(*out);
  state.SkipWithError(out.error().ToString().c_str());
  return nullptr;
}

void ResultAsArgument(benchmark::State& state, std::shared_ptr<Client> client, bool wait) {
  auto executable = Compile(state, *client, kAdd);
  if (executable == nullptr) return;
  Buffer x = *client->ToDevice(Zeros("f32[256]"));
  for (auto _ : state) {
    x = (*executable->RunOnBuffers({{x}}))[0];
    if (wait) (void)x->Wait();
  }
  (void)x->Wait();
}

void Donated(benchmark::State& state, std::shared_ptr<Client> client) {
  auto executable = Compile(state, *client, kUpdate);
  if (executable == nullptr) return;
  Buffer cache = *client->ToDevice(Zeros("f32[1024]")), at = *client->ToDevice(Zeros("s32[]"));
  for (auto _ : state) {
    cache = (*executable->RunOnBuffers({{cache, true}, {at}}))[0];
    (void)cache->Wait();
  }
}

void FromHost(benchmark::State& state, std::shared_ptr<Client> client) {
  auto executable = Compile(state, *client, kUpdate);
  if (executable == nullptr) return;
  Buffer cache = *client->ToDevice(Zeros("f32[1024]"));
  const auto at = Zeros("s32[]");
  for (auto _ : state) {
    auto out = *executable->RunOnBuffers({{cache, true}, {*client->ToDevice(at)}});
    cache = out[0];
    benchmark::DoNotOptimize((*out[1]->ToLiteral())->bytes().data());
  }
}

void Execute(benchmark::State& state, std::shared_ptr<Client> client) {
  auto executable = Compile(state, *client, kAdd);
  if (executable == nullptr) return;
  const auto x = Zeros("f32[256]");
  const Literal* arguments[] = {x.get()};
  (void)executable->SetArguments(arguments);
  for (auto _ : state) (void)executable->Execute();
}

void Register(const std::string& name, const std::shared_ptr<Client>& client) {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark((name + "/result_as_argument").c_str(), ResultAsArgument, client, true)->UseRealTime();
  RegisterBenchmark((name + "/unwaited").c_str(), ResultAsArgument, client, false)->UseRealTime();
  RegisterBenchmark((name + "/donated").c_str(), Donated, client)->UseRealTime();
  RegisterBenchmark((name + "/from_host").c_str(), FromHost, client)->UseRealTime();
  RegisterBenchmark((name + "/execute").c_str(), Execute, client)->UseRealTime();
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (const char* selector : {"cpu", "vulkan"})
    if (auto client = krafla::Client::Create(selector)) krafla::Register(selector, *client);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
