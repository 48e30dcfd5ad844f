// SPDX-License-Identifier: Apache-2.0
// Products of integers of 8 bits that have zero points: of both as s8, which every device multiplies fast, less what
// the zero points add: sum (x - a)(w - b) = sum x w - a sum w - b (sum x - n a).
#include <algorithm>

#include "onnx/quantised.h"

namespace krafla::onnx {
namespace {

std::optional<double> KnownNumber(const Value* value) {
  if (value == nullptr) return 0.0;
  if (value->literal == nullptr || value->shape.element_count() < 1) return std::nullopt;
  const std::vector<double> numbers = NumbersOf(*value->literal);
  if (std::ranges::find_if(numbers, [&](double v) { return v != numbers[0]; }) != numbers.end()) return std::nullopt;
  return numbers[0];
}
// Of u8, 128 lower.
XlaOp AsS8(XlaOp x) { return BitcastConvertType(Xor(x, Like(x, 128)), S8); }
// s32 sums over the dimensions first .. last - 1, which become 1.
XlaOp SumsOf(const Bytes& x, int64_t first, int64_t last) {
  XlaBuilder* b = x.values.builder();
  Ints dims = DimsOf(x.values);
  if (x.known == nullptr) return ReduceBy(Fold::kSum, Convert(x.values, S32), Range(first, last), true);
  const std::span all(dims);
  const auto at = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
  const int64_t outer = Volume(all.first(at)), middle = Volume(all.subspan(at, end - at)),
                inner = Volume(all.subspan(end));
  std::fill(dims.begin() + first, dims.begin() + last, 1);
  Literal sums = Need(Literal::Create(MakeShape(S32, dims)));
  const std::span<int32_t> to = sums.data<int32_t>();
  const std::span<const int8_t> from = x.known->data<int8_t>();
  std::size_t next = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t m = 0; m < middle; ++m)
      for (int64_t i = 0; i < inner; ++i) {
        int32_t& sum = to[static_cast<std::size_t>(o * inner + i)];
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(from[next++]));
      }
  return FromLiteral(b, std::move(sums));
}
XlaOp Times(XlaOp x, double factor) { return Mul(x, Like(x, factor)); }

}  // namespace

XlaOp Centred(const Bytes& x, ElementType type, int64_t axis) {
  const XlaOp values = Convert(x.values, type);
  return x.zero.IsUninitialized() ? values : Sub(values, Convert(Spread(x.zero, DimsOf(values), axis, 0), type));
}

Bytes BytesOf(Call& c, const Value& value, const Value* zero) {
  const ElementType type = value.shape.element_type();
  if (!IsByte(type)) Refuse("Products of quantised {} are not supported.", ElementTypeName(type));
  const bool is_unsigned = type == U8;
  Bytes out;
  if (value.literal == nullptr) {
    const XlaOp x = c.OpOf(value);
    out.values = is_unsigned ? AsS8(x) : x;
  } else {
    out.known = value.literal;
    if (is_unsigned) {
      auto moved = std::make_shared<Literal>(Need(Literal::CreateUninitialized(value.shape.WithElementType(S8))));
      std::ranges::transform(value.literal->data<uint8_t>(), moved->data<int8_t>().begin(),
                             [](uint8_t v) { return static_cast<int8_t>(v ^ 0x80U); });
      out.known = std::move(moved);
    }
    out.values = ConstantLiteral(c.b, out.known);
  }
  const double shift = is_unsigned ? -128 : 0;
  if (const std::optional<double> number = KnownNumber(zero)) {
    if (*number + shift != 0) out.zero = Number(c.b, S32, *number + shift);
    return out;
  }
  const XlaOp given = Convert(c.OpOf(*zero), S32);
  out.zero = shift == 0 ? given : Add(given, Like(given, shift));
  return out;
}
Bytes BytesOf(XlaOp x, XlaOp zero) {
  const XlaOp moved = Convert(zero, S32);
  return {.values = AsS8(x), .zero = Sub(moved, Like(moved, 128)), .known = nullptr};
}
Bytes BytesOf(Call& c, std::size_t value, std::size_t zero) {
  // Asked for as every operator does, which ends a computation at once that would be of too much.
  c.In(value);
  if (c.Has(zero)) c.In(zero);
  return BytesOf(c, c.ValueOf(value), c.Has(zero) ? &c.ValueOf(zero) : nullptr);
}

