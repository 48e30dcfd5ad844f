// SPDX-License-Identifier: Apache-2.0
#include "recorded_case.h"

#include <cstdlib>

#include "base/file.h"
#include "evaluator/evaluator.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

void AddArrayShapes(const Shape& shape, std::vector<Shape>& out) {
  for (const Shape* leaf : TupleLeaves(shape))
    if (leaf->IsArray()) out.push_back(*leaf);
}

// A literal of `shape` from the next leaves.
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
  if (target == "corpus.add_one" && operands.size() == 1) {
    Literal out = *operands[0];
    for (float& v : out.data<float>()) v += 1;
    return out;
  }
  if (target == "corpus.swap" && operands.size() == 2) return Literal::MakeTuple({*operands[1], *operands[0]});
  return NotFound("no custom call {}", target);
}

Result<> SameBits(const Literal& got, const Literal& expected, std::string_view what) {
  if (Comparison same = Compare(got, expected, nullptr, {}); !same.passed) return DataLoss("{}: {}", what, same.reason);
  return {};
}

}  // namespace

Result<std::unique_ptr<Module>> ReadModuleOf(const RecordedCase& c) {
  const bool several = c.replicas * c.partitions > 1 && !c.module_path_spmd.empty();
  KRAFLA_ASSIGN(const std::string text, ReadFile(several ? c.module_path_spmd : c.module_path));
  return ParseHloText(text, c.name);
}

Result<RecordedArrays> ReadArraysOf(const RecordedCase& c, const Module& module) {
  std::vector<Shape> parameters, results;
  for (const Instruction* p : module.entry()->parameters()) AddArrayShapes(p->shape(), parameters);
  AddArrayShapes(module.entry()->root()->shape(), results);
  return ReadArrays(c, parameters, results);
}

Result<RecordedRun> RunRecorded(const Module& module, const RecordedArrays& arrays, const EntryInterface* declared) {
  if (arrays.inputs.size() != 1 || arrays.outputs.size() != 1)
    return InvalidArgument("not one device but {}", arrays.inputs.size());
  std::vector<Literal> arguments;
  std::size_t next = 0;
  if (declared != nullptr) {
    arguments = arrays.inputs[0];
  } else {
    for (const Instruction* p : module.entry()->parameters()) {
      KRAFLA_ASSIGN(Literal argument, Assemble(p->shape(), arrays.inputs[0], next));
      arguments.push_back(std::move(argument));
    }
  }
  std::vector<const Literal*> pointers;
  for (const Literal& l : arguments) pointers.push_back(&l);
  std::vector<Literal> padded;
  if (declared != nullptr) { KRAFLA_ASSIGN(pointers, PadArguments(*declared, pointers, padded)); }

  RecordedRun out;
  EvaluatorHost host;
  std::size_t infeed = 0, items = 0;
  host.custom_call = CorpusCalls;
  host.infeed = [&](const Shape& shape) -> Result<Literal> {
    if (infeed >= arrays.infeed.size()) return OutOfRange("the infeed queue is empty");
    std::size_t leaf = 0;
    return Assemble(shape, arrays.infeed[infeed++], leaf);
  };
  host.outfeed = [&](const Literal& item) -> Result<> {
    if (items >= arrays.outfeed.size()) return OutOfRange("more items than expected went out");
    const auto& expected = arrays.outfeed[items++];
    const auto leaves = item.ArrayLeaves();
    if (leaves.size() != expected.size()) return OutOfRange("an item of {} arrays went out", leaves.size());
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      KRAFLA_TRY(SameBits(*leaves[l], expected[l], "outfeed"));
      out.outfed.push_back(*leaves[l]);
    }
    return {};
  };
  if (!arrays.send_to_host.empty() || !arrays.recv_from_host.empty()) {
    host.collective = [&](const Instruction& i, std::span<const Literal* const> operands) -> Result<Literal> {
      const auto& channel = i.attr<ChannelAttributes>().channel_id;  // a send or a recv-done
      for (const auto& [id, literal] : i.opcode() == Opcode::kSend ? arrays.send_to_host : arrays.recv_from_host) {
        if (id != channel) continue;
        if (i.opcode() != Opcode::kSend) return literal;
        KRAFLA_TRY(SameBits(*operands[0], literal, "send"));
        return Literal::Create(Shape::MakeToken());
      }
      return NotFound("no such channel");
    };
  }
  EvaluatorOptions options;
  options.host = &host;
  KRAFLA_ASSIGN(out.result, Evaluate(*module.entry(), pointers, options));
  if (items != arrays.outfeed.size()) return DataLoss("{} items went out of {}", items, arrays.outfeed.size());
  if (declared != nullptr) {
    std::vector<Literal> leaves;
    for (const Literal* leaf : out.result.ArrayLeaves()) leaves.push_back(*leaf);
    KRAFLA_ASSIGN(leaves, CutResults(*declared, std::move(leaves)));
    KRAFLA_ASSIGN(out.result, Literal::MakeTuple(std::move(leaves)));
  }
  return out;
}

Result<> CompareWithRecorded(const Literal& result, const RecordedArrays& arrays) {
  const auto got = result.ArrayLeaves();
  const auto& expected = arrays.outputs[0];
  if (got.size() != expected.size()) return DataLoss("{} results, {} were recorded", got.size(), expected.size());
  for (std::size_t o = 0; o < got.size(); ++o) {
    const Literal* alt = nullptr;
    if (!arrays.alt_outputs.empty() && o < arrays.alt_outputs[0].size() && arrays.alt_outputs[0][o])
      alt = &*arrays.alt_outputs[0][o];
    Comparison comparison = Compare(*got[o], expected[o], alt, arrays.tolerances[o]);
    if (!comparison.passed) return DataLoss("output {}: {}", o, comparison.reason);
  }
  return {};
}

bool IsWanted(const RecordedCase& c) {
  const char* only = std::getenv("KRAFLA_CASE");
  return only == nullptr || c.name.find(only) != std::string::npos;
}

}  // namespace krafla
