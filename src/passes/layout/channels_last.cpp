// SPDX-License-Identifier: Apache-2.0
// Moves the channels of pictures behind their positions, where convolutions want them: ONNX and PyTorch put them in
// front, and a convolution of such arrays is one of copies that are made for it and moved back. Arrays that operations
// carry from one to the other change together, if that moves less than the convolutions do: what remains are transposes
// at the borders, of arguments, results and operations that need the channels in front. Sums over channels and
// positions, and those within convolutions, may come in another order.
#include <algorithm>
#include <unordered_map>

#include "base/index.h"
#include "base/work.h"
#include "ir/dims.h"
#include "ir/thin_convolution.h"
#include "passes/layout/channel_order.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// The dimensions of an array of a convolution in the order batch, channels, positions, as they lie.
bool ChannelsInFront(int64_t batch, int64_t feature, const Dims& spatial) {
  if (batch != 0 || feature != 1) return false;
  for (std::size_t d = 0; d < spatial.size(); ++d)
    if (spatial[d] != static_cast<int64_t>(d) + 2) return false;
  return true;
}

// Whether moving the channels changes no element's place.
bool LiesAlike(const Shape& shape, int64_t channels) {
  int64_t first = 1, second = 1;
  for (int64_t d = 1; d < shape.rank(); ++d) (d <= channels ? first : second) *= shape.dim(d);
  return first == 1 || second == 1;
}

Instruction* ReduceAtTheEnd(const Instruction& reduce, Instruction* moved, int64_t channels) {
  const Dims to_end = ChannelsToTheEnd(moved->shape().rank(), channels);
  const Dims& reduced = reduce.attr<DimensionsAttributes>().dimensions;
  Dims dimensions, kept, sizes;  // `kept`: which dimension each of the new result is
  for (std::size_t d = 0; d < to_end.size(); ++d) {
    if (Contains(reduced, to_end[d])) {
      dimensions.push_back(static_cast<int64_t>(d));
      continue;
    }
    kept.push_back(to_end[d]);
    sizes.push_back(moved->shape().dim(static_cast<int64_t>(d)));
  }
  Dims order(kept.size(), 0);
  for (std::size_t d = 0; d < kept.size(); ++d) order[d] = static_cast<int64_t>(d);
  std::ranges::sort(order, {}, [&](int64_t d) { return kept[At(d)]; });
  Rewriter rewrite(reduce);
  Instruction* out = rewrite.Add(Opcode::kReduce, ArrayShape(reduce.shape().element_type(), sizes),
                                 {moved, reduce.operand(1)}, DimensionsAttributes{dimensions}, {reduce.called(0)});
  return rewrite.Transpose(out, order);
}

class ChannelsLastOf {
 public:
  explicit ChannelsLastOf(Computation& computation) : computation_(computation) {}

  Result<bool> Run() {
    KRAFLA_TRY(computation_.SortTopologically());
    for (const auto& i : computation_.instructions())
      if (i->opcode() == Opcode::kConvolution && IsStatic(*i)) FindArraysOf(i.get());
    if (arrays_.empty()) return false;
    Spread();
    Weigh();
    if (!Move()) return false;
    SideEffects effects;
    RemoveDead(computation_, effects);
    KRAFLA_TRY(computation_.SortTopologically());
    return true;
  }

 private:
  struct Array {
    Instruction* instruction;
    int64_t channels;
    std::size_t group;             // of arrays that move together, of one that is its own group
    int64_t saved = 0, moved = 0;  // bytes; of the group, where the array stands for it
    bool stays = false;
  };

  void FindArraysOf(Instruction* convolution) {
    const auto& a = convolution->attr<ConvolutionAttributes>();
    if (a.batch_group_count != 1 || a.window.empty() || IsThin(a, convolution->operand(1)->shape().dims())) return;
    if (ChannelsInFront(a.input_batch, a.input_feature, a.input_spatial))
      arrays_[Find(convolution->operand(0), 1)].saved += convolution->operand(0)->shape().byte_size();
    if (ChannelsInFront(a.output_batch, a.output_feature, a.output_spatial))
      arrays_[Find(convolution, 1)].saved += convolution->shape().byte_size();
  }

