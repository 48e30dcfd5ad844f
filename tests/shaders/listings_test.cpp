// SPDX-License-Identifier: Apache-2.0
// shaders/listings shows what is generated for each family and two devices, so that a change of a shader is seen in
// review. UPDATE_GOLDEN=1 writes the listings anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <spirv-tools/libspirv.hpp>
#include <string>

#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "programs.h"
#include "spirv_codegen/emit.h"

namespace krafla::shaders {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Result<std::string> Listing(const FamilyProgram& program, const DeviceProfile& profile) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(program.hlo, program.name));
  KRAFLA_TRY(RunPipeline(*module));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  KRAFLA_ASSIGN(const plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), {}));
  std::string text = Format("; {} on {}: written by UPDATE_GOLDEN=1 shaders_test\n", program.name, profile.name);
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_3);
  for (const plan::KernelPlan& kernel : plan.kernels) {
    KRAFLA_ASSIGN(const spirv::EmittedProgram emitted, spirv::Emit(kernel, profile));
    for (const spirv::EmittedKernel& k : emitted.kernels) {
      text +=
          Format("\n; {}, workgroups of {} x {} x {}\n", k.variant, k.local_size[0], k.local_size[1], k.local_size[2]);
      std::string listing;
      if (!tools.Disassemble(k.words, &listing, SPV_BINARY_TO_TEXT_OPTION_NO_HEADER | SPV_BINARY_TO_TEXT_OPTION_INDENT))
        return Internal("SPIRV-Tools cannot disassemble the kernel '{}'.", k.variant);
      text += listing;
    }
  }
  return text;
}

TEST(Listings, AreWhatIsGenerated) {
#ifdef __clang__
  GTEST_SKIP() << "The listings are of a build by GCC: where several arguments of a call emit instructions, compilers "
                  "choose which come first, and ids are given in that order.";
#endif
  const fs::path source = KRAFLA_SOURCE_DIR;
  for (const char* device : {"lavapipe", "nvidia_ada"}) {
    auto profile = ParseDeviceProfile(ReadAll(source / "tests/profiles" / (std::string(device) + ".json")));
    ASSERT_TRUE(profile.has_value()) << profile.error().ToString();
    for (const FamilyProgram& program : kFamilyPrograms) {
      auto listing = Listing(program, *profile);
      ASSERT_TRUE(listing.has_value()) << program.name << ": " << listing.error().ToString();
      const fs::path path = source / "shaders/listings" / device / (std::string(program.name) + ".spvasm");
      if (std::getenv("UPDATE_GOLDEN") != nullptr) {
        fs::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << *listing;
      }
      const std::string stored = ReadAll(path);
      const auto [a, b] = std::ranges::mismatch(stored, *listing);
      if (a == stored.end() && b == listing->end()) continue;
      const auto line = 1 + std::count(listing->begin(), b, '\n');
      ADD_FAILURE() << path << ":" << line << " is not what is generated. Where the change is meant, run "
                    << "UPDATE_GOLDEN=1 build/release/tests/shaders/shaders_test --gtest_filter='Listings*' and look "
                    << "at the difference.";
    }
  }
}

}  // namespace
}  // namespace krafla::shaders
