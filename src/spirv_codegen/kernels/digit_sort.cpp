// SPDX-License-Identifier: Apache-2.0
// A stable sort of positions by their keys' digits, the last digits first. A row is cut in chunks, and a *worker* has
// one: an invocation, with counters in scratch (SortTuning::invocation_chunks); or a workgroup, whose
// invocations have a stretch of the chunk and a column of counters in shared memory each. A pass by one digit is three
// dispatches: the workers count digits, a scan over (digit, chunk) makes places of the counts, and the workers put
// their elements there. Where a row is one chunk it is one dispatch.
//   rank     short rows: an element's place is the number of those that go before it
//   select   a top-k of one word: the digits of the last element that is kept, the first digits first; then one pass
//            brings what is less, and as many of its equals as are wanted, to the front, and only those are sorted
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/reduction_values.h"
#include "spirv_codegen/kernels/sort.h"

namespace krafla::spirv {
namespace {

// Of an invocation: what it does in one dispatch cannot be cut.
constexpr int64_t kLongestChunk = int64_t{1} << 20;

class DigitSort {
 public:
  DigitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const SortKeys& keys, const Target& target)
      : plan_(plan),
        keys_(keys),
        profile_(target.profile),
        tuning_(target.tuning.sort),
        rows_(sort),
        own_chunks_(tuning_.invocation_chunks),
        lanes_(std::bit_floor(WorkgroupSize(profile_, tuning_.lanes))),
        length_(rows_.length()),
        half_(rows_.rows() * rows_.length()) {}

  Result<EmittedProgram> Emit() {
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

 private:
  enum Scratch { kKeys, kPositions, kCounts, kState };
  // A kernel under construction.
  struct Kernel {
    Kernel(const DigitSort& sort, int push_words) : w(sort.plan_, sort.profile_, sort.scratch_, push_words), b(w.b) {}
    Value U32(int64_t v) const { return b.U32(static_cast<uint32_t>(v)); }
    KernelWriter w;
    Builder& b;
  };
  using Item = std::function<void(Value row, Value element)>;

  int Buffer(Scratch s) const { return static_cast<int>(plan_.bindings.size()) + s; }
  Value Load(Kernel& k, Scratch s, Value at) const { return k.w.buffers.Load(Buffer(s), 4, at, 1); }
  void Store(Kernel& k, Scratch s, Value at, Value v) const { k.w.buffers.Store(Buffer(s), 4, at, v); }
  // Of element `n` of a row, from `half` on: rows have length_ elements.
  Value At(Kernel& k, Value half, Value row, Value n) const {
    return k.b.Add(half, k.b.Add(k.b.Mul(row, k.U32(length_)), n));
  }

  // How rows of `length` are cut, and how many bits a digit has, where a pass accesses memory so often for each element
  // and for each counter.
  void Cut(int64_t length, int64_t of_element = 10, int64_t of_counter = 4) {
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

  // Ends a kernel of `items` invocations: body(item).
  Result<int> FinishItems(Kernel& k, int64_t items, std::string variant, const std::function<void(Value)>& body) {
    const uint32_t local = WorkgroupSize(profile_, tuning_.item_local);
    KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), profile_));
    const Value item = k.b.Add(k.b.Mul(GroupNumber(k.b, grid), k.b.U32(local)), k.b.LocalIndex());
    k.b.If(k.b.Compare(Cmp::kULt, item, k.U32(items)), [&] { body(item); });
    return Add(k, grid, local, std::move(variant));
  }
  // Ends a kernel with a worker for each of `rows` x `chunks`: body(row, chunk).
  Result<int> FinishWorkers(Kernel& k, int64_t chunks, std::string variant,
                            const std::function<void(Value, Value)>& body) {
    const auto with = [&](Value worker) {
      const Value row = chunks == 1 ? worker : k.b.UDiv(worker, k.U32(chunks));
      body(row, chunks == 1 ? k.b.U32(0) : k.b.Sub(worker, k.b.Mul(row, k.U32(chunks))));
    };
    const int64_t workers = rows_.rows() * chunks;
    if (own_chunks_) return FinishItems(k, workers, std::move(variant), with);
    KRAFLA_ASSIGN(Grid grid, FoldGrid(workers, profile_));
    const Value worker = GroupNumber(k.b, grid);
    if (grid.exact) with(worker);
    else k.b.If(k.b.Compare(Cmp::kULt, worker, k.U32(workers)), [&] { with(worker); });
    return Add(k, grid, lanes_, std::move(variant));
  }
  int Add(Kernel& k, const Grid& grid, uint32_t local, std::string variant) {
    out_.kernels.push_back(k.w.Finish({local, 1, 1}, std::move(variant)));
    grids_.push_back(grid);
    return static_cast<int>(out_.kernels.size()) - 1;
  }
  void Dispatch(int kernel, std::vector<uint32_t> push, double share) {
    out_.dispatches.push_back({kernel, grids_[static_cast<std::size_t>(kernel)].size, std::move(push), share});
  }
  // The kernel of that name, made where there is none yet.
  Result<int> Once(const std::string& name, const std::function<Result<int>()>& make) {
    if (auto known = made_.find(name); known != made_.end()) return known->second;
    KRAFLA_ASSIGN(const int kernel, make());
    made_.emplace(name, kernel);
    return kernel;
  }
  std::vector<uint32_t> From(int at, std::vector<uint32_t> more = {}) const {
    more.insert(more.begin(), static_cast<uint32_t>(at * half_));
    return more;
  }

