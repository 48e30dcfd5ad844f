// SPDX-License-Identifier: Apache-2.0
// Recorded programs, where the environment names them (KRAFLA_CORPUS, KRAFLA_MODELS): after the pipeline each must
// still verify, give the recorded outputs within their own tolerance, and give the very bits that it gave before,
// unless a pass that says so changed the order of its sums. Programs for several devices must verify.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>

#include "cpu_fallback/evaluator/evaluator.h"
#include "hlo_io/data/corpus.h"
#include "pass_harness.h"
#include "passes/entry_interface.h"

namespace krafla {
namespace {

using Outfeed = std::vector<Literal>;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<Shape> ArrayShapes(const Shape& shape) {
  std::vector<Shape> out;
  for (const Shape* leaf : TupleLeaves(shape))
    if (leaf->IsArray()) out.push_back(*leaf);
  return out;
}

Result<Literal> Assemble(const Shape& shape, const std::vector<Literal>& leaves, std::size_t& next) {
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
  return leaves[next++];
}

// The custom calls that the corpus expects of a harness.
Result<Literal> CorpusCalls(const Instruction& i, std::span<const Literal* const> operands) {
  const std::string& target = i.attr<CustomCallAttributes>().target;
  if (target == "corpus.add_one") {
    Literal out = *operands[0];
    for (float& v : out.data<float>()) v += 1;
    return out;
  }
  if (target == "corpus.swap") return Literal::MakeTuple({*operands[1], *operands[0]});
  return NotFound("no custom call {}", target);
}

struct Run {
  Literal result;
  Outfeed outfed;
};

// `declared`: how a module looked whose dynamic dimensions have become static; its parameters are arrays.
Result<Run> Execute(const Module& module, const RecordedArrays& arrays, const EntryInterface* declared = nullptr) {
  std::vector<Literal> arguments;
  std::size_t next = 0;
  if (declared != nullptr) arguments = arrays.inputs[0];
  for (const Instruction* p : module.entry()->parameters()) {
    if (declared != nullptr) break;
    KRAFLA_ASSIGN(Literal argument, Assemble(p->shape(), arrays.inputs[0], next));
    arguments.push_back(std::move(argument));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& l : arguments) pointers.push_back(&l);
  std::vector<Literal> padded;
  if (declared != nullptr) {
    KRAFLA_ASSIGN(pointers, PadArguments(*declared, pointers, padded));
  }
  Run out;
  std::size_t infeed = 0;
  EvaluatorHost host;
  host.custom_call = CorpusCalls;
  host.infeed = [&](const Shape& shape) -> Result<Literal> {
    if (infeed >= arrays.infeed.size()) return OutOfRange("the infeed queue is empty");
    std::size_t leaf = 0;
    return Assemble(shape, arrays.infeed[infeed++], leaf);
  };
  host.outfeed = [&](const Literal& item) -> Result<> {
    for (const Literal* leaf : item.ArrayLeaves()) out.outfed.push_back(*leaf);
    return {};
  };
  if (!arrays.send_to_host.empty() || !arrays.recv_from_host.empty()) {
    host.collective = [&](const Instruction& i, std::span<const Literal* const>) -> Result<Literal> {
      if (i.opcode() == Opcode::kSend) return Literal::Create(Shape::MakeToken());
      for (const auto& [id, literal] : arrays.recv_from_host)
        if (id == i.attr<ChannelAttributes>().channel_id) return literal;
      return NotFound("no such channel");
    };
  }
  EvaluatorOptions options;
  options.host = &host;
  KRAFLA_ASSIGN(out.result, Evaluate(*module.entry(), pointers, options));
  if (declared != nullptr) {
    std::vector<Literal> leaves;
    for (const Literal* leaf : out.result.ArrayLeaves()) leaves.push_back(*leaf);
    KRAFLA_ASSIGN(leaves, CutResults(*declared, std::move(leaves)));
    KRAFLA_ASSIGN(out.result, Literal::MakeTuple(std::move(leaves)));
  }
  return out;
}

bool UsesAny(const Module& module, std::initializer_list<Opcode> opcodes) {
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      for (Opcode op : opcodes)
        if (i->opcode() == op) return true;
  return false;
}

// Passes that add in another order or round elsewhere, as their files say.
bool MayRoundOtherwise(const Module& module) {
  // Complex convolutions become real ones: contraction_expander.cpp.
  for (const auto& c : module.computations())
    for (const auto& i : c->instructions())
      if (i->opcode() == Opcode::kConvolution && IsComplex(i->shape().element_type())) return true;
  return UsesAny(module, {Opcode::kBatchNormTraining, Opcode::kBatchNormInference, Opcode::kBatchNormGrad,
                          Opcode::kScaledDot, Opcode::kRaggedDot, Opcode::kReduceWindow, Opcode::kPower, Opcode::kDot});
}

Result<> CompareAll(const std::vector<const Literal*>& got, const std::vector<const Literal*>& expected,
                    const std::function<Comparison(std::size_t)>& compare) {
  if (got.size() != expected.size()) return DataLoss("{} results, {} expected", got.size(), expected.size());
  for (std::size_t o = 0; o < got.size(); ++o)
    if (Comparison c = compare(o); !c.passed) return DataLoss("output {}: {}", o, c.reason);
  return {};
}

struct Totals {
  int passed = 0, several = 0;
  double pipeline_ms = 0, slowest_ms = 0;
  std::string slowest;
  std::size_t before = 0, after = 0;
};

Result<> Optimise(Module& module, const std::string& name, Totals& totals) {
  for (const auto& c : module.computations()) totals.before += c->instructions().size();
  double spent = 0;
  auto check = [&](const PassInfo& pass, Module& m, bool, double took) -> Result<> {
    spent += took;
    auto verified = Verify(m);
    if (!verified) return Failure(std::move(verified).error().WithContext(Format("after {}", pass.name)));
    return {};
  };
  KRAFLA_TRY(RunPipeline(module, {}, check));
  totals.pipeline_ms += spent;
  if (spent > totals.slowest_ms) {
    totals.slowest_ms = spent;
    totals.slowest = name;
  }
  for (const auto& c : module.computations()) totals.after += c->instructions().size();
  return Verify(module);
}

Result<> RunCase(const RecordedCase& c, Totals& totals) {
  bool several = c.replicas * c.partitions > 1;
  const std::string& path = several && !c.module_path_spmd.empty() ? c.module_path_spmd : c.module_path;
  KRAFLA_ASSIGN(auto module, ParseHloText(ReadFile(path), c.name));
  KRAFLA_TRY(Verify(*module));
  auto original = module->Clone();
  KRAFLA_TRY(Optimise(*module, c.name, totals));
  if (several) {
    ++totals.several;
    return {};
  }
  std::vector<Shape> parameters;
  for (const Instruction* p : original->entry()->parameters())
    for (const Shape& s : ArrayShapes(p->shape())) parameters.push_back(s);
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(c, parameters, ArrayShapes(original->entry()->root()->shape())));
  KRAFLA_ASSIGN(Run before, Execute(*original, arrays));
  const EntryInterface declared = EntryInterface::Of(*original);
  auto run = Execute(*module, arrays, declared.IsDynamic() ? &declared : nullptr);
  if (!run) return Failure(std::move(run).error().WithContext("after the pipeline"));
  auto got = run->result.ArrayLeaves();
  std::vector<const Literal*> expected;
  for (const Literal& l : arrays.outputs[0]) expected.push_back(&l);
  KRAFLA_TRY(CompareAll(got, expected, [&](std::size_t o) {
    const Literal* alt = nullptr;
    if (!arrays.alt_outputs.empty() && o < arrays.alt_outputs[0].size() && arrays.alt_outputs[0][o])
      alt = &*arrays.alt_outputs[0][o];
    return Compare(*got[o], *expected[o], alt, arrays.tolerances[o]);
  }));
  Tolerance exact;
  exact.kind = Tolerance::Kind::kExact;
  auto unchanged = before.result.ArrayLeaves();
  if (!MayRoundOtherwise(*original)) {
    auto same = CompareAll(got, unchanged,
                           [&](std::size_t o) { return Compare(*got[o], *unchanged[o], nullptr, exact); });
    if (!same) return Failure(std::move(same).error().WithContext("against the module before the pipeline"));
  }
  if (run->outfed.size() != before.outfed.size()) return DataLoss("{} arrays went out", run->outfed.size());
  for (std::size_t n = 0; n < run->outfed.size(); ++n)
    if (!(run->outfed[n] == before.outfed[n])) return DataLoss("outfed array {} differs", n);
  ++totals.passed;
  return {};
}

void RunAll(const std::string& path) {
  auto list = FindCases(path);
  ASSERT_TRUE(list) << list.error().ToString();
  const char* only = std::getenv("KRAFLA_CASE");  // a part of the names to run, for a closer look
  Totals totals;
  int failed = 0;
  for (const RecordedCase& c : list->cases) {
    if (only != nullptr && c.name.find(only) == std::string::npos) continue;
    auto result = RunCase(c, totals);
    if (result) continue;
    ++failed;
    ADD_FAILURE() << c.name << ": " << result.error().ToString();
  }
  std::printf("%d passed, %d failed, %d for several devices verified\n", totals.passed, failed, totals.several);
  std::printf("%zu instructions before, %zu after; %.1f ms in passes, at most %.2f ms (%s)\n", totals.before,
              totals.after, totals.pipeline_ms, totals.slowest_ms, totals.slowest.c_str());
  EXPECT_GT(totals.passed, 0);
}

TEST(PassCorpus, Operations) {
  const char* corpus = std::getenv("KRAFLA_CORPUS");
  if (corpus == nullptr) GTEST_SKIP() << "KRAFLA_CORPUS is not set";
  RunAll(std::string(corpus) + "/ops");
}

TEST(PassCorpus, Models) {
  const char* models = std::getenv("KRAFLA_MODELS");
  if (models == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set";
  RunAll(std::string(models) + "/tiny");
}

}  // namespace
}  // namespace krafla
