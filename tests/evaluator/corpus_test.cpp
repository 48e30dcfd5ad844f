// SPDX-License-Identifier: Apache-2.0
// Recorded programs, where the environment names them: KRAFLA_CORPUS (a corpus folder) and KRAFLA_MODELS (a folder of
// models). Every single-device case must give the recorded outputs within its own tolerance.
// tests/conformance/README.md describes both formats.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "cpu_fallback/evaluator/evaluator.h"
#include "hlo_io/data/corpus.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Leaves that hold data, and their shapes.
std::vector<Shape> ArrayShapes(const Shape& shape) {
  std::vector<Shape> out;
  for (const Shape* leaf : TupleLeaves(shape))
    if (leaf->IsArray()) out.push_back(*leaf);
  return out;
}

// A literal of `shape` from the next leaves.
Result<Literal> Assemble(const Shape& shape, std::vector<Literal>& leaves, std::size_t& next) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& e : shape.tuple_elements()) {
      KRAFLA_ASSIGN(Literal element, Assemble(e, leaves, next));
      elements.push_back(std::move(element));
    }
    return Literal::MakeTuple(std::move(elements));
  }
  if (!shape.IsArray()) return Literal::Create(shape);
  if (next >= leaves.size()) return InvalidArgument("the case has only {} arrays", leaves.size());
  return std::move(leaves[next++]);
}

// The custom calls that the corpus expects of a harness.
Result<Literal> CorpusCalls(const Instruction& i, std::span<const Literal* const> operands) {
  const std::string& target = i.attr<CustomCallAttributes>().target;
  if (target == "corpus.add_one" && operands.size() == 1) {
    KRAFLA_ASSIGN(Literal out, Literal::FromBytes(operands[0]->shape(), operands[0]->bytes()));
    for (float& v : out.data<float>()) v += 1;
    return out;
  }
  if (target == "corpus.swap" && operands.size() == 2) {
    std::vector<Literal> elements;
    for (std::size_t o : {1u, 0u}) {
      KRAFLA_ASSIGN(Literal e, Literal::FromBytes(operands[o]->shape(), operands[o]->bytes()));
      elements.push_back(std::move(e));
    }
    return Literal::MakeTuple(std::move(elements));
  }
  return NotFound("no custom call {}", target);
}

