// SPDX-License-Identifier: Apache-2.0
#include "compare_side.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "api/front_end.h"
#include "base/file.h"
#include "evaluator/evaluator.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "recorded/npz.h"
#include "subprocess.h"

namespace krafla::cli {
namespace {

Result<Literal> Assemble(const Shape& shape, const std::vector<Literal>& leaves, std::size_t& next) {
  if (!shape.IsTuple()) {
    if (next >= leaves.size()) return InvalidArgument("The module takes more than {} arguments.", leaves.size());
    return CopyOf(leaves[next++]);
  }
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
  for (std::size_t e = 0; e < out.elements().size(); ++e) {
    KRAFLA_ASSIGN(out.elements()[e], Assemble(shape.tuple_elements()[e], leaves, next));
  }
  return out;
}

void Flatten(Literal literal, std::vector<Literal>& out) {
  if (!literal.shape().IsTuple()) return out.push_back(std::move(literal));
  for (Literal& element : literal.elements()) Flatten(std::move(element), out);
}

std::vector<const Literal*> PointersTo(const std::vector<Literal>& literals) {
  std::vector<const Literal*> out;
  for (const Literal& l : literals) out.push_back(&l);
  return out;
}

}  // namespace

Result<std::unique_ptr<Side>> Side::Open(const std::string& text, const std::string& binary) {
  auto out = std::make_unique<Side>();
  out->text_ = text;
  out->binary_ = binary;
  CLI::App app;
  out->device_.AddTo(app, {.json = false});
  try {
    app.parse("-d " + text, false);
  } catch (const CLI::ParseError& e) {
    return InvalidArgument("'{}' is not a device with options, such as 'vulkan:0 --disable coopmat': {}.", text,
                           e.what());
  }
  KRAFLA_ASSIGN(out->options_, out->device_.ToCompileOptions());
  out->options_.transfers = HostTransfers::WithoutHost();
  if (binary.empty()) { KRAFLA_ASSIGN(out->client_, OpenDevice(out->device_.selector)); }
  return out;
}

std::unique_ptr<Side> Side::Evaluator() {
  auto out = std::make_unique<Side>();
  out->text_ = "evaluator";
  out->is_evaluator_ = true;
  return out;
}

std::vector<std::string> Side::Words(const std::set<std::string>& disabled) const {
  std::vector<std::string> out = {"-d", device_.selector};
  std::set<std::string> off = options_.disabled;
  off.insert(disabled.begin(), disabled.end());
  for (const std::string& name : off) out.insert(out.end(), {"--disable", name});
  for (const std::string& name : options_.enabled) out.insert(out.end(), {"--enable", name});
  if (device_.threads > 0) out.insert(out.end(), {"--threads", std::to_string(device_.threads)});
  if (device_.strict) out.emplace_back("--strict");
  return out;
}

Result<std::vector<Literal>> Side::Run(const Module& module, const std::vector<Literal>& arguments,
                                       const std::set<std::string>& disabled) const {
  auto results = is_evaluator_ ? RunEvaluator(module, arguments)
                 : client_     ? RunHere(module, arguments, disabled)
                               : RunElsewhere(module, arguments, disabled);
  if (!results) return Failure(std::move(results).error().WithContext(Format("while running '{}'", text_)));
  return results;
}

Result<std::vector<Literal>> Side::RunHere(const Module& module, const std::vector<Literal>& arguments,
                                           const std::set<std::string>& disabled) const {
  CompileOptions options = options_;
  options.disabled.insert(disabled.begin(), disabled.end());
  KRAFLA_ASSIGN(const std::unique_ptr<Executable> executable, client_->Compile(module.Clone(), options));
  const RunLimit limit = Limit();
  return executable->Run(PointersTo(arguments), limit);
}

Result<std::unique_ptr<Executable>> Side::Prepare(const Module& module, const std::vector<Literal>& arguments) const {
  if (!client_) return nullptr;
  KRAFLA_ASSIGN(std::unique_ptr<Executable> executable, client_->Compile(module.Clone(), options_));
  KRAFLA_TRY(executable->SetArguments(PointersTo(arguments)));
  return executable;
}

Result<std::vector<Literal>> Side::RunElsewhere(const Module& module, const std::vector<Literal>& arguments,
                                                const std::set<std::string>& disabled) const {
  KRAFLA_ASSIGN(const ScratchFolder folder, ScratchFolder::Make());
  KRAFLA_TRY(WriteFile(folder.File("module.hlo"), PrintModule(module)));
  std::vector<NamedLiteral> named;
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    KRAFLA_ASSIGN(Literal copy, CopyOf(arguments[a]));
    named.push_back({std::to_string(a), std::move(copy)});
  }
  KRAFLA_TRY(WriteNpz(folder.File("in.npz"), named));
  std::vector<std::string> words = {binary_, "run", folder.File("module.hlo"), "--save", folder.File("out.npz")};
  if (!arguments.empty()) words.insert(words.end(), {"--inputs", folder.File("in.npz")});
  for (std::string& word : Words(disabled)) words.push_back(std::move(word));
  KRAFLA_TRY(RunProgram(words, folder.File("out"), folder.File("err")));
  KRAFLA_ASSIGN(std::vector<NamedLiteral> saved, ReadNpz(folder.File("out.npz")));
  std::vector<const Shape*> shapes;
  for (const Shape* leaf : TupleLeaves(module.entry()->root()->shape())) shapes.push_back(leaf);
  if (saved.size() != shapes.size())
    return DataLoss("'{}' saved {} results of {}.", binary_, saved.size(), shapes.size());
  std::vector<Literal> out;
  for (std::size_t r = 0; r < saved.size(); ++r) {
    KRAFLA_ASSIGN(Literal literal, AdoptShape(std::move(saved[r].literal), *shapes[r]));
    out.push_back(std::move(literal));
  }
  return out;
}

Result<std::vector<Literal>> Side::RunEvaluator(const Module& module, const std::vector<Literal>& arguments) const {
  std::vector<Literal> parameters;
  std::size_t next = 0;
  for (const Instruction* p : module.entry()->parameters()) {
    KRAFLA_ASSIGN(Literal literal, Assemble(p->shape(), arguments, next));
    parameters.push_back(std::move(literal));
  }
  KRAFLA_ASSIGN(Literal result, Evaluate(*module.entry(), PointersTo(parameters)));
  std::vector<Literal> out;
  Flatten(std::move(result), out);
  return out;
}

Result<double> Side::Bench(const std::string& path, const std::vector<std::string>& shapes,
                           const std::string& binary) const {
  KRAFLA_ASSIGN(const ScratchFolder folder, ScratchFolder::Make());
  std::vector<std::string> words = {binary.empty() ? binary_ : binary, "bench", path, "--iters", "5", "--json"};
  for (const std::string& shape : shapes) words.insert(words.end(), {"--shape", shape});
  for (std::string& word : Words({})) words.push_back(std::move(word));
  KRAFLA_TRY(RunProgram(words, folder.File("out"), folder.File("err")));
  KRAFLA_ASSIGN(const std::string text, ReadFile(folder.File("out")));
  const auto line = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
  if (!line.is_object() || !line.contains("median_ms") || !line["median_ms"].is_number())
    return DataLoss("'{}' printed no time.", words[0]);
  return line["median_ms"].get<double>();
}

}  // namespace krafla::cli
