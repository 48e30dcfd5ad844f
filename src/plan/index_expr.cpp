// SPDX-License-Identifier: Apache-2.0
#include "plan/index_expr.h"

#include <algorithm>

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
  // d * floor(e / d) + (e mod d) is e again: undoes a split that a later reshape joins.
  for (std::size_t q = 0; q < out.terms.size(); ++q) {
    const IndexAtom quotient = atom(out.terms[q].atom);
    if (quotient.kind != IndexAtom::Kind::kFloorDiv) continue;
    for (std::size_t r = 0; r < out.terms.size(); ++r) {
      const IndexAtom& rest = atom(out.terms[r].atom);
      if (rest.kind != IndexAtom::Kind::kMod || rest.expr != quotient.expr || rest.divisor != quotient.divisor ||
          out.terms[q].coefficient != out.terms[r].coefficient * quotient.divisor)
        continue;
      int64_t factor = out.terms[r].coefficient;
      IndexExpr without;
      without.constant = out.constant;
      for (std::size_t t = 0; t < out.terms.size(); ++t)
        if (t != q && t != r) without.terms.push_back(out.terms[t]);
      return Add(Intern(std::move(without)), Mul(quotient.expr, factor));
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

}  // namespace

IndexId IndexSpace::FloorDiv(IndexId a, int64_t divisor) {
  if (divisor == 1) return a;
  IndexExpr multiples, rest;
  SplitMultiples(expr(a), divisor, multiples, rest);
  IndexId rest_id = Intern(std::move(rest));
  IndexId multiples_id = Intern(std::move(multiples));
  Range range = RangeOf(rest_id);
  if (range.lo >= 0 && range.hi < divisor) return multiples_id;
  if (range.lo < 0) {
    // The rest alone may be negative though the whole is not; then nothing can be pulled out.
    rest_id = a;
    multiples_id = 0;
    range = RangeOf(a);
    KRAFLA_CHECK(range.lo >= 0);
  }
  // floor(floor(e / d1) / d2) = floor(e / (d1 * d2)).
  const IndexExpr& r = expr(rest_id);
  if (r.constant == 0 && r.terms.size() == 1 && r.terms[0].coefficient == 1) {
    const IndexAtom inner = atom(r.terms[0].atom);
    if (inner.kind == IndexAtom::Kind::kFloorDiv)
      return Add(multiples_id, FloorDiv(inner.expr, inner.divisor * divisor));
  }
  IndexAtom made{.kind = IndexAtom::Kind::kFloorDiv,
                 .expr = rest_id,
                 .divisor = divisor,
                 .lo = range.lo / divisor,
                 .hi = range.hi / divisor,
                 .depends = Depends(rest_id)};
  return Add(multiples_id, Intern({0, {{1, InternAtom(made)}}}));
}

IndexId IndexSpace::Mod(IndexId a, int64_t divisor) {
  if (divisor == 1) return 0;
  IndexExpr multiples, rest;
  SplitMultiples(expr(a), divisor, multiples, rest);
  IndexId rest_id = Intern(std::move(rest));
  Range range = RangeOf(rest_id);
  if (range.lo >= 0 && range.hi < divisor) return rest_id;
  if (range.lo < 0) {
    rest_id = a;
    range = RangeOf(a);
    KRAFLA_CHECK(range.lo >= 0);
  }
  // Terms that are a modulus of a multiple of the divisor: (e mod k*d) mod d = e mod d.
  const IndexExpr& r = expr(rest_id);
  if (r.constant == 0 && r.terms.size() == 1 && r.terms[0].coefficient == 1) {
    const IndexAtom inner = atom(r.terms[0].atom);
    if (inner.kind == IndexAtom::Kind::kMod && inner.divisor % divisor == 0) return Mod(inner.expr, divisor);
  }
  IndexAtom made{.kind = IndexAtom::Kind::kMod,
                 .expr = rest_id,
                 .divisor = divisor,
                 .lo = 0,
                 .hi = std::min(divisor - 1, range.hi),
                 .depends = Depends(rest_id)};
  return Intern({0, {{1, InternAtom(made)}}});
}

IndexSpace::Range IndexSpace::RangeOf(IndexId id) const {
  const IndexExpr& e = expr(id);
  Range out{e.constant, e.constant};
  for (const IndexTerm& t : e.terms) {
    const IndexAtom& a = atom(t.atom);
    out.lo += t.coefficient * (t.coefficient > 0 ? a.lo : a.hi);
    out.hi += t.coefficient * (t.coefficient > 0 ? a.hi : a.lo);
  }
  return out;
}

uint64_t IndexSpace::Depends(IndexId id) const {
  uint64_t out = 0;
  for (const IndexTerm& t : expr(id).terms) out |= atom(t.atom).depends;
  return out;
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
