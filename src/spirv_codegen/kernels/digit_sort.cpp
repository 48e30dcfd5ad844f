// SPDX-License-Identifier: Apache-2.0
// The steps of a sort by digits: how rows are cut, and which passes are made over them.
#include "spirv_codegen/kernels/digit_sort.h"

#include <algorithm>
#include <bit>

#include "base/checked_math.h"

namespace krafla::spirv {
namespace {

// The longest chunk of an invocation, whose work in one dispatch cannot be cut.
constexpr int64_t kLongestChunk = int64_t{1} << 20;
// Workgroups that items are shared out to before one has several turns of them.
constexpr int64_t kLeastWorkgroups = 8;

}  // namespace

Result<EmittedProgram> DigitSort::Emit() {
  if (half_ == 0) return std::move(out_);
  const std::span<const SortKeys::Word> words = keys_.words();
  const bool selects = words.size() == 1 && rows_.keep() <= length_ / 4 && length_ > tuning_.rank_row;
  const int64_t sorted = selects ? rows_.keep() : length_;
  const bool ranks = sorted <= (selects ? tuning_.rank_kept : tuning_.rank_row);
  const int64_t rows = rows_.rows();
  const int64_t words_of_keys = ranks ? std::max<int64_t>(std::ssize(words), 1) * half_ : 2 * half_;
  const int64_t positions = ranks ? (selects ? rows * sorted : 1) : 2 * half_;
  Cut(sorted);
  int64_t cells = rows * chunks_ << bits_;
  if (selects) {
    Cut(length_, 3, 8);
    cells = std::max(cells, rows * chunks_ << bits_);
  }
  scratch_ = {{words_of_keys, 4}, {positions, 4}, {ranks && !selects ? 1 : cells, 4}, {selects ? 4 * rows : 1, 4}};
  for (const BufferDesc& s : scratch_) out_.scratch_bytes.push_back(s.element_count * 4);
  if (selects) KRAFLA_TRY(Select());
  if (ranks) {
    KRAFLA_TRY(Rank());
  } else {
    for (std::size_t n = words.size(); n-- > 0;) KRAFLA_TRY(SortByWord(words[n], n == 0));
  }
  return std::move(out_);
}

Value DigitSort::At(Kernel& k, Value half, Value row, Value n) const {
  return k.b.Add(half, k.b.Add(k.b.Mul(row, k.U32(length_)), n));
}

void DigitSort::Cut(int64_t length, int64_t of_element, int64_t of_counter) {
  if (!own_chunks_) {
    bits_ = 4;
    const int64_t rows = rows_.rows();
    const bool whole =
        length <= tuning_.whole_row || (rows >= tuning_.many_rows && length <= tuning_.whole_row_of_many);
    chunk_ = whole ? length
                   : RoundUp(std::max<int64_t>(tuning_.least_chunk, CeilDiv(length, tuning_.most_chunks)),
                             static_cast<int64_t>(lanes_));
    chunks_ = CeilDiv(length, chunk_);
    return;
  }
  // As many chunks as keep some processors busy.
  const int64_t wanted =
      std::max(std::min(CeilDiv(tuning_.wanted_chunks, rows_.rows()), CeilDiv(length, tuning_.invocation_chunk)),
               CeilDiv(length, kLongestChunk));
  chunk_ = CeilDiv(length, wanted > 4 ? RoundUp(wanted, static_cast<int64_t>(lanes_)) : wanted);
  chunks_ = CeilDiv(length, chunk_);
  int64_t least = 0;
  const SortKeys::Word& word = keys_.words()[0];
  for (int bits : {4, 6, 8, 11}) {
    const int64_t passes = CeilDiv(word.high - word.low, bits);
    const int64_t cost = passes * (of_element * chunk_ + (of_counter << bits));
    if (least != 0 && cost >= least) continue;
    least = cost, bits_ = bits;
  }
}

Result<int> DigitSort::FinishItems(Kernel& k, int64_t items, std::string variant,
                                   const std::function<void(Value)>& body) {
  const uint32_t local = WorkgroupSize(profile_, tuning_.item_local);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), profile_));
  const Value item = k.b.Add(k.b.Mul(GroupNumber(k.b, grid), k.b.U32(local)), k.b.LocalIndex());
  k.b.If(k.b.Compare(Cmp::kULt, item, k.U32(items)), [&] { body(item); });
  return Add(k, grid, local, std::move(variant));
}

