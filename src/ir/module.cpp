// SPDX-License-Identifier: Apache-2.0
#include "ir/module.h"

#include <algorithm>
#include <unordered_set>

#include "base/work.h"

namespace krafla {

namespace {

// `wanted`, or `wanted.N` with the first N that is free; `taken` remembers.
std::string UniqueName(std::string_view wanted, std::unordered_map<std::string, int>& taken) {
  std::string name(wanted);
  if (taken.emplace(name, 1).second) return name;
  while (true) {
    std::string candidate = Format("{}.{}", wanted, taken[name]++);
    if (taken.emplace(candidate, 1).second) return candidate;
  }
}

}  // namespace

namespace {

// From here on a search costs more than an index.
constexpr std::size_t kManyOperands = 32, kManyUsers = 64;

}  // namespace

bool Instruction::HasOperand(const Instruction* operand) const {
  if (operand_places_) return operand_places_->contains(operand);
  CountWork(static_cast<int64_t>(operands_.size()));
  return std::find(operands_.begin(), operands_.end(), operand) != operands_.end();
}

std::vector<std::size_t> Instruction::PlacesOf(const Instruction* operand) const {
  std::vector<std::size_t> out;
  if (operand_places_) {
    if (auto at = operand_places_->find(operand); at != operand_places_->end())
      out.assign(at->second.begin(), at->second.end());
    return out;
  }
  for (std::size_t n = 0; n < operands_.size(); ++n)
    if (operands_[n] == operand) out.push_back(n);
  return out;
}

void Instruction::AddUser(Instruction* user) {
  users_.push_back(user);
  if (user_places_) {
    (*user_places_)[user] = users_.size() - 1;
  } else if (users_.size() > kManyUsers) {
    user_places_ = std::make_unique<std::unordered_map<const Instruction*, std::size_t>>();
    for (std::size_t n = 0; n < users_.size(); ++n) (*user_places_)[users_[n]] = n;
  }
}

void Instruction::RemoveUser(Instruction* user) {
  if (user->HasOperand(this)) return;
  if (!user_places_) {
    CountWork(static_cast<int64_t>(users_.size()));
    users_.erase(std::remove(users_.begin(), users_.end(), user), users_.end());
    return;
  }
  auto at = user_places_->find(user);
  if (at == user_places_->end()) return;
  const std::size_t place = at->second;
  user_places_->erase(at);
  if (users_.back() != user) {
    users_[place] = users_.back();
    (*user_places_)[users_[place]] = place;
  }
  users_.pop_back();
}

void Instruction::IndexOperands() {
  operand_places_.reset();
  if (operands_.size() <= kManyOperands) return;
  operand_places_ = std::make_unique<std::unordered_map<const Instruction*, std::vector<uint32_t>>>();
  for (std::size_t n = 0; n < operands_.size(); ++n)
    (*operand_places_)[operands_[n]].push_back(static_cast<uint32_t>(n));
}

void Instruction::SetOperand(std::size_t i, Instruction* with) {
  if (operand_places_) {
    auto at = operand_places_->find(operands_[i]);
    std::erase(at->second, static_cast<uint32_t>(i));
    if (at->second.empty()) operand_places_->erase(at);
    (*operand_places_)[with].push_back(static_cast<uint32_t>(i));
  }
  operands_[i] = with;
}

void Instruction::ReplaceOperand(std::size_t i, Instruction* with) {
  Instruction* old = operands_[i];
  if (old == with) return;
  // Asked of the operands, not of the many users that a hub may have.
  bool used = HasOperand(with);
  SetOperand(i, with);
  old->RemoveUser(this);
  if (!used) with->AddUser(this);
}

void Instruction::ReplaceAllUsesWith(Instruction* with) {
  if (with == this) return;
  if (parent_->root() == this) parent_->set_root(with);
  std::vector<Instruction*> users = std::move(users_);
  users_.clear();
  user_places_.reset();
  for (Instruction* user : users) {
    bool used = user->HasOperand(with);
    if (user->operand_places_) {
      auto node = user->operand_places_->extract(this);
      for (uint32_t n : node.mapped()) user->operands_[n] = with;
      std::vector<uint32_t>& places = (*user->operand_places_)[with];
      if (places.size() < node.mapped().size()) places.swap(node.mapped());
      places.insert(places.end(), node.mapped().begin(), node.mapped().end());
    } else {
      for (Instruction*& operand : user->operands_)
        if (operand == this) operand = with;
    }
    if (!used) with->AddUser(user);
  }
}

const InstructionMetadata& Instruction::metadata() const {
  static const InstructionMetadata kNone;
  return metadata_ ? *metadata_ : kNone;
}

void Instruction::set_metadata(InstructionMetadata metadata) {
  metadata_ = metadata == InstructionMetadata() ? nullptr : std::make_unique<InstructionMetadata>(std::move(metadata));
}

bool Instruction::IsRoot() const { return parent_->root() == this; }

Instruction* Computation::Add(Opcode opcode, Shape shape, std::vector<Instruction*> operands, Attributes attributes,
                              std::vector<Computation*> called, std::string_view name) {
  auto owned = std::unique_ptr<Instruction>(new Instruction());
  Instruction* out = owned.get();
  out->opcode_ = opcode;
  out->id_ = next_id_++;
  out->shape_ = std::move(shape);
  out->name_ = UniqueName(name.empty() ? OpcodeName(opcode) : name, names_);
  out->parent_ = this;
  out->attributes_ = std::move(attributes);
  out->called_ = std::move(called);
  instructions_.push_back(std::move(owned));
  ++parent_->counts_[static_cast<std::size_t>(opcode)];
  SetOperands(out, std::move(operands));
  if (opcode == Opcode::kParameter) {
    auto number = static_cast<std::size_t>(out->attr<ParameterAttributes>().number);
    if (parameters_.size() <= number) parameters_.resize(number + 1, nullptr);
    parameters_[number] = out;
  }
  return out;
}

Instruction* Computation::AddClone(const Instruction& other, std::vector<Instruction*> operands) {
  Instruction* out =
      Add(other.opcode_, other.shape_, std::move(operands), other.attributes_, other.called_, other.name_);
  out->location_ = other.location_;
  if (other.metadata_) out->metadata_ = std::make_unique<InstructionMetadata>(*other.metadata_);
  return out;
}

void Computation::SetOperands(Instruction* instruction, std::vector<Instruction*> operands) {
  KRAFLA_CHECK(instruction->operands_.empty());
  instruction->operands_ = std::move(operands);
  instruction->IndexOperands();
  // It had no operands, so where an operand lists it already, it is the last: no need to search a long list of users.
  for (Instruction* operand : instruction->operands_)
    if (operand->users_.empty() || operand->users_.back() != instruction) operand->AddUser(instruction);
}

void Computation::Remove(Instruction* instruction) { RemoveAll({&instruction, 1}); }

void Computation::RemoveAll(std::span<Instruction* const> dead) {
  if (dead.empty()) return;
  CountWork(static_cast<int64_t>(instructions_.size()));
  enum : uint8_t { kStays, kGoes, kLosesUsers };
  std::vector<uint8_t> state(static_cast<std::size_t>(next_id_), kStays);
  auto state_of = [&](const Instruction* i) -> uint8_t& { return state[static_cast<std::size_t>(i->id_)]; };
  auto goes = [&](const Instruction* i) { return state_of(i) == kGoes; };
  for (Instruction* instruction : dead) state_of(instruction) = kGoes;
  for (Instruction* instruction : dead) {
    KRAFLA_CHECK(instruction != root_);
    KRAFLA_CHECK(std::ranges::all_of(instruction->users_, goes));
  }
  std::vector<Instruction*> left;  // operands that stay, each to be told once
  for (Instruction* instruction : dead) {
    for (Instruction* operand : instruction->operands_)
      if (state_of(operand) == kStays) {
        state_of(operand) = kLosesUsers;
        left.push_back(operand);
      }
    instruction->operands_.clear();
    instruction->operand_places_.reset();
    names_.erase(instruction->name_);
    --parent_->counts_[static_cast<std::size_t>(instruction->opcode_)];
    if (instruction->opcode_ != Opcode::kParameter) continue;
    for (Instruction*& parameter : parameters_)
      if (parameter == instruction) parameter = nullptr;
  }
  for (Instruction* operand : left) {
    std::erase_if(operand->users_, goes);
    if (!operand->user_places_) continue;
    operand->user_places_->clear();
    for (std::size_t n = 0; n < operand->users_.size(); ++n) (*operand->user_places_)[operand->users_[n]] = n;
  }
  for (auto& owned : instructions_) {
    auto& before = owned->control_predecessors_;
    std::erase_if(before, goes);
  }
  std::erase_if(instructions_, [&](const auto& owned) { return goes(owned.get()); });
}

Result<> Computation::SortTopologically() {
  // Mostly there is nothing to do.
  CountWork(static_cast<int64_t>(instructions_.size()));
  std::vector<uint8_t> seen(static_cast<std::size_t>(next_id_), 0);
  auto is_seen = [&](const Instruction* i) { return seen[static_cast<std::size_t>(i->id_)] != 0; };
  bool sorted = true;
  for (const auto& i : instructions_) {
    sorted = std::ranges::all_of(i->operands_, is_seen) && std::ranges::all_of(i->control_predecessors_, is_seen);
    if (!sorted) break;
    seen[static_cast<std::size_t>(i->id_)] = 1;
  }
  if (sorted) return {};
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(static_cast<std::size_t>(next_id_), kNew);
  std::vector<Instruction*> order;
  order.reserve(instructions_.size());
  struct Frame {
    Instruction* instruction;
    std::size_t next;
  };
  std::vector<Frame> stack;
  for (const auto& owned : instructions_) {
    if (state[static_cast<std::size_t>(owned->id_)] != kNew) continue;
    stack.push_back({owned.get(), 0});
    state[static_cast<std::size_t>(owned->id_)] = kOpen;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Instruction* i = frame.instruction;
      std::size_t count = i->operands_.size() + i->control_predecessors_.size();
      if (frame.next == count) {
        state[static_cast<std::size_t>(i->id_)] = kDone;
        order.push_back(i);
        stack.pop_back();
        continue;
      }
      std::size_t n = frame.next++;
      Instruction* before =
          n < i->operands_.size() ? i->operands_[n] : i->control_predecessors_[n - i->operands_.size()];
      uint8_t& s = state[static_cast<std::size_t>(before->id_)];
      if (s == kOpen) return InvalidArgument("{} in computation '{}' depends on itself.", Describe(*before), name_);
      if (s == kNew) {
        s = kOpen;
        stack.push_back({before, 0});
      }
    }
  }
  std::vector<std::size_t> place(static_cast<std::size_t>(next_id_));
  for (std::size_t n = 0; n < order.size(); ++n) place[static_cast<std::size_t>(order[n]->id_)] = n;
  std::vector<std::unique_ptr<Instruction>> placed(order.size());
  for (auto& owned : instructions_) {
    std::unique_ptr<Instruction>& to = placed[place[static_cast<std::size_t>(owned->id_)]];
    to = std::move(owned);
  }
  instructions_ = std::move(placed);
  return {};
}

