// SPDX-License-Identifier: Apache-2.0
// Every recorded module, planned once and emitted for every profile of tests/profiles, with no device present. Each
// shader goes through spirv-val and asks for nothing that the profile lacks. A refusal is UNIMPLEMENTED, and counted.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <format>
#include <map>
#include <set>

#include "../hlo_io/corpus_files.h"
#include "device/workarounds.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "module_facts.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "spirv/unified1/spirv.hpp11"
#include "spirv_codegen/kernels/while.h"

namespace krafla::spirv::testing {
namespace {

namespace fs = std::filesystem;

struct NamedProfile {
  std::string name;
  DeviceProfile profile;
  EmitOptions options;
};

// The profiles, each in both addressing models and once more with cooperative matrices forced, where it has them.
std::vector<NamedProfile> Profiles() {
  std::vector<NamedProfile> out;
  for (const fs::path& path : krafla::testing::FilesBelow(fs::path(KRAFLA_SOURCE_DIR) / "tests/profiles", ".json")) {
    auto profile = ParseDeviceProfile(krafla::testing::ReadText(path));
    EXPECT_TRUE(profile.has_value()) << path << ": " << profile.error().ToString();
    if (!profile) continue;
    std::string name = path.stem().string();
    out.push_back({name, *profile, {}});
    if (profile->features.cooperative_matrix) {
      EmitOptions options;
      options.enable_cooperative_matrix = true;
      out.push_back({name + " +coopmat", *profile, options});
      if (profile->features.matrix_flexible_dimensions) {
        options.enable_flexible_matrix = true;
        out.push_back({name + " +coopmat2", *profile, options});
      }
    }
    if (profile->features.buffer_device_address) {
      const std::string bda[] = {"bda"};
      auto without = profile->WithDisabled(bda);
      EXPECT_TRUE(without.has_value()) << without.error().ToString();
      if (without) out.push_back({name + " -bda", *without, {}});
    }
  }
  return out;
}

// A refusal without its names and numbers, so that equal reasons count as one.
std::string Gist(const std::string& message) {
  std::string out;
  bool quoted = false;
  for (char c : message) {
    if (c == '\'') quoted = !quoted;
    if (quoted) continue;
    bool digit = c >= '0' && c <= '9' &&
                 (out.empty() || out.back() == ' ' || out.back() == '#' || out.back() == ',' || out.back() == '[' ||
                  out.back() == 'x');
    if (!digit) out += c;
    else if (out.empty() || out.back() != '#') out += '#';
  }
  return out.substr(0, 150);
}

class Emission {
 public:
  Emission() : profiles_(Profiles()) {}

  void Add(const fs::path& path) {
    SCOPED_TRACE(path.string());
    ++modules_;
    auto plan = Plan(path);
    if (!plan) {
      if (plan.error().code() != StatusCode::kUnimplemented) ADD_FAILURE() << plan.error().ToString();
      ++refusals_[kNoPlan][Gist(plan.error().message())];
      return;
    }
    for (const plan::KernelPlan& kernel : plan->kernels)
      for (const NamedProfile& p : profiles_) AddKernel(kernel, p);
    AddLoops(*plan, plan->steps);
  }

  // Profiles that refuse the same, together.
  void Print() const {
    std::printf("%d modules, %lld shaders emitted (%lld with cooperative matrices), %zu distinct ones validated\n",
                modules_, static_cast<long long>(shaders_), static_cast<long long>(coopmat_shaders_),
                validated_.size());
    std::map<std::map<std::string, int64_t>, std::vector<std::string>> groups;
    for (const NamedProfile& p : profiles_) {
      auto it = refusals_.find(p.name);
      groups[it == refusals_.end() ? std::map<std::string, int64_t>{} : it->second].push_back(
          Format("{} ({} kernels)", p.name, emitted(p.name)));
    }
    if (refusals_.contains(kNoPlan)) groups[refusals_.at(kNoPlan)].push_back(kNoPlan);
    for (const auto& [reasons, names] : groups) {
      for (const std::string& name : names) std::printf("%s%s", &name == names.data() ? "" : ", ", name.c_str());
      std::printf("%s\n", reasons.empty() ? ": nothing refused" : ":");
      for (const auto& [reason, count] : reasons)
        std::printf("  %5lld  %s\n", static_cast<long long>(count), reason.c_str());
    }
  }

