// SPDX-License-Identifier: Apache-2.0
#include "plan/index_expr.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/work.h"
#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla::plan {

IndexSpace::IndexSpace(std::span<const int64_t> iteration_dims) : dims_(iteration_dims) { exprs_.push_back({}); }

namespace {

uint64_t Mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0xff51afd7ed558ccdull;
  return h ^ h >> 29;
}

uint64_t HashIndex(const IndexExpr& e) {
  uint64_t h = Mix(0x9E3779B97F4A7C15ull, static_cast<uint64_t>(e.constant));
  for (const IndexTerm& t : e.terms)
    h = Mix(Mix(h, static_cast<uint64_t>(t.coefficient)), static_cast<uint64_t>(t.atom));
  return h;
}

uint64_t HashIndex(const IndexAtom& a) {
  uint64_t h = Mix(static_cast<uint64_t>(a.kind), static_cast<uint64_t>(a.iter));
  for (int64_t v : {int64_t{a.expr}, a.divisor, int64_t{a.node}, a.lo, a.hi}) h = Mix(h, static_cast<uint64_t>(v));
  return h;
}

// The place of `item` in `items`, where it is added if it is new.
template <typename T>
int InternItem(T item, std::vector<T>& items, std::vector<int>& table) {
  constexpr std::size_t kFew = 12;
  CountWork(1);
  if (items.size() < kFew) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (items[i] == item) return static_cast<int>(i);
    items.push_back(std::move(item));
    return static_cast<int>(items.size() - 1);
  }
  if (table.size() < 2 * items.size()) {
    table.assign(8 * items.size(), -1);
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::size_t at = HashIndex(items[i]) % table.size();
      while (table[at] >= 0) at = (at + 1) % table.size();
      table[at] = static_cast<int>(i);
    }
  }
  std::size_t at = HashIndex(item) % table.size();
  for (; table[at] >= 0; at = (at + 1) % table.size())
    if (items[static_cast<std::size_t>(table[at])] == item) return table[at];
  items.push_back(std::move(item));
  return table[at] = static_cast<int>(items.size() - 1);
}

}  // namespace

IndexId IndexSpace::Intern(IndexExpr expr) { return InternItem(std::move(expr), exprs_, expr_table_); }

AtomId IndexSpace::InternAtom(const IndexAtom& atom) { return InternItem(atom, atoms_, atom_table_); }

IndexId IndexSpace::Constant(int64_t value) { return Intern({value, {}}); }

IndexId IndexSpace::Iter(int dim) {
  int64_t extent = dims_[static_cast<std::size_t>(dim)];
  if (extent <= 1) return 0;
  IndexAtom atom{.kind = IndexAtom::Kind::kIter, .iter = dim, .lo = 0, .hi = extent - 1, .depends = uint64_t{1} << dim};
  return Intern({0, {{1, InternAtom(atom)}}});
}

IndexId IndexSpace::Value(int node, int64_t lo, int64_t hi, uint64_t depends) {
  if (lo == hi) return Constant(lo);
  IndexAtom atom{.kind = IndexAtom::Kind::kValue, .node = node, .lo = lo, .hi = hi, .depends = depends};
  return Intern({0, {{1, InternAtom(atom)}}});
}

IndexId IndexSpace::Add(IndexId a, IndexId b) {
  const IndexExpr& x = expr(a);
  const IndexExpr& y = expr(b);
  IndexExpr out;
  out.constant = x.constant + y.constant;
  std::size_t i = 0, j = 0;
  while (i < x.terms.size() || j < y.terms.size()) {
    if (j == y.terms.size() || (i < x.terms.size() && x.terms[i].atom < y.terms[j].atom)) {
      out.terms.push_back(x.terms[i++]);
    } else if (i == x.terms.size() || y.terms[j].atom < x.terms[i].atom) {
      out.terms.push_back(y.terms[j++]);
    } else {
      int64_t sum = x.terms[i].coefficient + y.terms[j].coefficient;
      if (sum != 0) out.terms.push_back({sum, x.terms[i].atom});
      ++i, ++j;
    }
  }
  // Joins the parts of a number that an earlier reshape split and a later one puts together.
  for (std::size_t high = 0; high < out.terms.size(); ++high) {
    if (atom(out.terms[high].atom).kind == IndexAtom::Kind::kIter) continue;
    for (std::size_t low = 0; low < out.terms.size(); ++low) {
      const std::optional<Joined> joined = Join(out.terms[high], out.terms[low]);
      if (!joined) continue;
      IndexExpr others;
      others.constant = out.constant;
      for (std::size_t t = 0; t < out.terms.size(); ++t)
        if (t != high && t != low) others.terms.push_back(out.terms[t]);
      return Add(Intern(std::move(others)), Mul(joined->id, joined->factor));
    }
  }
  return Intern(std::move(out));
}

IndexId IndexSpace::Sub(IndexId a, IndexId b) { return Add(a, Mul(b, -1)); }

