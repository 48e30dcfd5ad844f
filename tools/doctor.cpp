// SPDX-License-Identifier: Apache-2.0
// krafla doctor: everything about this machine that a bug report needs, and whether each device computes rightly.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/front_end.h"
#include "base/host_memory.h"
#include "base/processors.h"
#include "base/system.h"
#include "command.h"
#include "hlo_io/hlo_text/hlo_text.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_probes.h"
#endif

namespace krafla::cli {
namespace {

enum class State { kFine, kNote, kProblem };

struct Finding {
  std::string about, says;
  State state = State::kFine;
  std::string advice = {};  // what to do about a problem or a note
};

class Doctor {
 public:
  explicit Doctor(const DoctorOptions& options) : options_(options) {}

  int Run() {
    LookAtHost();
    LookAtEnvironment();
    LookAtCache();
    LookAtDevices();
    if (!options_.json) {
      std::fprintf(options_.out, "\n%s\n",
                   problems_ == 0 ? "No problem was found." : Format("{} of these are problems.", problems_).c_str());
    }
    return problems_ == 0 ? kRight : kCheckFailed;
  }

 private:
  void Say(Finding finding) {
    if (finding.state == State::kProblem) ++problems_;
    if (options_.json) {
      constexpr const char* kStates[] = {"fine", "note", "problem"};
      nlohmann::ordered_json line = {
          {"about", finding.about}, {"state", kStates[static_cast<int>(finding.state)]}, {"says", finding.says}};
      if (!finding.advice.empty()) line["advice"] = finding.advice;
      std::fprintf(options_.out, "%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
      return;
    }
    constexpr const char* kMarks[] = {"  ", "- ", "! "};
    std::fprintf(options_.out, "%s%-12s %s\n", kMarks[static_cast<int>(finding.state)], finding.about.c_str(),
                 finding.says.c_str());
    if (!finding.advice.empty()) std::fprintf(options_.out, "%15s%s\n", "", finding.advice.c_str());
  }

  // The first line of /proc/cpuinfo with this name.
  static std::string ProcessorInfo(std::string_view name) {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(name))
        if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return "";
  }

  void LookAtHost() {
    Say({"krafla", Format("{}, compiled by {} {}", KRAFLA_VERSION,
#ifdef __clang__
                          "clang",
#else
                          "gcc",
#endif
                          __VERSION__)});
    Say({"system", os::Description()});
    const std::string flags = " " + ProcessorInfo("flags") + " ";
    std::string vectors;
    for (const char* flag : {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile"})
      if (flags.find(Format(" {} ", flag)) != std::string::npos) vectors += Format(" {}", flag);
    const std::string model = ProcessorInfo("model name");
    Say({"processor", Format("{}, {} usable{}{}", model.empty() ? "not named" : model, UsableProcessors(),
                             vectors.empty() ? "" : ", with", vectors)});
    Say({"memory", Format("{} MB at most", HostMemoryLimit() / 1000000)});
  }

  void LookAtEnvironment() {
    for (const std::string& text : os::Environment())
      if (text.starts_with("KRAFLA_") || text.starts_with("VK_")) Say({"environment", text});
  }

#ifdef KRAFLA_HAVE_VULKAN
  static bool IsOurs(const std::string& folder) {
    std::error_code error;
    const std::string place = std::filesystem::canonical(folder, error).string();
    os::FileInfo info;
    return !error && os::DescribePath(place, info) && info.kind == os::FileKind::kFolder && info.is_mine &&
           os::MayWriteInto(place);
  }

  void LookAtCache() {
    const std::string folder = CacheFolder();
    if (folder.empty()) {
      Say({"cache", "There is no folder for it.", State::kNote, "Set KRAFLA_CACHE_DIR, or HOME."});
      return;
    }
    std::error_code error;
    if (!std::filesystem::exists(folder, error)) {
      Say({"cache", Format("{} will be made by the first program on Vulkan.", folder)});
      return;
    }
    if (!IsOurs(folder)) {
      Say({"cache", Format("{} is not a folder of this user's that can be written.", folder), State::kProblem,
           "Pipelines are compiled anew in each process. Name another one with KRAFLA_CACHE_DIR."});
      return;
    }
    int64_t files = 0, bytes = 0;
    for (auto at = std::filesystem::directory_iterator(folder, error);
         !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
      std::error_code of_file;
      if (!at->is_regular_file(of_file)) continue;
      const auto size = at->file_size(of_file);
      if (!of_file) ++files, bytes += static_cast<int64_t>(size);
    }
    Say({"cache", Format("{}: {} files, {} kB", folder, files, bytes / 1000)});
  }

  void LookAtProfile(const std::string& about, const DeviceProfile& profile) {
    std::string has, lacks;
    for (const FeatureName& feature : FeatureNames()) {
      const std::string name(feature.name);
      Result<DeviceProfile> without = profile.WithDisabled(std::span(&name, 1));
      if (without) without->disabled = profile.disabled;
      std::string& list = without && *without != profile ? has : lacks;
      list += Format("{}{}", list.empty() ? "" : " ", feature.name);
    }
    Say({about, Format("driver {} {}, Vulkan {}.{}.{}, device {:04x}:{:04x}, subgroups {} to {}, {} MB",
                       profile.driver_name, profile.driver_info, profile.api_major, profile.api_minor,
                       profile.api_patch, profile.vendor_id, profile.device_id, profile.limits.min_subgroup_size,
                       profile.limits.max_subgroup_size, Memory(profile) / 1000000)});
    Say({about, "has " + has});
    if (!lacks.empty()) Say({about, "lacks " + lacks});
    std::string active;
    for (const std::string& name : WorkaroundNames(profile)) active += Format("{}{}", active.empty() ? "" : ", ", name);
    if (!active.empty()) Say({about, "works around: " + active});
    const auto probed = ProbeVulkanDevice(about);
    if (!probed) {
      Say({about, probed.error().ToString(), State::kProblem});
      return;
    }
    for (const vk::ProbeReport& report : probed->reports)
      for (const vk::ProbeAnswer& answer : report.answers)
        if (!answer.right)
          Say({about, Format("{}: {}: {}", report.name, answer.question, answer.answer), State::kNote,
               "krafla does not use what this driver computes wrongly. Please report it to the driver's makers."});
  }

  static uint64_t Memory(const DeviceProfile& profile) {
    uint64_t most = 0;
    for (const MemoryHeap& heap : profile.heaps)
      if (heap.device_local) most = std::max(most, heap.bytes);
    return most;
  }
#else
  void LookAtCache() { Say({"vulkan", "This krafla was built without Vulkan.", State::kNote}); }
#endif

  // A layer with its softmax: products, reductions, exponentials.
  static constexpr std::string_view kProgram = R"(HloModule doctor
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[32,256] parameter(0)
  w = f32[256,100] parameter(1)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  y = f32[32,100] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  m = f32[32] reduce(y, low), dimensions={1}, to_apply=max
  mb = f32[32,100] broadcast(m), dimensions={0}
  c = f32[32,100] subtract(y, mb)
  e = f32[32,100] exponential(c)
  t = f32[32] reduce(e, zero), dimensions={1}, to_apply=add
  tb = f32[32,100] broadcast(t), dimensions={0}
  ROOT p = f32[32,100] divide(e, tb)
})";

