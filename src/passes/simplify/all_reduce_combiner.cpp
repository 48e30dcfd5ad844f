// SPDX-License-Identifier: Apache-2.0
// All-reduces that do not wait for each other, over the same devices and by the same operation, become one of several
// operands: the devices meet once (as XLA has it, xla/service/all_reduce_combiner.cc). Elements are added up as before.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {
namespace {

// Large ones gain nothing, and each would have to wait for the last.
constexpr int64_t kMaxBytes = int64_t{4} << 20;

bool Alike(const Instruction& a, const Instruction& b) {
  const auto &x = a.attr<CollectiveAttributes>(), &y = b.attr<CollectiveAttributes>();
  if (x.channel_id.has_value() != y.channel_id.has_value() || x.use_global_device_ids != y.use_global_device_ids ||
      x.constrain_layout != y.constrain_layout || x.replica_groups != y.replica_groups)
    return false;
  if (a.shape().element_type() != b.shape().element_type()) return false;
  const Computation &c = *a.called(0), &d = *b.called(0);
  if (&c == &d) return true;
  const std::optional<Opcode> opcode = BinaryOpcode(c);
  return opcode && HasTrait(*opcode, op_trait::kCommutative) && opcode == BinaryOpcode(d) &&
         c.root()->shape().element_type() == d.root()->shape().element_type();
}

class Meetings {
 public:
  explicit Meetings(Computation& computation) : computation_(computation) {}

  Result<bool> Run() {
    std::vector<Instruction*> order;
    std::unordered_set<const Instruction*> first;  // others come after them by control
    for (const auto& i : computation_.instructions()) {
      order.push_back(i.get());
      first.insert(i->control_predecessors().begin(), i->control_predecessors().end());
    }
    for (Instruction* i : order) {
      const bool waits =
          std::ranges::any_of(i->operands(), [&](const Instruction* o) { return behind_.contains(o); }) ||
          std::ranges::any_of(i->control_predecessors(), [&](const Instruction* o) { return behind_.contains(o); });
      const bool candidate = i->opcode() == Opcode::kAllReduce && i->operand_count() == 1 && i->shape().IsArray() &&
                             IsStatic(*i) && i->control_predecessors().empty() && !first.contains(i);
      const int64_t bytes = i->shape().byte_size();
      if (candidate && !together_.empty() && !waits && Alike(*together_[0], *i) && bytes <= kMaxBytes - bytes_) {
        Add(*i);
      } else if (candidate && bytes <= kMaxBytes) {
        KRAFLA_TRY(Combine());
        Add(*i);
      } else if (waits) {
        behind_.insert(i);
      }
    }
    KRAFLA_TRY(Combine());
    if (gone_.empty()) return false;
    computation_.RemoveAll(gone_);
    KRAFLA_TRY(computation_.SortTopologically());
    return true;
  }

 private:
  void Add(Instruction& i) {
    together_.push_back(&i);
    behind_.insert(&i);
    bytes_ += i.shape().byte_size();
  }

  Result<> Combine() {
    if (together_.size() > 1) {
      std::vector<Instruction*> operands;
      std::vector<Shape> shapes;
      for (const Instruction* i : together_) {
        operands.push_back(i->operand(0));
        shapes.push_back(i->shape());
      }
      const Instruction& first = *together_[0];
      KRAFLA_ASSIGN(Shape shape, Shape::MakeTuple(std::move(shapes)));
      Instruction* const made = computation_.Add(Opcode::kAllReduce, std::move(shape), std::move(operands),
                                                 first.attributes(), {first.called(0)}, first.name());
      made->set_location(first.location());
      for (std::size_t n = 0; n < together_.size(); ++n) {
        Instruction* const one = computation_.Add(Opcode::kGetTupleElement, together_[n]->shape(), {made},
                                                  TupleIndexAttributes{static_cast<int64_t>(n)});
        together_[n]->ReplaceAllUsesWith(one);
        gone_.push_back(together_[n]);
      }
    }
    together_.clear();
    behind_.clear();
    bytes_ = 0;
    return {};
  }

  Computation& computation_;
  std::vector<Instruction*> together_, gone_;
  std::unordered_set<const Instruction*> behind_;  // what waits for one of those
  int64_t bytes_ = 0;
};

}  // namespace

Result<bool> AllReduceCombiner(Module& module, const PassOptions&) {
  bool changed = false;
  if (module.CountOf(Opcode::kAllReduce) < 2) return changed;
  for (Computation* c : ReachableComputations(module)) {
    const auto is_one = [](const auto& i) { return i->opcode() == Opcode::kAllReduce; };
    if (std::ranges::count_if(c->instructions(), is_one) < 2) continue;
    KRAFLA_TRY(c->SortTopologically());
    KRAFLA_ASSIGN(const bool combined, Meetings(*c).Run());
    changed |= combined;
  }
  return changed;
}

}  // namespace krafla
