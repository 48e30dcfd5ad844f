// SPDX-License-Identifier: Apache-2.0
// Compiled models: what is loaded is what was compiled, weights stay where the file is mapped, and a file that is not
// what it says is refused.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "api/compiled/bind_parameters.h"
#include "api/compiled/compiled_model.h"
#include "api/compiled/model_file.h"
#include "api/compiled/weights_file.h"
#include "api/front_end.h"
#include "api/read_program.h"
#include "api/vulkan/emitted_kernels.h"
#include "api_fixture.h"
#include "base/file.h"
#include "krafla/session.h"
#include "passes/pipeline.h"
#include "recorded/safetensors.h"

namespace krafla::testing {
namespace {

constexpr CompileTarget kBoth[] = {kCpuTarget, kVulkanTarget};

// A file of this process, gone with the object.
class ModelFile {
 public:
  explicit ModelFile(std::string_view name)
      : path_(std::filesystem::path(::testing::TempDir()) / Format("krafla_{}_{}.krafla", name, ::getpid())) {}
  ~ModelFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }
  std::string Read() const { return ReadFile(path()).value(); }
  void Write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

// A dot with 32 KiB of weights, which are `first`, `first` + 1 and so on.
std::unique_ptr<Module> WithWeights(float first) {
  auto module = ParseHloText(R"(HloModule weighted
ENTRY e {
  x = f32[2,64] parameter(0), metadata={op_name="image"}
  w = f32[64,128] parameter(1)
  y = f32[2,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[128] parameter(2)
  c = f32[2,128] broadcast(b), dimensions={1}
  ROOT r = f32[2,128] add(y, c)
})");
  EXPECT_TRUE(module.has_value()) << module.error().ToString();
  std::vector<float> values(64 * 128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (first + static_cast<float>(i % 1000)) / 1024;
  auto weights = std::make_shared<const Literal>(MakeLiteral<float>("f32[64,128]", values));
  EXPECT_TRUE(BindParameters(**module, {{1, std::move(weights)}}));
  return *std::move(module);
}

Result<CompiledModelSize> WriteTo(const ModelFile& file, const Module& module,
                                  std::span<const CompileTarget> targets = kBoth) {
  return WriteCompiledModel(module, targets, {}, file.path());
}

const Literal* OnlyConstant(const Module& module) {
  const Literal* out = nullptr;
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (i->IsConstant() && i->shape().rank() == 2) out = &i->literal();
  return out;
}

class CompiledModelTest : public DeviceTest {};

TEST_P(CompiledModelTest, GivesTheSameBits) {
  const std::unique_ptr<Module> module = WithWeights(3);
  const ModelFile file(Format("bits_{}", GetParam().name));
  ASSERT_TRUE(WriteTo(file, *module));
  auto loaded = ReadProgramFile(file.path());
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  std::vector<float> x(2 * 64, 0.25f), b(128, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[2,64]", x));
  arguments.push_back(MakeLiteral<float>("f32[128]", b));
  std::vector<std::vector<Literal>> results;
  for (const Module* program : {module.get(), loaded->get()}) {
    auto executable = client_->Compile(program->Clone(), options_);
    ASSERT_TRUE(executable) << executable.error().ToString();
    auto run = (*executable)->Run(Pointers(arguments));
    ASSERT_TRUE(run) << run.error().ToString();
    results.push_back(*std::move(run));
  }
  EXPECT_EQ(results[0], results[1]);
}

INSTANTIATE_TEST_SUITE_P(Devices, CompiledModelTest, ::testing::ValuesIn(DeviceCases()), CaseName);

TEST(CompiledModel, SessionsKnowItsNames) {
  const ModelFile file("names");
  ASSERT_TRUE(WriteTo(file, *WithWeights(1)));
  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client);
  auto session = Session::LoadFile(*client, file.path());
  ASSERT_TRUE(session) << session.error().ToString();
  ASSERT_EQ(session->inputs().size(), 2u);
  EXPECT_EQ(session->inputs()[0].name, "image");
  EXPECT_EQ(session->inputs()[1].name, "b");
  EXPECT_TRUE(session->Warm());
  const std::string bytes = file.Read();
  EXPECT_TRUE(Session::LoadBytes(*client, bytes));
}

TEST(CompiledModel, WeightsStayInTheFile) {
  const ModelFile file("weights");
  auto size = WriteTo(file, *WithWeights(7));
  ASSERT_TRUE(size) << size.error().ToString();
  EXPECT_EQ(size->weight_bytes, 64u * 128 * 4);
  EXPECT_EQ(size->programs, 1);
  auto mapped = MappedFile::Open(file.path());
  ASSERT_TRUE(mapped);
  const auto owner = std::make_shared<const MappedFile>(*std::move(mapped));
  auto module = ReadCompiledModel(owner->bytes(), "file", owner);
  ASSERT_TRUE(module) << module.error().ToString();
  const Literal* weights = OnlyConstant(*(*module)->optimised.front().module);
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(weights->owner(), owner);
  const char* at = reinterpret_cast<const char*>(weights->bytes().data());
  EXPECT_GE(at, owner->bytes().data());
  EXPECT_LE(at + weights->bytes().size(), owner->bytes().data() + owner->bytes().size());
  // Without an owner they are copied.
  auto copied = ReadCompiledModel(owner->bytes(), "file", nullptr);
  ASSERT_TRUE(copied);
  EXPECT_EQ(OnlyConstant(*(*copied)->optimised.front().module)->owner(), nullptr);
}

TEST(CompiledModel, IsForWhatItWasCompiledFor) {
  const ModelFile file("targets");
  ASSERT_TRUE(WriteTo(file, *WithWeights(1), std::span(kBoth).subspan(1)));
  auto client = SharedClient("cpu");
  ASSERT_TRUE(client);
  auto executable = (*client)->Compile(*ReadProgramFile(file.path()), {});
  ASSERT_FALSE(executable);
  EXPECT_EQ(executable.error().code(), StatusCode::kNotFound) << executable.error().ToString();
  EXPECT_NE(executable.error().message().find("only for vulkan"), std::string::npos);
}

TEST(CompiledModel, PassesHaveRun) {
  const ModelFile file("passes");
  ASSERT_TRUE(WriteTo(file, *WithWeights(1)));
  auto client = SharedClient("cpu");
  ASSERT_TRUE(client);
  CompileOptions options;
  options.disabled.emplace(AllPasses().front().name);
  auto executable = (*client)->Compile(*ReadProgramFile(file.path()), options);
  ASSERT_FALSE(executable);
  EXPECT_EQ(executable.error().code(), StatusCode::kFailedPrecondition) << executable.error().ToString();
  EXPECT_FALSE(WriteTo(file, **ReadProgramFile(file.path())));
}

TEST(CompiledModel, DamageIsFound) {
  const ModelFile file("damage");
  ASSERT_TRUE(WriteTo(file, *WithWeights(1)));
  const std::string whole = file.Read();
  ASSERT_TRUE(ReadCompiledModel(whole, "file", nullptr));
  for (std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{63}, std::size_t{64}, whole.size() - 1}) {
    auto cut = ReadCompiledModel(std::string_view(whole).substr(0, size), "file", nullptr);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code(), StatusCode::kDataLoss) << cut.error().ToString();
  }
  // Each byte but the weights' and those between sections.
  std::size_t end = 0;
  const std::vector<compiled::Section> sections = *compiled::ReadSections(whole, "file");
  for (const compiled::Section& s : sections)
    if (s.kind != compiled::SectionKind::kWeights)
      end = std::max(end, static_cast<std::size_t>(s.bytes.data() + s.bytes.size() - whole.data()));
  EXPECT_GT(end, 500u);
  for (std::size_t at = 0; at < end; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(ReadCompiledModel(damaged, "file", nullptr)) << "byte " << at;
  }
  std::string other = whole;
  other[8] = 2;
  auto version = ReadCompiledModel(other, "file", nullptr);
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().code(), StatusCode::kFailedPrecondition) << version.error().ToString();
}

// A file of these sections, whose checksum is right.
std::string FileOf(std::string_view manifest, std::string_view interface, std::string_view program,
                   std::string_view weights = "") {
  using compiled::SectionKind;
  const compiled::Section sections[] = {
      {SectionKind::kManifest, manifest}, {SectionKind::kInterface, interface}, {SectionKind::kProgram, program}};
  return compiled::WriteSections(sections, weights.size()) + std::string(weights);
}
std::string Proto(std::string_view text) { return SerializeProgram(**ParseHloText(text)).value(); }

constexpr std::string_view kManifest = R"({"krafla":"0.1.0","programs":[["cpu"]]})";
constexpr std::string_view kInterface =
    "HloModule m\nENTRY e { p = f32[8] parameter(0)\n ROOT r = f32[8] custom-call(p), "
    "custom_call_target=\"krafla.compiled\" }";

Result<> LoadAndCompile(const std::string& bytes) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadCompiledModel(bytes, "file", nullptr));
  KRAFLA_TRY(SharedClient("cpu").value()->Compile(std::move(module), {}));
  return {};
}

