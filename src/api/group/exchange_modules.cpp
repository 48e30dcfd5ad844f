// SPDX-License-Identifier: Apache-2.0
#include "api/group/exchange_modules.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/index.h"
#include "ir/builder.h"

namespace krafla {
namespace {

// An array as a collective divides it along its dimension: `outer` rows of `count` chunks.
struct DividedArray {
  ElementType type = ElementType::kF32;
  int64_t outer = 1, count = 1, chunk = 1;

  std::vector<int64_t> Dimensions() const { return {outer, count, chunk}; }
};

DividedArray DivideAlong(const Shape& shape, int64_t dimension, int64_t count) {
  DividedArray out{.type = shape.element_type(), .count = count};
  for (int64_t d = 0; d < static_cast<int64_t>(shape.dims().size()); ++d) {
    const int64_t size = shape.dims()[At(d)];
    if (d < dimension) out.outer *= size;
    else out.chunk *= d == dimension ? size / count : size;
  }
  return out;
}

class ExchangeBuilder {
 public:
  ExchangeBuilder(const Instruction& instruction, int64_t members, std::span<const int64_t> sources)
      : module_(std::make_unique<Module>("exchange")), i_(instruction), members_(members), sources_(sources) {
    for (const Instruction* o : i_.operands())
      for (const Shape* s : TupleLeaves(o->shape()))
        if (s->IsArray()) leaves_.push_back(s);
    if (const auto* a = std::get_if<CollectiveAttributes>(&i_.attributes())) dimension_ = a->dimension.value_or(-1);
  }

  bool IsTaken() const {
    constexpr Opcode kTaken[] = {Opcode::kAllReduce,          Opcode::kAllReduceStart, Opcode::kReduceScatter,
                                 Opcode::kAllGather,          Opcode::kAllToAll,       Opcode::kCollectivePermute,
                                 Opcode::kCollectiveBroadcast};
    if (!std::ranges::contains(kTaken, i_.opcode())) return false;
    return !leaves_.empty() &&
           std::ranges::none_of(leaves_, [](const Shape* s) { return s->IsDynamic() || s->element_count() == 0; });
  }

  Result<std::unique_ptr<Module>> Build(std::span<const int64_t> ranks) {
    if (!i_.called().empty()) { KRAFLA_ASSIGN(reduction_, CopyInto(*module_, *i_.called(0))); }
    entry_ = module_->AddComputation("main");
    for (int64_t m = 0; m < members_; ++m)
      for (std::size_t k = 0; k < leaves_.size(); ++k) {
        const DividedArray view = OperandView(k);
        KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(view.type, view.Dimensions()));
        parameters_.push_back(AddParameter(*entry_, static_cast<int64_t>(parameters_.size()), std::move(shape)));
      }
    std::vector<Instruction*> results;
    std::vector<Instruction*> same(leaves_.size());  // of all ranks
    for (const int64_t rank : ranks)
      for (std::size_t k = 0; k < leaves_.size(); ++k) {
        Instruction* made = same[k];
        if (made == nullptr) { KRAFLA_ASSIGN(made, ResultOf(rank, k)); }
        if (IsSameForAll()) same[k] = made;
        results.push_back(made);
      }
    KRAFLA_ASSIGN(Instruction * root, AddTuple(*entry_, std::move(results)));
    entry_->set_root(root);
    module_->set_entry(entry_);
    return std::move(module_);
  }

 private:
  bool IsSameForAll() const {
    return i_.opcode() == Opcode::kAllReduce || i_.opcode() == Opcode::kAllReduceStart ||
           i_.opcode() == Opcode::kAllGather || i_.opcode() == Opcode::kCollectiveBroadcast;
  }
  DividedArray OperandView(std::size_t k) const {
    const bool divides = i_.opcode() == Opcode::kReduceScatter || (i_.opcode() == Opcode::kAllToAll && dimension_ >= 0);
    if (divides) return DivideAlong(*leaves_[k], dimension_, members_);
    if (i_.opcode() == Opcode::kAllGather) return DivideAlong(*leaves_[k], dimension_, 1);
    return {.type = leaves_[k]->element_type(), .chunk = leaves_[k]->element_count()};
  }
  Instruction* Operand(int64_t member, std::size_t leaf) const {
    return parameters_[At(member) * leaves_.size() + leaf];
  }

  // Chunk `rank` of each row.
  Result<Instruction*> ChunkOf(Instruction* array, int64_t rank) {
    const Dims& dims = array->shape().dims();
    return AddInferred(*entry_, Opcode::kSlice, {array},
                       SliceAttributes{{0, rank, 0}, {dims[0], rank + 1, dims[2]}, {1, 1, 1}});
  }

