// SPDX-License-Identifier: Apache-2.0
// Products of matrices, and attention, which is made of them.
#include <algorithm>
#include <cmath>
#include <map>

#include "onnx/quantised.h"

namespace krafla::onnx {

XlaOp TransposedIf(XlaOp x, bool transposes) {
  const int64_t rank = RankOf(x);
  return transposes && rank >= 2 ? MoveAxis(x, rank - 1, rank - 2) : x;
}
Bytes TransposedIf(const Bytes& x, bool transposes) {
  return transposes ? Bytes{.values = TransposedIf(x.values, true), .zero = x.zero, .known = nullptr} : x;
}

Outputs OnMatMul(Call& c) {
  const int64_t rank = c.ShapeOf(0).rank(), rank_b = c.ShapeOf(1).rank();
  if (rank >= 2 && rank_b >= 2)
    if (auto y = ProductOfQuantised(c, rank_b - 1, std::max(rank, rank_b) - 1,
                                    [](Call&, const Bytes& a, const Bytes& b) { return IntegerMatMul(a, b); }))
      return {*y};
  return {MatMulOf(c.In(0), c.In(1))};
}
namespace {
// Of integers too, whose factors are floats.
XlaOp Scaled(XlaOp x, double by) {
  if (by == 1) return x;
  const ElementType type = TypeOf(x);
  if (IsFloat(type) || by == std::trunc(by)) return Mul(x, Like(x, by));
  const XlaOp wide = Convert(x, F64);
  return Convert(Mul(wide, Like(wide, by)), type);
}
}  // namespace
Outputs OnGemm(Call& c) {
  if (c.ShapeOf(0).rank() != 2 || c.ShapeOf(1).rank() != 2) Reject("Gemm takes matrices.");
  const bool turns_a = c.Int("transA", 0) != 0, turns_b = c.Int("transB", 0) != 0;
  std::optional<XlaOp> product =
      ProductOfQuantised(c, turns_b ? 0 : 1, 1, [](Call& call, const Bytes& a, const Bytes& b) {
        return IntegerMatMul(TransposedIf(a, call.Int("transA", 0) != 0), TransposedIf(b, call.Int("transB", 0) != 0));
      });
  if (!product) {
    DotDimensionNumbers numbers;
    numbers.lhs_contracting_dimensions = {turns_a ? 0 : 1};
    numbers.rhs_contracting_dimensions = {turns_b ? 1 : 0};
    product = DotGeneral(c.In(0), c.In(1), numbers);
  }
  const XlaOp y = Scaled(*product, c.Float("alpha", 1));
  const double beta = c.Float("beta", 1);
  if (!c.Has(2) || beta == 0) return {y};
  return {Add(y, BroadcastTo(Scaled(c.In(2), beta), DimsOf(y)))};
}
// com.microsoft: an activation follows.
Outputs OnFusedGemm(Call& c) {
  const XlaOp y = OnGemm(c)[0];
  const auto number = [&](std::string_view name) {
    return c.Find(name) != nullptr ? std::optional(c.Float(name, 0)) : std::nullopt;
  };
  return {FusedActivation(c, y, number("activation_alpha"), number("activation_beta"))};
}
// com.microsoft.FusedMatMul: matrices may come transposed, the product is scaled.
Outputs OnFusedMatMul(Call& c) {
  if (c.Int("transBatchA", 0) != 0 || c.Int("transBatchB", 0) != 0) Refuse("Transposed batches are not supported.");
  const XlaOp y =
      MatMulOf(TransposedIf(c.In(0), c.Int("transA", 0) != 0), TransposedIf(c.In(1), c.Int("transB", 0) != 0));
  return {Scaled(y, c.Float("alpha", 1))};
}

namespace {
// An operand of einsum: a letter a dimension. Dimensions of an ellipsis get letters of their own.
struct Term {
  XlaOp x;
  std::string letters;
};
char EllipsisLetter(std::size_t from_right) {
  if (from_right >= 20) Refuse("An ellipsis of more than 20 dimensions.");
  return static_cast<char>('0' + from_right);
}
std::string Letters(std::string_view text, int64_t rank) {
  std::string named, out;
  for (char ch : text)
    if (ch != '.') named += ch;
  const int64_t open = rank - static_cast<int64_t>(named.size());
  const bool dots = text.find("...") != std::string_view::npos;
  if (open < 0 || (open > 0 && !dots)) Reject("The equation has '{}' for {} dimensions.", text, rank);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.') {
      out += text[i];
      continue;
    }
    if (text.substr(i, 3) != "...") Reject("The equation has '{}'.", text);
    for (int64_t d = open; d-- > 0;) out += EllipsisLetter(static_cast<std::size_t>(d));
    i += 2;
  }
  return out;
}
// The elements that have the same place in dimensions i < j of one size n, along i: every n + 1st of both together.
XlaOp DiagonalOf(XlaOp x, int64_t i, int64_t j) {
  Ints order, flat, dims = DimsOf(x);
  const int64_t rank = RankOf(x), n = dims[static_cast<std::size_t>(i)];
  for (int64_t d = 0; d < rank; ++d) {
    if (d == j) continue;
    order.push_back(d);
    if (d == i) order.push_back(j);
    flat.push_back(d == i ? n * n : dims[static_cast<std::size_t>(d)]);
  }
  const XlaOp both = Reshape(TransposeTo(x, order), flat);
  return n == 0 ? both : SliceInDim(both, 0, n * n, n + 1, i);
}
// Letters that come twice are a diagonal; those that nobody wants are summed.
Term Reduced(Term t, const std::string& wanted) {
  for (std::size_t i = 0; i < t.letters.size(); ++i)
    for (std::size_t j = t.letters.size(); j-- > i + 1;) {
      if (t.letters[i] != t.letters[j]) continue;
      const Shape shape = ShapeOf(t.x);
      if (shape.dim(static_cast<int64_t>(i)) != shape.dim(static_cast<int64_t>(j)))
        Reject("A diagonal of unequal dimensions.");
      t.x = DiagonalOf(t.x, static_cast<int64_t>(i), static_cast<int64_t>(j));
      t.letters.erase(j, 1);
    }
  Ints axes;
  std::string kept;
  for (std::size_t i = 0; i < t.letters.size(); ++i)
    if (wanted.find(t.letters[i]) == std::string::npos) axes.push_back(static_cast<int64_t>(i));
    else kept += t.letters[i];
  if (!axes.empty()) t.x = ReduceBy(Fold::kSum, t.x, axes, false);
  t.letters = kept;
  return t;
}
// Dimensions of size 1 that meet larger ones are dropped.
void DropOnes(Term& t, const Term& other) {
  Ints dims = DimsOf(t.x), kept;
  const Ints theirs = DimsOf(other.x);
  std::string letters;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t at = other.letters.find(t.letters[i]);
    if (dims[i] == 1 && at != std::string::npos && theirs[at] != 1) continue;
    kept.push_back(dims[i]);
    letters += t.letters[i];
  }
  if (letters.size() != t.letters.size()) t = {Reshape(t.x, kept), letters};
}
Term Product(Term a, Term b, const std::string& wanted) {
  DropOnes(a, b);
  DropOnes(b, a);
  DotDimensionNumbers numbers;
  std::string batch, left, right;
  for (std::size_t i = 0; i < a.letters.size(); ++i) {
    const std::size_t j = b.letters.find(a.letters[i]);
    if (j == std::string::npos) {
      left += a.letters[i];
    } else if (wanted.find(a.letters[i]) != std::string::npos) {
      numbers.lhs_batch_dimensions.push_back(static_cast<int64_t>(i));
      numbers.rhs_batch_dimensions.push_back(static_cast<int64_t>(j));
      batch += a.letters[i];
    } else {
      numbers.lhs_contracting_dimensions.push_back(static_cast<int64_t>(i));
      numbers.rhs_contracting_dimensions.push_back(static_cast<int64_t>(j));
    }
  }
  for (char ch : b.letters)
    if (a.letters.find(ch) == std::string::npos) right += ch;
  return {DotGeneral(a.x, b.x, numbers), batch + left + right};
}
}  // namespace

