// SPDX-License-Identifier: Apache-2.0
// Which variants, tiles and workgroups the devices of tests/profiles get for which problems, so that a change of a
// choice shows in review.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../hlo_io/corpus_files.h"
#include "choice_modules.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "spirv_codegen/emit.h"

namespace krafla::spirv::testing {
namespace {

const DeviceProfile& ProfileOf(const std::string& name) {
  static std::map<std::string, DeviceProfile> loaded;
  auto it = loaded.find(name);
  if (it != loaded.end()) return it->second;
  const auto path = std::filesystem::path(KRAFLA_SOURCE_DIR) / "tests/profiles" / (name + ".json");
  auto profile = ParseDeviceProfile(krafla::testing::ReadText(path));
  EXPECT_TRUE(profile.has_value()) << name;
  return loaded[name] = profile ? *profile : DeviceProfile();
}

// Attention is one kernel in it, whatever the device takes.
Result<plan::ProgramPlan> PlanOf(const std::string& text) {
  KRAFLA_ASSIGN(std::unique_ptr<krafla::Module> module, ParseHloText("HloModule m\n" + text, "choices"));
  KRAFLA_TRY(Verify(*module));
  KRAFLA_TRY(RunPipeline(*module));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  plan::PlanOptions options;
  options.row_groups.enabled = true;
  options.row_groups.takes_attention = [](const plan::KernelPlan&) { return true; };
  return plan::PlanProgram(std::move(verified), options);
}

// The one kernel of a module, for a device.
Result<EmittedProgram> EmitFor(const std::string& text, const DeviceProfile& profile, const EmitOptions& options = {}) {
  KRAFLA_ASSIGN(plan::ProgramPlan plan, PlanOf(text));
  if (plan.kernels.size() != 1) return Internal("The module has {} kernels, not one.", plan.kernels.size());
  return Emit(plan.kernels[0], profile, options);
}

// "dot.tile 256 (128 x 64)": variant, invocations of a workgroup, tile; kernels after each other. Of many kernels those
// that are alike are named once.
std::string Summary(const EmittedProgram& program) {
  std::vector<std::string> parts;
  for (const EmittedKernel& k : program.kernels) {
    std::string part = Format("{} {}", k.variant, k.local_size[0]);
    const auto blocks = k.reason.find(" blocks");  // of "64 x 64 blocks"
    if (blocks != std::string::npos && k.reason.find_first_not_of("0123456789 x") == blocks + 1)
      part += Format(" ({})", k.reason.substr(0, blocks));
    if (parts.empty() || parts.back() != part) parts.push_back(std::move(part));
  }
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

// ---- The table

struct Choice {
  const char* profiles;  // with spaces between
  const char* kernels;
};
struct Row {
  const char* what;
  std::string module;
  std::vector<Choice> choices;
};

// A device of each kind: the least one, an AMD, an Intel and an NVIDIA card, and two that run on the host's cores.
const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"dot of f32, 2048 x 512 by 512 x 2048",
       Dot("f32", "f32", 2048, 2048, 512),
       {
           {"min_vulkan11", "dot.tile 64 (32 x 32)"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 256 (128 x 64)"},
           {"lavapipe", "dot.pack 64, dot.packed_panel 8"},
           {"swiftshader", "dot.pack 64, dot.packed_panel 4"},
       }},
      {"dot of f32, 256 x 256 by 256 x 256",
       Dot("f32", "f32", 256, 256, 256),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 64 (32 x 32)"},
           {"lavapipe", "dot.pack 64, dot.packed_panel 8"},
           {"swiftshader", "dot.pack 64, dot.packed_panel 4"},
       }},
      {"dot of f32, 64 x 64 by 64 x 64",
       Dot("f32", "f32", 64, 64, 64),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 64 (32 x 32)"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, 17 x 33 by 33 x 100",
       Dot("f32", "f32", 17, 100, 33),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 64 (32 x 32)"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, 7 x 20 by 20 x 33",
       Dot("f32", "f32", 7, 33, 20),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.panel 32"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, 500 x 64 by 64 x 8",
       Dot("f32", "f32", 500, 8, 64),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.blocks 32"},
           {"lavapipe", "dot.blocks 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, a vector by 4096 x 4096",
       Dot("f32", "f32", 1, 4096, 4096),
       {
           {"min_vulkan11", "dot.columns 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "dot.columns 256"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, a vector by 3072 x 768",
       Dot("f32", "f32", 1, 768, 3072),
       {
           {"min_vulkan11", "dot.columns 128, join 64"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "dot.columns 256, join 64"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, 3 x 770 by 770 x 33",
       Dot("f32", "f32", 3, 33, 770),
       {
           {"min_vulkan11", "dot.columns 128, join 64"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "dot.columns 256"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32, 4 rows and 1000 columns, both along the depth",
       Dot("f32", "f32", 4, 1000, 768, false),
       {
           {"min_vulkan11", "dot.panel 32, join 64"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "dot.rows 64"},
           {"lavapipe", "dot.rows 8"},
           {"swiftshader", "dot.rows 4"},
       }},
      {"dot of f32, 16 rows and columns over a depth of 20000",
       Dot("f32", "f32", 16, 16, 20000),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 64 (32 x 32), join 64"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "dot.panel 4"},
       }},
      {"dot of f32 over a depth of 300000",
       Dot("f32", "f32", 64, 64, 300000),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 64 (32 x 32), join 64"},
           {"lavapipe", "dot.pack 64, dot.packed_panel 8, dot.pack 64, dot.packed_panel 8, join 8"},
           {"swiftshader", "dot.pack 64, dot.packed_panel 4, dot.pack 64, dot.packed_panel 4, join 8"},
       }},
      {"dot of bf16, 512 x 512 by 512 x 512",
       Dot("bf16", "bf16", 512, 512, 512),
       {
           {"min_vulkan11", "dot.tile 64 (32 x 32)"},
           {"amd_rdna3", "dot.coop 256 (64 x 64)"},
           {"intel_xe2", "dot.coop 128 (64 x 64)"},
           {"nvidia_ada", "dot.coop 128 (64 x 64)"},
           {"lavapipe", "dot.pack 64, dot.packed_panel 8"},
           {"swiftshader", "dot.pack 64, dot.packed_panel 4"},
       }},
      {"dot of f16 into f32, 256 x 256 by 256 x 256",
       Dot("f16", "f32", 256, 256, 256),
       {
           {"min_vulkan11", "dot.tile 64 (32 x 32)"},
           {"amd_rdna3", "dot.coop 128 (32 x 32)"},
           {"intel_xe2", "dot.coop 64 (32 x 32)"},
           {"nvidia_ada", "dot.coop 64 (32 x 32)"},
           {"lavapipe", "dot.pack 64, dot.packed_panel 8"},
           {"swiftshader", "dot.pack 64, dot.packed_panel 4"},
       }},
      {"dot of s8 into s32, 1024 x 1024 by 1024 x 1024",
       Dot("s8", "s32", 1024, 1024, 1024),
       {
           {"min_vulkan11", "dot.tile 64 (32 x 32)"},
           {"amd_rdna3", "dot.coop 256 (128 x 128)"},
           {"intel_xe2", "dot.coop 512 (128 x 128)"},
           {"nvidia_ada", "dot.coop 256 (128 x 128)"},
           {"lavapipe", "dot.pack 64, dot.packed_panel 8"},
           {"swiftshader", "dot.pack 64, dot.packed_panel 4"},
       }},
      {"dot of f64, 128 x 128 by 128 x 128",
       Dot("f64", "f64", 128, 128, 128),
       {
           {"min_vulkan11", "The kernel needs float64, which The least that Vulkan 1.1 promises lacks."},
           {"amd_rdna3 intel_xe2 nvidia_ada", "dot.tile 64 (32 x 32)"},
           {"lavapipe", "dot.panel 8"},
           {"swiftshader", "The kernel needs float64, which SwiftShader Device (Subzero) lacks."},
       }},
      {"attention of f16, a prompt of 4096",
       Attention("f16", 4096, 4096, 14, 64, true),
       {
           {"min_vulkan11",
            "Attention is no kernel of its own: rows: no invocation takes a row on this device; "
            "group: 57344 rows, more than 256; "
            "tiles: the device has none."},
           {"amd_rdna3 intel_xe2", "attention.finite 256, attention.tiles 256 (64 x 64)"},
           {"nvidia_ada", "attention.finite 256, attention.tiles 128 (64 x 64)"},
           {"lavapipe swiftshader", "attention.finite 8, attention.keys 64, attention.values 64, attention.rows 8"},
       }},
      {"attention of bf16, 197 patches",
       Attention("bf16", 197, 197, 16, 64),
       {
           {"min_vulkan11",
            "Attention is no kernel of its own: rows: no invocation takes a row on this device; "
            "group: 3152 rows, more than 256; "
            "tiles: the device has none."},
           {"amd_rdna3 intel_xe2", "attention.tiles 256 (64 x 64)"},
           {"nvidia_ada", "attention.tiles 128 (64 x 64)"},
           {"lavapipe swiftshader", "attention.keys 64, attention.values 64, attention.rows 8"},
       }},
      {"attention of f16, rows of 128",
       Attention("f16", 512, 512, 32, 128),
       {
           {"min_vulkan11",
            "Attention is no kernel of its own: rows: no invocation takes a row on this device; "
            "group: 16384 rows, more than 256; "
            "tiles: the device has none."},
           {"amd_rdna3 intel_xe2", "attention.tiles 256 (64 x 64)"},
           {"nvidia_ada", "attention.tiles 128 (64 x 32)"},
           {"lavapipe swiftshader", "attention.keys 64, attention.values 64, attention.rows 8"},
       }},
      {"attention of f16, 64 rows of one head and 16384 keys",
       Attention("f16", 64, 16384, 8, 64),
       {
           {"min_vulkan11",
            "Attention is no kernel of its own: rows: no invocation takes a row on this device; "
            "group: 512 rows, more than 256; "
            "tiles: the device has none."},
           {"amd_rdna3 intel_xe2 nvidia_ada",
            "Attention is no kernel of its own: rows: no invocation takes a row on this device; "
            "group: 512 rows, more than 256; "
            "tiles: 16 workgroups would go through 16384 keys."},
           {"lavapipe swiftshader", "attention.keys 64, attention.values 64, attention.rows 8"},
       }},
      {"attention of f16, a token",
       Attention("f16", 1, 1024, 14, 64),
       {
           {"min_vulkan11", "attention.group 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "attention.group 256"},
           {"lavapipe swiftshader",
            "Attention is no kernel of its own: rows: 1 rows share keys and values, fewer than the 4 that fill the lanes; "
            "group: no workgroup takes a row on this device; "
            "tiles: no workgroup takes a tile of rows on this device."},
       }},
      {"convolution of f32, features last",
       Convolution("f32", 56, 64, 64, true),
       {
           {"min_vulkan11", "conv.tile 64 (32 x 32)"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "conv.tile 256 (64 x 64)"},
           {"lavapipe", "conv.panel 8"},
           {"swiftshader", "conv.panel 4"},
       }},
      {"convolution of f32, features first",
       Convolution("f32", 56, 64, 64, false),
       {
           {"min_vulkan11", "conv.tile 64 (32 x 32)"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "conv.tile 256 (64 x 64)"},
           {"lavapipe", "conv.reorder 8, conv.panel 8"},
           {"swiftshader", "conv.reorder 8, conv.panel 4"},
       }},
      {"convolution of bf16, features last",
       Convolution("bf16", 56, 64, 64, true),
       {
           {"min_vulkan11", "conv.tile 64 (32 x 32)"},
           {"amd_rdna3", "conv.coop 256 (64 x 64)"},
           {"intel_xe2", "conv.coop 128 (64 x 64)"},
           {"nvidia_ada", "conv.coop 128 (64 x 64)"},
           {"lavapipe", "conv.panel 8"},
           {"swiftshader", "conv.panel 4"},
       }},
      {"convolution of f32, few features",
       Convolution("f32", 9, 16, 8, true),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "conv.tile 16 (16 x 16)"},
           {"lavapipe", "conv.blocks 8"},
           {"swiftshader", "conv.panel 4"},
       }},
      {"depthwise convolution of f32",
       Convolution("f32", 56, 64, 64, true, 64),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "conv.direct.vec4 64"},
           {"lavapipe swiftshader", "conv.direct.vec4 32"},
       }},
      {"sums of 1000 rows of 1000",
       Reduction(1000, 1000),
       {
           {"min_vulkan11", "reduce.workgroup_row 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "reduce.subgroup_row 128"},
           {"lavapipe", "reduce.subgroup_row 8"},
           {"swiftshader", "reduce.subgroup_row 4"},
       }},
      {"sums of 4 rows of 32",
       Reduction(4, 32),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "reduce.serial 64"},
           {"lavapipe", "reduce.subgroup_row 8"},
           {"swiftshader", "reduce.subgroup_row 4"},
       }},
      {"sums of 8 rows of 40000",
       Reduction(8, 40000),
       {
           {"min_vulkan11", "reduce.workgroup_row.part 128, reduce.join 64"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "reduce.workgroup_row.part 256, reduce.join 64"},
           {"lavapipe", "reduce.subgroup_row 8"},
           {"swiftshader", "reduce.subgroup_row 4"},
       }},
      {"sum of 3000000",
       Reduction(1, 3000000),
       {
           {"min_vulkan11", "reduce.workgroup_row.part 128, reduce.join 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "reduce.workgroup_row.part 256, reduce.join 128"},
           {"lavapipe", "reduce.subgroup_row.part 8, reduce.join 8"},
           {"swiftshader", "reduce.subgroup_row.part 4, reduce.join 4"},
       }},
      {"sums of 1000 columns of 1000",
       Reduction(1000, 1000, true),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "reduce.column.vec4.part 64, reduce.join 64"},
           {"lavapipe swiftshader", "reduce.column.vec4 8"},
       }},
      {"sums of 7 columns of 4097",
       Reduction(7, 4097, true),
       {
           {"min_vulkan11", "reduce.workgroup_row 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "reduce.workgroup_row 256"},
           {"lavapipe", "reduce.subgroup_row 8"},
           {"swiftshader", "reduce.subgroup_row 4"},
       }},
      {"sort of 200",
       Sort(1, 200),
       {
           {"min_vulkan11", "sort.keys 64, sort.rank 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "sort.keys 64, sort.rank 224"},
           {"lavapipe swiftshader", "sort.keys 8, sort.rank 64"},
       }},
      {"sort of 5000",
       Sort(1, 5000),
       {
           {"min_vulkan11",
            "The kernel sort.place.last has 5 buffers; The least that Vulkan 1.1 promises allows 4 in one kernel."},
           {"amd_rdna3 intel_xe2 nvidia_ada",
            "sort.keys 64, sort.count 128, sort.places16 128, sort.place.first 128, sort.place 128, sort.place.last 128"},
           {"lavapipe swiftshader", "sort.keys 8, sort.place.first 8, sort.place 8, sort.place.last 8"},
       }},
      {"sort of 40 rows of 5000",
       Sort(40, 5000),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada",
            "sort.keys 64, sort.place.first 128, sort.place 128, sort.place.last 128"},
           {"lavapipe swiftshader", "sort.keys 8, sort.place.first 8, sort.place 8, sort.place.last 8"},
       }},
      {"sort of 1000 by a comparator of its own",
       Sort(1, 1000, false),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada lavapipe swiftshader",
            "sort.start 64, sort.merge 64, sort.gather 64"},
       }},
      {"sums along 64 lines of 5000",
       Cumulative(64, 5000),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "scan.totals 64, scan.carries 64, scan.chunks 64"},
           {"lavapipe swiftshader", "scan.line 8"},
       }},
      {"sums along 63 lines of 4096",
       Cumulative(63, 4096),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "scan.totals 64, scan.carries 64, scan.chunks 64"},
           {"lavapipe swiftshader", "scan.totals 8, scan.carries 8, scan.chunks 8"},
       }},
      {"sums along 5000 lines of 600",
       Cumulative(5000, 600),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "scan.line 64"},
           {"lavapipe swiftshader", "scan.line 8"},
       }},
      {"scatter with unique indices",
       Scatter(true),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada lavapipe swiftshader", "scatter.apart 64"},
       }},
      {"scatter",
       Scatter(false),
       {
           {"min_vulkan11", "scatter.shares 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "scatter.shares 256"},
           {"lavapipe swiftshader", "scatter.in_order 8"},
       }},
      {"scatter of integers",
       Scatter(false, "s32"),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "scatter.atomic 64"},
           {"lavapipe swiftshader", "scatter.in_order 8"},
       }},
      {"scatter of bytes",
       Scatter(false, "u8"),
       {
           {"min_vulkan11", "scatter.in_order 64"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "scatter.shares 256"},
           {"lavapipe", "scatter.words 8"},
           {"swiftshader", "scatter.in_order 8"},
       }},
      {"Fourier transforms of 4096 points",
       Fft(4096),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada lavapipe swiftshader", "fft.radix16 64"},
       }},
      {"Cholesky factors of 8 x 8",
       Cholesky(8),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "cholesky.each 64"},
           {"lavapipe swiftshader", "cholesky.each 8"},
       }},
      {"Cholesky factors of 128 x 128",
       Cholesky(128),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada",
            "cholesky.start 64, cholesky.factor 32, cholesky.panel 64, cholesky.update 64, cholesky.finish 64"},
           {"lavapipe swiftshader",
            "cholesky.start 8, cholesky.factor 8, cholesky.panel 8, cholesky.update 8, cholesky.finish 8"},
       }},
      {"LU factors of 8 x 8",
       Lu(8),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada", "lu.each 64"},
           {"lavapipe swiftshader", "lu.each 8"},
       }},
      {"LU factors of 64 x 64",
       Lu(64),
       {
           {"min_vulkan11", "lu.copy 64, lu.panel 64, lu.exchange 64, lu.update 64, lu.permutation 64"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "lu.shared 64"},
           {"lavapipe swiftshader", "lu.shared 8"},
       }},
      {"LU factors of 300 x 300",
       Lu(300),
       {
           {"min_vulkan11 amd_rdna3 intel_xe2 nvidia_ada",
            "lu.copy 64, lu.panel 64, lu.exchange 64, lu.update 64, lu.permutation 64"},
           {"lavapipe swiftshader", "lu.copy 8, lu.panel 8, lu.exchange 8, lu.update 8, lu.permutation 8"},
       }},
      {"sum of two arrays of 100000",
       Elementwise(100000),
       {
           {"min_vulkan11", "loop.vec4 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "loop.vec4 256"},
           {"lavapipe swiftshader", "loop.vec4 8"},
       }},
      {"sum of two arrays of 7",
       Elementwise(7),
       {
           {"min_vulkan11", "loop.scalar 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "loop.scalar 256"},
           {"lavapipe swiftshader", "loop.scalar 8"},
       }},
      {"formulas of 160 additions a point",
       Formulas(100000),
       {
           {"min_vulkan11", "loop.scalar 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "loop.scalar 256"},
           {"lavapipe swiftshader", "loop.vec4 8"},
       }},
      {"transpose of 300 x 500",
       Transpose(300, 500),
       {
           {"min_vulkan11", "loop.tile 128 (32 x 32)"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "loop.tile 256 (32 x 32)"},
           {"lavapipe swiftshader", "loop.move 8"},
       }},
      {"transpose of 1000 x 4",
       Transpose(1000, 4),
       {
           {"min_vulkan11", "loop.vec4 128"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "loop.vec4 256"},
           {"lavapipe swiftshader", "loop.move 8"},
       }},
      {"transpose of 60 x 5000, whose runs are tiles",
       Transpose(60, 5000),
       {
           {"min_vulkan11", "loop.tile 128 (32 x 32)"},
           {"amd_rdna3 intel_xe2 nvidia_ada", "loop.tile 256 (32 x 32)"},
           {"lavapipe swiftshader", "loop.move 8"},
       }},
  };
  return rows;
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

TEST(Choices, Table) {
  for (const Row& row : Rows()) {
    std::map<std::string, std::string> wanted;
    for (const Choice& choice : row.choices)
      for (const std::string& profile : Words(choice.profiles)) wanted[profile] = choice.kernels;
    EXPECT_EQ(wanted.size(), 6u) << row.what;
    for (const auto& [profile, kernels] : wanted) {
      auto emitted = EmitFor(row.module, ProfileOf(profile));
      EXPECT_EQ(emitted ? Summary(*emitted) : emitted.error().message(), kernels) << row.what << " for " << profile;
    }
  }
}

// Why it is none of the variants before.
TEST(Choices, ReasonsOfRefusals) {
  const auto reason = [](const std::string& module, const char* profile, const EmitOptions& options = {}) {
    auto emitted = EmitFor(module, ProfileOf(profile), options);
    return emitted ? emitted->kernels.back().reason : emitted.error().message();
  };
  EXPECT_EQ(
      reason(Dot("f32", "f32", 7, 33, 20), "amd_rdna3"),
      "coop: the operands' types; rows: more than 4 rows and columns; columns: a short depth; tile: few rows or columns; "
      "by blocks: many columns; packed_panel: slower than reading in place on this device");
  EXPECT_EQ(
      reason(Dot("f16", "f32", 256, 256, 256), "lavapipe"),
      "coop: slow on this device; rows: more than 4 rows and columns; columns: an invocation takes whole columns on "
      "this device; tile: none for this device; by blocks: many columns");
  EXPECT_EQ(reason(Dot("bf16", "bf16", 512, 512, 512), "nvidia_ada", {.allow_cooperative_matrix = false}),
            "64 x 64 blocks; coop: switched off; rows: more than 4 rows and columns; columns: more than 8 rows");
  EXPECT_EQ(reason(Convolution("f32", 56, 64, 64, true), "nvidia_ada"), "64 x 64 blocks; coop: the operands' types");
  EXPECT_TRUE(reason(Convolution("f32", 56, 64, 64, true, 64), "nvidia_ada")
                  .ends_with("product of matrices: few features in a group; widened: slow on this device"));
  EXPECT_EQ(reason(Reduction(1000, 1000), "min_vulkan11"),
            "serial: 1000 elements a row; subgroup_row: no fixed subgroup size");
  EXPECT_EQ(reason(Sort(1, 1000, false), "amd_rdna3"), "digits: the comparator compares no keys");
  EXPECT_EQ(reason(Scatter(false), "amd_rdna3"),
            "128 shares; apart: the indices may repeat, and updates keep their order; atomic: the order matters, or no "
            "atomic operation does it");
  EXPECT_EQ(reason(Elementwise(1000), "amd_rdna3"), "move: slow on this device; tile: reads and stores lie alike");
  EXPECT_EQ(reason(Transpose(100, 100), "amd_rdna3"), "move: slow on this device; tile: few points");
  EXPECT_EQ(reason(Cumulative(5000, 600), "amd_rdna3"),
            "in order: the combination may be regrouped; chunks: many lines");
}

// A tuning of the caller's own takes the place of the table's.
TEST(Choices, OptionsHaveATuning) {
  const DeviceProfile& profile = ProfileOf("nvidia_ada");
  Tuning tuning = TuningFor(profile);
  tuning.dot.shared_tiles = {{32, 64, 8, 4, 0}};
  tuning.loop.local = 32;
  const EmitOptions options{.tuning = &tuning};
  auto dot = EmitFor(Dot("f32", "f32", 256, 256, 256), profile, options);
  ASSERT_TRUE(dot) << dot.error().ToString();
  EXPECT_EQ(Summary(*dot), "dot.tile 128 (32 x 64)");
  auto loop = EmitFor(Elementwise(100000), profile, options);
  ASSERT_TRUE(loop);
  EXPECT_EQ(Summary(*loop), "loop.vec4 32");
}

// On the host's processors a workgroup takes whole rows of a scatter, and others take other rows, but not of one word.
TEST(Choices, ScattersOfRowsOnAProcessor) {
  auto workgroups = [](const std::string& device, std::string_view type, int64_t row) -> uint32_t {
    auto emitted = EmitFor(Scatter(false, type, row), ProfileOf(device));
    return emitted ? emitted->dispatches.at(0).grid[0] : 0;
  };
  EXPECT_EQ(workgroups("nvidia_ada", "f32", 128), 64u);  // 128 shares
  EXPECT_EQ(workgroups("lavapipe", "f32", 128), 4u);
  EXPECT_EQ(workgroups("lavapipe", "f32", 1280), 10u);
  EXPECT_EQ(workgroups("lavapipe", "f32", 32), 1u);
}

// There a workgroup is one subgroup, which takes points in the order in which they lie, whatever its size is.
TEST(Choices, WorkgroupsOfAProcessorAreOneSubgroup) {
  DeviceProfile profile = ProfileOf("lavapipe");
  for (const uint32_t lanes : {8u, 16u}) {
    profile.limits.subgroup_size = profile.limits.min_subgroup_size = profile.limits.max_subgroup_size = lanes;
    auto loop = EmitFor(Elementwise(100000), profile);
    ASSERT_TRUE(loop) << loop.error().ToString();
    EXPECT_EQ(Summary(*loop), Format("loop.vec4 {}", lanes));
    auto columns = EmitFor(Reduction(100000, 8), profile);
    ASSERT_TRUE(columns);
    EXPECT_EQ(Summary(*columns), Format("reduce.serial {}", lanes));
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