  int modules() const { return modules_; }
  int64_t coopmat_shaders() const { return coopmat_shaders_; }
  int64_t loops() const { return loops_; }
  int64_t bounded() const { return bounded_; }  // shaders of which every load under a condition was looked at
  int64_t emitted(const std::string& profile) const {
    auto it = emitted_.find(profile);
    return it == emitted_.end() ? 0 : it->second;
  }
  const std::vector<NamedProfile>& profiles() const { return profiles_; }

 private:
  static constexpr const char* kNoPlan = "modules without a plan";

  static Result<plan::ProgramPlan> Plan(const fs::path& path) {
    KRAFLA_ASSIGN(std::unique_ptr<krafla::Module> module,
                  ParseHloText(krafla::testing::ReadText(path), path.filename().string()));
    KRAFLA_TRY(Verify(*module));
    KRAFLA_TRY(RunPipeline(*module));
    KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
    return plan::PlanProgram(std::move(verified), {});
  }

  void AddKernel(const plan::KernelPlan& kernel, const NamedProfile& p) {
    auto emitted = Emit(kernel, p.profile, p.options);
    const std::string what = kernel.name + " for " + p.name;
    if (!emitted) {
      EXPECT_EQ(emitted.error().code(), StatusCode::kUnimplemented) << what << ": " << emitted.error().ToString();
      ++refusals_[p.name][Gist(emitted.error().message())];
      return;
    }
    ++emitted_[p.name];
    EXPECT_TRUE(CanEmit(kernel, p.profile).has_value()) << what << ": CanEmit refuses what Emit takes";
    for (const EmittedKernel& k : emitted->kernels) {
      AddShader(k, p, what);
      for (const EmittedKernel::BufferUse& use : k.buffers)
        EXPECT_LT(static_cast<std::size_t>(use.buffer),
                  kernel.bindings.size() + emitted->scratch_bytes.size() + (emitted->table.empty() ? 0 : 1))
            << what;
    }
    for (const EmittedDispatch& d : emitted->dispatches) {
      ASSERT_LT(static_cast<std::size_t>(d.kernel), emitted->kernels.size()) << what;
      EXPECT_EQ(Unsupported(d, emitted->kernels[static_cast<std::size_t>(d.kernel)], p.profile), "") << what;
    }
  }

  void AddShader(const EmittedKernel& k, const NamedProfile& p, const std::string& what) {
    ++shaders_;
    if (k.uses_cooperative_matrix) ++coopmat_shaders_;
    EXPECT_EQ(Unsupported(k, p.profile), "") << what << ", " << k.variant;
    if (WorkaroundsFor(p.profile).loads_without_lanes && k.uses_buffer_device_address) {
      EXPECT_EQ(UnboundedLoad(k.words), "") << what << ", " << k.variant;
      ++bounded_;
    }
    // Most shaders come back for other profiles and modules word for word.
    std::vector<uint32_t> key = k.words;
    key.push_back(p.profile.api_minor);
    if (!validated_.insert(std::move(key)).second) return;
    EXPECT_EQ(Validate(k.words, p.profile), "") << what << ", " << k.variant;
  }