  std::size_t Find(Instruction* i, int64_t channels) {
    const auto [it, is_new] = places_.emplace(i, arrays_.size());
    if (is_new) arrays_.push_back({i, channels, it->second});
    else if (arrays_[it->second].channels != channels) arrays_[it->second].stays = true;
    return it->second;
  }
  std::size_t GroupOf(std::size_t n) {
    while (arrays_[n].group != n) n = arrays_[n].group = arrays_[arrays_[n].group].group;
    return n;
  }
  void Join(std::size_t a, std::size_t b) { arrays_[GroupOf(a)].group = GroupOf(b); }

  // To all arrays that operations carry; `arrays_` grows meanwhile.
  void Spread() {
    for (std::size_t n = 0; n < arrays_.size(); ++n) {
      CountWork(1);
      Instruction* const i = arrays_[n].instruction;
      if (const auto carried = FromResult(*i, arrays_[n].channels))
        for (std::size_t k = 0; k < i->operand_count(); ++k)
          if (carried->operands[k] != 0) Join(n, Find(i->operand(k), carried->operands[k]));
      for (Instruction* user : i->users())
        if (const auto carried = FromOperand(*user, user->PlacesOf(i).front(), arrays_[n].channels))
          Join(n, Find(user, carried->result));
    }
  }

  // What is left to move at the borders of each group.
  void Weigh() {
    for (std::size_t n = 0; n < arrays_.size(); ++n) {
      const Array& array = arrays_[n];
      const int64_t bytes = array.instruction->shape().byte_size(), channels = array.channels;
      int64_t moved = 0;
      if (!LiesAlike(array.instruction->shape(), channels)) {
        if (!IsMadeAtTheEnd(*array.instruction, channels)) moved += bytes;
        bool is_read = array.instruction->IsRoot();
        for (const Instruction* user : array.instruction->users())
          is_read = is_read || !ReadsAtTheEnd(*user, *array.instruction, channels);
        if (is_read) moved += bytes;
      }
      const std::size_t group = GroupOf(n);
      arrays_[group].moved += moved;
      if (group == n) continue;
      arrays_[group].saved += array.saved;
      arrays_[group].stays = arrays_[group].stays || array.stays;
    }
  }
  static bool IsMadeAtTheEnd(const Instruction& i, int64_t channels) {
    for (Opcode free : {Opcode::kBroadcast, Opcode::kConstant, Opcode::kConvolution, Opcode::kIota, Opcode::kTranspose})
      if (i.opcode() == free) return true;
    return FromResult(i, channels).has_value();
  }
  static bool ReadsAtTheEnd(const Instruction& user, const Instruction& i, int64_t channels) {
    if (user.opcode() == Opcode::kConvolution) return user.operand(1) != &i;
    if (user.opcode() == Opcode::kReduce) return user.operand_count() == 2;
    if (user.opcode() == Opcode::kTranspose) return true;
    return FromOperand(user, user.PlacesOf(&i).front(), channels).has_value();
  }

  // The array's place in `arrays_` if it moves, else -1.
  int64_t Moving(const Instruction* i) {
    const auto it = places_.find(i);
    if (it == places_.end()) return -1;
    const Array& group = arrays_[GroupOf(it->second)];
    // A transpose at a border also keeps what it stands between from being one kernel, and a convolution moves elements
    // faster than a loop does.
    return !group.stays && group.saved / 3 > group.moved ? static_cast<int64_t>(it->second) : -1;
  }
  Instruction* Moved(Instruction* i) {
    const auto it = moved_.find(i);
    return it == moved_.end() ? i : it->second;
  }

