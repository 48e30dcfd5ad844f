// SPDX-License-Identifier: Apache-2.0
// One module on several back ends against the evaluator, and in several forms: as it is, and read back from HLO text,
// from its proto and, with the evaluator alone, from StableHLO. A program of several devices runs on as many virtual
// ones, and the first back end is what the others are held against. What a compile costs is bounded.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/client.h"
#include "ir/module.h"
#include "krafla/literal.h"

namespace krafla::fuzz {

enum class Verdict {
  kAgree,
  kRefused,   // by all alike, or by one with UNIMPLEMENTED or RESOURCE_EXHAUSTED: said, and counted
  kDenormal,  // differs, and some value was denormal, which devices may flush
  kDisagree,
  kCostly,  // a compile took more than CompileBudget
  kError,   // any other error
};
constexpr int kVerdicts = 6;

// What a compile may cost the CPU back end: instructions may become more by so much, and time grows with both numbers.
// A processor of 2020 takes a third of it.
struct CompileBudget {
  int64_t compiled_instructions = 10'000, compiled_per_instruction = 100;
  double seconds_per_instruction = 0.002, seconds_per_compiled_instruction = 0.0001, seconds = 0.5;  // processor time
  int64_t bytes_per_instruction = 1 << 16,
          bytes = 64 << 20;  // by which the process may grow, with 64 times the constants
};

struct Outcome {
  Verdict verdict = Verdict::kAgree;
  std::string backend, what;
};

// What an entry's instructions gave, one by one.
struct ReferenceRun {
  std::map<const Instruction*, Literal> values;
  std::vector<Literal> results;  // leaves
  bool denormal = false;
};
// `arguments`: one a leaf of the parameters. Sorts nothing: the entry must be in topological order, as after Verify.
Result<ReferenceRun> RunReference(const Module& module, const std::vector<Literal>& arguments);

class Differential {
 public:
  // Selectors as the command line takes them; "cpu!fusion,dce" is "cpu" with these disabled. A device that is not here
  // is left out, and named in `absent`.
  // `budget_factor`: for builds that are slow, as sanitizers make them.
  explicit Differential(const std::vector<std::string>& selectors, double budget_factor = 1);

  // The worst outcome of all back ends and forms.
  Outcome Check(const Module& module, const std::vector<Literal>& arguments);

  std::vector<std::string> absent;
  int64_t stablehlo_forms = 0;  // modules that were written as StableHLO and read again, each form by itself
  std::size_t backend_count() const { return backends_.size(); }

 private:
  struct Backend {
    std::string name;
    std::shared_ptr<Client> client;
    CompileOptions options;
  };
  struct Results {
    std::vector<std::vector<Literal>> devices;
  };
  std::string WrongStablehlo(const Module& module, const std::vector<Literal>& arguments,
                             std::span<const Literal> expected);
  Result<Results> Run(Backend& backend, const Module& module, const std::vector<Literal>& arguments,
                      std::string& costly);

  std::vector<Backend> backends_;
  double budget_factor_;
};

}  // namespace krafla::fuzz