IndexId IndexSpace::Mul(IndexId a, int64_t factor) {
  if (factor == 0) return 0;
  IndexExpr out = expr(a);
  out.constant *= factor;
  for (IndexTerm& t : out.terms) t.coefficient *= factor;
  return Intern(std::move(out));
}

namespace {

// Splits `e` into multiples of `divisor` (returned already divided) and the rest.
void SplitMultiples(const IndexExpr& e, int64_t divisor, IndexExpr& multiples, IndexExpr& rest) {
  int64_t q = e.constant / divisor, r = e.constant % divisor;
  if (r < 0) r += divisor, --q;
  multiples.constant = q;
  rest.constant = r;
  for (const IndexTerm& t : e.terms) {
    if (t.coefficient % divisor == 0) multiples.terms.push_back({t.coefficient / divisor, t.atom});
    else rest.terms.push_back(t);
  }
}

// Whether kernels can evaluate an expression of that range, which they do in 32 bits.
bool FitsKernel(const Interval& range) { return range.Within({0, std::numeric_limits<int32_t>::max()}); }

}  // namespace

bool IndexSpace::IsQuotient(const IndexAtom& quotient, IndexId e, int64_t divisor) const {
  if (quotient.kind != IndexAtom::Kind::kFloorDiv) return false;
  if (quotient.expr == e && quotient.divisor == divisor) return true;
  // floor(floor(x / a) / b) was made floor(x / (a * b)).
  const IndexExpr& x = expr(e);
  if (x.constant != 0 || x.terms.size() != 1 || x.terms[0].coefficient != 1) return false;
  const IndexAtom& inner = atom(x.terms[0].atom);
  return inner.kind == IndexAtom::Kind::kFloorDiv && inner.expr == quotient.expr &&
         SaturatedMultiply(inner.divisor, divisor) == quotient.divisor;
}

std::optional<IndexSpace::Joined> IndexSpace::Join(const IndexTerm& high, const IndexTerm& low) {
  const IndexAtom rest = atom(low.atom);
  if (rest.kind != IndexAtom::Kind::kMod || high.coefficient != SaturatedMultiply(low.coefficient, rest.divisor))
    return std::nullopt;
  const IndexAtom upper = atom(high.atom);
  // d * floor(e / d) + e mod d = e.
  if (IsQuotient(upper, rest.expr, rest.divisor)) return Joined{rest.expr, low.coefficient};
  // d * (floor(e / d) mod n) + e mod d = e mod (d * n).
  if (upper.kind != IndexAtom::Kind::kMod) return std::nullopt;
  const IndexExpr& x = expr(upper.expr);
  if (x.constant != 0 || x.terms.size() != 1 || x.terms[0].coefficient != 1 ||
      !IsQuotient(atom(x.terms[0].atom), rest.expr, rest.divisor))
    return std::nullopt;
  const int64_t divisor = SaturatedMultiply(rest.divisor, upper.divisor);
  return Joined{Mod(rest.expr, divisor), low.coefficient};
}

IndexSpace::Dividend IndexSpace::Split(IndexId a, int64_t divisor) {
  IndexExpr multiples, rest;
  SplitMultiples(expr(a), divisor, multiples, rest);
  Dividend out{Intern(std::move(multiples)), Intern(std::move(rest)), {}};
  out.range = RangeOf(out.rest);
  if (out.range.lo >= 0) return out;
  // The rest alone may be negative though the whole is not. Then nothing can be taken out.
  out = {0, a, RangeOf(a)};
  KRAFLA_CHECK(out.range.lo >= 0);
  return out;
}

std::optional<IndexSpace::Factored> IndexSpace::FactorOut(IndexId rest, int64_t divisor) const {
  const IndexExpr& e = expr(rest);
  // The largest factor above the part that it leaves. A factor of several terms divides the coefficient of each.
  std::optional<Factored> out;
  for (const IndexTerm& candidate : e.terms) {
    const int64_t factor = std::gcd(candidate.coefficient, divisor);
    if (factor <= 1 || (out && factor <= out->factor)) continue;
    Factored made{factor, {}, {}};
    SplitMultiples(e, factor, made.whole, made.part);
    if (RangeOf(made.part).Within({0, factor - 1})) out = std::move(made);
  }
  return out;
}

