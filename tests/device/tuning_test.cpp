// SPDX-License-Identifier: Apache-2.0
#include "device/tuning.h"

#include <gtest/gtest.h>
#include <stdlib.h>  // setenv
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "device/device_profile_fields.h"
#include "device/tuning_fields.h"
#include "profiles.h"

namespace krafla {
namespace {

TEST(Tuning, RowsByClassAndVendor) {
  const Tuning gpu;
  EXPECT_EQ(TuningFor(testing::LoadProfile("min_vulkan11")), gpu);

  Tuning nvidia = gpu;
  nvidia.coop.first_step_apart = true;
  EXPECT_EQ(TuningFor(testing::LoadProfile("nvidia_ada")), nvidia);
  // Matrices of a workgroup have run on no GPU yet: they are for those who ask.
  EXPECT_EQ(TuningFor(testing::LoadProfile("nvidia_coopmat2")), nvidia);
  EXPECT_FALSE(TuningFor(testing::LoadProfile("lavapipe")).coop.flexible);
  // Of vendors' rows nothing but matrices, and on Intel what fits a thread's registers.
  Tuning amd = TuningFor(testing::LoadProfile("amd_rdna3")), intel = TuningFor(testing::LoadProfile("intel_xe2"));
  EXPECT_FALSE(amd.coop.smallest_subgroup);
  EXPECT_EQ(amd.coop.tiles[0], (MatrixTile{128, 128, 2, 2, 64}));
  EXPECT_TRUE(intel.coop.smallest_subgroup);
  EXPECT_EQ(intel.coop.tiles[0], (MatrixTile{128, 128, 8, 4, 64}));
  DeviceProfile small = testing::LoadProfile("intel_xe2");
  small.limits.min_subgroup_size = 8;
  EXPECT_EQ(TuningFor(small).coop.tiles[0], (MatrixTile{64, 64, 8, 4, 32}));
  EXPECT_EQ(TuningFor(small).attention.tiles[0], (RowTile{64, 64, 8, 4, 64}));
  amd.coop = intel.coop = {};
  intel.attention.tiles = gpu.attention.tiles;
  intel.attention.most_tile_depth = gpu.attention.most_tile_depth;
  EXPECT_EQ(intel.dot.rows_subgroup, 16u);
  EXPECT_LT(intel.reduce.most_kept, gpu.reduce.most_kept);
  EXPECT_LT(intel.conv.direct_written_out, gpu.conv.direct_written_out);
  intel.dot.rows_subgroup = gpu.dot.rows_subgroup;
  intel.reduce.most_kept = gpu.reduce.most_kept;
  intel.panel.most_block_rows = gpu.panel.most_block_rows;
  intel.conv.direct_written_out = gpu.conv.direct_written_out;
  EXPECT_EQ(amd, gpu);
  EXPECT_EQ(intel, gpu);

  const Tuning cpu = TuningFor(testing::LoadProfile("swiftshader"));
  Tuning llvmpipe = TuningFor(testing::LoadProfile("lavapipe"));
  EXPECT_TRUE(llvmpipe.conversion.integers_by_addition && llvmpipe.conversion.halves_by_bits);
  llvmpipe.conversion = {};
  EXPECT_EQ(llvmpipe, cpu);
  EXPECT_TRUE(cpu.dot.shared_tiles.empty());
  EXPECT_TRUE(cpu.sort.invocation_chunks);
  EXPECT_FALSE(cpu.coop.used);

  const std::string names[] = {"host_cores"};
  auto without = testing::LoadProfile("lavapipe").WithDisabled(names);
  ASSERT_TRUE(without);
  EXPECT_EQ(TuningFor(*without), gpu);
}

TEST(Tuning, FieldsAreOverriddenByName) {
  Tuning tuning;
  auto done = OverrideTuning(R"({"dot": {"shared_tiles": [{"rows": 32, "columns": 64}], "most_rows": 2},
                                 "coop": {"used": false}, "rate": {"flops_per_ms": 1.5e9}})",
                             tuning);
  ASSERT_TRUE(done) << done.error().ToString();
  Tuning wanted;
  wanted.dot.shared_tiles = {{32, 64, 16, 4, 0}};
  wanted.dot.most_rows = 2;
  wanted.coop.used = false;
  wanted.rate.flops_per_ms = 1.5e9;
  EXPECT_EQ(tuning, wanted);
  ASSERT_TRUE(OverrideTuning("{}", tuning));
  EXPECT_EQ(tuning, wanted);
}

