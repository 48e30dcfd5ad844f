// SPDX-License-Identifier: Apache-2.0
#include "recorded/corpus.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "corpus_files.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "recorded/npz.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

class CorpusFolder : public ::testing::Test {
 protected:
  CorpusFolder() : root_(fs::path(::testing::TempDir()) / Format("krafla_corpus_{}", ::getpid())) {
    fs::create_directories(root_);
  }
  ~CorpusFolder() override {
    std::error_code error;
    fs::remove_all(root_, error);
  }
  void Write(const std::string& name, std::string_view bytes) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  fs::path root_;
};

TEST_F(CorpusFolder, AFamily) {
  Write("add/manifest.json",
        R"({"family":"add","cases":[
{"name":"two","op":"Add","dtype":"s32","tol":{"kind":"bits"},"inputs":[["s32[2]",0,8],["s32[2]",64,8]],"outputs":[["s32[2]",64,8]],"opcodes":["add"],"tags":["t"],"mlir":true},
{"name":"one","tol":[{"kind":"ulp","ulp":3,"atol":1e-6}],"inputs":[],"outputs":[["f32[]",0,4]],"alt_outputs":[["f32[]",4,4]],"dynamic_dims":[null]},
{"name":"multi","replicas":2,"tol":{"kind":"exact"},"inputs":[[],[]],"outputs":[[["s32[]",0,4]],[["s32[]",64,4]]]},
{"name":"gone","tol":{"kind":"bits"},"inputs":[],"outputs":[]}]})");
  std::string data(72, '\0');
  data[0] = 1;
  data[4] = 2;
  data[64] = 3;
  data[68] = 4;
  Write("add/data.bin", data);
  for (const char* name : {"add/two.hlo", "add/one.hlo", "add/multi.hlo", "add/two.mlir"}) Write(name, "x");
  auto found = FindCases(root_.string());
  ASSERT_TRUE(found.has_value()) << found.error().ToString();
  ASSERT_EQ(found->cases.size(), 3u);
  EXPECT_EQ(found->without_form, 1);
  EXPECT_EQ(found->cases[0].name, "add/multi");
  const RecordedCase& two = found->cases[2];
  EXPECT_EQ(two.name, "add/two");
  EXPECT_EQ(two.op, "Add");
  EXPECT_EQ(two.opcodes, (std::vector<std::string>{"add"}));
  auto arrays = ReadArrays(two, {}, {});
  ASSERT_TRUE(arrays.has_value()) << arrays.error().ToString();
  ASSERT_EQ(arrays->inputs.size(), 1u);
  EXPECT_EQ(arrays->inputs[0][0].data<int32_t>()[1], 2);
  EXPECT_EQ(arrays->outputs[0][0].data<int32_t>()[1], 4);
  auto one = ReadArrays(found->cases[1], {}, {});
  ASSERT_TRUE(one.has_value()) << one.error().ToString();
  EXPECT_EQ(one->tolerances[0].kind, Tolerance::Kind::kUlp);
  EXPECT_EQ(one->tolerances[0].ulp, 3);
  EXPECT_EQ(one->tolerances[0].atol, 1e-6);
  EXPECT_TRUE(one->alt_outputs[0][0].has_value());
  auto multi = ReadArrays(found->cases[0], {}, {});
  ASSERT_TRUE(multi.has_value()) << multi.error().ToString();
  EXPECT_EQ(multi->outputs.size(), 2u);
  EXPECT_EQ(multi->outputs[1][0].data<int32_t>()[0], 3);
  EXPECT_EQ(FindCases(root_.string(), "mlir")->cases.size(), 1u);
  auto single = FindCases((root_ / "add/two").string());
  ASSERT_TRUE(single.has_value()) << single.error().ToString();
  EXPECT_EQ(single->cases.size(), 1u);
  EXPECT_FALSE(FindCases((root_ / "add/three").string()).has_value());
  EXPECT_FALSE(FindCases(root_.string(), "exe").has_value());
}