  void AddLoops(const plan::ProgramPlan& plan, const plan::StepList& list) {
    for (const plan::Step& step : list.steps) {
      if (const auto* loop = std::get_if<plan::WhileStep>(&step)) {
        for (const NamedProfile& p : profiles_) {
          const std::string what = std::string(loop->instruction->name()) + " for " + p.name;
          auto emitted = EmitWhile(plan, *loop, p.profile, TuningFor(p.profile));
          if (!emitted) {
            EXPECT_EQ(emitted.error().code(), StatusCode::kUnimplemented) << what << ": " << emitted.error().ToString();
            continue;
          }
          ++loops_;
          for (const EmittedLoop::Launch& launch : emitted->launches) AddShader(launch.kernel, p, what);
        }
        AddLoops(plan, *loop->body);
      } else if (const auto* branch = std::get_if<plan::ConditionalStep>(&step)) {
        for (const auto& b : branch->branches) AddLoops(plan, *b);
      }
    }
  }

  std::vector<NamedProfile> profiles_;
  std::set<std::vector<uint32_t>> validated_;
  std::map<std::string, std::map<std::string, int64_t>> refusals_;  // by profile
  std::map<std::string, int64_t> emitted_;
  int modules_ = 0;
  int64_t shaders_ = 0, coopmat_shaders_ = 0, loops_ = 0, bounded_ = 0;
};

TEST(Profiles, RecordedNetworks) {
  Emission emission;
  ASSERT_GE(emission.profiles().size(), 6u);
  for (const fs::path& path : krafla::testing::FilesBelow(fs::path(KRAFLA_SOURCE_DIR) / "tests/models", ".hlo"))
    emission.Add(path);
  emission.Print();
  EXPECT_GE(emission.modules(), 30);
  for (const NamedProfile& p : emission.profiles()) EXPECT_GT(emission.emitted(p.name), 0) << p.name;
  // The int8 and bf16 networks.
  EXPECT_GT(emission.coopmat_shaders(), 0);
  EXPECT_GT(emission.loops(), 0);
  EXPECT_GT(emission.bounded(), 1000);
}

// The least device, of four buffers a kernel, runs plain float networks whole: 16- and 64-bit types are all that it may
// leave to the CPU.
TEST(Profiles, LeastDeviceRunsFloatNetworks) {
  auto profile =
      ParseDeviceProfile(krafla::testing::ReadText(fs::path(KRAFLA_SOURCE_DIR) / "tests/profiles/min_vulkan11.json"));
  ASSERT_TRUE(profile.has_value());
  ASSERT_EQ(profile->limits.max_per_stage_storage_buffers, 4u);
  plan::PlanOptions options;
  options.fusion.buffer_limit = 4;
  for (const char* name : {"mlp-tiny", "lenet-tiny", "resnet18-tiny", "mobilenetv2-tiny", "vit-s16-tiny"}) {
    auto path = fs::path(KRAFLA_SOURCE_DIR) / "tests/models" / name / "module.hlo";
    auto module = ParseHloText(krafla::testing::ReadText(path), name);
    ASSERT_TRUE(module.has_value()) << name;
    ASSERT_TRUE(Verify(**module).has_value());
    ASSERT_TRUE(RunPipeline(**module).has_value()) << name;
    auto verified = VerifiedModule::Make(std::move(*module));
    ASSERT_TRUE(verified.has_value());
    auto plan = plan::PlanProgram(std::move(*verified), options);
    ASSERT_TRUE(plan.has_value()) << name;
    for (const plan::KernelPlan& kernel : plan->kernels) {
      auto emitted = Emit(kernel, *profile);
      EXPECT_TRUE(emitted.has_value()) << name << ", " << kernel.name << ": " << emitted.error().message();
    }
  }
}

// A kernel of more buffers than the device has descriptors for is the CPU's, and no error of the driver's.
TEST(Profiles, TooManyBuffersAreRefused) {
  auto profile =
      ParseDeviceProfile(krafla::testing::ReadText(fs::path(KRAFLA_SOURCE_DIR) / "tests/profiles/min_vulkan11.json"));
  ASSERT_TRUE(profile.has_value());
  auto module = ParseHloText(R"(HloModule m
ENTRY main {
  a = f32[64] parameter(0)
  b = f32[64] parameter(1)
  c = f32[64] parameter(2)
  d = f32[64] parameter(3)
  ab = f32[64] add(a, b)
  cd = f32[64] multiply(c, d)
  ROOT r = f32[64] subtract(ab, cd)
})",
                             "buffers");
  ASSERT_TRUE(module.has_value());
  auto verified = VerifiedModule::Make(std::move(*module));
  ASSERT_TRUE(verified.has_value());
  auto plan = plan::PlanProgram(std::move(*verified), {});
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->kernels.size(), 1u);
  auto emitted = Emit(plan->kernels[0], *profile);
  ASSERT_FALSE(emitted.has_value());
  EXPECT_EQ(emitted.error().code(), StatusCode::kUnimplemented);
  EXPECT_NE(emitted.error().message().find("5 buffers"), std::string::npos) << emitted.error().ToString();
  profile->features.buffer_device_address = true;  // addresses are not counted
  EXPECT_TRUE(Emit(plan->kernels[0], *profile).has_value());
}