  // The new instructions beside the old ones, which are replaced when all are there.
  bool Move() {
    std::vector<Instruction*> order;
    for (const auto& i : computation_.instructions()) order.push_back(i.get());
    std::vector<std::pair<Instruction*, Instruction*>> replacements;
    for (Instruction* i : order) {
      const int64_t n = Moving(i);
      if (i->opcode() == Opcode::kConvolution && (n >= 0 || Moved(i->operand(0)) != i->operand(0))) {
        const int64_t channels = n >= 0 ? arrays_[At(n)].channels : 0;
        Instruction* convolution = MoveConvolution(*i, channels);
        replacements.emplace_back(i, n >= 0 ? InFront(i, convolution, channels) : convolution);
        continue;
      }
      if (i->opcode() == Opcode::kReduce && i->operand_count() == 2 && Moved(i->operand(0)) != i->operand(0))
        replacements.emplace_back(i, ReduceAtTheEnd(*i, Moved(i->operand(0)), ArrayOf(i->operand(0)).channels));
      if (n < 0) continue;
      const int64_t channels = arrays_[At(n)].channels;
      if (const auto carried = FromResult(*i, channels)) {
        std::vector<Instruction*> operands;
        for (std::size_t k = 0; k < i->operand_count(); ++k)
          operands.push_back(carried->operands[k] != 0 ? Moved(i->operand(k)) : i->operand(k));
        replacements.emplace_back(i, InFront(i, WithChannelsAtTheEnd(*i, *carried, std::move(operands)), channels));
      } else {
        moved_[i] = Rewriter(*i).Transpose(i, ChannelsToTheEnd(i->shape().rank(), channels));
      }
    }
    for (const auto& [old, with] : replacements) Replace(old, with);
    return !moved_.empty();
  }
  const Array& ArrayOf(const Instruction* i) const { return arrays_[places_.at(i)]; }

  // Remembers `moved` as what `i` is with its channels at the end; what is for those that need them in front.
  Instruction* InFront(Instruction* i, Instruction* moved, int64_t channels) {
    moved_[i] = moved;
    return Rewriter(*i).Transpose(moved, Inverse(ChannelsToTheEnd(i->shape().rank(), channels)));
  }

  // `channels`: of the result; 0 where it stays as it is.
  Instruction* MoveConvolution(const Instruction& i, int64_t channels) {
    ConvolutionAttributes a = i.attr<ConvolutionAttributes>();
    const auto renumber = [&](int64_t of, int64_t& batch, int64_t& feature, Dims& spatial) {
      const Dims places = Inverse(ChannelsToTheEnd(i.shape().rank(), of));
      batch = places[At(batch)];
      feature = places[At(feature)];
      for (int64_t& d : spatial) d = places[At(d)];
    };
    Instruction* const input = Moved(i.operand(0));
    if (input != i.operand(0))
      renumber(ArrayOf(i.operand(0)).channels, a.input_batch, a.input_feature, a.input_spatial);
    Dims dims = i.shape().dims();
    if (channels != 0) {
      renumber(channels, a.output_batch, a.output_feature, a.output_spatial);
      dims = Permuted(dims, ChannelsToTheEnd(i.shape().rank(), channels));
    }
    return Rewriter(i).Add(Opcode::kConvolution, ArrayShape(i.shape().element_type(), dims), {input, i.operand(1)},
                           std::move(a));
  }

  Computation& computation_;
  std::vector<Array> arrays_;
  std::unordered_map<const Instruction*, std::size_t> places_;
  std::unordered_map<const Instruction*, Instruction*> moved_;
};

}  // namespace

Result<bool> ChannelsLast(Module& module, const PassOptions&) {
  bool changed = false;
  for (Computation* c : ReachableComputations(module)) {
    KRAFLA_ASSIGN(const bool moved, ChannelsLastOf(*c).Run());
    changed |= moved;
  }
  return changed;
}

}  // namespace krafla
