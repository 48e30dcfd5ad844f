// SPDX-License-Identifier: Apache-2.0
// Timing settings of single kernels, each with buffers of its own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "api/front_end.h"
#include "api/vulkan/emitted_kernels.h"
#include "api/vulkan/vulkan_client.h"
#include "api/vulkan/vulkan_tuned.h"
#include "base/checked_math.h"
#include "device/tuning.h"
#include "vk_runtime/program.h"

namespace krafla {
namespace {

constexpr int64_t kMostTuneBytes = int64_t{2} << 30;  // of a kernel's buffers
constexpr int kLeastRuns = 3, kMostRuns = 20;
constexpr int kRounds = 3;       // in which the winner has to win again
constexpr double kTimedMs = 30;  // of the runs of one setting
// A setting is given up whose first run takes so many times what the best one takes, and taken where it takes less than
// this share of it: clocks and neighbours vary by a few percent.
constexpr double kGiveUp = 1.6, kFaster = 0.95;
// By how much sums in another order may differ, as a share of the largest result: far above what the orders of f32 do,
// far below what a wrong kernel does. The bounds of docs/ops.md hold for either order.
constexpr double kSumShare = 1e-3, kNarrowSumShare = 2e-2;

using AllBytes = std::vector<std::vector<std::byte>>;

// Numbers in [-1, 1), small integers: indices and counts stay within what arrays have.
void FillNumbers(ElementType type, uint64_t seed, std::span<std::byte> bytes) {
  std::mt19937_64 random(seed);
  const auto put = [&](auto&& next) {
    for (std::size_t i = 0; i + sizeof(next()) <= bytes.size(); i += sizeof(next())) {
      const auto value = next();
      std::memcpy(bytes.data() + i, &value, sizeof(value));
    }
  };
  if (type == ElementType::kF32) return put([&] { return static_cast<float>(random() >> 40) / 8388608.0f - 1.0f; });
  if (type == ElementType::kF64)
    return put([&] { return static_cast<double>(random() >> 11) / 4503599627370496. - 1; });
  if (IsFloat(type) && StorageBytes(type) == 2) {
    const uint16_t least = type == ElementType::kBF16 ? 0x3c00 : 0x2000,
                   mask = type == ElementType::kBF16 ? 0x37f : 0x1bff;
    return put([&] {
      const uint64_t r = random();
      return static_cast<uint16_t>((least + (r & mask)) | (r >> 32 & 1) << 15);
    });
  }
  if (IsFloat(type)) return put([&] { return static_cast<uint8_t>(random() & 0x37); });
  const auto size = static_cast<std::size_t>(StorageBytes(type));
  const uint64_t most = type == ElementType::kPred ? 1 : 7;
  for (std::size_t i = 0; i < bytes.size(); i += size) bytes[i] = static_cast<std::byte>(random() & most);
}

// Whether two arrays agree as sums in two orders do.
bool AgreeAsSums(ElementType type, std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto agree = [&](auto read, std::size_t size, double share) {
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i + size <= a.size(); i += size) {
      const double x = read(a.data() + i), y = read(b.data() + i);
      if (std::isnan(x) != std::isnan(y)) return false;
      if (x == y || std::isnan(x)) continue;
      if (std::isinf(x) || std::isinf(y)) return false;
      largest = std::max({largest, std::abs(x), std::abs(y)});
      difference = std::max(difference, std::abs(x - y));
    }
    return difference <= share * largest;
  };
  const auto as = [](auto zero) {
    return [zero](const std::byte* at) {
      auto value = zero;
      std::memcpy(&value, at, sizeof(value));
      return static_cast<double>(value);
    };
  };
  if (type == ElementType::kF32) return agree(as(0.0f), 4, kSumShare);
  if (type == ElementType::kF64) return agree(as(0.0), 8, kSumShare);
  if (type == ElementType::kBF16)
    return agree(
        [](const std::byte* at) {
          uint32_t bits = 0;
          std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, at, 2);
          return static_cast<double>(std::bit_cast<float>(bits));
        },
        2, kNarrowSumShare);
  if (type == ElementType::kF16)
    return agree(
        [](const std::byte* at) {
          uint16_t h = 0;
          std::memcpy(&h, at, 2);
          const int exponent = h >> 10 & 31, mantissa = h & 1023;
          const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                                   : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                                    : std::ldexp(1024 + mantissa, exponent - 25);
          return h & 0x8000 ? -magnitude : magnitude;
        },
        2, kNarrowSumShare);
  return std::ranges::equal(a, b);
}

bool AddsUp(std::string_view family) {
  return family == "dot" || family == "convolution" || family == "reduce" || family == "scan" || family == "linalg";
}

