// SPDX-License-Identifier: Apache-2.0
// Dots by blocks: batch dimensions are cut alike, contracted ones too, which leaves parts of a sum, and free ones as
// they are. Where operands and result disagree, what is tried is every choice of their cuts, and taken what brings each
// device the least bytes and work.
#include <algorithm>

#include "base/index.h"
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
    std::vector<Instruction*> made(2);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      std::vector<std::size_t> contracted;
      for (std::size_t d = 0; d < place_[side].size(); ++d)
        if (place_[side][d] >= rank_) contracted.push_back(d);
      KRAFLA_ASSIGN(made[side], Operand(side, OfOperand(side, best_), contracted));
    }
    best_.resize(rank_);
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
