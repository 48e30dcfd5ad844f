// SPDX-License-Identifier: Apache-2.0
// ScanKernel: the table kScanVariants. Sums in f32 are wide all the way (wide_sum.h). The order of combination depends
// on the problem and the tuning only.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduction_values.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {
namespace {

// The most elements that one invocation takes in a dispatch, because its work cannot be cut.
constexpr int64_t kLongestStretch = int64_t{1} << 16;

class ScanEmitter {
 public:
  ScanEmitter(const plan::KernelPlan& plan, const plan::ScanKernel& scan, const Target& target)
      : plan_(plan),
        scan_(scan),
        profile_(target.profile),
        target_(target),
        tuning_(target.tuning.scan),
        reduction_(scan.reduction),
        is_ordered_(scan.reduction.kind == plan::Reduction::Kind::kOther),
        local_(WorkgroupSize(profile_, tuning_.local)) {
    reduction_.inputs = {0};
    for (std::size_t d = 0; d < scan.dims.size(); ++d) {
      if (static_cast<int>(d) < scan.dimension) outer_ *= scan.dims[d];
      if (static_cast<int>(d) > scan.dimension) inner_ *= scan.dims[d];
    }
    length_ = scan.dims[static_cast<std::size_t>(scan.dimension)];
    lines_ = outer_ * inner_;
  }

  Result<EmittedProgram> Emit();

  Refusal RefusesInOrder() const {
    if (is_ordered_) return std::nullopt;
    return "the combination may be regrouped";
  }
  Refusal RefusesChunks() const {
    if (length_ > 2 * kLongestStretch) return std::nullopt;
    if (lines_ >= tuning_.few_lines) return "many lines";
    if (length_ < tuning_.long_line) return "short lines";
    return std::nullopt;
  }

 private:
  // A kernel under construction, with the values that all kernels of a scan need.
  struct Kernel {
    Kernel(const ScanEmitter& scan, int push_words = 0)
        : w(scan.plan_, scan.target_, scan.scratch_, push_words),
          b(w.b),
          values(b, w.buffers, std::span(&scan.reduction_, 1), /*wide=*/true) {}
    Value U32(int64_t v) const { return b.U32(static_cast<uint32_t>(v)); }

    KernelWriter w;
    Builder& b;
    ReductionValues values;
  };