bool IsSameCode(const spirv::EmittedProgram& a, const spirv::EmittedProgram& b) {
  const auto same_kernel = [](const spirv::EmittedKernel& x, const spirv::EmittedKernel& y) {
    return x.words == y.words && x.local_size == y.local_size && x.subgroup_size == y.subgroup_size;
  };
  const auto same_dispatch = [](const spirv::EmittedDispatch& x, const spirv::EmittedDispatch& y) {
    return x.kernel == y.kernel && x.grid == y.grid && x.push == y.push;
  };
  return std::ranges::equal(a.kernels, b.kernels, same_kernel) &&
         std::ranges::equal(a.dispatches, b.dispatches, same_dispatch) && a.table == b.table;
}

std::string VariantOf(const spirv::EmittedProgram& program) {
  std::string out;
  for (const spirv::EmittedKernel& kernel : program.kernels) out += (out.empty() ? "" : "+") + kernel.variant;
  return out;
}

// One kernel of a plan with buffers for its bindings.
class TunedProblem {
 public:
  static Result<TunedProblem> Create(std::shared_ptr<vk::Device> device, const plan::KernelPlan& kernel) {
    TunedProblem out;
    out.device_ = std::move(device);
    out.kernel_ = &kernel;
    for (std::size_t b = 0; b < kernel.bindings.size(); ++b) {
      const plan::Binding& binding = kernel.bindings[b];
      std::vector<std::byte>& bytes = out.given_.emplace_back(static_cast<std::size_t>(binding.byte_size()));
      if (binding.read) FillNumbers(binding.storage, b + 1, bytes);
      KRAFLA_ASSIGN(auto buffer, out.device_->Allocate(static_cast<uint64_t>(RoundUp(binding.byte_size(), 256)) + 256,
                                                       vk::MemoryKind::kDevice, "a kernel that is tuned"));
      out.buffers_.push_back(std::move(buffer));
      KRAFLA_TRY(out.Refill(b));
    }
    return out;
  }

  Result<std::unique_ptr<vk::Program>> Build(const spirv::EmittedProgram& emitted) {
    std::vector<vk::KernelCode> code;
    for (const spirv::EmittedKernel& kernel : emitted.kernels) {
      vk::KernelCode& c = code.emplace_back();
      c.spirv = kernel.words;
      c.name = Format("{} {}", kernel_->name, kernel.variant);
      c.binding_count = static_cast<uint32_t>(kernel.buffers.size());
      c.subgroup_size = kernel.subgroup_size;
      c.full_subgroups = kernel.full_subgroups;
      c.splittable = true;
    }
    KRAFLA_ASSIGN(auto pipelines, device_->pipelines().Create(code));
    std::vector<vk::ProgramBuffer> buffers;
    std::vector<uint64_t> sizes;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      buffers.push_back(vk::ProgramBuffer::Fixed(buffers_[b]));
      sizes.push_back(std::max<uint64_t>(given_[b].size(), 4));
    }
    const auto add = [&](uint64_t size) -> Result<> {
      KRAFLA_ASSIGN(auto made, device_->Allocate(static_cast<uint64_t>(RoundUp(static_cast<int64_t>(size), 256)) + 256,
                                                 vk::MemoryKind::kDevice, "scratch of a kernel that is tuned"));
      buffers.push_back(vk::ProgramBuffer::Fixed(made));
      sizes.push_back(size);
      return {};
    };
    for (const int64_t bytes : emitted.scratch_bytes) KRAFLA_TRY(add(static_cast<uint64_t>(bytes)));
    if (!emitted.table.empty()) {
      KRAFLA_TRY(add(emitted.table.size() * 4));
      KRAFLA_TRY(device_->Upload(*buffers.back().fixed, 0, std::as_bytes(std::span(emitted.table))));
    }
    std::vector<vk::Step> steps;
    for (const spirv::EmittedDispatch& dispatch : emitted.dispatches) {
      vk::Launch launch;
      launch.pipeline = static_cast<uint32_t>(dispatch.kernel);
      std::ranges::copy(dispatch.grid, launch.grid);
      for (const auto& use : emitted.kernels[static_cast<std::size_t>(dispatch.kernel)].buffers) {
        const auto b = static_cast<std::size_t>(use.buffer);
        launch.bindings.push_back({static_cast<uint32_t>(b), 0, sizes[b]});
        launch.access.push_back(use.read && use.written ? vk::Access::kReadWrite
                                : use.written           ? vk::Access::kWrite
                                                        : vk::Access::kRead);
      }
      launch.push = dispatch.push;
      steps.emplace_back(std::move(launch));
    }
    return vk::Program::Create(device_, std::move(buffers), std::move(pipelines), std::move(steps));
  }

  // What the kernel leaves in the bindings that it writes.
  Result<AllBytes> Answer(vk::Program& program) {
    for (std::size_t b = 0; b < buffers_.size(); ++b)
      if (kernel_->bindings[b].written) KRAFLA_TRY(Refill(b));
    KRAFLA_TRY(program.Run({}));
    AllBytes out;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (!kernel_->bindings[b].written) continue;
      out.emplace_back(given_[b].size());
      if (!out.back().empty()) KRAFLA_TRY(device_->Download(*buffers_[b], 0, out.back()));
    }
    return out;
  }

  // Milliseconds of a run: the least of some, or the first one where that is above `limit`.
  Result<double> Time(vk::Program& program, double limit) {
    double least = 0, all = 0;
    for (int n = 0; n < kMostRuns && (n < kLeastRuns || all < kTimedMs); ++n) {
      const Stopwatch host;
      double ms = 0;
      if (device_->profile().limits.timestamp_valid_bits != 0) {
        KRAFLA_ASSIGN(const std::vector<double> steps, program.Profile({}));
        for (const double step : steps) ms += step;
      } else {
        KRAFLA_TRY(program.Run({}));
        ms = host.Milliseconds();
      }
      least = n == 0 ? ms : std::min(least, ms);
      all += ms;
      if (n == 1 && least > limit) break;
    }
    return least;
  }

  bool Agree(const AllBytes& a, const AllBytes& b) const {
    std::size_t n = 0;
    for (const plan::Binding& binding : kernel_->bindings) {
      if (!binding.written) continue;
      if (!AgreeAsSums(binding.storage, a[n], b[n])) return false;
      ++n;
    }
    return true;
  }

 private:
  Result<> Refill(std::size_t b) {
    return given_[b].empty() ? Result<>() : device_->Upload(*buffers_[b], 0, given_[b]);
  }

  std::shared_ptr<vk::Device> device_;
  const plan::KernelPlan* kernel_ = nullptr;
  AllBytes given_;
  std::vector<std::shared_ptr<vk::Buffer>> buffers_;
};