Computation* Module::AddComputation(std::string_view name) {
  auto owned = std::unique_ptr<Computation>(new Computation());
  owned->name_ = UniqueName(name.empty() ? "computation" : name, names_);
  owned->parent_ = this;
  computations_.push_back(std::move(owned));
  return computations_.back().get();
}

void Module::RemoveAll(std::span<Computation* const> computations) {
  std::unordered_set<const Computation*> gone(computations.begin(), computations.end());
  KRAFLA_CHECK(!gone.contains(entry_));
  for (const Computation* c : computations) names_.erase(c->name_);
  for (const Computation* c : gone)
    for (const auto& i : c->instructions_) --counts_[static_cast<std::size_t>(i->opcode_)];
  std::erase_if(computations_, [&](const auto& owned) { return gone.contains(owned.get()); });
}

Computation* Module::Take(std::unique_ptr<Module> other) {
  for (std::unique_ptr<Computation>& c : other->computations_) {
    c->name_ = UniqueName(c->name_, names_);
    c->parent_ = this;
    computations_.push_back(std::move(c));
  }
  for (std::size_t opcode = 0; opcode < counts_.size(); ++opcode) counts_[opcode] += other->counts_[opcode];
  return other->entry_;
}

std::unique_ptr<Module> Module::Clone() const {
  auto out = std::make_unique<Module>(name_);
  out->replica_count = replica_count;
  out->num_partitions = num_partitions;
  out->input_output_aliases = input_output_aliases;
  out->buffer_donors = buffer_donors;
  out->is_scheduled = is_scheduled;
  out->has_is_scheduled = has_is_scheduled;
  out->entry_layout_result = entry_layout_result;
  out->entry_layout_parameters = entry_layout_parameters;
  out->other_attributes = other_attributes;
  out->optimised = optimised;
  std::unordered_map<const Computation*, Computation*> computations;
  std::unordered_map<const Instruction*, Instruction*> instructions;
  for (const auto& c : computations_) {
    Computation* copy = out->AddComputation(c->name_);
    copy->execution_thread_ = c->execution_thread_;
    computations[c.get()] = copy;
  }
  for (const auto& c : computations_) {
    Computation* copy = computations[c.get()];
    for (const auto& i : c->instructions_) {
      copy->next_id_ = i->id_;
      instructions[i.get()] = copy->AddClone(*i, {});
    }
    copy->next_id_ = c->next_id_;
    for (const auto& i : c->instructions_) {
      Instruction* made = instructions[i.get()];
      std::vector<Instruction*> operands;
      for (Instruction* o : i->operands_) operands.push_back(instructions[o]);
      copy->SetOperands(made, std::move(operands));
      for (Instruction* p : i->control_predecessors_) made->AddControlPredecessor(instructions[p]);
      for (Computation*& called : made->called_) called = computations[called];
    }
    if (c->root_) copy->root_ = instructions[c->root_];
  }
  if (entry_) out->entry_ = computations[entry_];
  return out;
}

