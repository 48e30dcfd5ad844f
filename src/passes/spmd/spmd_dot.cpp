// SPDX-License-Identifier: Apache-2.0
// Dots by blocks: batch dimensions are cut alike, contracted ones too, which leaves parts of a sum, and free ones as
// they are. Where operands and result disagree, what is tried is every choice of their cuts, and taken what brings each
// device the least bytes and work.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

// So many multiplications and additions are worth as much as a byte that comes from another device: a device of 10
// TFLOP/s on a link of 16 GB/s has time for 600, one core of a processor beside another for 20.
constexpr double kOperationsPerByte = 128;
// Beyond this many the cuts are taken as they are found.
constexpr int64_t kMostChoices = 512;

class DotRule : public Rule {
 public:
  DotRule(const Instruction& instruction, std::span<const Value> operands, const Region* region, const Wishes& wishes,
          Emitter& emitter)
      : Rule(instruction, operands, region, wishes, emitter), rank_(At(instruction.shape().rank())) {
    const auto& a = i_.attr<DotAttributes>();
    const Dims *batch[2] = {&a.lhs_batch, &a.rhs_batch}, *contracting[2] = {&a.lhs_contracting, &a.rhs_contracting};
    std::size_t free = a.lhs_batch.size();
    for (std::size_t side = 0; side < 2; ++side)
      for (int64_t d = 0; d < i_.operand(side)->shape().rank(); ++d) {
        const auto in = [&](const Dims& list) { return std::ranges::find(list, d) - list.begin(); };
        if (const auto n = in(*batch[side]); n < batch[side]->ssize())
          place_[side].push_back(static_cast<std::size_t>(n));
        else if (const auto k = in(*contracting[side]); k < contracting[side]->ssize())
          place_[side].push_back(rank_ + static_cast<std::size_t>(k));
        else place_[side].push_back(free++);
      }
    places_ = rank_ + a.lhs_contracting.size();
    operations_ = 2 * static_cast<double>(i_.shape().element_count());
    for (const int64_t d : a.lhs_contracting) operations_ *= static_cast<double>(i_.operand(0)->shape().dim(d));
  }