Outputs OnEinsum(Call& c) {
  std::string equation = c.Text("equation", "");
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  const std::string_view inputs = std::string_view(equation).substr(0, arrow);
  std::vector<Term> terms;
  for (std::size_t i = 0, begin = 0; i < c.count(); ++i) {
    if (begin > inputs.size()) Reject("The equation '{}' has fewer operands than the node.", equation);
    const std::size_t end = std::min(inputs.find(',', begin), inputs.size());
    const XlaOp x = c.In(i);
    terms.push_back({x, Letters(inputs.substr(begin, end - begin), RankOf(x))});
    begin = end + 1;
  }
  if (terms.empty()) Reject("It has no operands.");
  std::map<char, int> uses;
  std::string dots;
  for (const Term& t : terms)
    for (char ch : t.letters) ++uses[ch];
  for (auto it = uses.rbegin(); it != uses.rend(); ++it)
    if (it->first >= '0' && it->first < 'A') dots += it->first;
  std::string result = dots;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
    if (const std::size_t at = result.find("..."); at != std::string::npos) result.replace(at, 3, dots);
  } else {
    for (auto [ch, n] : uses)
      if (n == 1 && ch >= 'A') result += ch;
  }
  Term all = terms[0];
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::string later = result;
    for (std::size_t j = i + 1; j < terms.size(); ++j) later += terms[j].letters;
    if (i == 0) {
      all = Reduced(std::move(all), later);
      continue;
    }
    const Term next = Reduced(terms[i], later + all.letters);
    all = Product(Reduced(std::move(all), later + next.letters), next, later);
  }
  all = Reduced(std::move(all), result);
  Ints order;
  for (char ch : result) {
    const std::size_t at = all.letters.find(ch);
    if (at == std::string::npos) Reject("The equation '{}' has a result that no operand has.", equation);
    order.push_back(static_cast<int64_t>(at));
  }
  if (order.size() != all.letters.size()) Reject("The equation '{}' names a dimension of the result twice.", equation);
  return {TransposeTo(all.x, order)};
}
namespace {

// By Gauss, of matrices that are so small that all of them are eliminated side by side: [batch, n, n] to [batch].
constexpr int64_t kMostEliminated = 4;
XlaOp DeterminantOfFew(XlaOp x) {
  XlaBuilder* b = x.builder();
  const int64_t batch = DimsOf(x)[0], n = DimsOf(x)[1];
  XlaOp det = Filled(b, TypeOf(x), Ints{batch}, 1);
  // Gauss with a pivot of the column, the row with the largest element first.
  for (int64_t k = 0; k < n; ++k) {
    const int64_t m = n - k;
    const XlaOp column = Reshape(SliceInDim(x, 0, 1, 1, 2), {batch, m});
    XlaOp pivot = Reshape(SliceInDim(column, 0, 1, 1, 1), {batch});
    XlaOp top = Reshape(SliceInDim(x, 0, 1, 1, 1), {batch, m});
    XlaOp rows = x;
    for (int64_t r = 1; r < m; ++r) {  // bubble the largest up: each swap changes the sign
      const XlaOp other = Reshape(SliceInDim(rows, r, r + 1, 1, 1), {batch, m});
      const XlaOp value = Reshape(SliceInDim(other, 0, 1, 1, 1), {batch});
      const XlaOp swap = Gt(Abs(value), Abs(pivot)), wide = BroadcastInDim(swap, {batch, m}, {0});
      const XlaOp lower = Reshape(Select(wide, top, other), {batch, 1, m});
      top = Select(wide, other, top);
      det = Select(swap, Neg(det), det);
      pivot = Select(swap, value, pivot);
      rows = r + 1 < m ? ConcatInDim(b, {SliceInDim(rows, 0, r, 1, 1), lower, SliceInDim(rows, r + 1, m, 1, 1)}, 1)
                       : ConcatInDim(b, {SliceInDim(rows, 0, r, 1, 1), lower}, 1);
    }
    det = Mul(det, pivot);
    if (m == 1) break;
    const XlaOp below = SliceInDim(rows, 1, m, 1, 1);
    const XlaOp safe = Select(Eq(pivot, Like(pivot, 0)), BroadcastTo(Like(pivot, 1), Ints{batch}), pivot);
    const XlaOp factor = Div(SliceInDim(below, 0, 1, 1, 2), BroadcastInDim(safe, {batch, m - 1, 1}, {0}));
    const XlaOp less =
        Sub(below, Mul(BroadcastTo(factor, Ints{batch, m - 1, m}), BroadcastInDim(top, {batch, m - 1, m}, {0, 2})));
    x = SliceInDim(less, 1, m, 1, 2);
  }
  return det;
}

// The product of the diagonal of a factorisation with pivots, whose sign each row that was exchanged changes.
XlaOp DeterminantByFactors(XlaOp x) {
  XlaBuilder* b = x.builder();
  const Ints matrices = DimsOf(x), rows = {matrices[0], matrices[1]};
  const Shape numbers = MakeShape(S32, rows), index = MakeShape(S32, matrices);
  const XlaOp factors = CustomCall(b, "LuDecomposition", {x}, Shape::MakeTuple({ShapeOf(x), numbers, numbers}));
  const XlaOp lu = GetTupleElement(factors, 0), exchanged = GetTupleElement(factors, 1);
  const XlaOp is_diagonal = Eq(Iota(b, index, 1), Iota(b, index, 2));
  const XlaOp zeros = Filled(b, TypeOf(x), matrices, 0);
  const XlaOp diagonal = ReduceBy(Fold::kSum, Select(is_diagonal, lu, zeros), Ints{2}, false);
  const XlaOp product = ReduceBy(Fold::kProduct, diagonal, Ints{1}, false);
  const XlaOp exchanges = ReduceBy(Fold::kSum, Convert(Ne(exchanged, Iota(b, numbers, 1)), S32), Ints{1}, false);
  const XlaOp is_odd = Ne(And(exchanges, Like(exchanges, 1)), Like(exchanges, 0));
  return Select(is_odd, Neg(product), product);
}

}  // namespace

Outputs OnDet(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  if (dims.size() < 2 || dims[dims.size() - 1] != dims[dims.size() - 2]) Reject("Det takes square matrices.");
  const int64_t n = dims.back(), batch = Volume(std::span(dims).first(dims.size() - 2));
  const Ints out(dims.begin(), dims.end() - 2);
  const ElementType type = TypeOf(x);
  if (n == 0 || batch == 0) return {Filled(c.b, type, out, 1)};
  const XlaOp matrices = Reshape(x, {batch, n, n});
  if (n <= kMostEliminated) return {Reshape(DeterminantOfFew(matrices), out)};
  const XlaOp wide = Convert(matrices, IsSmallFloat(type) ? F32 : type);
  return {Reshape(Convert(DeterminantByFactors(wide), type), out)};
}

}  // namespace krafla::onnx