bool SameModule(const Module& a, const Module& b) {
  if (a.name() != b.name() || a.replica_count != b.replica_count || a.num_partitions != b.num_partitions ||
      a.input_output_aliases != b.input_output_aliases || a.buffer_donors != b.buffer_donors ||
      a.is_scheduled != b.is_scheduled || a.entry_layout_result != b.entry_layout_result ||
      a.entry_layout_parameters != b.entry_layout_parameters || a.other_attributes != b.other_attributes ||
      a.computations().size() != b.computations().size())
    return false;
  auto names = [](auto span) {
    std::vector<std::string_view> out;
    for (auto* x : span) out.push_back(x ? std::string_view(x->name()) : std::string_view());
    return out;
  };
  for (std::size_t c = 0; c < a.computations().size(); ++c) {
    const Computation& x = *a.computations()[c];
    const Computation& y = *b.computations()[c];
    if (x.name() != y.name() || x.execution_thread() != y.execution_thread() ||
        x.instructions().size() != y.instructions().size() || names(x.parameters()) != names(y.parameters()) ||
        (a.entry() == &x) != (b.entry() == &y) || x.root()->name() != y.root()->name())
      return false;
    for (std::size_t n = 0; n < x.instructions().size(); ++n) {
      const Instruction& i = *x.instructions()[n];
      const Instruction& j = *y.instructions()[n];
      if (i.opcode() != j.opcode() || i.name() != j.name() || i.shape() != j.shape() ||
          i.attributes() != j.attributes() || i.metadata() != j.metadata() ||
          names(i.operands()) != names(j.operands()) || names(i.called()) != names(j.called()) ||
          names(std::span(i.control_predecessors())) != names(std::span(j.control_predecessors())))
        return false;
    }
  }
  return true;
}

std::string Describe(const Instruction& i) {
  if (i.location().line > 0) return Format("'{}' ({}, line {})", i.name(), OpcodeName(i.opcode()), i.location().line);
  return Format("'{}' ({})", i.name(), OpcodeName(i.opcode()));
}

}  // namespace krafla
