// SPDX-License-Identifier: Apache-2.0
// XLA's flags as options of one compilation: taken by name, refused with a value that the flag cannot have.
#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

constexpr std::string_view kNegate = R"(HloModule m
ENTRY e { a = f32[4] parameter(0) ROOT r = f32[4] negate(a) })";

// OptionOverrideProto.
std::string Words(std::string_view text) { return std::string{0x0a, static_cast<char>(text.size())}.append(text); }
std::string Truth(bool value) { return {0x10, static_cast<char>(value)}; }
std::string Number(int value) { return {0x18, static_cast<char>(value)}; }
std::string Half() { return std::string("\x21\0\0\0\0\0\0\xe0\x3f", 9); }

// CompileOptionsProto{executable_build_options{1, 1}, env_option_overrides{name: value}}
std::string With(std::string_view name, const std::string& value) {
  std::string entry{0x0a, static_cast<char>(name.size())};
  entry += name;
  entry += {0x12, static_cast<char>(value.size())};
  entry += value;
  return Options() + std::string{0x3a, static_cast<char>(entry.size())} + entry;
}

class CompileOptionsTest : public testing::Test {
 protected:
  Error Try(std::string_view name, const std::string& value) const {
    return TryCompile(client_, kNegate, "hlo", With(name, value)).second;
  }
  void ExpectTaken(std::string_view name, const std::string& value) const {
    const Error error = Try(name, value);
    EXPECT_EQ(error.code, 0u) << error.message;
  }
  void ExpectRefused(std::string_view name, const std::string& value, std::string_view why) const {
    const Error error = Try(name, value);
    EXPECT_EQ(error.code, 3u) << name;
    EXPECT_NE(error.message.find(why), std::string::npos) << error.message;
  }

  const Client client_ = NewClient("cpu");
};

TEST_F(CompileOptionsTest, NamesOfXlaOnly) {
  ExpectRefused("invalid_key", Words("x"), "No such compile option: 'invalid_key'");
  ExpectRefused("", Words("x"), "No such compile option: ''");
  ExpectTaken("xla_newer_than_our_list", Words("x"));
}

TEST_F(CompileOptionsTest, FeaturesOfKrafla) {
  ExpectTaken("krafla_enable", Words("fast-functions"));
  ExpectTaken("krafla_enable", Words("int-dot"));
  ExpectTaken("krafla_disable", Words("fusion,loops"));
  ExpectRefused("krafla_enable", Words("fusion"), "'fusion' cannot be enabled");
  ExpectRefused("krafla_disable", Words("fusion,nonsense"), "Unknown feature 'nonsense'");
  ExpectRefused("krafla_disable", Truth(true), "takes names, separated by commas");
}

TEST_F(CompileOptionsTest, Booleans) {
  for (const std::string& value : {Truth(true), Truth(false), Words("true"), Words("False")})
    ExpectTaken("xla_embed_ir_in_executable", value);
  ExpectRefused("xla_embed_ir_in_executable", Words("invalid_value"),
                "While setting option xla_embed_ir_in_executable, 'invalid_value' is not a valid bool value.");
  ExpectRefused("xla_embed_ir_in_executable", Number(1), "'1' is not a valid bool value.");
  ExpectRefused("xla_embed_ir_in_executable", Half(), "'0.5' is not a valid bool value.");
  ExpectRefused("xla_embed_ir_in_executable", "", "'' is not a valid bool value.");
}

TEST_F(CompileOptionsTest, Numbers) {
  for (const std::string& value : {Number(100), Words("200"), Words("-1")}) {
    ExpectTaken("xla_dump_max_hlo_modules", value);
    ExpectTaken("xla_gpu_redzone_padding_bytes", value);
  }
  ExpectTaken("xla_gpu_redzone_padding_bytes", Words("1099511627776"));
  ExpectRefused("xla_dump_max_hlo_modules", Words("1099511627776"), "is not a valid int32 value.");
  ExpectRefused("xla_dump_max_hlo_modules", Words("12x"), "'12x' is not a valid int32 value.");
  ExpectRefused("xla_dump_max_hlo_modules", Truth(true), "is not a valid int32 value.");
  ExpectRefused("xla_gpu_redzone_padding_bytes", Half(), "'0.5' is not a valid int64 value.");
  for (const std::string& value : {Half(), Words("0.5"), Words("1")})
    ExpectTaken("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", value);
  ExpectRefused("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", Number(1), "'1' is not a valid float value.");
}

TEST_F(CompileOptionsTest, OthersByTheirType) {
  ExpectTaken("xla_dump_to", Words("somewhere"));
  ExpectTaken("xla_disable_hlo_passes", Words("a,b"));
  ExpectRefused("xla_dump_to", Number(1), "'1' is not a valid string value.");
  ExpectTaken("xla_step_marker_location", Words("STEP_MARK_AT_ENTRY"));
  ExpectTaken("xla_step_marker_location", Number(1));
  ExpectRefused("xla_step_marker_location", Truth(true), "'true' is not a valid enum value.");
  ExpectRefused("xla_backend_extra_options", Words("a"), "'a' is not a valid message value.");
}

}  // namespace
}  // namespace krafla::pjrt_test
