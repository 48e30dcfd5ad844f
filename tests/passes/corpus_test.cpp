// SPDX-License-Identifier: Apache-2.0
// Recorded programs, where the environment names them (KRAFLA_CORPUS, KRAFLA_MODELS): after the pipeline each must
// still verify, give the recorded outputs within their own tolerance, and give the very bits that it gave before,
// unless a pass that says so changed the order of its sums. Programs for several devices must verify.
#include <cstdio>
#include <cstdlib>

#include "../recorded_case.h"
#include "pass_harness.h"

namespace krafla {
namespace {

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

// The very bits.
Result<> CompareBits(const Literal& got, const Literal& expected) {
  const auto g = got.ArrayLeaves(), e = expected.ArrayLeaves();
  if (g.size() != e.size()) return DataLoss("{} results, {} before", g.size(), e.size());
  for (std::size_t o = 0; o < g.size(); ++o)
    if (Comparison c = Compare(*g[o], *e[o], nullptr, {}); !c.passed) return DataLoss("output {}: {}", o, c.reason);
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
  KRAFLA_ASSIGN(auto module, ReadModuleOf(c));
  KRAFLA_TRY(Verify(*module));
  auto original = module->Clone();
  KRAFLA_TRY(Optimise(*module, c.name, totals));
  if (several) {
    ++totals.several;
    return {};
  }
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArraysOf(c, *original));
  KRAFLA_ASSIGN(RecordedRun before, RunRecorded(*original, arrays));
  const EntryInterface declared = EntryInterface::Of(*original);
  auto run = RunRecorded(*module, arrays, declared.IsDynamic() ? &declared : nullptr);
  if (!run) return Failure(std::move(run).error().WithContext("after the pipeline"));
  KRAFLA_TRY(CompareWithRecorded(run->result, arrays));
  if (!MayRoundOtherwise(*original)) {
    auto same = CompareBits(run->result, before.result);
    if (!same) return Failure(std::move(same).error().WithContext("against the module before the pipeline"));
  }
  ++totals.passed;
  return {};
}

void RunAll(const std::string& path) {
  auto list = FindCases(path);
  ASSERT_TRUE(list) << list.error().ToString();
  Totals totals;
  int failed = 0;
  for (const RecordedCase& c : list->cases) {
    if (!IsWanted(c)) continue;
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

// The module stays valid whichever pass is left out.
TEST(PassCorpus, EachPassLeftOut) {
  for (const char* name : {"sort-topk-tiny", "switch-loop-tiny", "lstm-tiny", "mandelbrot-tiny"}) {
    auto list = FindCases(std::string(KRAFLA_SOURCE_DIR) + "/tests/models/" + name);
    ASSERT_TRUE(list) << list.error().ToString();
    ASSERT_FALSE(list->cases.empty()) << name;
    auto original = ReadModuleOf(list->cases[0]);
    ASSERT_TRUE(original) << original.error().ToString();
    ASSERT_TRUE(Verify(**original));
    for (const PassInfo& left_out : AllPasses()) {
      auto module = (*original)->Clone();
      PassOptions options;
      options.disabled.insert(std::string(left_out.name));
      const auto verify = [](const PassInfo& pass, Module& m, bool changed, double) -> Result<> {
        if (!changed) return {};
        auto verified = Verify(m, CallDepth::kAfterPasses);
        if (!verified) return Failure(std::move(verified).error().WithContext(Format("after {}", pass.name)));
        return {};
      };
      auto ran = RunPipeline(*module, options, verify);
      EXPECT_TRUE(ran) << name << " without " << left_out.name << ": " << ran.error().ToString();
    }
  }
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