  Out Apply() {
    best_ = AsFound();
    FindBetter();
    if (!AnyCut(best_)) return std::nullopt;
    Split along;
    for (std::size_t n = rank_; n < places_; ++n) along = Combine(along, best_[n]);
    const std::optional<Turns> turns = FindTurns();
    std::vector<Instruction*> made(2);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      std::vector<std::size_t> contracted;
      for (std::size_t d = 0; d < place_[side].size(); ++d)
        if (place_[side][d] >= rank_) contracted.push_back(d);
      const bool by_turns = turns && turns->side == side;
      KRAFLA_ASSIGN(made[side], Operand(side, by_turns ? operands_[side].dims : OfOperand(side, best_), contracted));
    }
    best_.resize(rank_);
    if (turns) return WithSum(InTurns(*turns, std::move(made)), along);
    return WithSum(Finish(std::move(made), std::move(best_)), along);
  }

 private:
  // The cuts of an operand, of those of the result and, behind them, of what is contracted.
  Splits OfOperand(std::size_t side, const Splits& all) const {
    Splits out;
    for (const std::size_t n : place_[side]) out.push_back(all[n]);
    return out;
  }
  // Sums of logical values are no sums of numbers.
  bool MayCutAt(std::size_t n) const { return n < rank_ || i_.shape().element_type() != ElementType::kPred; }

  // An operand that would be put together along a dimension of the result: in place of that each device works on its
  // own block while another one comes, and so on (XLA: windowed einsum, xla/service/spmd/dot_handler.cc). Every element
  // of the result is the same sum as before.
  struct Turns {
    std::size_t side, dim, place;  // the operand, its dimension, and that of the result
    ReshardStep step;
  };
  std::optional<Turns> FindTurns() const {
    std::optional<Turns> out;
    int64_t most = emitter_.channels().least_bytes_by_turns;
    if (most == 0) return out;
    const auto batch = At(i_.attr<DotAttributes>().lhs_batch.ssize());
    double work = operations_;
    for (const Split& s : best_) work /= static_cast<double>(s.count);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const Value& v = operands_[side];
      const int64_t bytes = v.local->shape().byte_size();
      // What others need too is put together once.
      if (bytes < most || i_.operand(side)->users().size() != 1 || emitter_.IsMadeOfNothing(v.local)) continue;
      std::vector<ReshardStep> steps = PlanReshard(v, OfOperand(side, best_), devices_);
      if (steps.size() != 1 || steps[0].kind != ReshardStep::Kind::kGather) continue;
      const std::size_t dim = steps[0].from, place = place_[side][dim];
      if (place >= rank_ || place < batch || !steps[0].after[dim].whole()) continue;
      // What comes in a turn is there when the turn's work is done.
      if (work / static_cast<double>(steps[0].along.count) < kOperationsPerByte * static_cast<double>(bytes)) continue;
      most = bytes + 1;
      out = Turns{side, dim, place, std::move(steps[0])};
    }
    return out;
  }

  Out InTurns(const Turns& turns, std::vector<Instruction*> operands) {
    const Split& along = turns.step.along;
    Instruction* own = operands[turns.side];
    const int64_t rows = own->shape().dims()[turns.dim];
    KRAFLA_ASSIGN(const Shape whole, BlockShape(i_.shape(), best_));
    Dims sizes = whole.dims();
    sizes[turns.place] = rows;
    KRAFLA_ASSIGN(const Shape part, Shape::MakeArray(whole.element_type(), sizes));
    sizes[turns.place] = rows * along.count;
    KRAFLA_ASSIGN(Instruction * zero, emitter_.Zero(whole.element_type()));
    KRAFLA_ASSIGN(Instruction * made, AddBroadcastScalar(emitter_.out(), zero, sizes));
    std::vector<Instruction*> blocks{own};
    for (int64_t turn = 1; turn < along.count; ++turn) {
      std::vector<std::pair<int64_t, int64_t>> ends;
      for (int64_t b = 0; b < along.count; ++b) ends.emplace_back(b, (b + turn) % along.count);
      KRAFLA_ASSIGN(Instruction * came, emitter_.Send(own, along, turns.step.after, region_, ends));
      blocks.push_back(came);
    }
    for (int64_t turn = 0; turn < along.count; ++turn) {
      operands[turns.side] = blocks[At(turn)];
      std::vector<Instruction*> placed{made, emitter_.Clone(i_, part, operands)};
      std::vector<int64_t> starts;
      for (int64_t b = 0; b < along.count; ++b) starts.push_back((b - turn + along.count) % along.count * rows);
      KRAFLA_ASSIGN(Instruction * start, emitter_.NumberOf(along, starts));
      for (std::size_t d = 0; d < rank_; ++d)
        placed.push_back(d == turns.place ? start : AddScalarConstant(emitter_.out(), ElementType::kS32, 0));
      KRAFLA_ASSIGN(made, emitter_.Infer(Opcode::kDynamicUpdateSlice, std::move(placed)));
    }
    KRAFLA_ASSIGN(made, emitter_.FirstRows(made, turns.place, whole.dims()[turns.place]));
    return Made(made, best_);
  }

  // The cuts of the operands. Where these ask for more blocks than there are devices, the operand that is smaller as a
  // whole gives way; of two alike the right one, as XLA has it.
  Splits AsFound() const {
    const bool left_first = i_.operand(0)->shape().byte_size() >= i_.operand(1)->shape().byte_size();
    Splits all(places_);
    for (const std::size_t side : {left_first ? 0u : 1u, left_first ? 1u : 0u})
      for (std::size_t d = 0; d < place_[side].size(); ++d) {
        const std::size_t n = place_[side][d];
        const Split& split = operands_[side].dims[d];
        if (split.whole() || !all[n].whole() || !MayCutAt(n)) continue;
        all[n] = split;
        if (!MayCut(all)) all[n] = Split();
      }
    return all;
  }

  void FindBetter() {
    // What is cut comes first, so that of equal choices the one that cuts rows of the left operand is taken, as XLA has
    // it.
    choices_.assign(places_, {});
    const auto add = [&](std::size_t n, const Split& split) {
      if (split.whole() || !MayCutAt(n) || std::ranges::find(choices_[n], split) != choices_[n].end()) return;
      choices_[n].push_back(split);
    };
    for (std::size_t side = 0; side < 2; ++side)
      for (std::size_t d = 0; d < place_[side].size(); ++d) add(place_[side][d], operands_[side].dims[d]);
    for (std::size_t d = 0; d < wishes_.cut.size(); ++d) add(d, wishes_.cut[d]);
    int64_t count = 1;
    for (auto& c : choices_) {
      c.emplace_back();
      count *= std::ssize(c);
    }
    if (count > kMostChoices) return;
    least_ = CostOf(best_) * 0.99;  // of equals what was found stays
    Try(Splits(places_), 0);
  }
  void Try(Splits all, std::size_t n) {
    if (n == places_) {
      const double cost = CostOf(all);
      if (cost < least_) least_ = cost, best_ = std::move(all);
      return;
    }
    for (const Split& split : choices_[n]) {
      all[n] = split;
      if (split.whole() || MayCut(all)) Try(all, n + 1);
    }
  }

  // The bytes that come to a device, and its operations in place of some.
  double CostOf(const Splits& all) const {
    double out = 0, blocks = 1;
    for (std::size_t side = 0; side < 2; ++side)
      if (!emitter_.IsMadeOfNothing(operands_[side].local))
        out += ReshardBytes(operands_[side], OfOperand(side, all), devices_);
    Split along;
    for (std::size_t n = 0; n < places_; ++n) {
      blocks *= static_cast<double>(all[n].count);
      if (n >= rank_) along = Combine(along, all[n]);
    }
    out += operations_ / blocks / kOperationsPerByte;
    Splits made(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rank_));
    double bytes = static_cast<double>(i_.shape().byte_size());
    for (const Split& s : made) bytes /= static_cast<double>(s.count);
    Splits wish = wishes_.cut;
    for (const int64_t d : wishes_.open)
      if (At(d) < wish.size() && wish[At(d)].whole()) {
        wish[At(d)] = made[At(d)];
        if (!MayCut(wish)) wish[At(d)] = Split();
      }
    const bool wanted = !wish.empty() && MayCut(wish);
    if (!along.whole() && !StaysInParts(along)) {
      const double rest = bytes * static_cast<double>(along.count - 1) / static_cast<double>(along.count);
      out += rest;  // each part summed up on one device
      for (std::size_t d = 0; wanted && d < rank_; ++d) {
        Splits scattered = made;
        scattered[d] = Combine(made[d], along);
        if (scattered == wish) return out;
      }
      out += rest;  // and brought to all
    }
    if (!wanted) return out;
    Value value;
    value.sizes = i_.shape().dims();
    value.dims = std::move(made);
    value.region = region_;
    return out + ReshardBytes(value, wish, devices_, bytes);
  }

  const std::size_t rank_;
  std::size_t places_ = 0;             // dimensions of the result, and those that are contracted
  std::vector<std::size_t> place_[2];  // of each dimension of an operand
  double operations_ = 0, least_ = 0;
  std::vector<Splits> choices_;
  Splits best_;
};

}  // namespace

Result<std::optional<Value>> DotInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                         const Region* region, const Wishes& wishes, Emitter& emitter) {
  return DotRule(instruction, operands, region, wishes, emitter).Apply();
}

}  // namespace krafla::spmd