  // ---- Counters of a worker, of which each invocation has its own.

  struct Counters {
    // Of a workgroup's chunk: a column an invocation, digit * lanes + lane; then the number of all.
    Id shared = 0, sums = 0;
    Value base;  // of an invocation's chunk: its cells in scratch
    int digits = 0;
  };
  // The cell of a digit in the table of counts.
  Value Cell(Kernel& k, Value row, Value digit, Value chunk, int digits) const {
    if (own_chunks_) return k.b.Add(k.b.Mul(k.b.Add(k.b.Mul(row, k.U32(chunks_)), chunk), k.U32(digits)), digit);
    return k.b.Add(k.b.Mul(k.b.Add(k.b.Mul(row, k.U32(digits)), digit), k.U32(chunks_)), chunk);
  }
  Counters MakeCounters(Kernel& k, Value row, Value chunk, int digits) const {
    Counters c;
    c.digits = digits;
    if (own_chunks_) {
      c.base = Cell(k, row, k.b.U32(0), chunk, digits);
    } else {
      c.shared = k.b.SharedArray(Kind::kU32, 1, static_cast<uint32_t>(digits) * lanes_ + 1);
      c.sums = k.b.SharedArray(Kind::kU32, 1, lanes_);
    }
    return c;
  }
  Value LoadCounter(Kernel& k, const Counters& c, Value at) const {
    return own_chunks_ ? Load(k, kCounts, at) : k.b.LoadShared(c.shared, Kind::kU32, 1, at);
  }
  void StoreCounter(Kernel& k, const Counters& c, Value at, Value v) const {
    if (own_chunks_) Store(k, kCounts, at, v);
    else k.b.StoreShared(c.shared, at, v);
  }
  Value CounterOf(Kernel& k, const Counters& c, Value digit) const {
    if (own_chunks_) return k.b.Add(c.base, digit);
    return k.b.Add(k.b.Mul(digit, k.b.U32(lanes_)), k.b.LocalIndex());
  }
  // body(element, values) for [begin, end), four and more at a time: what a turn costs is much beside a load and a
  // count.
  Values ForEach(Kernel& k, Value begin, Value end, uint32_t unrolled, const Values& initial,
                 const std::function<Values(Value, const Values&)>& body) const {
    Builder& b = k.b;
    const Value whole = b.Add(begin, b.And(b.Sub(end, begin), b.U32(~(unrolled - 1))));
    const Values most = b.For(begin, whole, b.U32(unrolled), initial, [&](Value first, Values values) {
      for (uint32_t i = 0; i < unrolled; ++i) values = body(b.Add(first, b.U32(i)), values);
      return values;
    });
    return b.For(whole, end, b.U32(1), most, body);
  }
  // Elements of the row in the invocation's stretch of a chunk.
  Values ForStretch(Kernel& k, Value chunk, const Values& initial,
                    const std::function<Values(Value, const Values&)>& body) const {
    Builder& b = k.b;
    Value begin = b.Mul(chunk, k.U32(chunk_)), end = b.Min(b.Add(begin, k.U32(chunk_)), k.U32(length_));
    if (!own_chunks_) {
      const Value each = k.U32(CeilDiv(chunk_, static_cast<int64_t>(lanes_)));
      begin = b.Min(b.Add(begin, b.Mul(b.LocalIndex(), each)), end);
      end = b.Min(b.Add(begin, each), end);
    }
    return ForEach(k, begin, end, 4, initial, body);
  }
  void ForStretch(Kernel& k, Value chunk, const std::function<void(Value)>& body) const {
    ForStretch(k, chunk, {}, [&](Value element, const Values&) {
      body(element);
      return Values{};
    });
  }
  // `digit`: of an element, and whether it counts.
  using DigitOf = std::function<std::pair<Value, Value>(Value element)>;
  void Count(Kernel& k, const Counters& c, Value chunk, const DigitOf& digit) const {
    Builder& b = k.b;
    if (InValues(c.digits)) {
      const Values counts =
          ForStretch(k, chunk, Values(static_cast<std::size_t>(c.digits), b.U32(0)),
                     [&](Value element, const Values& s) { return OneMore(k, s, digit(element).first); });
      for (int d = 0; d < c.digits; ++d)
        StoreCounter(k, c, CounterOf(k, c, k.U32(d)), counts[static_cast<std::size_t>(d)]);
      return;
    }
    b.For(b.U32(0), k.U32(c.digits), b.U32(1), [&](Value d) { StoreCounter(k, c, CounterOf(k, c, d), b.U32(0)); });
    ForStretch(k, chunk, [&](Value element) {
      const auto [d, counts] = digit(element);
      const auto add = [&, d = d] {
        const Value at = CounterOf(k, c, d);
        StoreCounter(k, c, at, b.Add(LoadCounter(k, c, at), b.U32(1)));
      };
      if (counts) b.If(counts, add);
      else add();
    });
  }
  // Few counters of an invocation of its own are values.
  bool InValues(int digits) const { return own_chunks_ && digits <= 4; }
  Values OneMore(Kernel& k, Values counts, Value digit) const {
    for (std::size_t d = 0; d < counts.size(); ++d) {
      const Value is = k.b.Compare(Cmp::kEq, digit, k.U32(static_cast<int64_t>(d)));
      counts[d] = k.b.Add(counts[d], k.b.Select(is, k.b.U32(1), k.b.U32(0)));
    }
    return counts;
  }
  // The sum over the invocations of the workgroup before this one, and this one's too.
  std::pair<Value, Value> SumBefore(Kernel& k, Id sums, Value own) const {
    Builder& b = k.b;
    const Value lane = b.LocalIndex();
    Value sum = own;
    for (uint32_t off = 1; off < lanes_; off *= 2) {
      b.StoreShared(sums, lane, sum);
      b.WorkgroupBarrier();
      const Value has = b.Compare(Cmp::kUGe, lane, b.U32(off));
      const Value other = b.LoadShared(sums, Kind::kU32, 1, b.Select(has, b.Sub(lane, b.U32(off)), b.U32(0)));
      sum = b.Add(sum, b.Select(has, other, b.U32(0)));
      b.WorkgroupBarrier();
    }
    return {b.Sub(sum, own), sum};
  }
  // Makes of the workgroup's counters the places where their elements begin, in the order (digit, invocation).
  void ScanShared(Kernel& k, const Counters& c) const {
    Builder& b = k.b;
    b.WorkgroupBarrier();
    const Value digits = k.U32(c.digits), first = b.Mul(b.LocalIndex(), digits);
    const Value own = b.For(b.U32(0), digits, b.U32(1), {b.U32(0)}, [&](Value i, const Values& s) {
      return Values{b.Add(s[0], b.LoadShared(c.shared, Kind::kU32, 1, b.Add(first, i)))};
    })[0];
    const auto [before, all] = SumBefore(k, c.sums, own);
    b.For(b.U32(0), digits, b.U32(1), {before}, [&](Value i, const Values& s) {
      const Value count = b.LoadShared(c.shared, Kind::kU32, 1, b.Add(first, i));
      b.StoreShared(c.shared, b.Add(first, i), s[0]);
      return Values{b.Add(s[0], count)};
    });
    b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(lanes_ - 1)),
         [&, all = all] { b.StoreShared(c.shared, k.U32(c.digits * static_cast<int64_t>(lanes_)), all); });
    b.WorkgroupBarrier();
  }
  // body(digit) for the first `digits` invocations of a workgroup.
  void ForOwnDigit(Kernel& k, int digits, const std::function<void(Value)>& body) const {
    const Value lane = k.b.LocalIndex();
    k.b.If(k.b.Compare(Cmp::kULt, lane, k.U32(digits)), [&] { body(lane); });
  }

  // ---- Kernels of a pass

  // Counts into the table.
  Result<int> MakeCount(const std::string& name, int push_words, int digits,
                        const std::function<DigitOf(Kernel&, Value row)>& digit) {
    return Once(name, [&]() -> Result<int> {
      Kernel k(*this, push_words);
      return FinishWorkers(k, chunks_, name, [&](Value row, Value chunk) {
        const Counters c = MakeCounters(k, row, chunk, digits);
        Count(k, c, chunk, digit(k, row));
        if (own_chunks_) return;
        ScanShared(k, c);
        ForOwnDigit(k, digits, [&](Value d) {
          const Value first = k.b.Mul(d, k.b.U32(lanes_));
          const Value next = k.b.LoadShared(c.shared, Kind::kU32, 1, k.b.Add(first, k.b.U32(lanes_)));
          Store(k, kCounts, Cell(k, row, d, chunk, digits),
                k.b.Sub(next, k.b.LoadShared(c.shared, Kind::kU32, 1, first)));
        });
      });
    });
  }

  // Of each row's counts, the sums of all before: in the order (digit, chunk).
  Result<int> MakeScan(int digits) {
    const std::string name = Format("sort.places{}", digits);
    return Once(name, [&]() -> Result<int> {
      Kernel k(*this, 0);
      Builder& b = k.b;
      const auto replace = [&](Value at, Value sum) {
        const Value count = Load(k, kCounts, at);
        Store(k, kCounts, at, sum);
        return Values{b.Add(sum, count)};
      };
      if (own_chunks_) {
        return FinishItems(k, rows_.rows(), name, [&](Value row) {
          b.For(b.U32(0), k.U32(digits), b.U32(1), {b.U32(0)}, [&](Value d, const Values& s) {
            return b.For(b.U32(0), k.U32(chunks_), b.U32(1), s, [&](Value chunk, const Values& sum) {
              return replace(Cell(k, row, d, chunk, digits), sum[0]);
            });
          });
        });
      }
      const int64_t cells = digits * chunks_, each = CeilDiv(cells, static_cast<int64_t>(lanes_));
      return FinishWorkers(k, 1, name, [&](Value row, Value) {
        const Id sums = b.SharedArray(Kind::kU32, 1, lanes_);
        const Value base = b.Mul(row, k.U32(cells));
        const Value begin = b.Min(b.Mul(b.LocalIndex(), k.U32(each)), k.U32(cells)),
                    end = b.Min(b.Add(begin, k.U32(each)), k.U32(cells));
        const Value own = b.For(begin, end, b.U32(1), {b.U32(0)}, [&](Value i, const Values& s) {
          return Values{b.Add(s[0], Load(k, kCounts, b.Add(base, i)))};
        })[0];
        b.For(begin, end, b.U32(1), {SumBefore(k, sums, own).first},
              [&](Value i, const Values& s) { return replace(b.Add(base, i), s[0]); });
      });
    });
  }

  // Puts each element where its digit says: put(row, element, place). Counts too where a row is one chunk.
  Result<int> MakePlace(const std::string& name, int push_words, int digits,
                        const std::function<DigitOf(Kernel&, Value row)>& digit_of,
                        const std::function<void(Kernel&, Value row, Value element, Value place)>& put) {
    return Once(name, [&]() -> Result<int> {
      Kernel k(*this, push_words);
      Builder& b = k.b;
      return FinishWorkers(k, chunks_, name, [&](Value row, Value chunk) {
        const Counters c = MakeCounters(k, row, chunk, digits);
        const DigitOf digit = digit_of(k, row);
        Id ahead = 0;  // of each digit's elements, those in other chunks less those of other digits in this one
        if (!own_chunks_) {
          Count(k, c, chunk, digit);
          ScanShared(k, c);
          if (chunks_ > 1) {
            ahead = b.SharedArray(Kind::kU32, 1, static_cast<uint32_t>(digits));
            ForOwnDigit(k, digits, [&](Value d) {
              const Value first = b.LoadShared(c.shared, Kind::kU32, 1, b.Mul(d, b.U32(lanes_)));
              b.StoreShared(ahead, d, b.Sub(Load(k, kCounts, Cell(k, row, d, chunk, digits)), first));
            });
            b.WorkgroupBarrier();
          }
        } else if (chunks_ == 1) {
          Count(k, c, chunk, digit);
          b.For(b.U32(0), k.U32(digits), b.U32(1), {b.U32(0)}, [&](Value d, const Values& s) {
            const Value at = CounterOf(k, c, d), count = LoadCounter(k, c, at);
            StoreCounter(k, c, at, s[0]);
            return Values{b.Add(s[0], count)};
          });
        }
        if (InValues(digits)) {
          Values places;
          for (int d = 0; d < digits; ++d) places.push_back(LoadCounter(k, c, CounterOf(k, c, k.U32(d))));
          ForStretch(k, chunk, places, [&](Value element, const Values& next) {
            const Value d = digit(element).first;
            Value place = next[0];
            for (int n = 1; n < digits; ++n)
              place = b.Select(b.Compare(Cmp::kEq, d, k.U32(n)), next[static_cast<std::size_t>(n)], place);
            put(k, row, element, place);
            return OneMore(k, next, d);
          });
          return;
        }
        ForStretch(k, chunk, [&](Value element) {
          const Value d = digit(element).first, at = CounterOf(k, c, d);
          Value place = LoadCounter(k, c, at);
          StoreCounter(k, c, at, b.Add(place, b.U32(1)));
          if (ahead != 0) place = b.Add(place, b.LoadShared(ahead, Kind::kU32, 1, d));
          put(k, row, element, place);
        });
      });
    });
  }

  // ---- The steps

  // The position of an element, of which there is an array or not yet.
  Value PositionOf(Kernel& k, Value from, Value row, Value element) const {
    return has_positions_ ? Load(k, kPositions, At(k, from, row, element)) : element;
  }

  // The words of all elements. `begin`: of a selection too.
  Result<> MakeKeys(std::span<const SortKeys::Word> words, bool begin) {
    Kernel k(*this, 1);
    const Value from = k.w.buffers.PushWord(0);
    KRAFLA_ASSIGN(const int kernel, FinishItems(k, rows_.rows() * length_, "sort.keys", [&](Value n) {
                    const Value row = k.b.UDiv(n, k.U32(length_)), element = k.b.Sub(n, k.b.Mul(row, k.U32(length_)));
                    const Value position = PositionOf(k, from, row, element);
                    for (std::size_t i = 0; i < words.size(); ++i) {
                      // Where there are several they lie one behind the other.
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

  Result<> SortByWord(const SortKeys::Word& word, bool last_word) {
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

  // Leaves the positions of those that are kept, and nothing but them in a row. The state of a row is what is known of
  // the last one's key, and how many of those that begin so go before it.
  Result<> Select() {
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
    // What is less, what is equal, and the rest.
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
    made_.clear();  // they were of the whole rows
    length_ = keep;
    has_positions_ = true;
    at_ = 0;
    return {};
  }

  // Each element counts those that go before it.
  Result<> Rank() {
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
    // Workgroups within a row: all read the same other element.
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

  const plan::KernelPlan& plan_;
  const SortKeys& keys_;
  const DeviceProfile& profile_;
  const SortTuning& tuning_;
  SortRows rows_;
  bool own_chunks_;  // SortTuning::invocation_chunks
  uint32_t lanes_;   // of a workgroup
  int64_t length_;   // of a row, of what is still sorted
  int64_t half_;     // of the arrays of keys and positions, of which a pass reads one half and writes the other
  int64_t chunk_ = 1, chunks_ = 1;  // elements of a chunk, chunks of a row
  int bits_ = 4;
  bool has_positions_ = false;  // else an element's position is its place
  int at_ = 0;                  // the half that is read
  std::vector<BufferDesc> scratch_;
  std::map<std::string, int> made_;
  std::vector<Grid> grids_;
  EmittedProgram out_;
};

}  // namespace

Result<EmittedProgram> EmitDigitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const SortKeys& keys,
                                     const Target& target) {
  return DigitSort(plan, sort, keys, target).Emit();
}

}  // namespace krafla::spirv