IndexId IndexSpace::FloorDiv(IndexId a, int64_t divisor) {
  if (divisor == 1) return a;
  const auto [multiples, rest, range] = Split(a, divisor);
  if (range.lo / divisor == range.hi / divisor) return AddConstant(multiples, range.lo / divisor);
  if (std::optional<Factored> f = FactorOut(rest, divisor))
    return Add(multiples, FloorDiv(Intern(std::move(f->whole)), divisor / f->factor));
  const IndexExpr& r = expr(rest);
  if (r.constant == 0 && r.terms.size() == 1 && r.terms[0].coefficient == 1) {
    const IndexAtom inner = atom(r.terms[0].atom);
    // floor(floor(e / d1) / d2) = floor(e / (d1 * d2)).
    if (inner.kind == IndexAtom::Kind::kFloorDiv)
      return Add(multiples, FloorDiv(inner.expr, SaturatedMultiply(inner.divisor, divisor)));
    // floor((e mod (d * n)) / d) = floor(e / d) mod n.
    if (inner.kind == IndexAtom::Kind::kMod && inner.divisor % divisor == 0)
      return Add(multiples, Mod(FloorDiv(inner.expr, divisor), inner.divisor / divisor));
  }
  return Add(multiples, OfAtom({.kind = IndexAtom::Kind::kFloorDiv,
                                .expr = rest,
                                .divisor = divisor,
                                .lo = range.lo / divisor,
                                .hi = range.hi / divisor,
                                .depends = Depends(rest)}));
}

IndexId IndexSpace::WithoutInnerModuli(IndexId rest, int64_t divisor) {
  const auto terms = expr(rest).terms;
  for (const IndexTerm& t : terms) {
    const IndexAtom inner = atom(t.atom);
    // c * (e mod m) = c * e - c * m * floor(e / m), of which the last is a multiple of the divisor.
    if (inner.kind != IndexAtom::Kind::kMod || SaturatedMultiply(t.coefficient, inner.divisor) % divisor != 0) continue;
    const IndexId without = Add(rest, Add(Mul(inner.expr, t.coefficient), Mul(OfAtom(inner), -t.coefficient)));
    // A longer sum is no gain, and sums would grow with each modulus of a chain.
    if (expr(without).terms.size() <= terms.size() && FitsKernel(RangeOf(without))) return without;
  }
  return rest;
}

IndexId IndexSpace::Mod(IndexId a, int64_t divisor) {
  if (divisor == 1) return 0;
  const auto [multiples, rest, range] = Split(a, divisor);
  if (range.lo / divisor == range.hi / divisor) return AddConstant(rest, -(range.lo / divisor) * divisor);
  if (std::optional<Factored> f = FactorOut(rest, divisor)) {
    const IndexId part = Intern(std::move(f->part));
    return Add(Mul(Mod(Intern(std::move(f->whole)), divisor / f->factor), f->factor), part);
  }
  if (const IndexId without = WithoutInnerModuli(rest, divisor); without != rest) return Mod(without, divisor);
  return OfAtom({.kind = IndexAtom::Kind::kMod,
                 .expr = rest,
                 .divisor = divisor,
                 .lo = 0,
                 .hi = std::min(divisor - 1, range.hi),
                 .depends = Depends(rest)});
}

IndexSpace::Range IndexSpace::RangeOf(const IndexExpr& e) const {
  Range out{e.constant, e.constant};
  for (const IndexTerm& t : e.terms) {
    const IndexAtom& a = atom(t.atom);
    out = out + Range{a.lo, a.hi} * t.coefficient;
  }
  return out;
}

IndexSpace::Range IndexSpace::RangeOf(IndexId id) const { return RangeOf(expr(id)); }

uint64_t IndexSpace::Depends(IndexId id) const {
  uint64_t out = 0;
  for (const IndexTerm& t : expr(id).terms) out |= atom(t.atom).depends;
  return out;
}

bool IndexSpace::HasValue(IndexId id) const {
  return std::ranges::any_of(expr(id).terms,
                             [&](const IndexTerm& t) { return atom(t.atom).kind == IndexAtom::Kind::kValue; });
}

IndexSpace::Affine IndexSpace::StrideAlong(IndexId id, int dim) const {
  Affine out{true, 0};
  for (const IndexTerm& t : expr(id).terms) {
    const IndexAtom& a = atom(t.atom);
    if (!((a.depends >> dim) & 1)) continue;
    if (a.kind != IndexAtom::Kind::kIter) return {false, 0};
    out.stride += t.coefficient;
  }
  return out;
}

IndexId IndexSpace::Linearize(std::span<const IndexId> index, std::span<const int64_t> dims) {
  Dims strides = RowMajorStrides(dims);
  IndexId out = 0;
  for (std::size_t i = 0; i < index.size(); ++i)
    if (dims[i] != 1) out = Add(out, Mul(index[i], strides[i]));
  return out;
}

std::vector<IndexId> IndexSpace::Delinearize(IndexId linear, std::span<const int64_t> dims) {
  Dims strides = RowMajorStrides(dims);
  std::vector<IndexId> out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] <= 1) {
      out.push_back(0);
      continue;
    }
    // The leading dimension needs no modulus: the linear index is in range.
    bool leading = true;
    for (std::size_t j = 0; j < i; ++j) leading = leading && dims[j] == 1;
    IndexId q = FloorDiv(linear, strides[i]);
    out.push_back(leading ? q : Mod(q, dims[i]));
  }
  return out;
}

}  // namespace krafla::plan
