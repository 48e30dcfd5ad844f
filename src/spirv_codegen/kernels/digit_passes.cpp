// SPDX-License-Identifier: Apache-2.0
// The kernels of a pass by one digit: workers count, a scan makes places of the counts, and workers put their elements
// there.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/digit_sort.h"

namespace krafla::spirv {

Value DigitSort::Cell(Kernel& k, Value row, Value digit, Value chunk, int digits) const {
  if (own_chunks_) return k.b.Add(k.b.Mul(k.b.Add(k.b.Mul(row, k.U32(chunks_)), chunk), k.U32(digits)), digit);
  return k.b.Add(k.b.Mul(k.b.Add(k.b.Mul(row, k.U32(digits)), digit), k.U32(chunks_)), chunk);
}

DigitSort::Counters DigitSort::MakeCounters(Kernel& k, Value row, Value chunk, int digits) const {
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

Value DigitSort::LoadCounter(Kernel& k, const Counters& c, Value at) const {
  return own_chunks_ ? Load(k, kCounts, at) : k.b.LoadShared(c.shared, Kind::kU32, 1, at);
}

void DigitSort::StoreCounter(Kernel& k, const Counters& c, Value at, Value v) const {
  if (own_chunks_) Store(k, kCounts, at, v);
  else k.b.StoreShared(c.shared, at, v);
}

Value DigitSort::CounterOf(Kernel& k, const Counters& c, Value digit) const {
  if (own_chunks_) return k.b.Add(c.base, digit);
  return k.b.Add(k.b.Mul(digit, k.b.U32(lanes_)), k.b.LocalIndex());
}

Values DigitSort::ForEach(Kernel& k, Value begin, Value end, uint32_t unrolled, const Values& initial,
                          const std::function<Values(Value, const Values&)>& body) const {
  Builder& b = k.b;
  const Value whole = b.Add(begin, b.And(b.Sub(end, begin), b.U32(~(unrolled - 1))));
  const Values most = b.For(begin, whole, b.U32(unrolled), initial, [&](Value first, Values values) {
    for (uint32_t i = 0; i < unrolled; ++i) values = body(b.Add(first, b.U32(i)), values);
    return values;
  });
  return b.For(whole, end, b.U32(1), most, body);
}

Values DigitSort::ForStretch(Kernel& k, Value chunk, const Values& initial,
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

void DigitSort::ForStretch(Kernel& k, Value chunk, const std::function<void(Value)>& body) const {
  ForStretch(k, chunk, {}, [&](Value element, const Values&) {
    body(element);
    return Values{};
  });
}

void DigitSort::Count(Kernel& k, const Counters& c, Value chunk, const DigitOf& digit) const {
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
    const auto add = [&, own = d] {
      const Value at = CounterOf(k, c, own);
      StoreCounter(k, c, at, b.Add(LoadCounter(k, c, at), b.U32(1)));
    };
    if (counts) b.If(counts, add);
    else add();
  });
}

Values DigitSort::OneMore(Kernel& k, Values counts, Value digit) const {
  for (std::size_t d = 0; d < counts.size(); ++d) {
    const Value is = k.b.Compare(Cmp::kEq, digit, k.U32(static_cast<int64_t>(d)));
    counts[d] = k.b.Add(counts[d], k.b.Select(is, k.b.U32(1), k.b.U32(0)));
  }
  return counts;
}

std::pair<Value, Value> DigitSort::SumBefore(Kernel& k, Id sums, Value own) const {
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

void DigitSort::ScanShared(Kernel& k, const Counters& c) const {
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
       [&, total = all] { b.StoreShared(c.shared, k.U32(c.digits * static_cast<int64_t>(lanes_)), total); });
  b.WorkgroupBarrier();
}

void DigitSort::ForOwnDigit(Kernel& k, int digits, const std::function<void(Value)>& body) const {
  const Value lane = k.b.LocalIndex();
  k.b.If(k.b.Compare(Cmp::kULt, lane, k.U32(digits)), [&] { body(lane); });
}

Result<int> DigitSort::MakeCount(const std::string& name, int push_words, int digits,
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

Result<int> DigitSort::MakeScan(int digits) {
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
          return b.For(b.U32(0), k.U32(chunks_), b.U32(1), s,
                       [&](Value chunk, const Values& sum) { return replace(Cell(k, row, d, chunk, digits), sum[0]); });
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

Result<int> DigitSort::MakePlace(const std::string& name, int push_words, int digits,
                                 const std::function<DigitOf(Kernel&, Value row)>& digit_of,
                                 const std::function<void(Kernel&, Value row, Value element, Value place)>& put) {
  return Once(name, [&]() -> Result<int> {
    Kernel k(*this, push_words);
    Builder& b = k.b;
    return FinishWorkers(k, chunks_, name, [&](Value row, Value chunk) {
      const Counters c = MakeCounters(k, row, chunk, digits);
      const DigitOf digit = digit_of(k, row);
      Id ahead = 0;  // for each digit, what to add to a place within the chunk to make it a place within the row
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

}  // namespace krafla::spirv
