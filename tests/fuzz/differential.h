// SPDX-License-Identifier: Apache-2.0
// One module on several back ends against the evaluator.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/client.h"
#include "ir/literal.h"
#include "ir/module.h"

namespace krafla::fuzz {

enum class Verdict {
  kAgree,
  kRefused,    // UNIMPLEMENTED or RESOURCE_EXHAUSTED: said, and counted
  kDenormal,   // differs, and some value was denormal, which devices may flush
  kDisagree,
  kError,      // any other error
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
  explicit Differential(const std::vector<std::string>& selectors);

  // The worst outcome of all back ends.
  Outcome Check(const Module& module, const std::vector<Literal>& arguments);

  std::vector<std::string> absent;
  std::size_t backend_count() const { return backends_.size(); }

 private:
  struct Backend {
    std::string name;
    std::shared_ptr<Client> client;
    CompileOptions options;
  };
  std::vector<Backend> backends_;
};

}  // namespace krafla::fuzz