TEST_F(CorpusFolder, BadManifestsAreErrors) {
  Write("bad/data.bin", "1234");
  Write("bad/a.hlo", "x");
  for (const char* manifest :
       {"", "[]", "{", R"({"cases":1})", R"({"cases":[{"name":1,"outputs":[]}]})",
        R"({"cases":[{"name":"../a","outputs":[]}]})", R"({"cases":[{"name":"a","outputs":[],"replicas":0}]})",
        R"({"cases":[{"name":"a","outputs":[],"tags":[1]}]})"}) {
    Write("bad/manifest.json", manifest);
    EXPECT_FALSE(FindCases(root_.string()).has_value()) << manifest;
  }
  std::string deep = "{\"cases\":" + std::string(100000, '[');
  Write("bad/manifest.json", deep);
  EXPECT_FALSE(FindCases(root_.string()).has_value());
  for (const char* c :
       {R"("outputs":[["f32[1]",1,4]])", R"("outputs":[["f32[1]",-1,4]])", R"("outputs":[["f32[1]",0,5]])",
        R"("outputs":[["f32[1",0,4]])", R"("outputs":[[1,0,4]])", R"("outputs":1)", R"("outputs":[["pred[4]",0,4]])",
        R"("outputs":[["f32[4611686018427387904]",0,4]])", R"("outputs":[["f32[1]",1e300,4]])",
        R"("outputs":[["f32[1]",0,4]],"tol":[])", R"("outputs":[["f32[1]",0,4]],"tol":{"kind":"loose"})",
        R"("outputs":[["f32[1]",0,4]],"alt_outputs":[])"}) {
    const bool has_tol = std::string_view(c).find("tol\"") != std::string_view::npos;
    Write("bad/manifest.json",
          Format(R"({{"cases":[{{"name":"a","inputs":[],{}{}}}]}})", c, has_tol ? "" : R"(,"tol":{"kind":"bits"})"));
    auto found = FindCases(root_.string());
    ASSERT_TRUE(found.has_value()) << c << found.error().ToString();
    ASSERT_EQ(found->cases.size(), 1u);
    EXPECT_FALSE(ReadArrays(found->cases[0], {}, {}).has_value()) << c;
  }
}

TEST_F(CorpusFolder, AModel) {
  auto make = [](std::string_view shape, std::string_view text) { return *ParseLiteral(text, *ParseShape(shape)); };
  Write("net/meta.json", R"({"name":"net","num_partitions":1,"num_replicas":1,"opcodes":{"add":2},"arguments":[],
    "results":[{"dtype":"f32","shape":[2],"rtol":0,"atol":0.5},{"dtype":"bf16","shape":[1],"atol":0,"share":0.1}]})");
  Write("net/module.hlo", "x");
  auto write = [&](const char* name, std::vector<NamedLiteral> arrays) {
    auto written = WriteNpz((root_ / "net" / name).string(), arrays);
    ASSERT_TRUE(written.has_value()) << written.error().ToString();
  };
  write("inputs.npz", {{"arg0001", make("u16[1]", "{16256}")}, {"arg0000", make("f32[2]", "{1,2}")}});
  write("outputs.npz", {{"out0000", make("f32[2]", "{1,inf}")}, {"out0001", make("u16[1]", "{16256}")}});
  write("outputs_ref.npz", {{"out0000", make("f64[2]", "{1.25,7}")}, {"out0001", make("f32[1]", "{1}")}});
  auto found = FindCases(root_.string());
  ASSERT_TRUE(found.has_value()) << found.error().ToString();
  ASSERT_EQ(found->cases.size(), 1u);
  EXPECT_TRUE(found->cases[0].is_model);
  EXPECT_EQ(found->cases[0].opcodes, (std::vector<std::string>{"add"}));
  std::vector<Shape> parameters = {*ParseShape("f32[2]"), *ParseShape("bf16[1]")};
  auto arrays = ReadArrays(found->cases[0], parameters, parameters);
  ASSERT_TRUE(arrays.has_value()) << arrays.error().ToString();
  EXPECT_EQ(arrays->inputs[0][1].shape().element_type(), ElementType::kBF16);
  // The reference stands where it is finite and so is the recorded result.
  EXPECT_EQ(PrintLiteral(arrays->outputs[0][0]), "{1.25,inf}");
  EXPECT_EQ(arrays->outputs[0][0].shape().element_type(), ElementType::kF64);
  EXPECT_EQ(arrays->outputs[0][1].shape().element_type(), ElementType::kBF16);
  EXPECT_EQ(arrays->tolerances[0].atol, 0.5);
  EXPECT_EQ(arrays->tolerances[1].share, 0.1);
  EXPECT_FALSE(ReadArrays(found->cases[0], {*ParseShape("f32[2]")}, parameters).has_value());
  EXPECT_FALSE(ReadArrays(found->cases[0], parameters, {*ParseShape("f32[3]"), *ParseShape("bf16[1]")}).has_value());
}

