// SPDX-License-Identifier: Apache-2.0
// map(f)(x, y) with a scalar f becomes the instructions of f on whole arrays (XLA: map_inliner.cc). Where copies of f
// at all of its maps would make the module too large, a map becomes a call of f made for arrays of its dimensions. A
// map whose computation does more than elementwise arithmetic stays.
#include <map>

#include "passes/lift.h"
#include "passes/passes.h"

namespace krafla {

namespace {

class MapLifter {
 public:
  MapLifter(Module& module, const PassOptions& options) : module_(module), budget_(options.inline_growth) {
    for (const Computation* c : ReachableComputations(module)) {
      budget_ += 4 * static_cast<int64_t>(c->instructions().size());
      for (const auto& i : c->instructions())
        if (i->opcode() == Opcode::kMap) ++maps_[i->called(0)];
    }
  }

  // Callees first: the maps within `map`'s computation are lifted.
  Result<Instruction*> Lift(Instruction* map) {
    if (!IsStatic(*map)) return nullptr;
    Computation* f = map->called(0);
    KRAFLA_TRY(f->SortTopologically());
    Rewriter rewrite(*map);
    const Dims dims(map->shape().dims());
    if (MayCopy(*f))
      return LiftInto(rewrite, *f, map->operands(), dims, [&](Computation& callee) { return Lifted(callee, dims); });
    Computation* lifted = Lifted(*f, dims);
    if (lifted == nullptr) return nullptr;
    return rewrite.Add(Opcode::kCall, map->shape(), {map->operands().begin(), map->operands().end()}, CallAttributes{},
                       {lifted});
  }

 private:
  bool MayCopy(const Computation& f) {
    auto [it, fresh] = may_copy_.emplace(&f, true);
    if (!fresh) return it->second;
    const int64_t growth = (maps_[&f] - 1) * static_cast<int64_t>(f.instructions().size());
    if (growth > budget_) return it->second = false;
    budget_ -= growth;
    return true;
  }

  // A computation that does what `f` does to each element of arrays of dimensions `dims`; null where there is none.
  Computation* Lifted(Computation& f, const Dims& dims) {
    if (dims.empty()) return &f;
    if (f.parameters().empty()) return nullptr;
    auto [it, fresh] = lifted_.emplace(std::pair{&f, std::vector<int64_t>(dims.begin(), dims.end())}, nullptr);
    if (!fresh) return it->second;
    Computation* out = module_.AddComputation(f.name());
    std::vector<Instruction*> parameters;
    for (const Instruction* p : f.parameters())
      parameters.push_back(out->Add(Opcode::kParameter, ArrayShape(p->shape().element_type(), dims), {},
                                    p->attributes(), {}, p->name()));
    Rewriter rewrite(*parameters[0]);
    if (!f.SortTopologically()) return nullptr;
    out->set_root(LiftInto(rewrite, f, parameters, dims, [&](Computation& callee) { return Lifted(callee, dims); }));
    if (out->root() == nullptr) {
      module_.Remove(out);
      return nullptr;
    }
    return it->second = out;
  }

  Module& module_;
  int64_t budget_;
  std::unordered_map<const Computation*, int64_t> maps_;
  std::unordered_map<const Computation*, bool> may_copy_;
  std::map<std::pair<const Computation*, std::vector<int64_t>>, Computation*> lifted_;
};

}  // namespace

Result<bool> MapInliner(Module& module, const PassOptions& options) {
  if (module.CountOf(Opcode::kMap) == 0) return false;
  MapLifter lifter(module, options);
  return RewriteAll(module, Opcode::kMap, [&](Instruction* map) { return lifter.Lift(map); });
}

}  // namespace krafla
