// SPDX-License-Identifier: Apache-2.0
// Products of matrices, and attention, which is made of them.
#include <algorithm>
#include <cmath>
#include <map>

#include "onnx/call.h"

namespace krafla::onnx {

Outputs OnMatMul(Call& c) { return {MatMulOf(c.In(0), c.In(1))}; }
Outputs OnGemm(Call& c) {
  XlaOp a = c.In(0), b = c.In(1);
  if (RankOf(a) != 2 || RankOf(b) != 2) Reject("Gemm takes matrices.");
  DotDimensionNumbers numbers;
  numbers.lhs_contracting_dimensions = {c.Int("transA", 0) != 0 ? 0 : 1};
  numbers.rhs_contracting_dimensions = {c.Int("transB", 0) != 0 ? 1 : 0};
  XlaOp y = DotGeneral(a, b, numbers);
  const double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  if (alpha != 1) y = Mul(y, Like(y, alpha));
  if (!c.Has(2) || beta == 0) return {y};
  XlaOp summand = c.In(2);
  if (beta != 1) summand = Mul(summand, Like(summand, beta));
  return {Add(y, BroadcastTo(summand, DimsOf(y)))};
}
// com.microsoft.FusedMatMul: matrices may come transposed, the product is scaled.
Outputs OnFusedMatMul(Call& c) {
  if (c.Int("transBatchA", 0) != 0 || c.Int("transBatchB", 0) != 0) Refuse("Transposed batches are not supported.");
  auto flipped = [](XlaOp x, bool flip) {
    const int64_t rank = RankOf(x);
    return flip && rank >= 2 ? MoveAxis(x, rank - 1, rank - 2) : x;
  };
  const XlaOp y = MatMulOf(flipped(c.In(0), c.Int("transA", 0) != 0), flipped(c.In(1), c.Int("transB", 0) != 0));
  const double alpha = c.Float("alpha", 1);
  return {alpha == 1 ? y : Mul(y, Like(y, alpha))};
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
// Letters that come twice are a diagonal; those that nobody wants are summed.
Term Reduced(Term t, const std::string& wanted) {
  for (std::size_t i = 0; i < t.letters.size(); ++i)
    for (std::size_t j = t.letters.size(); j-- > i + 1;) {
      if (t.letters[i] != t.letters[j]) continue;
      const Shape shape = ShapeOf(t.x);
      if (shape.dim(static_cast<int64_t>(i)) != shape.dim(static_cast<int64_t>(j)))
        Reject("A diagonal of unequal dimensions.");
      const Shape index = shape.WithElementType(S64);
      const XlaOp same =
          Eq(Iota(t.x.builder(), index, static_cast<int64_t>(i)), Iota(t.x.builder(), index, static_cast<int64_t>(j)));
      t.x = ReduceBy(Fold::kSum, Select(same, t.x, BroadcastTo(Like(t.x, 0), DimsOf(shape))),
                     Ints{static_cast<int64_t>(j)}, false);
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
Outputs OnDet(Call& c) {
  XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  if (dims.size() < 2 || dims[dims.size() - 1] != dims[dims.size() - 2]) Reject("Det takes square matrices.");
  const int64_t n = dims.back(), batch = Volume(std::span(dims).first(dims.size() - 2));
  if (n > 16) Refuse("The determinant of more than 16 rows.");
  x = Reshape(x, {batch, n, n});
  XlaOp det = Filled(c.b, TypeOf(x), Ints{batch}, 1);
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
      rows = r + 1 < m ? ConcatInDim(c.b, {SliceInDim(rows, 0, r, 1, 1), lower, SliceInDim(rows, r + 1, m, 1, 1)}, 1)
                       : ConcatInDim(c.b, {SliceInDim(rows, 0, r, 1, 1), lower}, 1);
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
  return {Reshape(det, Ints(dims.begin(), dims.end() - 2))};
}

namespace {
// [B, L, H * D] as [B, H, L, D].
XlaOp SplitHeads(XlaOp x, int64_t heads) {
  const Ints d = DimsOf(x);
  if (d.size() != 3 || heads <= 0 || d[2] % heads != 0) Reject("{} heads of {} dimensions.", heads, d.size());
  return Transpose(Reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}
XlaOp RepeatHeads(XlaOp x, int64_t heads) {
  const Ints d = DimsOf(x);
  if (d[1] == heads) return x;
  if (d[1] <= 0 || heads % d[1] != 0) Reject("{} heads share {} heads of keys.", heads, d[1]);
  const int64_t each = heads / d[1];
  return Reshape(BroadcastInDim(x, {d[0], d[1], each, d[2], d[3]}, {0, 1, 3, 4}), {d[0], heads, d[2], d[3]});
}
// The scores [B, H, L, S] with the mask, the causal order and the ends of padded keys.
XlaOp Masked(Call& c, XlaOp score) {
  const Ints ds = DimsOf(score);
  const ElementType type = TypeOf(score);
  const XlaOp none = BroadcastTo(Lowest(c.b, type), ds);
  const Shape index = MakeShape(S64, ds);
  if (c.Has(3)) {
    XlaOp mask = c.In(3);
    const Ints dm = DimsOf(mask);
    if (TypeOf(mask) == PRED) mask = Select(mask, BroadcastTo(Zero(c.b, type), dm), BroadcastTo(Lowest(c.b, type), dm));
    if (!dm.empty() && dm.back() < ds[3]) {
      std::vector<std::pair<int64_t, int64_t>> padding(dm.size());
      padding.back() = {0, ds[3] - dm.back()};
      mask = PadWith(mask, Lowest(c.b, type), padding);
    }
    score = Add(score, BroadcastTo(mask, ds));
  }
  XlaOp ends;
  if (c.Has(6)) {
    ends = BroadcastInDim(Convert(c.In(6), S64), ds, {0});
    score = Select(Lt(Iota(c.b, index, 3), ends), score, none);
  }
  const bool is_causal = c.Int("is_causal", 0) != 0;
  const int64_t left = c.Int("left_window_size", -1), right = c.Int("right_window_size", -1);  // since opset 25
  if (left < -1 || right < -1) Reject("A window of {} and {} positions.", left, right);
  if (!is_causal && left < 0 && right < 0) return score;
  const XlaOp rows = Iota(c.b, index, 2), columns = Iota(c.b, index, 3);
  const int64_t past = c.Has(4) ? c.ShapeOf(4).dim(2) : 0;
  const XlaOp offset =
      c.Has(6) ? Sub(ends, Like(ends, static_cast<double>(ds[2]))) : Filled(c.b, S64, ds, static_cast<double>(past));
  const XlaOp place = Add(rows, offset);
  if (is_causal) score = Select(Le(columns, place), score, none);
  if (left >= 0) score = Select(Le(Sub(place, columns), Filled(c.b, S64, ds, static_cast<double>(left))), score, none);
  if (right >= 0)
    score = Select(Le(Sub(columns, place), Filled(c.b, S64, ds, static_cast<double>(right))), score, none);
  return score;
}
}  // namespace
// Since opset 23.
Outputs OnAttention(Call& c) {
  XlaOp q = c.In(0), k = c.In(1), v = c.In(2);
  const ElementType type = TypeOf(q);
  const bool flat = RankOf(q) == 3;
  if (flat) {
    q = SplitHeads(q, c.Int("q_num_heads"));
    k = SplitHeads(k, c.Int("kv_num_heads"));
    v = SplitHeads(v, c.Int("kv_num_heads"));
  }
  if (RankOf(q) != 4 || RankOf(k) != 4 || RankOf(v) != 4) Reject("Attention takes arrays of 3 or 4 dimensions.");
  if (c.Has(4)) k = ConcatInDim(c.b, {c.In(4), k}, 2);
  if (c.Has(5)) v = ConcatInDim(c.b, {c.In(5), v}, 2);
  const XlaOp present_key = k, present_value = v;
  const Ints dq = DimsOf(q);
  k = RepeatHeads(k, dq[1]);
  v = RepeatHeads(v, dq[1]);
  const double scale = c.Float("scale", 1 / std::sqrt(static_cast<double>(dq[3])));
  const double root = std::sqrt(scale);
  XlaOp score = MatMulOf(Mul(q, Like(q, root)), MoveAxis(Mul(k, Like(k, root)), 3, 2));
  const Ints ds = DimsOf(score);
  XlaOp matched[4];  // what the fourth result may be asked to show
  matched[0] = score;
  const double cap = c.Float("softcap", 0);
  if (cap != 0) score = Mul(Tanh(Div(score, Like(score, cap))), Like(score, cap));
  matched[1] = score;
  score = Masked(c, score);
  matched[2] = score;
  const ElementType work = IsSmallFloat(type) ? F32 : type;
  // A row that sees nothing gives zeros.
  const XlaOp seen = Gt(ReduceBy(Fold::kMax, score, Ints{3}, true), Lowest(c.b, type));
  const XlaOp shares = Convert(SoftmaxOver(Convert(score, work), 3, false), type);
  score = Select(BroadcastTo(seen, ds), shares, BroadcastTo(Zero(c.b, type), ds));
  matched[3] = score;
  XlaOp y = MatMulOf(score, v);
  if (flat) {
    const Ints dy = DimsOf(y);
    y = Reshape(Transpose(y, {0, 2, 1, 3}), {dy[0], dy[2], dy[1] * dy[3]});
  }
  const int64_t mode = c.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) Reject("An output mode of {}.", mode);
  return {y, present_key, present_value, matched[mode]};
}
Outputs OnRotaryEmbedding(Call& c) {
  XlaOp x = c.In(0);
  const Ints given = DimsOf(x);
  const bool flat = given.size() == 3;
  if (flat) x = SplitHeads(x, c.Int("num_heads"));
  const Ints d = DimsOf(x);  // B, H, L, D
  if (d.size() != 4) Reject("RotaryEmbedding takes arrays of 3 or 4 dimensions.");
  const int64_t named = c.Int("rotary_embedding_dim", 0), width = named == 0 ? d[3] : named, half = width / 2;
  if (width <= 0 || width > d[3]) Reject("It turns {} of {} elements.", width, d[3]);
  const bool interleaved = c.Int("interleaved", 0) != 0;
  auto table = [&](std::size_t i) {
    XlaOp t = c.In(i);
    if (c.Has(3)) t = TakeAlong(t, c.In(3), 0);
    t = SliceInDim(t, 0, half, 1, RankOf(t) - 1);
    return BroadcastInDim(t, {d[0], d[1], d[2], half}, {0, 2, 3});
  };
  const XlaOp cosine = table(1), sine = table(2), turned = SliceInDim(x, 0, width, 1, 3);
  XlaOp a, b;
  if (interleaved) {
    a = SliceInDim(turned, 0, width, 2, 3);
    b = SliceInDim(turned, 1, width, 2, 3);
  } else {
    a = SliceInDim(turned, 0, half, 1, 3);
    b = SliceInDim(turned, half, width, 1, 3);
  }
  const XlaOp real = Sub(Mul(cosine, a), Mul(sine, b)), imaginary = Add(Mul(sine, a), Mul(cosine, b));
  XlaOp y;
  if (interleaved) {
    const Ints one = {d[0], d[1], d[2], half, 1};
    y = Reshape(ConcatInDim(c.b, {Reshape(real, one), Reshape(imaginary, one)}, 4), {d[0], d[1], d[2], width});
  } else y = ConcatInDim(c.b, {real, imaginary}, 3);
  if (width < d[3]) y = ConcatInDim(c.b, {y, SliceInDim(x, width, d[3], 1, 3)}, 3);
  return {flat ? Reshape(Transpose(y, {0, 2, 1, 3}), given) : y};
}

}  // namespace krafla::onnx
