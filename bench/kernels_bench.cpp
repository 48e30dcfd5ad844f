// SPDX-License-Identifier: Apache-2.0
// One kernel at a time, on the CPU and on the best Vulkan device, where there is one:
//   build/dev/bench/kernels_bench [--benchmark_filter=cpu/dot.*]
// Each is a module of one instruction, so that what is timed is what a program would run, submission included.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <format>
#include <random>

#include "api/client.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

struct Kernel {
  std::string name;
  std::string text;
  double operations = 0, bytes = 0;  // a run
};

Kernel Elementwise(std::string_view type, int bytes, std::string_view op, int64_t n) {
  std::string shape = Format("{}[{}]", type, n);
  return {Format("elementwise/{}/{}/{}", op, type, n),
          Format("HloModule m\nENTRY e {{\n  x = {0} parameter(0)\n  y = {0} parameter(1)\n  z = {0} multiply(x, y)\n"
                 "  ROOT r = {0} {1}(z)\n}}\n",
                 shape, op),
          2.0 * static_cast<double>(n), 3.0 * bytes * static_cast<double>(n)};
}

Kernel Reduce(int64_t rows, int64_t columns, int dimension) {
  return {
      Format("reduce/f32/{}x{}/dimension{}", rows, columns, dimension),
      Format("HloModule m\nadd {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}}\n"
             "ENTRY e {{\n  x = f32[{0},{1}] parameter(0)\n  zero = f32[] constant(0)\n"
             "  ROOT r = f32[{2}] reduce(x, zero), dimensions={{{3}}}, to_apply=add\n}}\n",
             rows, columns, dimension == 0 ? columns : rows, dimension),
      static_cast<double>(rows * columns), 4.0 * static_cast<double>(rows * columns)};
}

Kernel Dot(std::string_view type, std::string_view result, int64_t m, int64_t n, int64_t k) {
  return {Format("dot/{}/{}x{}x{}", type, m, n, k),
          Format("HloModule m\nENTRY e {{\n  a = {0}[{2},{4}] parameter(0)\n  b = {0}[{4},{3}] parameter(1)\n"
                 "  ROOT r = {1}[{2},{3}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n",
                 type, result, m, n, k),
          2.0 * static_cast<double>(m * n * k), 0};
}

Kernel Convolution(int64_t size, int64_t in, int64_t out, int64_t window) {
  int64_t pad = window / 2;
  return {
      Format("convolution/f32/{0}x{0}x{1}/{2}/window{3}", size, in, out, window),
      Format("HloModule m\nENTRY e {{\n  x = f32[1,{0},{0},{1}] parameter(0)\n  w = f32[{3},{3},{1},{2}] parameter(1)\n"
             "  ROOT r = f32[1,{0},{0},{2}] convolution(x, w), window={{size={3}x{3} pad={4}_{4}x{4}_{4}}}, "
             "dim_labels=b01f_01io->b01f\n}}\n",
             size, in, out, window, pad),
      2.0 * static_cast<double>(size * size * in * out * window * window), 0};
}

Kernel Sort(int64_t rows, int64_t columns) {
  return {Format("sort/f32/{}x{}", rows, columns),
          Format("HloModule m\nless {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                 "  ROOT l = pred[] compare(a, b), direction=LT\n}}\nENTRY e {{\n  x = f32[{0},{1}] parameter(0)\n"
                 "  ROOT r = f32[{0},{1}] sort(x), dimensions={{1}}, to_apply=less\n}}\n",
                 rows, columns),
          static_cast<double>(rows * columns), 0};
}

std::vector<Kernel> Kernels() {
  return {
      Elementwise("f32", 4, "negate", 1 << 20),
      Elementwise("f32", 4, "exponential", 1 << 20),
      Elementwise("f32", 4, "tanh", 1 << 20),
      Elementwise("bf16", 2, "negate", 1 << 20),
      Elementwise("s32", 4, "negate", 1 << 20),
      Elementwise("f32", 4, "negate", 1 << 10),
      Reduce(1024, 1024, 1),
      Reduce(1024, 1024, 0),
      Reduce(1, 1 << 20, 1),
      Dot("f32", "f32", 256, 256, 256),
      Dot("f32", "f32", 1024, 1024, 1024),
      Dot("f32", "f32", 1, 1024, 1024),
      Dot("f16", "f16", 512, 512, 512),
      Dot("s8", "s32", 512, 512, 512),
      Convolution(56, 64, 64, 3),
      Convolution(56, 64, 256, 1),
      Sort(1, 1 << 18),
      Sort(1024, 256),
  };
}

// Small numbers that every type holds.
Result<Literal> Values(const Shape& shape) {
  KRAFLA_ASSIGN(Literal literal, Literal::Create(shape));
  std::mt19937 random(1);
  auto bytes = literal.bytes();
  switch (StorageBytes(shape.element_type())) {
    case 1:
      for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 4);
      break;
    case 2:  // 0.5 to 1 in f16, the same patterns are small in bf16
      for (std::size_t i = 0; i < bytes.size(); i += 2) {
        auto bits = static_cast<uint16_t>(0x3800 + random() % 0x400);
        std::memcpy(bytes.data() + i, &bits, 2);
      }
      break;
    default:
      for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        float value = static_cast<float>(random() >> 8) / 16777216.0f;
        std::memcpy(bytes.data() + i, &value, 4);
      }
  }
  return literal;
}

Result<std::unique_ptr<Executable>> Prepare(Client& client, const Kernel& kernel) {
  KRAFLA_ASSIGN(auto module, ParseHloText(kernel.text, kernel.name));
  CompileOptions options;
  options.strict = true;
  KRAFLA_ASSIGN(std::unique_ptr<Executable> executable, client.Compile(std::move(module), options));
  std::vector<Literal> arguments;
  for (const Shape& shape : executable->arguments()) {
    KRAFLA_ASSIGN(Literal values, Values(shape));
    arguments.push_back(std::move(values));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& a : arguments) pointers.push_back(&a);
  KRAFLA_TRY(executable->SetArguments(pointers));
  KRAFLA_TRY(executable->Execute());
  return executable;
}

void Run(benchmark::State& state, const std::shared_ptr<Client>& client, const Kernel& kernel) {
  auto executable = Prepare(*client, kernel);
  if (!executable) {
    state.SkipWithError(executable.error().ToString().c_str());
    return;
  }
  for (auto _ : state) {
    if (auto done = (*executable)->Execute(); !done) {
      state.SkipWithError(done.error().ToString().c_str());
      return;
    }
  }
  using benchmark::Counter;
  state.counters["op/s"] = Counter(kernel.operations, Counter::kIsIterationInvariantRate);
  if (kernel.bytes > 0)
    state.counters["B/s"] = Counter(kernel.bytes, Counter::kIsIterationInvariantRate, Counter::kIs1024);
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const char* selector : {"cpu", "vulkan"}) {
    auto client = krafla::Client::Create(selector);
    if (!client) {
      std::fprintf(stderr, "kernels_bench: %s is left out: %s\n", selector, client.error().message().c_str());
      continue;
    }
    std::fprintf(stderr, "kernels_bench: %s is %s\n", selector, (*client)->device().description.c_str());
    for (const krafla::Kernel& kernel : krafla::Kernels())
      benchmark::RegisterBenchmark(
          (std::string(selector) + "/" + kernel.name).c_str(),
          [client = *client, kernel](benchmark::State& state) { krafla::Run(state, client, kernel); })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
