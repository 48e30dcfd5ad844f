// SPDX-License-Identifier: Apache-2.0
#include "shrink.h"

#include <chrono>

#include "differential.h"
#include "ir/builder.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"

namespace krafla::fuzz {
namespace {

// Without dead code, computations that nobody calls, and parameters that nobody reads. Null: no longer valid.
bool Tidy(Failing& state) {
  const std::string passes[] = {"dce"};
  if (!Verify(*state.module) || !RunPasses(*state.module, passes)) return false;
  Computation& entry = *state.module->entry();
  std::vector<Instruction*> kept;
  std::vector<Literal> arguments;
  std::vector<Instruction*> all(entry.parameters().begin(), entry.parameters().end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->users().empty() && !all[i]->IsRoot()) continue;
    ParameterAttributes attributes;
    attributes.number = std::ssize(kept);
    all[i]->set_attributes(attributes);
    kept.push_back(all[i]);
    arguments.push_back(std::move(state.arguments[i]));
  }
  std::vector<Instruction*> dead;
  for (Instruction* p : all)
    if (p->users().empty() && !p->IsRoot()) dead.push_back(p);
  entry.set_parameters(kept);
  for (Instruction* p : dead) entry.Remove(p);
  entry.set_parameters(kept);
  state.arguments = std::move(arguments);
  return Verify(*state.module).has_value();
}

Instruction* Named(Module& module, const std::string& name) {
  for (const auto& instruction : module.entry()->instructions())
    if (instruction->name() == name) return instruction.get();
  return nullptr;
}

}  // namespace

Failing Shrink(Failing from, const std::function<bool(const Module&, const std::vector<Literal>&)>& fails,
               double seconds) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto over = [&] { return std::chrono::steady_clock::now() > end; };
  // Makes a change on a copy, and keeps it if that still fails.
  auto attempt = [&](const std::function<bool(Failing&)>& change) {
    Failing copy{from.module->Clone(), from.arguments};
    if (!change(copy) || !Tidy(copy) || !fails(*copy.module, copy.arguments)) return false;
    from = std::move(copy);
    return true;
  };

  // The earliest instruction that is wrong by itself.
  std::vector<std::string> names;
  for (const auto& instruction : from.module->entry()->instructions())
    if (instruction->shape().IsArray() && instruction->opcode() != Opcode::kParameter)
      names.push_back(instruction->name());
  for (const std::string& name : names) {
    if (over()) return from;
    if (attempt([&](Failing& f) {
          Instruction* root = Named(*f.module, name);
          if (root == nullptr) return false;
          f.module->entry()->set_root(root);
          f.module->input_output_aliases.clear();
          return true;
        }))
      break;
  }

  for (bool changed = true; changed && !over();) {
    changed = false;
    names.clear();
    for (const auto& instruction : from.module->entry()->instructions())
      if (!instruction->IsRoot() && instruction->opcode() != Opcode::kParameter && instruction->shape().IsArray())
        names.push_back(instruction->name());
    for (const std::string& name : names) {
      if (over()) break;
      changed |= attempt([&](Failing& f) {
        Instruction* old = Named(*f.module, name);
        if (old == nullptr || old->shape().IsDynamic()) return false;
        auto reference = RunReference(*f.module, f.arguments);
        if (!reference) return false;
        Computation& entry = *f.module->entry();
        Instruction* parameter = AddParameter(entry, std::ssize(entry.parameters()), old->shape());
        f.arguments.push_back(reference->values.at(old));
        old->ReplaceAllUsesWith(parameter);
        return true;
      });
    }
    // An operand in place of what is made from it.
    for (const std::string& name : names) {
      if (over()) break;
      changed |= attempt([&](Failing& f) {
        Instruction* old = Named(*f.module, name);
        if (old == nullptr) return false;
        for (Instruction* operand : old->operands())
          if (Shape::Compatible(operand->shape(), old->shape())) {
            old->ReplaceAllUsesWith(operand);
            return true;
          }
        return false;
      });
    }
  }
  // Zeros where any value will do.
  for (std::size_t i = 0; i < from.arguments.size() && !over(); ++i)
    attempt([&](Failing& f) {
      f.arguments[i] = *Literal::Create(f.arguments[i].shape());
      return true;
    });
  return from;
}

}  // namespace krafla::fuzz