TEST(CompiledModel, WhatIsWrongInside) {
  const std::string interface = Proto(kInterface);
  const auto program = [](std::string_view body) { return Proto(Format("HloModule m\nENTRY e {{ {} }}", body)); };
  const std::string fine = program("p = f32[8] parameter(0)\n ROOT r = f32[8] negate(p)");
  EXPECT_TRUE(LoadAndCompile(FileOf(kManifest, interface, fine)));
  const std::pair<std::string, StatusCode> cases[] = {
      {FileOf(R"({"krafla":"9.9.9","programs":[["cpu"]]})", interface, fine), StatusCode::kFailedPrecondition},
      {FileOf(R"({"krafla":"0.1.0","programs":[]})", interface, fine), StatusCode::kDataLoss},
      {FileOf("[1,2", interface, fine), StatusCode::kDataLoss},
      // Other arguments and other results than the interface says: whoever runs it goes by the interface.
      {FileOf(kManifest, interface, program("p = f32[9] parameter(0)\n ROOT r = f32[9] negate(p)")),
       StatusCode::kInvalidArgument},
      {FileOf(kManifest, interface, program("p = f32[8] parameter(0)\n ROOT r = f32[4] slice(p), slice={[0:4]}")),
       StatusCode::kInvalidArgument},
      {FileOf(kManifest, interface, program("ROOT r = f32[8] iota(), iota_dimension=0")), StatusCode::kInvalidArgument},
      // Weights that are not there, begin at no multiple of 64, or are no values.
      {FileOf(kManifest, interface,
              program("p = f32[8] parameter(0)\n w = f32[8] custom-call(), custom_call_target=\"krafla.weight\", "
                      "backend_config=\"64\"\n ROOT r = f32[8] add(p, w)"),
              std::string(64, 'x')),
       StatusCode::kDataLoss},
      {FileOf(kManifest, interface,
              program("p = f32[8] parameter(0)\n w = f32[8] custom-call(), custom_call_target=\"krafla.weight\", "
                      "backend_config=\"4\"\n ROOT r = f32[8] add(p, w)"),
              std::string(64, 'x')),
       StatusCode::kDataLoss},
      {FileOf(kManifest, interface,
              program("p = f32[8] parameter(0)\n w = pred[8] custom-call(), custom_call_target=\"krafla.weight\", "
                      "backend_config=\"0\"\n ROOT r = f32[8] select(w, p, p)"),
              std::string(64, 'x')),
       StatusCode::kDataLoss},
      // A call that a program may not make.
      {FileOf(kManifest, interface, interface), StatusCode::kNotFound},
  };
  for (const auto& [bytes, code] : cases) {
    const auto loaded = LoadAndCompile(bytes);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), code) << loaded.error().ToString();
  }
}