// Whether the text has all of its constants.
bool ParsedInFull(const std::string& path) { return testing::ReadText(path).find("{...}") == std::string::npos; }

// Every recorded case: its arrays can be read and are what its module says, and equal themselves.
TEST(CorpusRecorded, EveryCase) {
  std::vector<std::string> roots;
  if (const char* corpus = std::getenv("KRAFLA_CORPUS")) roots.push_back(corpus);
  if (const char* models = std::getenv("KRAFLA_MODELS")) roots.push_back(models);
  if (roots.empty()) GTEST_SKIP() << "neither KRAFLA_CORPUS nor KRAFLA_MODELS is set";
  for (const std::string& root : roots) {
    auto found = FindCases(root);
    ASSERT_TRUE(found.has_value()) << found.error().ToString();
    EXPECT_GT(found->cases.size(), 0u);
    int constants = 0;
    for (const RecordedCase& c : found->cases) {
      const std::string& path = c.module_path_spmd.empty() ? c.module_path : c.module_path_spmd;
      auto module = ParseHloText(testing::ReadText(path), path);
      ASSERT_TRUE(module.has_value()) << module.error().ToString();
      std::vector<Shape> parameters;
      for (const Instruction* p : (*module)->entry()->parameters()) parameters.push_back(p->shape());
      const Shape& result = (*module)->entry()->root()->shape();
      auto arrays = ReadArrays(c, parameters, {result});
      ASSERT_TRUE(arrays.has_value()) << arrays.error().ToString();
      std::vector<const Shape*> wanted, leaves;
      for (const Shape& p : parameters)
        for (const Shape* leaf : TupleLeaves(p))
          if (leaf->IsArray()) wanted.push_back(leaf);
      for (const Shape* leaf : TupleLeaves(result))
        if (leaf->IsArray()) leaves.push_back(leaf);
      ASSERT_EQ(arrays->inputs.size(), static_cast<std::size_t>(c.replicas * c.partitions)) << c.name;
      for (const auto& inputs : arrays->inputs) {
        ASSERT_EQ(inputs.size(), wanted.size()) << c.name;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          EXPECT_EQ(inputs[i].shape().element_type(), wanted[i]->element_type()) << c.name << " input " << i;
      }
      // A module that is one constant says what its result is.
      const Instruction& value = *(*module)->entry()->root();
      if (value.IsConstant() && !c.is_model && ParsedInFull(path)) {
        ++constants;
        auto literals = value.literal().ArrayLeaves();
        ASSERT_EQ(literals.size(), leaves.size()) << c.name;
        for (std::size_t i = 0; i < literals.size(); ++i) {
          auto compared = Compare(*literals[i], arrays->outputs[0][i], nullptr, arrays->tolerances[i]);
          EXPECT_TRUE(compared.passed) << c.name << ": " << compared.reason;
        }
      }
      for (std::size_t d = 0; d < arrays->outputs.size(); ++d) {
        ASSERT_EQ(arrays->outputs[d].size(), leaves.size()) << c.name;
        for (std::size_t i = 0; i < leaves.size(); ++i) {
          const Literal& out = arrays->outputs[d][i];
          EXPECT_TRUE(c.is_model || out.shape().element_type() == leaves[i]->element_type())
              << c.name << " output " << i;
          const auto& alt = arrays->alt_outputs[d][i];
          EXPECT_TRUE(Compare(out, out, alt ? &*alt : nullptr, arrays->tolerances[i]).passed) << c.name;
          // Alternatives are right as well.
          if (alt) { EXPECT_TRUE(Compare(*alt, out, &*alt, arrays->tolerances[i]).passed) << c.name; }
        }
      }
    }
    if (root == roots[0] && std::getenv("KRAFLA_CORPUS") != nullptr) { EXPECT_GT(constants, 20); }
  }
}

}  // namespace
}  // namespace krafla