  // The members' values, of the whole arrays or of a chunk, in the order of ranks.
  Result<Instruction*> Combined(std::size_t k, std::optional<int64_t> chunk) {
    Instruction* sum = nullptr;
    for (int64_t m = 0; m < members_; ++m) {
      Instruction* value = Operand(m, k);
      if (chunk) { KRAFLA_ASSIGN(value, ChunkOf(value, *chunk)); }
      if (sum == nullptr) {
        sum = value;
        continue;
      }
      const std::vector<Instruction*> both = {sum, value};
      KRAFLA_ASSIGN(sum, AddInferred(*entry_, Opcode::kMap, both, DimensionsAttributes{{0, 1, 2}}, {reduction_}));
    }
    return sum;
  }

  Result<Instruction*> ResultOf(int64_t rank, std::size_t k) {
    const Opcode opcode = i_.opcode();
    if (opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart) return Combined(k, std::nullopt);
    if (opcode == Opcode::kReduceScatter) return Combined(k, rank);
    if (opcode == Opcode::kCollectiveBroadcast) return Operand(0, k);
    if (opcode == Opcode::kCollectivePermute) {
      if (const int64_t source = sources_[At(rank)]; source >= 0) return Operand(source, k);
      Instruction* zero = AddScalarConstant(*entry_, leaves_[k]->element_type(), 0);
      return AddBroadcastScalar(*entry_, zero, OperandView(k).Dimensions());
    }
    // Of as many arrays each member gets one from each.
    if (i_.opcode() == Opcode::kAllToAll && dimension_ < 0) return Operand(static_cast<int64_t>(k), At(rank));
    std::vector<Instruction*> chunks;
    for (int64_t m = 0; m < members_; ++m) {
      Instruction* chunk = Operand(m, k);
      if (i_.opcode() == Opcode::kAllToAll) { KRAFLA_ASSIGN(chunk, ChunkOf(chunk, rank)); }
      chunks.push_back(chunk);
    }
    return AddInferred(*entry_, Opcode::kConcatenate, std::move(chunks), DimensionsAttributes{{1}});
  }

  std::unique_ptr<Module> module_;
  const Instruction& i_;
  int64_t members_ = 0, dimension_ = -1;
  std::span<const int64_t> sources_;
  std::vector<const Shape*> leaves_;
  Computation* reduction_ = nullptr;
  Computation* entry_ = nullptr;
  std::vector<Instruction*> parameters_;
};

}  // namespace

Result<Computation*> CopyInto(Module& module, const Computation& from, int depth) {
  if (depth > 64) return Unimplemented("The calls of the reduction '{}' are nested too deep.", from.name());
  Computation* to = module.AddComputation(from.name());
  std::unordered_map<const Instruction*, Instruction*> copies;
  for (const auto& i : from.instructions()) {
    std::vector<Instruction*> operands;
    for (const Instruction* o : i->operands()) operands.push_back(copies.at(o));
    std::vector<Computation*> called;
    for (const Computation* c : i->called()) {
      KRAFLA_ASSIGN(Computation * copy, CopyInto(module, *c, depth + 1));
      called.push_back(copy);
    }
    Instruction* copy = to->AddClone(*i, std::move(operands));
    copy->set_called(std::move(called));
    copies[i.get()] = copy;
  }
  to->set_root(copies.at(from.root()));
  return to;
}

Result<std::optional<std::unique_ptr<Module>>> ExchangeModule(const Instruction& instruction, int64_t members,
                                                              std::span<const int64_t> ranks,
                                                              std::span<const int64_t> sources) {
  ExchangeBuilder builder(instruction, members, sources);
  if (!builder.IsTaken()) return std::nullopt;
  KRAFLA_ASSIGN(std::unique_ptr<Module> made, builder.Build(ranks));
  return made;
}

Result<std::unique_ptr<Module>> CombineModule(const Computation& reduction, int64_t members, int64_t elements) {
  auto module = std::make_unique<Module>("combine");
  KRAFLA_ASSIGN(Computation * combine, CopyInto(*module, reduction));
  const int64_t dims[] = {elements};
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(reduction.root()->shape().element_type(), dims));
  Computation* entry = module->AddComputation("main");
  Instruction* sum = AddParameter(*entry, 0, shape);
  for (int64_t m = 1; m < members; ++m) {
    const std::vector<Instruction*> both = {sum, AddParameter(*entry, m, shape)};
    KRAFLA_ASSIGN(sum, AddInferred(*entry, Opcode::kMap, both, DimensionsAttributes{{0}}, {combine}));
  }
  entry->set_root(sum);
  module->set_entry(entry);
  return module;
}

}  // namespace krafla
