// SPDX-License-Identifier: Apache-2.0
#include "workload.h"

#include <filesystem>
#include <iterator>
#include <thread>

#include "base/file.h"
#include "hlo_io/read_module.h"

namespace krafla {
namespace {

constexpr const char* kModels[] = {"mlp-tiny", "lstm-tiny", "sort-topk-tiny"};
constexpr const char* kTogether = "collectives-8-tiny";
// As many programs that differ are compiled again and again; then what a lasting device keeps of each is complete
// early.
constexpr int64_t kPrograms = 6;
// The cache on disk is emptied every so many rounds: written, then read by the rounds until the next time.
constexpr int64_t kRoundsACache = 3;
constexpr std::chrono::milliseconds kDeadline{5};
static_assert(Workload::kCycle % kPrograms == 0 && Workload::kCycle % kRoundsACache == 0 &&
              Workload::kCycle % std::size(kModels) == 0 && Workload::kCycle % 2 == 0);

constexpr const char* kEndless = R"(HloModule endless
again {
  p = s32[] parameter(0)
  zero = s32[] constant(0)
  ROOT c = pred[] compare(p, zero), direction=GE
}
turn {
  p = s32[] parameter(0)
  top = s32[] constant(1000)
  one = s32[] constant(1)
  next = s32[] add(p, one)
  ROOT r = s32[] minimum(next, top)
}
ENTRY e {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=again, body=turn
}
)";

Result<SoakedNetwork> LoadNetwork(const std::string& folder) {
  SoakedNetwork out;
  KRAFLA_ASSIGN(CaseList list, FindCases(folder));
  if (list.cases.size() != 1) return NotFound("'{}' is not a model", folder);
  out.recorded = std::move(list.cases[0]);
  const bool several = out.recorded.replicas * out.recorded.partitions > 1;
  KRAFLA_ASSIGN(out.bytes, ReadFile(several && !out.recorded.module_path_spmd.empty() ? out.recorded.module_path_spmd
                                                                                      : out.recorded.module_path));
  return out;
}

Result<std::unique_ptr<Executable>> CompileFor(Client& client, std::string_view bytes,
                                               const CompileOptions& options = {}) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadModule(bytes, "soak"));
  return client.Compile(std::move(module), options);
}

Result<> Judge(const std::vector<Literal>& results, const RecordedArrays& arrays, std::size_t device) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Comparison comparison = Compare(results[r], arrays.outputs[device][r], nullptr, arrays.tolerances[r]);
    if (!comparison.passed) return DataLoss("result {} is wrong: {}", r, comparison.reason);
  }
  return {};
}

// Reads what is recorded, runs and compares.
Result<> RunNetwork(Executable& executable, const SoakedNetwork& network) {
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(network.recorded, executable.arguments(), executable.results()));
  std::vector<std::shared_ptr<const Literal>> arguments = ToShared(std::move(arrays.inputs[0]));
  KRAFLA_ASSIGN(std::vector<Literal> results, executable.RunShared(std::move(arguments)));
  return Judge(results, arrays, 0);
}

template <typename T>
Result<> MustFail(const Result<T>& result, StatusCode code, const char* what) {
  if (result) return Internal("{} did not fail", what);
  if (result.error().code() != code) return Internal("{} failed otherwise: {}", what, result.error().ToString());
  return {};
}

}  // namespace

Result<std::unique_ptr<Workload>> Workload::Create(const std::string& models, std::string device, std::string cache) {
  auto out = std::make_unique<Workload>();
  out->device_ = std::move(device), out->cache_ = std::move(cache);
  for (const char* name : kModels) {
    KRAFLA_ASSIGN(SoakedNetwork network, LoadNetwork(models + "/" + name));
    out->networks_.push_back(std::move(network));
  }
  KRAFLA_ASSIGN(out->together_, LoadNetwork(models + "/" + kTogether));
  KRAFLA_ASSIGN(out->client_, Client::Create(out->device_));
  KRAFLA_ASSIGN(out->lasting_, CompileFor(*out->client_, out->networks_[0].bytes));
  KRAFLA_ASSIGN(out->endless_, CompileFor(*out->client_, kEndless));
  return out;
}

Result<> Workload::Round(int64_t round) {
  if (round % kRoundsACache == 0) {
    std::error_code error;  // a folder that is not there yet
    std::filesystem::remove_all(cache_, error);
  }
  KRAFLA_TRY(LastingRuns());
  KRAFLA_TRY(NewPrograms(round));
  KRAFLA_TRY(NewDevice(round));
  KRAFLA_TRY(VirtualDevices());
  KRAFLA_TRY(Threads(round));
  return FailedCalls();
}

Result<> Workload::LastingRuns() {
  for (int run = 0; run < 20; ++run) KRAFLA_TRY(RunNetwork(*lasting_, networks_[0]));
  return {};
}