// The weights of a model in a file of their own, gone with the object.
class WeightsFileTest : public ::testing::Test {
 protected:
  WeightsFileTest() { std::filesystem::create_directory(folder_); }
  ~WeightsFileTest() override { std::filesystem::remove_all(folder_); }
  std::string PathOf(std::string_view name) const { return (folder_ / name).string(); }
  Result<CompiledModelSize> WriteTo(std::string_view model, std::string_view weights, float first = 1) const {
    return WriteCompiledModel(*WithWeights(first), kBoth, {}, PathOf(model), std::string(weights));
  }
  // None: it loads.
  std::optional<StatusCode> RefusalOf(std::string_view model) const {
    const auto loaded = ReadProgramFile(PathOf(model));
    return loaded ? std::nullopt : std::optional(loaded.error().code());
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / Format("krafla_weights_{}", ::getpid());
};

TEST_F(WeightsFileTest, StayThere) {
  const auto size = WriteTo("m.krafla", "m.safetensors", 5);
  ASSERT_TRUE(size) << size.error().ToString();
  EXPECT_EQ(size->file_bytes, std::filesystem::file_size(PathOf("m.krafla")));
  EXPECT_LT(size->file_bytes, size->weight_bytes);
  EXPECT_EQ(size->weights_file_bytes, std::filesystem::file_size(PathOf("m.safetensors")));
  auto beside = ReadProgramFile(PathOf("m.krafla"));
  ASSERT_TRUE(beside) << beside.error().ToString();
  const Literal* weights = OnlyConstant(*(*beside)->optimised.front().module);
  ASSERT_NE(weights, nullptr);
  EXPECT_NE(weights->owner(), nullptr);  // not copied
  const ModelFile inside("inside");
  ASSERT_TRUE(WriteCompiledModel(*WithWeights(5), kBoth, {}, inside.path()));
  auto whole = ReadProgramFile(inside.path());
  ASSERT_TRUE(whole);
  EXPECT_EQ(*weights, *OnlyConstant(*(*whole)->optimised.front().module));
  // Other programs read it too.
  auto file = SafetensorsFile::Open(PathOf("m.safetensors"));
  ASSERT_TRUE(file) << file.error().ToString();
  ASSERT_EQ(file->arrays().size(), 1u);
  EXPECT_EQ(file->arrays()[0].name, "w");  // of the constant that took the parameter's place
  EXPECT_EQ(file->arrays()[0].shape.ToString(false), "f32[64,128]");
  EXPECT_EQ(file->Read(0).value(), *weights);
}

TEST_F(WeightsFileTest, OthersAreRefused) {
  ASSERT_TRUE(WriteTo("m.krafla", "m.safetensors"));
  EXPECT_EQ(RefusalOf("m.krafla"), std::nullopt);
  // Bytes alone have no folder.
  const std::string model = ReadFile(PathOf("m.krafla")).value(), weights = ReadFile(PathOf("m.safetensors")).value();
  EXPECT_EQ(ReadCompiledModel(model, "bytes", nullptr).error().code(), StatusCode::kFailedPrecondition);
  // Of the same names, types and sizes, and other values.
  ASSERT_TRUE(WriteTo("other.krafla", "m.safetensors", 2));
  EXPECT_EQ(RefusalOf("m.krafla"), StatusCode::kFailedPrecondition);
  EXPECT_EQ(RefusalOf("other.krafla"), std::nullopt);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, weights.size() - 1}) {
    std::ofstream(PathOf("m.safetensors"), std::ios::binary).write(weights.data(), static_cast<std::streamsize>(size));
    EXPECT_EQ(RefusalOf("m.krafla"), StatusCode::kFailedPrecondition) << size;
  }
  std::filesystem::remove(PathOf("m.safetensors"));
  EXPECT_EQ(RefusalOf("m.krafla"), StatusCode::kNotFound);
  EXPECT_EQ(WriteTo("m.krafla", "../m.safetensors").error().code(), StatusCode::kInvalidArgument);
  // And a model that says so itself.
  const std::string at_entry = R"("header_bytes":65536,"weight_bytes":64,"header_checksum":1)";
  for (const std::string_view name : {"../up", "", "/etc/passwd"}) {
    const std::string manifest =
        Format(R"({{"krafla":"0.1.0","programs":[["cpu"]],"weights":{{"file":"{}",{}}}}})", name, at_entry);
    const std::string bytes = FileOf(manifest, Proto(kInterface), Proto(kInterface));
    EXPECT_EQ(ReadCompiledModel(bytes, "file", nullptr, folder_.string()).error().code(), StatusCode::kDataLoss);
  }
}

