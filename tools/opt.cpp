// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "api/feature_names.h"
#include "api/front_end.h"
#include "api/vulkan/emitted_kernels.h"
#include "base/file.h"
#include "command.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "module_kinds.h"
#include "passes/pipeline.h"
#include "passes/spmd/spmd_partitioner.h"
#include "plan/planner.h"
#include "spirv_files.h"

namespace krafla::cli {
namespace {

Result<> Write(const std::string& path, std::string_view text) {
  if (path.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }
  return WriteFile(path, text);
}

// One .spv per kernel into a folder, with kernels.json; the list of the kernels on standard output.
Result<> WriteSpirv(const plan::ProgramPlan& plan, const DeviceProfile& profile, const CompileOptions& options,
                    const std::string& folder) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return DataLoss("The folder '{}' cannot be created: {}.", folder, error.message());
  KRAFLA_ASSIGN(const SpirvFiles made, MakeSpirvFiles(plan, profile, options));
  std::fwrite(made.list.data(), 1, made.list.size(), stdout);
  if (folder.empty()) return {};
  for (const SpirvFiles::File& file : made.files)
    KRAFLA_TRY(Write(folder + "/" + file.name,
                     std::string_view(reinterpret_cast<const char*>(file.words.data()), file.words.size() * 4)));
  return Write(folder + "/kernels.json", made.kernels);
}

std::vector<std::string> NamesIn(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    out.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// In the form that --emit says, or else the name of the file.
Result<> WriteModule(const Module& module, const OptOptions& options) {
  const ModuleKind* kind = options.emit.empty() ? ModuleKindOfFile(options.output) : ModuleKindOfWord(options.emit);
  if (kind == nullptr && IsCompiledModelFile(options.output))
    return InvalidArgument("'{}': 'krafla compile' makes compiled models; opt writes {}.", options.output,
                           DescribeModuleKinds());
  if (kind == nullptr) return Write(options.output, PrintModule(module));
  KRAFLA_ASSIGN(const std::string bytes, kind->print(module));
  return Write(options.output, bytes);
}

// Where the partitioner had no rule for blocks, and how many bytes each device gets from others for it: as comments in
// front of the module. A place in a loop counts once.
std::string GathersText(const Module& module, const SpmdShardings& shardings) {
  const std::set<int64_t> gathers(shardings.gathers.begin(), shardings.gathers.end());
  std::string out;
  int64_t places = 0, total = 0;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions()) {
      if (i->opcode() != Opcode::kAllGather) continue;
      const auto channel = i->attr<CollectiveAttributes>().channel_id;
      if (!channel || !gathers.contains(*channel)) continue;
      const int64_t bytes = i->shape().byte_size() - i->operand(0)->shape().byte_size();
      out += Format("// {} puts {} together: {} bytes a device\n", Describe(*i), i->shape().ToString(false), bytes);
      ++places;
      total += bytes;
    }
  return out + Format("// {} arrays are put together, {} bytes a device\n", places, total);
}

Result<> ShowPartitioned(Module& module, const OptOptions& options) {
  KRAFLA_TRY(Verify(module));
  const PassOptions passes = PartitionOptions({options.disabled.begin(), options.disabled.end()},
                                              {options.enabled.begin(), options.enabled.end()});
  KRAFLA_ASSIGN(const std::optional<SpmdShardings> shardings, PartitionModule(module, passes));
  const std::string dead[] = {"dce"};
  KRAFLA_TRY(RunPasses(module, dead, passes));
  if (!shardings) return Write(options.output, "// The module needs no partitioning\n" + PrintModule(module));
  return Write(options.output, GathersText(module, *shardings) + PrintModule(module));
}

// `device`: null: none was asked for.
Result<> Show(const OptOptions& options, const DeviceDescription* device) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, LoadModule(options.module, options.shapes));
  if (options.replicas > 0) module->replica_count = options.replicas;
  if (options.partitions > 0) module->num_partitions = options.partitions;
  const bool is_parsed = options.stage == "parsed";
  if (is_parsed && options.passes.empty()) {
    KRAFLA_TRY(Verify(*module));
    return WriteModule(*module, options);
  }
  if (options.stage == "partitioned") return ShowPartitioned(*module, options);
  CompileOptions compile;
  compile.disabled = {options.disabled.begin(), options.disabled.end()};
  compile.enabled = {options.enabled.begin(), options.enabled.end()};
  compile.for_group = true;  // a program of several devices is shown as each of them has it
  CompileReport report;
  FrontEnd front_end(std::move(module), compile, report, device != nullptr ? device->target : kVulkanTarget);
  KRAFLA_TRY(front_end.Optimize(NamesIn(options.passes)));
  if (is_parsed || options.stage == "optimized") return WriteModule(front_end.module(), options);
  std::optional<DeviceProfile> profile;
  if (device != nullptr && device->profile) {
    KRAFLA_ASSIGN(profile, device->profile->WithDisabled(FeaturesOff(front_end.module(), compile)));
  }
  KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(profile ? &*profile : nullptr));
  if (options.stage == "plan") return Write(options.output, plan::ToString(plan));
  return WriteSpirv(plan, *profile, compile, options.output);
}