XlaOp IntegerMatMul(Bytes a, Bytes b) {
  const Ints given_a = DimsOf(a.values), given_b = DimsOf(b.values);
  if (given_a.empty() || given_b.empty()) Reject("A product of matrices takes no scalars.");
  const bool row = given_a.size() == 1, column = given_b.size() == 1;
  if (row) a = {Reshape(a.values, {1, given_a[0]}), a.zero, nullptr};
  if (column) b = {Reshape(b.values, {given_b[0], 1}), b.zero, nullptr};
  XlaOp sum = MatMulOf(a.values, b.values, S32);
  const Ints dims = DimsOf(sum);
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t of_a = RankOf(a.values), of_b = RankOf(b.values);
  const auto times = static_cast<double>(DimsOf(a.values).back());
  if (!a.zero.IsUninitialized())
    sum = Sub(sum, Mul(Spread(a.zero, dims, rank - 2, 0), BroadcastTo(SumsOf(b, of_b - 2, of_b - 1), dims)));
  if (!b.zero.IsUninitialized()) {
    XlaOp rows = BroadcastTo(SumsOf(a, of_a - 1, of_a), dims);
    if (!a.zero.IsUninitialized()) rows = Sub(rows, Times(Spread(a.zero, dims, rank - 2, 0), times));
    sum = Sub(sum, Mul(Spread(b.zero, dims, rank - 1, 0), rows));
  }
  if (!row && !column) return sum;
  Ints out(dims.begin(), dims.end() - 2);
  if (!row) out.push_back(dims[dims.size() - 2]);
  if (!column) out.push_back(dims.back());
  return Reshape(sum, out);
}

XlaOp IntegerConvolution(Call& c, const Bytes& x, const Bytes& w) {
  const Ints kernel = DimsOf(w.values);
  const int64_t groups = c.Int("group", 1);
  if (kernel.size() < 3 || groups <= 0 || kernel[0] % groups != 0) Reject("{} groups of a convolution.", groups);
  if (!x.zero.IsUninitialized() && Volume(DimsOf(x.zero)) != 1) Reject("The zero point of x is not one number.");
  const int64_t products = Volume(std::span(kernel).subspan(1));
  // Of one channel, where bytes have no instructions to gain from: floats hold the sums of so many products exactly.
  constexpr int64_t kExactProducts = (1 << 24) / (255 * 255);
  if (kernel[1] == 1 && products <= kExactProducts)
    return Convert(ConvolutionOf(c, Centred(x, F32, 1), Centred(w, F32, 0), std::nullopt), S32);
  // What lies around x is zero, which its zero point stands for.
  const XlaOp fill = x.zero.IsUninitialized() ? XlaOp() : Convert(Reshape(x.zero, {}), S8);
  XlaOp sum = ConvolutionOf(c, x.values, w.values, S32, fill);
  const Ints dims = DimsOf(sum);
  if (!x.zero.IsUninitialized()) {
    const XlaOp sums = Reshape(SumsOf(w, 1, static_cast<int64_t>(kernel.size())), {kernel[0]});
    sum = Sub(sum, AlongAxis(Mul(sums, BroadcastTo(Reshape(x.zero, {}), Ints{kernel[0]})), dims, 1));
  }
  if (w.zero.IsUninitialized()) return sum;
  // The sums of x under each window, a channel a group.
  Ints ones = kernel, wide = dims, places = Range(0, static_cast<int64_t>(dims.size()));
  ones[0] = groups;
  XlaOp under = ConvolutionOf(c, x.values, Filled(c.b, S8, ones, 1), S32, fill);
  if (!x.zero.IsUninitialized())
    under = Sub(under, BroadcastTo(Times(Reshape(x.zero, {}), static_cast<double>(products)), DimsOf(under)));
  wide[1] = groups;
  wide.insert(wide.begin() + 2, kernel[0] / groups);
  for (std::size_t i = 2; i < places.size(); ++i) ++places[i];
  under = Reshape(BroadcastInDim(under, wide, places), dims);
  return Sub(sum, Mul(Spread(w.zero, dims, 1, 0), under));
}

std::optional<XlaOp> ProductOfQuantised(Call& c, int64_t column, int64_t result_column,
                                        XlaOp (*product)(Call&, const Bytes&, const Bytes&)) {
  const Dequantised *x = c.MadeOf(0), *w = c.MadeOf(1);
  if (x == nullptr || w == nullptr || c.TypeOf(0) != F32) return std::nullopt;
  const auto is_one = [](const Value& v) { return v.shape.element_count() == 1; };
  const auto zero_of = [](const Dequantised* d) { return d->zero ? &*d->zero : nullptr; };
  if (!is_one(x->scale) || (x->zero && !is_one(*x->zero))) return std::nullopt;
  const bool along = w->scale.shape.rank() == 1 && Axis(w->axis, w->value.shape.rank()) == column;
  if (!along && (!is_one(w->scale) || (w->zero && !is_one(*w->zero)))) return std::nullopt;
  if (!IsByte(x->value.shape.element_type()) || !IsByte(w->value.shape.element_type())) return std::nullopt;
  const XlaOp sum = product(c, BytesOf(c, x->value, zero_of(x)), BytesOf(c, w->value, zero_of(w)));
  const XlaOp scale = c.OpOf(w->scale);
  const XlaOp both = Mul(scale, BroadcastTo(Reshape(c.OpOf(x->scale), {}), DimsOf(scale)));
  return Mul(Convert(sum, F32), Spread(both, DimsOf(sum), result_column, 0));
}

}  // namespace krafla::onnx