Result<int> DigitSort::FinishShortItems(Kernel& k, int64_t items, std::string variant,
                                        const std::function<void(Value)>& body) {
  const uint32_t local = WorkgroupSize(profile_, tuning_.item_local);
  const int64_t most = std::max<int64_t>(tuning_.workgroup_items / local, 1);
  const int64_t turns = std::clamp<int64_t>(CeilDiv(items, int64_t{local} * kLeastWorkgroups), 1, most);
  if (turns == 1) return FinishItems(k, items, std::move(variant), body);
  const int64_t of_group = turns * local;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, of_group), profile_));
  const Value first = k.b.Mul(GroupNumber(k.b, grid), k.U32(of_group));
  const Value end = k.b.Min(k.b.Add(first, k.U32(of_group)), k.U32(items));
  k.b.For(k.b.Add(first, k.b.LocalIndex()), end, k.b.U32(local), body);
  return Add(k, grid, local, std::move(variant));
}

Result<int> DigitSort::FinishWorkers(Kernel& k, int64_t chunks, std::string variant,
                                     const std::function<void(Value, Value)>& body) {
  const auto with = [&](Value worker) {
    const Value row = chunks == 1 ? worker : k.b.UDiv(worker, k.U32(chunks));
    body(row, chunks == 1 ? k.b.U32(0) : k.b.Sub(worker, k.b.Mul(row, k.U32(chunks))));
  };
  const int64_t workers = rows_.rows() * chunks;
  if (own_chunks_) return FinishItems(k, workers, std::move(variant), with);
  KRAFLA_ASSIGN(Grid grid, FoldGrid(workers, profile_));
  const Value worker = GroupNumber(k.b, grid);
  ForItem(k.b, grid.exact, worker, workers, [&] { with(worker); });
  return Add(k, grid, lanes_, std::move(variant));
}

int DigitSort::Add(Kernel& k, const Grid& grid, uint32_t local, std::string variant) {
  out_.kernels.push_back(k.w.Finish({local, 1, 1}, std::move(variant)));
  grids_.push_back(grid);
  return static_cast<int>(out_.kernels.size()) - 1;
}

void DigitSort::Dispatch(int kernel, std::vector<uint32_t> push, double share) {
  out_.dispatches.push_back({kernel, grids_[static_cast<std::size_t>(kernel)].size, std::move(push), share});
}

Result<int> DigitSort::Once(const std::string& name, const std::function<Result<int>()>& make) {
  if (auto known = made_.find(name); known != made_.end()) return known->second;
  KRAFLA_ASSIGN(const int kernel, make());
  made_.emplace(name, kernel);
  return kernel;
}

std::vector<uint32_t> DigitSort::From(int at, std::vector<uint32_t> more) const {
  more.insert(more.begin(), static_cast<uint32_t>(at * half_));
  return more;
}

Value DigitSort::PositionOf(Kernel& k, Value from, Value row, Value element) const {
  return has_positions_ ? Load(k, kPositions, At(k, from, row, element)) : element;
}