  struct Outcome {
    std::vector<float> values;
    std::string description;
    double first_ms = 0, second_ms = 0;
  };
  static Result<Outcome> RunOn(const std::string& selector) {
    KRAFLA_ASSIGN(std::shared_ptr<Client> client, Client::Create(selector));
    KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(kProgram));
    Outcome out;
    const Stopwatch first;
    KRAFLA_ASSIGN(std::unique_ptr<Executable> program, client->Compile(std::move(module), {}));
    KRAFLA_ASSIGN(std::vector<Literal> arguments, RandomArguments(program->arguments(), 1));
    KRAFLA_TRY(program->ShareArguments(ToShared(std::move(arguments))));
    KRAFLA_TRY(program->Execute());
    out.first_ms = first.Milliseconds();
    const Stopwatch second;
    KRAFLA_TRY(program->Execute());
    out.second_ms = second.Milliseconds();
    KRAFLA_ASSIGN(const std::vector<Literal> results, program->Results());
    const auto data = results[0].data<float>();
    out.values.assign(data.begin(), data.end());
    out.description = program->device_description();
    return out;
  }

  void LookAtDevices() {
    std::string why;
    const auto devices = ListDevices(&why);
    if (!devices) {
      Say({"devices", devices.error().ToString(), State::kProblem});
      return;
    }
    if (!why.empty())
      Say({"vulkan", why, State::kNote, "Programs run on the CPU. docs/troubleshooting.md says what to install."});
    const auto expected = RunOn("cpu");
    for (const DeviceDescription& device : *devices) {
#ifdef KRAFLA_HAVE_VULKAN
      if (device.profile) {
        Say({device.selector, device.name});
        LookAtProfile(device.selector, *device.profile);
      }
#endif
      const auto got = RunOn(device.selector);
      if (!got) {
        Say({device.selector, got.error().ToString(), State::kProblem});
        continue;
      }
      if (const auto off = got->description.find("switched off"); off != std::string::npos)
        Say({device.selector, got->description.substr(off), State::kNote,
             "The driver computes it wrongly; programs do without (docs/troubleshooting.md)."});
      Say({device.selector, Format("a layer and its softmax: {:.1f} ms with compilation, then {:.2f} ms", got->first_ms,
                                   got->second_ms)});
      if (!expected) continue;
      double most = 0;
      for (std::size_t i = 0; i < got->values.size(); ++i) {
        const double apart = std::abs(static_cast<double>(got->values[i]) - static_cast<double>(expected->values[i]));
        most = std::isnan(apart) ? INFINITY : std::max(most, apart);
      }
      if (most > 1e-5)
        Say({device.selector, Format("Its results are {:g} apart from the CPU's.", most), State::kProblem,
             "Please report this with the output of krafla doctor --json."});
    }
  }

  DoctorOptions options_;
  int problems_ = 0;
};

}  // namespace

int Examine(const DoctorOptions& options) { return Doctor(options).Run(); }

}  // namespace krafla::cli