TEST_F(WeightsFileTest, ArraysWithoutANameOfTheirOwnAreBytes) {
  compiled::WeightTable table;
  std::vector<std::shared_ptr<const Literal>> literals;
  const auto place = [&](std::string_view name, std::string_view shape, std::string_view value) {
    auto literal = ParseHloText(Format("HloModule m\nENTRY e {{ ROOT c = {} constant({}) }}", shape, value));
    ASSERT_TRUE(literal) << literal.error().ToString();
    literals.push_back((*literal)->entry()->root()->attr<ConstantAttributes>().literal);
    table.Place(name, literals.back());
  };
  place("a", "c128[1]", "{(1, 2)}");
  place("a", "s4[3]", "{1, -2, 3}");
  place("__metadata__", "f32[2]", "{1, 2}");
  const std::string header = compiled::WriteWeightsHeader(table);
  EXPECT_EQ(header.size() % compiled::kWeightsAlignment, 0u);
  std::string bytes = header;
  for (const auto& weight : table.weights()) {
    bytes.resize(header.size() + weight.offset);
    bytes.append(reinterpret_cast<const char*>(weight.literal->bytes().data()), weight.literal->bytes().size());
  }
  std::ofstream(PathOf("w"), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  auto file = SafetensorsFile::Open(PathOf("w"));
  ASSERT_TRUE(file) << file.error().ToString();
  std::vector<std::string> arrays;
  int64_t end = static_cast<int64_t>(header.size());
  for (const SafetensorsFile::Array& array : file->arrays()) {
    EXPECT_EQ(array.offset, end);  // the format knows no holes
    end = array.offset + array.shape.byte_size();
    arrays.push_back(Format("{} {}", array.name, array.shape.ToString(false)));
  }
  EXPECT_EQ(end, static_cast<int64_t>(bytes.size()));
  const std::vector<std::string> expected = {"a u8[16]", "padding u8[48]", "a.2 u8[3]", "padding.2 u8[61]",
                                             "__metadata__.2 f32[2]"};
  EXPECT_EQ(arrays, expected);
}

// Terabytes that nobody wrote are not summed: the time limit of the test is the judge.
TEST(CompiledModel, LargeSectionsAreNotRead) {
  const ModelFile file("large");
  ASSERT_TRUE(WriteTo(file, *WithWeights(1)));
  std::string bytes = file.Read();
  const uint64_t size = uint64_t{1} << 42;
  std::memcpy(bytes.data() + 16, &size, 8);       // of the file
  std::memcpy(bytes.data() + 64 + 16, &size, 8);  // of the first section, from its offset
  const uint64_t offset = 0;
  std::memcpy(bytes.data() + 64 + 8, &offset, 8);
  file.Write(bytes);
  std::filesystem::resize_file(file.path(), size);
  auto loaded = ReadProgramFile(file.path());
  ASSERT_FALSE(loaded);
  EXPECT_TRUE(loaded.error().code() == StatusCode::kDataLoss || loaded.error().code() == StatusCode::kResourceExhausted)
      << loaded.error().ToString();
}

TEST(BindParametersTest, MovesTheOthersUp) {
  auto module = ParseHloText(R"(HloModule m, input_output_alias={ {0}: (2, {}, may-alias) }
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  c = f32[4] parameter(2)
  s = f32[4] subtract(a, b)
  d = f32[4] add(c, s)
  ROOT t = (f32[4]) tuple(d)
})");
  ASSERT_TRUE(module);
  auto b = std::make_shared<const Literal>(MakeLiteral<float>("f32[4]", {1, 2, 3, 4}));
  ASSERT_TRUE(BindParameters(**module, {{1, b}}));
  EXPECT_TRUE(Verify(**module));
  ASSERT_EQ((*module)->entry()->parameters().size(), 2u);
  EXPECT_EQ((*module)->entry()->parameters()[1]->name(), "c");
  EXPECT_TRUE(std::ranges::any_of((*module)->entry()->instructions(), [](const auto& i) {
    return i->opcode() == Opcode::kConstant && i->name() == "b";  // a weight keeps the name of its parameter
  }));
  ASSERT_EQ((*module)->input_output_aliases.size(), 1u);
  EXPECT_EQ((*module)->input_output_aliases[0].parameter, 1);
  EXPECT_FALSE(BindParameters(**module, {{2, b}}));
  auto wrong = std::make_shared<const Literal>(MakeLiteral<float>("f32[2]", {1, 2}));
  EXPECT_FALSE(BindParameters(**module, {{0, wrong}}));
}

}  // namespace
}  // namespace krafla::testing