Result<> DigitSort::MakeKeys(std::span<const SortKeys::Word> words, bool begin) {
  Kernel k(*this, 1);
  const Value from = k.w.buffers.PushWord(0);
  KRAFLA_ASSIGN(const int kernel, FinishShortItems(k, rows_.rows() * length_, "sort.keys", [&](Value n) {
                  const Value row = k.b.UDiv(n, k.U32(length_)), element = k.b.Sub(n, k.b.Mul(row, k.U32(length_)));
                  const Value position = PositionOf(k, from, row, element);
                  for (std::size_t i = 0; i < words.size(); ++i) {
                    // The arrays of several words lie one after the other.
                    const Value at = words.size() == 1 ? from : k.U32(static_cast<int64_t>(i) * half_);
                    Store(k, kKeys, At(k, at, row, element), keys_.Load(k.w, rows_, words[i], row, position));
                  }
                  if (!begin) return;
                  k.b.If(k.b.Compare(Cmp::kEq, element, k.b.U32(0)), [&] {
                    Store(k, kState, k.b.Mul(row, k.b.U32(2)), k.b.U32(0));
                    Store(k, kState, k.b.Add(k.b.Mul(row, k.b.U32(2)), k.b.U32(1)), k.U32(rows_.keep() - 1));
                  });
                }));
  Dispatch(kernel, From(at_), 1);
  return {};
}

Result<> DigitSort::SortByWord(const SortKeys::Word& word, bool last_word) {
  Cut(length_);
  KRAFLA_TRY(MakeKeys(std::span(&word, 1), false));
  const int digits = 1 << bits_;
  // Push words: which half is read, and the digit's first bit.
  const auto digit = [&](Kernel& k, Value row) -> DigitOf {
    const Value from = k.w.buffers.PushWord(0), shift = k.w.buffers.PushWord(1);
    return [this, &k, row, from, shift, digits](Value element) {
      const Value key = Load(k, kKeys, At(k, from, row, element));
      return std::pair(k.b.And(k.b.Shr(key, shift), k.U32(digits - 1)), Value{});
    };
  };
  for (int bit = word.low; bit < word.high; bit += bits_) {
    const std::vector<uint32_t> push = From(at_, {static_cast<uint32_t>(bit)});
    if (chunks_ > 1) {
      KRAFLA_ASSIGN(const int count, MakeCount("sort.count", 2, digits, digit));
      Dispatch(count, push, 1);
      KRAFLA_ASSIGN(const int scan, MakeScan(digits));
      Dispatch(scan, {}, 4.0 * digits * static_cast<double>(chunks_) / static_cast<double>(length_));
    }
    const bool last_digit = bit + bits_ >= word.high, last = last_digit && last_word;
    const std::string name = Format("sort.place{}{}", has_positions_ ? "" : ".first",
                                    last         ? ".last"
                                    : last_digit ? ".word"
                                                 : "");
    KRAFLA_ASSIGN(
        const int place, MakePlace(name, 2, digits, digit, [&](Kernel& k, Value row, Value element, Value to) {
          const Value from = k.w.buffers.PushWord(0);
          const Value position = PositionOf(k, from, row, element);
          if (last) {
            if (rows_.keep() == length_) rows_.Move(k.w, row, to, position);
            else k.b.If(k.b.Compare(Cmp::kULt, to, k.U32(rows_.keep())), [&] { rows_.Move(k.w, row, to, position); });
            return;
          }
          const Value at = At(k, k.b.Sub(k.U32(half_), from), row, to);
          Store(k, kPositions, at, position);
          if (!last_digit) Store(k, kKeys, at, Load(k, kKeys, At(k, from, row, element)));
        }));
    Dispatch(place, push, 2);
    has_positions_ = true;
    at_ = 1 - at_;
  }
  return {};
}