// A device that need not be here: what `krafla devices --json` prints under "profile".
Result<DeviceDescription> ReadProfile(const std::string& path) {
  KRAFLA_ASSIGN(std::string text, ReadFile(path));
  // A line of `krafla devices --json` has it among others.
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (line.is_object() && line.contains("profile") && line.contains("device")) text = line["profile"].dump();
  auto profile = ParseDeviceProfile(text);
  if (!profile) return std::unexpected(InFile(path, profile.error()));
  DeviceDescription device;
  device.profile = std::move(*profile);
  device.target = kVulkanTarget;
  return device;
}

// The device that SPIR-V is made for: KRAFLA_DEVICE counts where it names a Vulkan one.
Result<DeviceDescription> ChooseDevice(OptOptions& options) {
  const char* wish = std::getenv("KRAFLA_DEVICE");
  if (options.selector.empty())
    options.selector = wish != nullptr && std::string_view(wish).starts_with("vulkan") ? wish : "vulkan";
  KRAFLA_ASSIGN(std::shared_ptr<Client> client, OpenDevice(options.selector));
  if (options.stage == "spirv" && !client->device().profile)
    return InvalidArgument("SPIR-V can be generated for Vulkan devices only, not for '{}'.", options.selector);
  return client->device();
}

}  // namespace

int Opt(const OptOptions& given) {
  OptOptions options = given;
  if (options.list_passes) {
    for (const PassInfo& pass : AllPasses())
      std::printf("%-28s %s\n", std::string(pass.name).c_str(), std::string(pass.doc).c_str());
    return kRight;
  }
  if (options.module.empty()) {
    std::fprintf(stderr, "krafla: The command opt needs a module or --list-passes.\n");
    return kUsage;
  }
  for (const std::string& name : options.disabled)
    if (auto known = CheckDisabledName(name); !known) return Fail(known.error()), kUsage;
  for (const std::string& name : options.enabled)
    if (auto known = CheckEnabledName(name); !known) return Fail(known.error()), kUsage;
  std::optional<DeviceDescription> device;
  if (!options.profile.empty()) {
    auto profile = ReadProfile(options.profile);
    if (!profile) return Fail(profile.error());
    device = std::move(*profile);
  } else if (!options.selector.empty() || options.stage == "spirv") {
    auto chosen = ChooseDevice(options);
    if (!chosen) return FailDevice(chosen.error());
    device = std::move(*chosen);
  }
  auto shown = Show(options, device ? &*device : nullptr);
  if (shown) return kRight;
  // Readers name the file themselves.
  const bool named = shown.error().message().find(options.module) != std::string::npos;
  return Fail(named ? shown.error() : InFile(options.module, shown.error()));
}

}  // namespace krafla::cli