  // Ends a kernel that calls body(item) for `items` items, and dispatches it.
  Result<> Finish(Kernel& k, int64_t items, std::string variant, std::vector<uint32_t> push, double share,
                  const std::function<void(Value)>& body) {
    KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local_), profile_));
    const Value item = k.b.Add(k.b.Mul(GroupNumber(k.b, grid), k.b.U32(local_)), k.b.LocalIndex());
    k.b.If(k.b.Compare(Cmp::kULt, item, k.U32(items)), [&] { body(item); });
    AddKernel(out_, k.w, {0, grid.size, std::move(push), share}, local_, 0, std::move(variant));
    return {};
  }

  int bytes() const { return StorageBytes(scan_.type); }
  Value LoadStored(Kernel& k, int binding, Value at) const {
    const Kind kind64 = scan_.type == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
    return FromStorage(k.b, scan_.type, k.w.buffers.Load(binding, bytes(), at, 1, kind64));
  }
  void StoreRounded(Kernel& k, int binding, Value at, Value v) const {
    if (reduction_.kind != plan::Reduction::Kind::kOther) v = SettledNan(k.b, v);
    if (plan::AccumulatesWide(reduction_)) v = LowerRound(k.b, scan_.type, v);
    k.w.buffers.Store(binding, bytes(), at, ToStorage(k.b, scan_.type, v));
  }
  // The index of element 0 of a line.
  Value FirstOf(Kernel& k, Value line) const {
    const Value before = k.b.UDiv(line, k.U32(inner_));
    return k.b.Add(k.b.Mul(before, k.U32(length_ * inner_)), k.b.Sub(line, k.b.Mul(before, k.U32(inner_))));
  }
  Value ElementAt(Kernel& k, Value first, Value turn) const {
    const Value e = scan_.is_reverse ? k.b.Sub(k.U32(length_ - 1), turn) : turn;
    return k.b.Add(first, k.b.Mul(e, k.U32(inner_)));
  }
  Value InitOf(Kernel& k, Value line) const {
    if (scan_.start >= 0) return LoadStored(k, scan_.start, line);
    return RunScalarProgram(k.b, k.w.buffers, scan_.reduction.init, {})[0];
  }

  // Does the turns [begin, end) of a line from `state` on, stores the value of each, and gives the last state.
  Values WalkAndStore(Kernel& k, Value first, Value begin, Value end, const Values& state) const {
    return k.b.For(begin, end, k.b.U32(1), state, [&](Value turn, const Values& before) {
      const Value at = ElementAt(k, first, turn);
      const Values next = k.values.Absorb(before, {LoadStored(k, scan_.input, at)});
      StoreRounded(k, scan_.output, at, k.values.Round(next)[0]);
      return next;
    });
  }

 public:
  // The variants.
  Result<> EmitLines() {
    Kernel k(*this);
    return Finish(k, lines_, "scan.line", {}, 1, [&](Value line) {
      const Values start = k.values.Absorb(k.values.Start(1), {InitOf(k, line)});
      const Values end = WalkAndStore(k, FirstOf(k, line), k.b.U32(0), k.U32(length_), start);
      if (scan_.last >= 0) StoreRounded(k, scan_.last, line, k.values.Round(end)[0]);
    });
  }

  Result<> EmitInOrder() {
    auto walk = [&](Kernel& k, Value line, Value begin, Value end, Value start) {
      const Value first = FirstOf(k, line);
      return k.b.For(begin, end, k.b.U32(1), {start}, [&](Value turn, const Values& carry) {
        const Value at = ElementAt(k, first, turn);
        const Value operands[] = {carry[0], LoadStored(k, scan_.input, at)};
        const Values next = RunScalarProgram(k.b, k.w.buffers, scan_.reduction.combiner, operands,
                                             /*seen=*/reduction_.kind == plan::Reduction::Kind::kOther);
        StoreRounded(k, scan_.output, at, next[0]);
        return Values{next[0]};
      })[0];
    };
    if (length_ <= 2 * kLongestStretch) {
      Kernel k(*this);
      return Finish(k, lines_, "scan.line", {}, 1, [&](Value line) {
        const Value end = walk(k, line, k.b.U32(0), k.U32(length_), InitOf(k, line));
        if (scan_.last >= 0) StoreRounded(k, scan_.last, line, end);
      });
    }
    // Between dispatches the state of each line is in scratch.
    const Kind kind = ComputeKind(plan::ComputeType(scan_.type));
    AddScratch(kind, lines_);
    {
      Kernel k(*this);
      KRAFLA_TRY(Finish(k, lines_, "scan.start", {}, 1.0 / static_cast<double>(length_),
                        [&](Value line) { StoreScratch(k, 0, line, InitOf(k, line)); }));
    }
    Kernel k(*this, 1);
    const Value begin = k.w.buffers.PushWord(0);
    KRAFLA_TRY(Finish(k, lines_, "scan.stretch", {0}, 1, [&](Value line) {
      const Value stop = k.b.Min(k.b.Add(begin, k.U32(kLongestStretch)), k.U32(length_));
      const Value end = walk(k, line, begin, stop, LoadScratch(k, 0, kind, line));
      StoreScratch(k, 0, line, end);
      if (scan_.last >= 0) StoreRounded(k, scan_.last, line, end);
    }));
    for (int64_t at = kLongestStretch; at < length_; at += kLongestStretch) {
      EmittedDispatch next = out_.dispatches[1];
      next.push = {static_cast<uint32_t>(at)};
      out_.dispatches.push_back(std::move(next));
    }
    return {};
  }

  Result<> EmitChunks() {
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(length_)));
    const int64_t most = std::max(tuning_.least_chunk, tuning_.most_chunk);
    const auto chunk =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp(root, tuning_.least_chunk, most))));
    {
      Kernel kinds(*this);
      kinds_ = kinds.values.Kinds();
    }
    // Of each level the totals, then what goes before them. Those of more than a few entries are totals of a next
    // level.
    entries_ = {CeilDiv(length_, chunk)};
    while (entries_.back() > tuning_.most_totals) entries_.push_back(CeilDiv(entries_.back(), tuning_.most_totals));
    for (int64_t entries : entries_)
      for (Kind kind : kinds_) AddScratch(kind, entries * lines_);
    auto turns = [&](Kernel& k, Value c) {
      const Value begin = k.b.Mul(c, k.U32(chunk));
      return std::pair(begin, k.b.Min(k.b.Add(begin, k.U32(chunk)), k.U32(length_)));
    };
    KRAFLA_TRY(OverEntries(0, "scan.totals", [&](Kernel& k, Value c, Value line, Value at) {
      const Value first = FirstOf(k, line);
      const auto [begin, end] = turns(k, c);
      Save(k, 0, at, k.b.For(begin, end, k.b.U32(1), k.values.Start(1), [&](Value turn, const Values& state) {
        return k.values.Absorb(state, {LoadStored(k, scan_.input, ElementAt(k, first, turn))});
      }));
    }));
    KRAFLA_TRY(EmitCarries());
    return OverEntries(0, "scan.chunks", [&](Kernel& k, Value c, Value line, Value at) {
      const auto [begin, end] = turns(k, c);
      const Values last = WalkAndStore(k, FirstOf(k, line), begin, end, Saved(k, 0, at));
      if (scan_.last < 0) return;
      k.b.If(k.b.Compare(Cmp::kEq, c, k.U32(entries_[0] - 1)),
             [&] { StoreRounded(k, scan_.last, line, k.values.Round(last)[0]); });
    });
  }

 private:
  // A kernel of the entries of a level: body(k, entry, line, place). Entry c of line l lies at c * lines + l.
  Result<> OverEntries(std::size_t level, std::string variant,
                       const std::function<void(Kernel&, Value, Value, Value)>& body) {
    Kernel k(*this);
    const double share = level == 0 ? 1 : static_cast<double>(entries_[level]) / static_cast<double>(length_);
    return Finish(k, entries_[level] * lines_, std::move(variant), {}, share, [&](Value item) {
      const Value c = k.b.UDiv(item, k.U32(lines_)), line = k.b.Sub(item, k.b.Mul(c, k.U32(lines_)));
      body(k, c, line, item);
    });
  }
  // Calls turn(place, state) for the entries of `level` that entry c of the next level stands for.
  Values WalkEntries(Kernel& k, std::size_t level, Value c, Value line, const Values& start,
                     const std::function<Values(Value at, const Values& state)>& turn) const {
    const Value begin = k.b.Mul(c, k.U32(tuning_.most_totals));
    const Value end = k.b.Min(k.b.Add(begin, k.U32(tuning_.most_totals)), k.U32(entries_[level]));
    return k.b.For(begin, end, k.b.U32(1), start, [&](Value entry, const Values& state) {
      return turn(k.b.Add(k.b.Mul(entry, k.U32(lines_)), line), state);
    });
  }
  // The totals become what goes before them.
  Result<> EmitCarries() {
    const auto carry = [this](Kernel& k, std::size_t level, Value c, Value line, const Values& start) {
      WalkEntries(k, level, c, line, start, [&](Value at, const Values& before) {
        const Values total = Saved(k, level, at);
        Save(k, level, at, before);
        return k.values.Merge(before, total);
      });
    };
    for (std::size_t level = 1; level < entries_.size(); ++level)
      KRAFLA_TRY(OverEntries(level, "scan.totals", [&](Kernel& k, Value c, Value line, Value at) {
        Save(k, level, at, WalkEntries(k, level - 1, c, line, k.values.Start(1), [&](Value of, const Values& state) {
               return k.values.Merge(state, Saved(k, level - 1, of));
             }));
      }));
    const std::size_t top = entries_.size() - 1;
    Kernel k(*this);
    KRAFLA_TRY(Finish(
        k, lines_, "scan.carries", {}, static_cast<double>(entries_[top]) / static_cast<double>(length_),
        [&](Value line) { carry(k, top, k.U32(0), line, k.values.Absorb(k.values.Start(1), {InitOf(k, line)})); }));
    for (std::size_t level = top; level > 0; --level)
      KRAFLA_TRY(OverEntries(level, "scan.carries", [&](Kernel& of, Value c, Value line, Value at) {
        carry(of, level - 1, c, line, Saved(of, level, at));
      }));
    return {};
  }

  void AddScratch(Kind kind, int64_t count) {
    const int each = KindBits(kind) == 64 ? 8 : 4;
    scratch_.push_back({count, each});
    out_.scratch_bytes.push_back(count * each);
  }
  void StoreScratch(Kernel& k, std::size_t number, Value at, Value v) const {
    if (v.kind == Kind::kBool) v = k.b.Select(v, k.b.U32(1), k.b.U32(0));
    if (KindBits(v.kind) != 64) v = k.b.Bitcast(v, Kind::kU32);
    k.w.buffers.Store(static_cast<int>(plan_.bindings.size() + number), KindBits(v.kind) == 64 ? 8 : 4, at, v);
  }
  Value LoadScratch(Kernel& k, std::size_t number, Kind kind, Value at) const {
    const int each = KindBits(kind) == 64 ? 8 : 4;
    const Value bits = k.w.buffers.Load(static_cast<int>(plan_.bindings.size() + number), each, at, 1, kind);
    if (kind == Kind::kBool) return k.b.Compare(Cmp::kNe, bits, k.b.U32(0));
    return each == 4 ? k.b.Bitcast(bits, kind) : bits;
  }
  void Save(Kernel& k, std::size_t level, Value at, const Values& state) const {
    for (std::size_t i = 0; i < state.size(); ++i) StoreScratch(k, level * kinds_.size() + i, at, state[i]);
  }
  Values Saved(Kernel& k, std::size_t level, Value at) const {
    Values out;
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      out.push_back(LoadScratch(k, level * kinds_.size() + i, kinds_[i], at));
    return out;
  }

  const plan::KernelPlan& plan_;
  const plan::ScanKernel& scan_;
  const DeviceProfile& profile_;
  const Target& target_;
  const ScanTuning& tuning_;
  plan::Reduction reduction_;
  bool is_ordered_;
  uint32_t local_;
  int64_t outer_ = 1, inner_ = 1, length_ = 1, lines_ = 1;
  std::vector<BufferDesc> scratch_;
  std::vector<Kind> kinds_;       // of the values of a state in scratch
  std::vector<int64_t> entries_;  // of a line, at each level of chunks
  EmittedProgram out_;
};