Result<> DigitSort::Select() {
  const SortKeys::Word word = keys_.words()[0];
  KRAFLA_TRY(MakeKeys(std::span(&word, 1), true));
  const int digits = 1 << bits_;
  const int64_t states = 2 * rows_.rows();
  const auto state = [&](Kernel& k, Value from, Value row, int n) {
    return Load(k, kState, k.b.Add(from, k.b.Add(k.b.Mul(row, k.b.U32(2)), k.U32(n))));
  };
  // Push words: the state that is read, and the digit's first bit.
  const auto digit = [&](Kernel& k, Value row) -> DigitOf {
    const Value shift = k.w.buffers.PushWord(1), known = state(k, k.w.buffers.PushWord(0), row, 0);
    return [this, &k, row, shift, known, digits](Value element) {
      const Value rest = k.b.Shr(Load(k, kKeys, At(k, k.b.U32(0), row, element)), shift);
      return std::pair(k.b.And(rest, k.U32(digits - 1)), k.b.Compare(Cmp::kEq, k.b.Shr(rest, k.U32(bits_)), known));
    };
  };
  uint32_t from = 0;
  for (int n = static_cast<int>(CeilDiv(word.high - word.low, bits_)) - 1; n >= 0; --n) {
    const std::vector<uint32_t> push = {from, static_cast<uint32_t>(word.low + n * bits_)};
    KRAFLA_ASSIGN(const int count, MakeCount("sort.select", 2, digits, digit));
    Dispatch(count, push, 1);
    KRAFLA_ASSIGN(const int scan, MakeScan(digits));
    const double share = static_cast<double>(digits * chunks_) / static_cast<double>(length_);
    Dispatch(scan, {}, 4 * share);
    KRAFLA_ASSIGN(const int pick, Once("sort.pick", [&]() -> Result<int> {
                    Kernel k(*this, 1);
                    Builder& b = k.b;
                    const Value source = k.w.buffers.PushWord(0);
                    return FinishItems(k, rows_.rows() * digits, "sort.pick", [&](Value item) {
                      const Value row = b.UDiv(item, k.U32(digits)), d = b.And(item, k.U32(digits - 1));
                      const Value before = Load(k, kCounts, Cell(k, row, d, b.U32(0), digits));
                      const Value is_last = b.Compare(Cmp::kEq, d, k.U32(digits - 1));
                      const Value next = Load(
                          k, kCounts, Cell(k, row, b.Min(b.Add(d, b.U32(1)), k.U32(digits - 1)), b.U32(0), digits));
                      const Value wanted = state(k, source, row, 1);
                      const Value here = b.LAnd(b.Compare(Cmp::kUGe, wanted, before),
                                                b.LOr(is_last, b.Compare(Cmp::kULt, wanted, next)));
                      b.If(here, [&] {
                        const Value to = b.Add(b.Sub(k.U32(states), source), b.Mul(row, b.U32(2)));
                        Store(k, kState, to, b.Or(b.Shl(state(k, source, row, 0), k.U32(bits_)), d));
                        Store(k, kState, b.Add(to, b.U32(1)), b.Sub(wanted, before));
                      });
                    });
                  }));
    Dispatch(pick, {from}, share);
    from = static_cast<uint32_t>(states) - from;
  }
  // Three sides: the elements before the last one that is kept, its equals, and the rest.
  const auto side = [&](Kernel& k, Value row) -> DigitOf {
    const Value last = state(k, k.w.buffers.PushWord(0), row, 0);
    return [this, &k, row, last, low = word.low](Value element) {
      const Value key = k.b.Shr(Load(k, kKeys, At(k, k.b.U32(0), row, element)), k.U32(low));
      const Value upper = k.b.Select(k.b.Compare(Cmp::kEq, key, last), k.b.U32(1), k.b.U32(2));
      return std::pair(k.b.Select(k.b.Compare(Cmp::kULt, key, last), k.b.U32(0), upper), Value{});
    };
  };
  constexpr int kSides = 3;
  if (chunks_ > 1) {
    KRAFLA_ASSIGN(const int count, MakeCount("sort.sides", 1, kSides, side));
    Dispatch(count, {from}, 1);
    KRAFLA_ASSIGN(const int scan, MakeScan(kSides));
    Dispatch(scan, {}, 4.0 * kSides * static_cast<double>(chunks_) / static_cast<double>(length_));
  }
  const int64_t keep = rows_.keep();
  KRAFLA_ASSIGN(const int place,
                MakePlace("sort.keep", 1, kSides, side, [&](Kernel& k, Value row, Value element, Value to) {
                  k.b.If(k.b.Compare(Cmp::kULt, to, k.U32(keep)),
                         [&] { Store(k, kPositions, k.b.Add(k.b.Mul(row, k.U32(keep)), to), element); });
                }));
  Dispatch(place, {from}, 1);
  made_.clear();  // those kernels were for whole rows
  length_ = keep;
  has_positions_ = true;
  at_ = 0;
  return {};
}