class Tuner {
 public:
  Tuner(std::shared_ptr<vk::Device> device, const CompileOptions& options, const TuneOptions& tune)
      : device_(std::move(device)), options_(options), tune_(tune), own_(TuningFor(device_->profile())) {}

  bool MayGoOn() const {
    if (tune_.most_candidates > 0) return report.candidates < tune_.most_candidates;
    return clock_.Milliseconds() < tune_.budget_ms;
  }

  Result<TunedKernel> Tune(const plan::KernelPlan& kernel) {
    TunedKernel best;
    best.name = kernel.name;
    best.family = plan::FamilyName(kernel);
    KRAFLA_ASSIGN(const spirv::EmittedProgram own, EmitWith(kernel, own_));
    KRAFLA_ASSIGN(TunedProblem problem, TunedProblem::Create(device_, kernel));
    KRAFLA_ASSIGN(const auto own_program, problem.Build(own));
    KRAFLA_ASSIGN(const AllBytes answer, problem.Answer(*own_program));
    KRAFLA_ASSIGN(best.default_ms, problem.Time(*own_program, 1e30));
    best.ms = best.default_ms;
    best.default_variant = best.variant = VariantOf(own);
    std::vector<spirv::EmittedProgram> seen;
    seen.push_back(own);
    std::unique_ptr<vk::Program> best_program;
    for (const TuningCandidate& candidate : TuningCandidates()) {
      if (candidate.family != best.family || !MayGoOn()) continue;
      Tuning tuning = own_;
      KRAFLA_TRY(OverrideTuning(candidate.json, tuning));
      auto emitted = EmitWith(kernel, tuning);
      if (!emitted || std::ranges::any_of(seen, [&](const auto& s) { return IsSameCode(s, *emitted); })) continue;
      KRAFLA_ASSIGN(auto program, Judge(problem, candidate, *emitted, answer, best));
      if (program != nullptr) best_program = std::move(program);
      seen.push_back(std::move(*emitted));
    }
    if (best_program == nullptr) return best;
    // Clocks and neighbours change: both by turns, and what wins by chance does not win every time.
    bool wins = true;
    for (int round = 0; round < kRounds && wins; ++round) {
      KRAFLA_ASSIGN(best.default_ms, problem.Time(*own_program, 1e30));
      KRAFLA_ASSIGN(best.ms, problem.Time(*best_program, 1e30));
      wins = best.ms < kFaster * best.default_ms;
    }
    if (wins) return best;
    best.tuning.clear();
    best.variant = best.default_variant;
    best.ms = best.default_ms;
    best.other_sums = false;
    return best;
  }

  TuneReport report;