Result<> RunCase(const RecordedCase& c) {
  KRAFLA_ASSIGN(auto module, ParseHloText(ReadFile(c.module_path), c.name));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  const Computation& entry = *verified->entry();
  std::vector<Shape> parameter_shapes;
  for (const Instruction* p : entry.parameters())
    for (const Shape& s : ArrayShapes(p->shape())) parameter_shapes.push_back(s);
  const std::vector<Shape> result_shapes = ArrayShapes(entry.root()->shape());
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(c, parameter_shapes, result_shapes));
  if (arrays.inputs.size() != 1 || arrays.outputs.size() != 1)
    return InvalidArgument("not one device but {}", arrays.inputs.size());

  std::vector<Literal> arguments;
  std::size_t next = 0;
  for (const Instruction* p : entry.parameters()) {
    KRAFLA_ASSIGN(Literal argument, Assemble(p->shape(), arrays.inputs[0], next));
    arguments.push_back(std::move(argument));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& l : arguments) pointers.push_back(&l);

  EvaluatorHost host;
  std::size_t infeed = 0;
  std::vector<Literal> outfed;
  host.custom_call = CorpusCalls;
  host.infeed = [&](const Shape& shape) -> Result<Literal> {
    if (infeed >= arrays.infeed.size()) return OutOfRange("the infeed queue is empty");
    std::size_t leaf = 0;
    return Assemble(shape, arrays.infeed[infeed++], leaf);
  };
  host.outfeed = [&](const Literal& item) -> Result<> {
    if (outfed.size() >= arrays.outfeed.size()) return OutOfRange("more items than expected went out");
    const auto& expected = arrays.outfeed[outfed.size()];
    const auto leaves = item.ArrayLeaves();
    if (leaves.size() != expected.size()) return OutOfRange("an item of {} arrays went out", leaves.size());
    for (std::size_t l = 0; l < leaves.size(); ++l)
      if (Comparison same = Compare(*leaves[l], expected[l], nullptr, {}); !same.passed)
        return InvalidArgument("outfeed: {}", same.reason);
    outfed.emplace_back();
    return {};
  };
  bool has_channels = !arrays.send_to_host.empty() || !arrays.recv_from_host.empty();
  if (has_channels) {
    host.collective = [&](const Instruction& i, std::span<const Literal* const> operands) -> Result<Literal> {
      const auto& channel = i.attr<ChannelAttributes>().channel_id;  // a send or a recv-done
      if (i.opcode() == Opcode::kSend) {
        for (const auto& [id, literal] : arrays.send_to_host)
          if (id == channel) {
            Comparison same = Compare(*operands[0], literal, nullptr, {});
            if (!same.passed) return InvalidArgument("send: {}", same.reason);
            return Literal::Create(Shape::MakeToken());
          }
      } else {
        for (const auto& [id, literal] : arrays.recv_from_host)
          if (id == channel) return Literal::FromBytes(literal.shape(), literal.bytes());
      }
      return NotFound("no such channel");
    };
  }
  EvaluatorOptions options;
  options.host = &host;
  KRAFLA_ASSIGN(Literal result, Evaluate(entry, pointers, options));
  if (outfed.size() != arrays.outfeed.size()) return InvalidArgument("{} items went out", outfed.size());

  const auto got = result.ArrayLeaves();
  const auto& expected = arrays.outputs[0];
  if (got.size() != expected.size())
    return InvalidArgument("{} results, {} were recorded", got.size(), expected.size());
  for (std::size_t o = 0; o < got.size(); ++o) {
    const Literal* alt = nullptr;
    if (!arrays.alt_outputs.empty() && o < arrays.alt_outputs[0].size() && arrays.alt_outputs[0][o])
      alt = &*arrays.alt_outputs[0][o];
    Comparison comparison = Compare(*got[o], expected[o], alt, arrays.tolerances[o]);
    if (!comparison.passed) return DataLoss("output {}: {}", o, comparison.reason);
  }
  return {};
}

void RunAll(const std::string& path) {
  auto list = FindCases(path);
  ASSERT_TRUE(list) << list.error().ToString();
  const char* only = std::getenv("KRAFLA_CASE");  // a part of the names to run, for a closer look
  struct Family {
    int passed = 0, failed = 0;
  };
  std::map<std::string, Family> families;
  int several = 0;
  for (const RecordedCase& c : list->cases) {
    if (c.replicas * c.partitions > 1) {
      ++several;
      continue;
    }
    if (only != nullptr && c.name.find(only) == std::string::npos) continue;
    const auto start = std::chrono::steady_clock::now();
    Result<> result = RunCase(c);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Family& family = families[c.name.substr(0, c.name.find('/'))];
    if (result)
      ++family.passed;
    else
      ++family.failed;
    if (!result) ADD_FAILURE() << c.name << ": " << result.error().ToString();
    if (seconds > 1) std::printf("%s took %.2f s\n", c.name.c_str(), seconds);
  }
  int passed = 0, failed = 0;
  for (const auto& [name, family] : families) {
    passed += family.passed;
    failed += family.failed;
    if (family.failed > 0) std::printf("%-30s %4d passed %4d failed\n", name.c_str(), family.passed, family.failed);
  }
  std::printf("%d passed, %d failed, %d for several devices not run\n", passed, failed, several);
  EXPECT_GT(passed, 0);
}

TEST(EvaluatorCorpus, Operations) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  RunAll(std::string(corpus) + "/ops");
}

TEST(EvaluatorCorpus, Models) {
  const char* models = std::getenv("KRAFLA_MODELS");
  if (models == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set";
  RunAll(std::string(models) + "/tiny");
}

}  // namespace
}  // namespace krafla