TEST(Tuning, BadOverridesAreRefusedAndChangeNothing) {
  auto refused = [](std::string_view text, std::string_view part) {
    Tuning tuning;
    auto done = OverrideTuning(text, tuning);
    ASSERT_FALSE(done) << text;
    EXPECT_EQ(done.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(done.error().message().find(part), std::string::npos) << done.error().message();
    EXPECT_EQ(tuning, Tuning()) << text;
  };
  refused("", "The text of a tuning is not JSON.");
  refused("[]", "The tuning is not an object");
  refused(R"({"dots": {}})", "unknown key 'dots'");
  refused(R"({"dot": {"most_rows": 2, "most_row": 2}})", "The tuning.dot has the unknown key 'most_row'");
  refused(R"({"dot": {"most_rows": 5}})", "The tuning.dot.most_rows is 5, not between 0 and 4.");
  refused(R"({"dot": {"most_rows": -1}})", "not an integer");
  refused(R"({"dot": {"most_rows": "2"}})", "not an integer");
  refused(R"({"loop": {"local": 96}})", "The tuning.loop.local is 96, not a power of two between 1 and");
  refused(R"({"loop": {"local": 0}})", "not a power of two between");
  refused(R"({"coop": {"used": 1}})", "not a boolean");
  refused(R"({"rate": {"flops_per_ms": 0}})", "not between 1 and");
  refused(R"({"rate": {"flops_per_ms": 1e999}})", "");
  refused(R"({"dot": {"shared_tiles": {}}})", "not an array");
  refused(R"({"dot": {"shared_tiles": [{"rows": 33}]}})", "The tuning.dot.shared_tiles[0].rows");
  refused(R"({"conv": {"shared_tiles": [{"rows": 4, "thread_rows": 8}]}})", "4 rows, fewer than the 8");
  refused(std::string(100000, '['), "levels deep");
}

// The file that KRAFLA_TUNING names, for as long as it lives.
class TuningFile {
 public:
  explicit TuningFile(std::string_view text)
      : path_(std::filesystem::temp_directory_path() / Format("krafla_tuning_{}.json", ::getpid())) {
    std::ofstream(path_) << text;
    ::setenv("KRAFLA_TUNING", path_.c_str(), 1);
  }
  ~TuningFile() {
    ::unsetenv("KRAFLA_TUNING");
    std::filesystem::remove(path_);
  }

 private:
  std::filesystem::path path_;
};

TEST(Tuning, TheEnvironmentNamesAFile) {
  const DeviceProfile profile = testing::LoadProfile("nvidia_ada");
  {
    TuningFile file(R"({"scan": {"local": 32}})");
    auto tuning = TuningAskedFor(profile);
    ASSERT_TRUE(tuning) << tuning.error().ToString();
    EXPECT_EQ(tuning->scan.local, 32u);
  }
  {
    TuningFile file(R"({"scan": {"locals": 32}})");
    auto tuning = TuningAskedFor(profile);
    ASSERT_FALSE(tuning);
    EXPECT_NE(tuning.error().ToString().find("which KRAFLA_TUNING names"), std::string::npos);
  }
  ::setenv("KRAFLA_TUNING", "/nowhere/tuning.json", 1);
  EXPECT_FALSE(TuningAskedFor(profile));
  ::setenv("KRAFLA_TUNING", "", 1);
  EXPECT_TRUE(TuningAskedFor(profile));
  ::unsetenv("KRAFLA_TUNING");
  EXPECT_EQ(*TuningAskedFor(profile), TuningFor(profile));
}

// The cells of the row of docs/tuning.md that begins with `name`: empty, name, GPU, CPU, meaning.
std::vector<std::string> DocumentedRow(const std::string& document, const std::string& name) {
  std::vector<std::string> cells;
  const auto at = document.find("| `" + name + "` |");
  if (at == std::string::npos) return cells;
  std::istringstream line(document.substr(at, document.find('\n', at) - at));
  for (std::string cell; std::getline(line, cell, '|');) cells.push_back(cell);
  return cells;
}

// Every value of the table is one that a file may have too, and the one that docs/tuning.md gives.
class Listing {
 public:
  // `column` of the document's table.
  Listing(std::string where, const std::string& document, std::size_t column)
      : where_(std::move(where)), document_(document), column_(column) {}

  template <typename T, typename... Range>
  void operator()(const char* name, const T& field, Range... range) const {
    const std::string path = where_.empty() ? name : where_ + "." + name;
    if constexpr (std::is_arithmetic_v<T>) {
      const double value = static_cast<double>(field);
      const std::string documented = Cell(path);
      const double number = documented.find("true") != std::string::npos ? 1 : std::strtod(documented.c_str(), nullptr);
      EXPECT_EQ(number, value) << path << " in docs/tuning.md";
      (Within(path, value, range), ...);
    } else if constexpr (kIsVector<T>) {
      EXPECT_NE(Cell(path), "") << path;
      for (const auto& element : field) VisitFields(element, Element{});
    } else {
      VisitFields(field, Listing(path, document_, column_));
    }
  }

 private:
  struct Element {
    template <typename T>
    void operator()(const char* name, T field, const FieldRange& range) const {
      Within(name, static_cast<double>(field), range);
    }
  };
  static void Within(const std::string& path, double value, const FieldRange& range) {
    EXPECT_GE(value, range.least) << path;
    EXPECT_LE(value, range.most) << path;
    EXPECT_TRUE(!range.power_of_two || std::has_single_bit(static_cast<uint64_t>(value))) << path;
  }
  std::string Cell(const std::string& path) const {
    const std::vector<std::string> cells = DocumentedRow(document_, path);
    EXPECT_GT(cells.size(), 4u) << path << " is not in docs/tuning.md";
    return cells.size() > 4 ? cells[column_] : "";
  }

  std::string where_;
  const std::string& document_;
  std::size_t column_;
};

TEST(Tuning, ValuesAreInRangeAndDocumented) {
  std::ifstream file(std::string(KRAFLA_SOURCE_DIR) + "/docs/tuning.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const Tuning gpu = TuningFor(testing::LoadProfile("min_vulkan11")),
               cpu = TuningFor(testing::LoadProfile("swiftshader"));
  VisitFields(gpu, Listing("", document, 2));
  VisitFields(cpu, Listing("", document, 3));
}

}  // namespace
}  // namespace krafla