// Every seventh module of the conformance corpus and the models, where they are there; KRAFLA_ALL=1 takes all.
TEST(Profiles, CorpusSample) {
  const auto modules = krafla::testing::RecordedModules();
  if (modules.empty()) GTEST_SKIP() << "KRAFLA_CORPUS and KRAFLA_MODELS are not set";
  const bool all = std::getenv("KRAFLA_ALL") != nullptr;
  Emission emission;
  for (std::size_t i = 0; i < modules.size(); i += all ? 1 : 7) emission.Add(modules[i]);
  emission.Print();
}

TEST(ModuleFacts, ReadsWhatTheModuleAsks) {
  // OpTypeFloat %1 32; OpTypeInt %2 32 0; OpConstant %2 %3 40; OpTypeArray %4 %1 %3; OpTypePointer %5 Workgroup %4;
  // OpVariable %5 %6 Workgroup.
  auto op = [](spv::Op code, uint32_t count) { return count << 16 | static_cast<uint32_t>(code); };
  EmittedKernel kernel;
  kernel.words = {spv::MagicNumber,
                  0x00010300,
                  0,
                  9,
                  0,
                  op(spv::Op::OpCapability, 2),
                  static_cast<uint32_t>(spv::Capability::Shader),
                  op(spv::Op::OpTypeFloat, 3),
                  1,
                  32,
                  op(spv::Op::OpTypeInt, 4),
                  2,
                  32,
                  0,
                  op(spv::Op::OpConstant, 4),
                  2,
                  3,
                  40,
                  op(spv::Op::OpTypeArray, 4),
                  4,
                  1,
                  3,
                  op(spv::Op::OpTypePointer, 4),
                  5,
                  static_cast<uint32_t>(spv::StorageClass::Workgroup),
                  4,
                  op(spv::Op::OpVariable, 4),
                  5,
                  6,
                  static_cast<uint32_t>(spv::StorageClass::Workgroup)};
  EXPECT_EQ(SharedMemoryBytes(kernel.words), 160u);
  DeviceProfile least;
  EXPECT_EQ(Unsupported(kernel, least), "");
  kernel.words.at(6) = static_cast<uint32_t>(spv::Capability::Int64);
  EXPECT_NE(Unsupported(kernel, least), "");
  least.features.int64 = true;
  EXPECT_EQ(Unsupported(kernel, least), "");
  least.limits.max_shared_memory_bytes = 128;
  EXPECT_NE(Unsupported(kernel, least), "");
  least.limits.max_shared_memory_bytes = 16384;
  kernel.words.at(1) = 0x00010600;
  EXPECT_NE(Unsupported(kernel, least), "");
  EXPECT_NE(Validate(kernel.words, least), "");
}

}  // namespace
}  // namespace krafla::spirv::testing
