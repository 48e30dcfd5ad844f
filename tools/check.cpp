// SPDX-License-Identifier: Apache-2.0
// krafla check: recorded cases and files that check themselves, on several threads.
#include <atomic>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "api/group/device_group.h"
#include "api/host/host_transfers.h"
#include "base/glob.h"
#include "check_outcome.h"
#include "command.h"
#include "recorded/corpus.h"
#include "test_calls.h"

namespace krafla::cli {
namespace {

constexpr const char* kNames[] = {"passed", "failed", "skipped", "error"};

void Print(const RecordedCase& c, const Outcome& o, const std::string& device, bool json) {
  if (json) {
    nlohmann::ordered_json line;
    line["case"] = c.name;
    line["device"] = device;
    line["status"] = kNames[static_cast<int>(o.kind)];
    line["reason"] = o.reason;
    line["max_abs"] = o.worst.max_abs;
    line["max_rel"] = o.worst.max_rel;
    line["max_ulp"] = o.worst.max_ulp;
    line["placed_on_device"] = o.report.device_instructions;
    line["instructions"] = o.report.instructions;
    line["devices"] = c.replicas * c.partitions;
    line["exchanges"] = o.report.exchanges;
    line["cooperative_matrix_launches"] = o.report.cooperative_matrix_launches;
    line["compile_ms"] = o.report.compile_ms();
    line["run_ms"] = o.run_ms;
    line["peak_bytes"] = PeakBytes();
    nlohmann::ordered_json fallbacks = nlohmann::ordered_json::array();
    for (const auto& f : o.report.fallbacks)
      fallbacks.push_back({{"instruction", f.instruction}, {"opcode", f.opcode}, {"reason", f.reason}});
    line["fallbacks"] = fallbacks;
    std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else if (o.kind != Outcome::Kind::kPassed) {
    std::printf("%s %s: %s\n", kNames[static_cast<int>(o.kind)], c.name.c_str(), o.reason.c_str());
  }
  std::fflush(stdout);
}

// What there is to check.
struct CheckList {
  std::vector<RecordedCase> cases;
  std::vector<std::string> self_checks;
  int64_t without_form = 0;
  std::size_t size() const { return cases.size() + self_checks.size(); }
};

Result<CheckList> FindChecks(const CheckOptions& options) {
  CheckList out;
  const auto wanted = [&](const std::string& name) {
    return options.filter.empty() || MatchesGlob(options.filter, name);
  };
  for (const std::string& path : options.paths) {
    std::vector<std::string> files = FindSelfChecks(path);
    const bool is_file = files.size() == 1 && files[0] == path;
    for (std::string& file : files)
      if (wanted(file.substr(file.rfind('/') + 1))) out.self_checks.push_back(std::move(file));
    if (is_file) continue;
    KRAFLA_ASSIGN(auto found, FindCases(path, options.form));
    out.without_form += found.without_form;
    for (RecordedCase& c : found.cases)
      if (wanted(c.name)) out.cases.push_back(std::move(c));
  }
  return out;
}

// Takes checks from the list until there are none left; several threads at once.
class Checker {
 public:
  Checker(const CheckOptions& options, const CompileOptions& compile_options, const CheckList& list)
      : options_(options), compile_options_(compile_options), list_(list) {}

  void Work() {
    // A case that is not fed is an error soon, not after a minute.
    CompileOptions own_options = compile_options_;
    own_options.transfers = std::make_shared<HostTransfers>(std::chrono::seconds(5));
    auto group = OpenGroup(options_.device);
    {
      std::lock_guard lock(mutex_);
      if (!group) device_error_ = group.error();
      else description_ = (*group)->client(0).device().description;
    }
    if (!group) return;
    for (std::size_t n = next_++; n < list_.size(); n = next_++) {
      std::vector<Checked> outcomes = Run(n, **group, own_options);
      // Under KRAFLA_VALIDATE a right answer got in a wrong way is a failure too.
      for (const std::string& message : (*group)->TakeValidationMessages()) {
        if (outcomes.empty()) break;
        Outcome& o = outcomes.back().second;
        o.kind = Outcome::Kind::kFailed;
        o.reason += Format("{}validation: {}", o.reason.empty() ? "" : "; ", message.substr(0, 400));
      }
      std::lock_guard lock(mutex_);
      for (const auto& [c, o] : outcomes) Count(n, c, o, (*group)->selector());
    }
  }

  const std::optional<Status>& device_error() const { return device_error_; }
  bool all_passed() const { return failed_ == 0; }

  void PrintSummary() const {
    const auto number = [](int64_t n) { return static_cast<long long>(n); };
    if (exchanged_ > 0)
      Remark(Format("{} of the instructions are collectives and other exchanges between devices", exchanged_));
    Remark(Format("{}/{} instructions on {}; {} of {} passing cases ran fully on it", placed_, instructions_,
                  description_, wholly_, passed_));
    // What was not checked is no remark.
    if (list_.without_form > 0) Warn(Format("{} cases have no form '{}'", list_.without_form, options_.form));
    Remark(Format("peak {:.0f} MB", static_cast<double>(PeakBytes()) / 1e6));
    std::printf(options_.device.json ? "{\"passed\":%lld,\"failed\":%lld,\"skipped\":%lld}\n"
                                     : "%lld passed, %lld failed, %lld skipped\n",
                number(passed_), number(failed_), number(skipped_));
  }

 private:
  using Checked = std::pair<RecordedCase, Outcome>;

  std::vector<Checked> Run(std::size_t n, DeviceGroup& group, const CompileOptions& compile_options) const {
    std::vector<Checked> out;
    if (n < list_.cases.size()) {
      out.emplace_back(list_.cases[n], CheckCase(list_.cases[n], group, compile_options, options_.device));
      return out;
    }
    const std::string& file = list_.self_checks[n - list_.cases.size()];
    using Named = std::vector<std::pair<std::string, Outcome>>;
    Result<Named> checked = WithoutExceptions([&]() -> Result<Named> {
      return RunSelfChecks(file, group, compile_options, options_.device.ToGroupOptions());
    });
    if (!checked) checked = Named{{file, Error(checked.error())}};
    for (auto& [name, outcome] : *checked) {
      RecordedCase c;
      c.name = std::move(name);
      out.emplace_back(std::move(c), std::move(outcome));
    }
    return out;
  }

  void Count(std::size_t n, const RecordedCase& c, const Outcome& o, const std::string& device) {
    if (StderrIsTerminal()) std::fprintf(stderr, "\r\x1b[K%zu/%zu %s", n + 1, list_.size(), c.name.c_str());
    if (StderrIsTerminal() && o.kind != Outcome::Kind::kPassed) std::fprintf(stderr, "\r\x1b[K");
    Print(c, o, device, options_.device.json);
    passed_ += o.kind == Outcome::Kind::kPassed;
    failed_ += o.kind == Outcome::Kind::kFailed || o.kind == Outcome::Kind::kError;
    skipped_ += o.kind == Outcome::Kind::kSkipped;
    placed_ += o.report.device_instructions;
    exchanged_ += o.report.exchange_instructions;
    instructions_ += o.report.instructions;
    wholly_ += o.kind == Outcome::Kind::kPassed && o.report.fallbacks.empty();
  }

  const CheckOptions& options_;
  const CompileOptions& compile_options_;
  const CheckList& list_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;  // of what follows
  int64_t passed_ = 0, failed_ = 0, skipped_ = 0, placed_ = 0, exchanged_ = 0, instructions_ = 0, wholly_ = 0;
  std::optional<Status> device_error_;
  std::string description_;
};

}  // namespace

int Check(const CheckOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  auto list = FindChecks(options);
  if (!list) return Fail(list.error());
  if (list->size() == 0) {
    std::fprintf(stderr, "krafla: There is no recorded case under %s.\n", options.paths[0].c_str());
    return kUsage;
  }
  if (auto registered = RegisterTestCalls(); !registered) return Fail(registered.error());
  Checker checker(options, *compile_options, *list);
  std::vector<std::thread> threads;
  // Several processes run the same cases in the same order.
  const int jobs = options.device.processes.AreSeveral() ? 1 : options.jobs;
  for (int j = 1; j < jobs; ++j) {
    try {
      threads.emplace_back([&] { checker.Work(); });
    } catch (const std::system_error&) {
      break;  // there are no more threads: these do the rest
    }
  }
  checker.Work();
  for (std::thread& t : threads) t.join();
  if (StderrIsTerminal()) std::fprintf(stderr, "\r\x1b[K");
  if (checker.device_error()) return FailDevice(*checker.device_error());
  checker.PrintSummary();
  return checker.all_passed() ? kRight : kCheckFailed;
}

}  // namespace krafla::cli