// A variant as a function of ScanEmitter.
struct ScanWay {
  Result<> (ScanEmitter::*emit)();
  std::string reason;
};

// In order of preference.
constexpr Variant<ScanEmitter, ScanWay> kScanVariants[] = {
    // Lines whose elements must be combined one after the other; a long line takes one dispatch for each stretch.
    {"in order", [](const ScanEmitter& s) { return s.RefusesInOrder(); },
     [](const ScanEmitter&, std::string refused) { return ScanWay{&ScanEmitter::EmitInOrder, std::move(refused)}; }},
    // Few or long lines, cut into chunks: first the total of each chunk, then the state with which each chunk begins,
    // then the elements of each chunk.
    {"chunks", [](const ScanEmitter& s) { return s.RefusesChunks(); },
     [](const ScanEmitter&, std::string refused) { return ScanWay{&ScanEmitter::EmitChunks, std::move(refused)}; }},
    // An invocation goes through a line from end to end.
    {"line", nullptr,
     [](const ScanEmitter&, std::string refused) { return ScanWay{&ScanEmitter::EmitLines, std::move(refused)}; }},
};
static_assert(TakesEverything(kScanVariants));

Result<EmittedProgram> ScanEmitter::Emit() {
  if (lines_ * length_ == 0) return std::move(out_);
  const ScanWay way = MakeFirst(kScanVariants, *this);
  KRAFLA_TRY((this->*way.emit)());
  return WithReason(std::move(out_), way.reason);
}

}  // namespace

Result<EmittedProgram> EmitScan(const plan::KernelPlan& plan, const plan::ScanKernel& scan, const Target& target) {
  KRAFLA_TRY(CheckProgram(scan.reduction.combiner, target.profile));
  KRAFLA_TRY(CheckProgram(scan.reduction.init, target.profile));
  return ScanEmitter(plan, scan, target).Emit();
}

}  // namespace krafla::spirv