 private:
  Result<spirv::EmittedProgram> EmitWith(const plan::KernelPlan& kernel, const Tuning& tuning) const {
    spirv::EmitOptions emit = EmitOptionsOf(options_);
    emit.tuning = &tuning;
    return spirv::Emit(kernel, device_->profile(), emit);
  }

  // The candidate's program where it is the best so far.
  Result<std::unique_ptr<vk::Program>> Judge(TunedProblem& problem, const TuningCandidate& candidate,
                                             const spirv::EmittedProgram& emitted, const AllBytes& answer,
                                             TunedKernel& best) {
    ++report.candidates;
    auto program = problem.Build(emitted);
    if (!program) {
      KRAFLA_TRY(device_->Alive());
      report.notes.push_back(
          Format("{}: the driver refuses {}: {}", best.name, candidate.json, program.error().message()));
      return std::unique_ptr<vk::Program>();
    }
    KRAFLA_ASSIGN(const AllBytes other, problem.Answer(**program));
    const std::string variant = VariantOf(emitted);
    const bool same_bits = other == answer;
    const bool other_sums =
        AddsUp(best.family) && (candidate.other_sums || variant != best.default_variant || !same_bits);
    if (!same_bits && (!other_sums || !problem.Agree(answer, other))) {
      ++report.wrong;
      report.notes.push_back(Format("{}: results differ with {}, which is refused.", best.name, candidate.json));
      return std::unique_ptr<vk::Program>();
    }
    KRAFLA_ASSIGN(const double ms, problem.Time(**program, kGiveUp * best.ms));
    if (ms >= kFaster * best.ms) return std::unique_ptr<vk::Program>();
    if (other_sums && !tune_.allow_other_sums) {
      ++report.other_sums;
      report.notes.push_back(Format("{}: {} takes {:.3f} ms, not {:.3f}, but adds in another order.", best.name,
                                    candidate.json, ms, best.ms));
      return std::unique_ptr<vk::Program>();
    }
    best.ms = ms;
    best.tuning = candidate.json;
    best.variant = variant;
    best.other_sums = other_sums;
    return std::move(*program);
  }

  std::shared_ptr<vk::Device> device_;
  const CompileOptions& options_;
  const TuneOptions& tune_;
  Tuning own_;
  Stopwatch clock_;
};

}  // namespace

Result<TuneReport> TuneModule(std::string_view selector, std::unique_ptr<Module> module, const CompileOptions& options,
                              const TuneOptions& tune, TunedKernels& tuned) {
  if (!UsesTuned(options))
    return FailedPrecondition(
        "Kernels are tuned with all features and without KRAFLA_TUNING, as what is found is used.");
  KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, OpenTestedDevice(selector));
  CompileReport compiled;
  FrontEnd front_end(std::move(module), options, compiled, kVulkanTarget);
  KRAFLA_TRY(front_end.Optimize());
  KRAFLA_ASSIGN(const plan::ProgramPlan plan, front_end.Plan(&device->profile()));
  KRAFLA_ASSIGN(const EmittedKernels emitted, EmitKernels(plan, device->profile(), options));
  Tuner tuner(device, options, tune);
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    if (emitted.programs[k] && !std::holds_alternative<plan::HostKernel>(plan.kernels[k].body)) order.push_back(k);
  // What there is most to win in comes first.
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t k) { return plan.kernels[k].flops + 10 * plan.kernels[k].bytes; });
  TuneReport& report = tuner.report;
  report.kernels = static_cast<int>(order.size());
  int number = 0;
  for (const std::size_t k : order) {
    const plan::KernelPlan& kernel = plan.kernels[k];
    if (tune.progress) tune.progress(++number, report.kernels, kernel.name);
    const std::string key = ProblemKey(kernel);
    if (!tune.again && tuned.kernels.contains(key)) {
      ++report.known;
      continue;
    }
    if (!tuner.MayGoOn()) {
      report.out_of_budget = true;
      break;
    }
    int64_t bytes = 0;
    for (const plan::Binding& binding : kernel.bindings) bytes += binding.byte_size();
    if (bytes > kMostTuneBytes) {
      report.notes.push_back(
          Format("{}: not timed, as its arrays have {} bytes; the limit is {}.", kernel.name, bytes, kMostTuneBytes));
      continue;
    }
    KRAFLA_ASSIGN(TunedKernel found, tuner.Tune(kernel));
    ++report.done;
    if (!found.tuning.empty()) ++report.faster;
    // What the budget cut short is timed as a whole next time.
    if (tuner.MayGoOn() || !found.tuning.empty()) tuned.kernels[key] = std::move(found);
    else report.out_of_budget = true;
  }
  return std::move(report);
}

}  // namespace krafla
