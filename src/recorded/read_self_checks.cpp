// SPDX-License-Identifier: Apache-2.0
#include "recorded/self_check.h"

#include <algorithm>

#include "hlo_io/stablehlo/to_module.h"
#include "hlo_io/stablehlo_text/stablehlo_text.h"

namespace krafla {
namespace {

using stablehlo::Op;
using stablehlo::Region;
using stablehlo::Tree;

std::string SymbolOf(const Op& func) {
  const auto* name = func.Find("sym_name");
  return name != nullptr ? name->text : "";
}

// The function that is run: main, or the only one, or the only one without arguments.
Result<Op*> EntryOf(Tree& tree) {
  std::vector<Op*> candidates;
  for (Region& region : tree.module.regions)
    for (Op& op : region.ops) {
      if (op.name != "func" || op.regions.empty()) continue;
      if (SymbolOf(op) == "main") return &op;
      if (op.regions[0].arguments.empty()) candidates.push_back(&op);
    }
  if (candidates.size() == 1) return candidates[0];
  return InvalidArgument("The module has no function 'main', and {} functions without arguments.", candidates.size());
}

bool IsToken(const Tree& tree, stablehlo::ValueId value) {
  return tree.values[static_cast<std::size_t>(value)]->kind == stablehlo::Type::Kind::kToken;
}

// The names of a list of symbols, or of a list of such lists, whose lengths are the same.
Result<std::vector<std::string>> Symbols(stablehlo::AttributeRef list, int64_t* rows) {
  std::vector<std::string> out;
  if (list == nullptr || list->elements.empty()) return InvalidArgument("A list of functions is empty.");
  *rows = static_cast<int64_t>(list->elements.size());
  const std::size_t columns = list->elements[0]->elements.size();
  for (stablehlo::AttributeRef row : list->elements) {
    if (row->kind == stablehlo::Attribute::Kind::kString) {
      out.push_back(row->text);
      continue;
    }
    if (row->elements.size() != columns) return InvalidArgument("Programs of devices form no grid.");
    for (stablehlo::AttributeRef one : row->elements) out.push_back(one->text);
  }
  return out;
}

// Cuts the entry at the operation that runs a program on several devices: what is before it gives the arguments, what
// is after it gets the results as parameters.
Result<ParallelProgram> TakeParallel(Tree& tree, Op& entry) {
  std::vector<Op>& ops = entry.regions[0].ops;
  std::size_t at = 0;
  while (ops[at].name != "interpreter.run_parallel") ++at;
  Op run = ops[at];
  int64_t rows = 0, items = 0;
  KRAFLA_ASSIGN(std::vector<std::string> programs, Symbols(run.Find("programs"), &rows));
  ParallelProgram out;
  if (std::ranges::count(programs, programs[0]) == std::ssize(programs)) {
    const stablehlo::Conversion conversion{.entry = programs[0],
                                           .arrays_only = true,
                                           .replicas = rows,
                                           .partitions = static_cast<int64_t>(programs.size()) / rows};
    KRAFLA_ASSIGN(out.module, stablehlo::ToModule(tree, conversion));
  } else {
    for (const std::string& program : programs) {
      KRAFLA_ASSIGN(auto module, stablehlo::ToModule(tree, {.entry = program, .arrays_only = true}));
      out.alone.push_back(std::move(module));
    }
  }
  if (run.Find("infeed") != nullptr) {
    KRAFLA_ASSIGN(std::vector<std::string> queue, Symbols(run.Find("infeed"), &items));
    for (const std::string& item : queue) {
      KRAFLA_ASSIGN(auto module, stablehlo::ToModule(tree, {.entry = item, .arrays_only = true}));
      out.infeed.push_back(std::move(module));
    }
  }
  // The same function twice, with other ends.
  const Region whole = entry.regions[0];
  Op end;
  end.name = "return";
  for (stablehlo::ValueId operand : run.operands)
    if (!IsToken(tree, operand)) end.operands.push_back(operand);
  entry.attributes.erase(std::remove_if(entry.attributes.begin(), entry.attributes.end(),
                                        [](const auto& a) { return a.first == "function_type"; }),
                         entry.attributes.end());
  ops.resize(at);
  ops.push_back(std::move(end));
  KRAFLA_ASSIGN(out.inputs, stablehlo::ToModule(tree, {.entry = SymbolOf(entry), .arrays_only = true}));
  entry.regions[0] = whole;
  ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at));
  for (stablehlo::ValueId result : run.results)
    if (!IsToken(tree, result)) entry.regions[0].arguments.push_back(result);
  return out;
}

Result<SelfCheck> ReadOne(Tree& tree, Op& entry) {
  SelfCheck out;
  out.name = SymbolOf(entry);
  bool parallel = false;
  for (const Op& op : entry.regions[0].ops) parallel |= op.name == "interpreter.run_parallel";
  if (parallel) { KRAFLA_ASSIGN(out.parallel, TakeParallel(tree, entry)); }
  KRAFLA_ASSIGN(out.module, stablehlo::ToModule(tree, {.entry = out.name, .arrays_only = true, .checks = &out.rules}));
  return out;
}

std::vector<std::string_view> Words(std::string_view text) {
  constexpr std::string_view kMark = "// -----";
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t at = text.find(kMark);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + kMark.size());
  }
}

}  // namespace

bool HasChecks(std::string_view text) {
  return text.find("check.eq") != std::string_view::npos || text.find("check.expect_") != std::string_view::npos;
}

std::vector<SelfCheckPart> ReadSelfChecks(std::string_view text, std::string_view file) {
  std::vector<SelfCheckPart> out;
  int number = 0;
  for (std::string_view part : Words(text)) {
    ++number;
    if (!stablehlo::LooksLikeMlir(part)) continue;  // comments
    std::string name = Format("part {}", number);
    auto tree = stablehlo::ParseText(part, file);
    if (!tree) {
      out.push_back({std::move(name), Failure(std::move(tree).error())});
      continue;
    }
    auto entry = EntryOf(**tree);
    if (!entry) {
      out.push_back({std::move(name), Failure(std::move(entry).error())});
      continue;
    }
    std::string function = SymbolOf(**entry);
    if (function != "main") name = std::move(function);
    auto check = ReadOne(**tree, **entry);
    out.push_back({std::move(name), std::move(check)});
  }
  return out;
}

}  // namespace krafla