Result<> DigitSort::Rank() {
  const std::span<const SortKeys::Word> words = keys_.words();
  KRAFLA_TRY(MakeKeys(words, false));
  Kernel k(*this, 0);
  Builder& b = k.b;
  const auto rank = [&](Value row, Value element) {
    const auto load = [&](Value at, std::size_t n) {
      return Load(k, kKeys, At(k, k.U32(static_cast<int64_t>(n) * half_), row, at));
    };
    Values own;
    for (std::size_t n = 0; n < words.size(); ++n) own.push_back(load(element, n));
    const Value place = ForEach(k, b.U32(0), k.U32(length_), 16, {b.U32(0)}, [&](Value other, const Values& s) {
      Value before = b.Compare(Cmp::kULt, other, element);
      for (std::size_t n = words.size(); n-- > 0;) {
        const Value theirs = load(other, n);
        const Value less = b.Compare(Cmp::kULt, theirs, own[n]);
        before = b.LOr(less, b.LAnd(b.Compare(Cmp::kEq, theirs, own[n]), before));
      }
      return Values{b.Add(s[0], b.Select(before, b.U32(1), b.U32(0)))};
    })[0];
    const auto move = [&] { rows_.Move(k.w, row, place, PositionOf(k, b.U32(0), row, element)); };
    if (rows_.keep() < length_) b.If(b.Compare(Cmp::kULt, place, k.U32(rows_.keep())), move);
    else move();
  };
  const double share = static_cast<double>(length_) / 8;
  const int64_t step = tuning_.rank_step;
  if (length_ < step) {
    KRAFLA_ASSIGN(const int kernel, FinishItems(k, rows_.rows() * length_, "sort.rank", [&](Value n) {
                    const Value row = b.UDiv(n, k.U32(length_));
                    rank(row, b.Sub(n, b.Mul(row, k.U32(length_))));
                  }));
    Dispatch(kernel, {}, share);
    return {};
  }
  // A workgroup stays within one row, so that all its invocations read the same other element.
  const uint32_t local =
      WorkgroupSize(profile_, static_cast<uint32_t>(std::min<int64_t>(RoundUp(length_, step), tuning_.rank_local)));
  const int64_t blocks = CeilDiv(length_, static_cast<int64_t>(local)), groups = rows_.rows() * blocks;
  KRAFLA_ASSIGN(Grid grid, FoldGrid(groups, profile_));
  const Value group = GroupNumber(b, grid), row = b.UDiv(group, k.U32(blocks));
  const Value element = b.Add(b.Mul(b.Sub(group, b.Mul(row, k.U32(blocks))), b.U32(local)), b.LocalIndex());
  Value inside = b.Compare(Cmp::kULt, element, k.U32(length_));
  if (!grid.exact) inside = b.LAnd(inside, b.Compare(Cmp::kULt, group, k.U32(groups)));
  b.If(inside, [&] { rank(row, element); });
  Dispatch(Add(k, grid, local, "sort.rank"), {}, share);
  return {};
}

Result<EmittedProgram> EmitDigitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const SortKeys& keys,
                                     const Target& target) {
  return DigitSort(plan, sort, keys, target).Emit();
}

}  // namespace krafla::spirv
