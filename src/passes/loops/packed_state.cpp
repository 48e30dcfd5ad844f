// SPDX-License-Identifier: Apache-2.0
// Arrays whose elements are taken out of bytes (passes/entry_packing.h) go into a loop, which passes them on, as these
// bytes: the weights of all layers would be unpacked as a whole else, before a loop that reads a layer a turn.
#include <vector>

#include "passes/entry_packing.h"
#include "passes/loops/loop.h"
#include "passes/passes.h"

namespace krafla {
namespace {

// Uses of element `n` of the body's parameter but to pass it on.
std::vector<Instruction*> UsesInBody(const Loop& loop, std::size_t n) {
  std::vector<Instruction*> out;
  for (Instruction* user : loop.body().parameters()[0]->users()) {
    if (Loop::ElementOf(*user) != n) continue;
    for (const Instruction* use : user->users()) {
      if (use == loop.body().root() && use->PlacesOf(user).size() == 1) continue;
      out.push_back(user);
      break;
    }
  }
  return out;
}

bool PackState(Loop& loop, std::vector<Instruction*>& gone) {
  std::vector<std::size_t> packed, all;
  std::vector<Instruction*> sources;
  for (std::size_t n = 0; n < loop.size(); ++n) {
    all.push_back(n);
    const Instruction* initial = loop.Initial(n);
    if (initial == nullptr || !loop.IsInvariant(n) || UsesInBody(loop, n).empty()) continue;
    Instruction* source = PackedSourceOf(*initial);
    if (source == nullptr) continue;
    packed.push_back(n);
    sources.push_back(source);
  }
  if (packed.empty()) return false;
  Loop::Rebuilt rebuilt = loop.Rebuild(all, sources);
  for (std::size_t k = 0; k < packed.size(); ++k) {
    for (Instruction* element : UsesInBody(loop, packed[k])) {
      Instruction* const unpacked = AddUnpacked(rebuilt.added[k], element->shape());
      const std::vector<Instruction*> users(element->users().begin(), element->users().end());
      for (Instruction* user : users)
        for (const std::size_t place : user->PlacesOf(element))
          if (user != loop.body().root() || place != packed[k]) user->ReplaceOperand(place, unpacked);
    }
  }
  gone.insert(gone.end(), rebuilt.gone.begin(), rebuilt.gone.end());
  return true;
}

}  // namespace

Result<bool> PackedState(Module& module, const PassOptions&) {
  if (module.CountOf(Opcode::kBitcastConvert) == 0) return false;
  SideEffects effects;
  return RewriteLoops(module, effects, [&](Instruction* i, std::vector<Instruction*>& gone) -> Result<bool> {
    auto loop = Loop::Of(i);
    if (!loop || !loop->ResultTakenApart() || !PackState(*loop, gone)) return false;
    KRAFLA_TRY(loop->body().SortTopologically());
    return true;
  });
}

}  // namespace krafla