Result<> Workload::NewPrograms(int64_t round) {
  const int64_t size = round % kPrograms + 1;
  const std::string text = Format(R"(HloModule m{0}
ENTRY e {{
  x = f32[8,{0}] parameter(0)
  c = f32[] constant({0}.5)
  b = f32[8,{0}] broadcast(c), dimensions={{}}
  ROOT y = f32[8,{0}] multiply(x, b)
}}
)",
                                  size);
  KRAFLA_ASSIGN(auto executable, CompileFor(*client_, text));
  KRAFLA_ASSIGN(Literal x, Literal::Create(executable->arguments()[0]));
  for (float& v : x.data<float>()) v = 2;
  const Literal* const arguments[] = {&x};
  KRAFLA_ASSIGN(std::vector<Literal> results, executable->Run(arguments));
  for (const float v : results[0].data<float>())
    if (v != 2 * static_cast<float>(size) + 1) return DataLoss("2 * {}.5 is {}", size, v);
  const SoakedNetwork& network = networks_[static_cast<std::size_t>(round) % networks_.size()];
  CompileOptions options;
  if (round % 2 == 1) options.disabled = {"bda", "timeline"};  // a second device of the same client, on Vulkan
  KRAFLA_ASSIGN(executable, CompileFor(*client_, network.bytes, options));
  return RunNetwork(*executable, network);
}

Result<> Workload::NewDevice(int64_t round) {
  const SoakedNetwork& network = networks_[static_cast<std::size_t>(round) % networks_.size()];
  KRAFLA_ASSIGN(auto client, Client::Create(device_, {.threads = static_cast<int>(1 + round % 3), .parallel_for = {}}));
  KRAFLA_ASSIGN(auto executable, CompileFor(*client, network.bytes));
  if (round % 2 == 1) client = nullptr;  // the executable keeps what it needs of its device
  return RunNetwork(*executable, network);
}

Result<> Workload::VirtualDevices() {
  KRAFLA_ASSIGN(auto group, DeviceGroup::Create(device_ + "*8"));
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadModule(together_.bytes, "soak"));
  module->replica_count = together_.recorded.replicas;
  module->num_partitions = together_.recorded.partitions;
  KRAFLA_ASSIGN(auto executable, group->Compile(std::move(module), {}));
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(together_.recorded, executable->arguments(), executable->results()));
  for (std::size_t d = 0; d < arrays.inputs.size(); ++d) {
    std::vector<const Literal*> arguments;
    for (const Literal& literal : arrays.inputs[d]) arguments.push_back(&literal);
    KRAFLA_TRY(executable->SetArguments(static_cast<int64_t>(d), arguments));
  }
  // Broken off before it begins; then to the end.
  RunLimit over{.deadline = RunLimit::Clock::now()};
  executable->SetLimit(&over);
  KRAFLA_TRY(MustFail(executable->Execute(), StatusCode::kDeadlineExceeded, "a group past its deadline"));
  executable->SetLimit(&kUnlimited);
  KRAFLA_TRY(executable->Execute());
  for (std::size_t d = 0; d < arrays.outputs.size(); ++d) {
    KRAFLA_ASSIGN(std::vector<Literal> results, executable->Results(static_cast<int64_t>(d)));
    KRAFLA_TRY(Judge(results, arrays, d));
  }
  return {};
}

// Each with a network of its own and with the one that all share.
Result<> Workload::Threads(int64_t round) {
  std::vector<Result<>> said(networks_.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < networks_.size(); ++t)
      threads.emplace_back([&, t] {
        said[t] = [&]() -> Result<> {
          const SoakedNetwork& network = networks_[(t + static_cast<std::size_t>(round)) % networks_.size()];
          KRAFLA_ASSIGN(auto executable, CompileFor(*client_, network.bytes));
          for (int run = 0; run < 3; ++run) {
            KRAFLA_TRY(RunNetwork(*executable, network));
            KRAFLA_TRY(RunNetwork(*lasting_, networks_[0]));
          }
          return {};
        }();
      });
  }
  for (const Result<>& result : said) KRAFLA_TRY(result);
  return {};
}

Result<> Workload::FailedCalls() {
  KRAFLA_ASSIGN(Literal start, Literal::Create(endless_->arguments()[0]));
  const Literal* const zero[] = {&start};
  const RunLimit deadline{.deadline = RunLimit::Clock::now() + kDeadline};
  KRAFLA_TRY(MustFail(endless_->Run(zero, deadline), StatusCode::kDeadlineExceeded, "a run without end"));
  std::stop_source stop;
  {
    const RunLimit stopped{.stop = stop.get_token()};
    const std::jthread other([&] {
      std::this_thread::sleep_for(kDeadline);
      stop.request_stop();
    });
    KRAFLA_TRY(MustFail(endless_->Run(zero, stopped), StatusCode::kCancelled, "a run that is stopped"));
  }
  KRAFLA_TRY(MustFail(lasting_->Run({}), StatusCode::kInvalidArgument, "a run without arguments"));
  const std::vector<const Literal*> wrong(lasting_->arguments().size(), &start);
  KRAFLA_TRY(MustFail(lasting_->Run(wrong), StatusCode::kInvalidArgument, "a run with arguments of other shapes"));
  KRAFLA_TRY(RunNetwork(*lasting_, networks_[0]));
  KRAFLA_TRY(MustFail(Client::Create("gpu:first"), StatusCode::kInvalidArgument, "a device that is none"));
  KRAFLA_TRY(MustFail(CompileFor(*client_, "HloModule m\nENTRY e { x = f32[2] parameter(0)"),
                      StatusCode::kInvalidArgument, "a text that ends early"));
  KRAFLA_TRY(MustFail(
      CompileFor(*client_, "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[3] negate(x)\n}\n"),
      StatusCode::kInvalidArgument, "a program with shapes that do not fit"));
  return RunNetwork(*lasting_, networks_[0]);
}

}  // namespace krafla
