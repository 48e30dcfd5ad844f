// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/stablehlo/quantization.h"

#include <algorithm>
#include <cmath>

namespace krafla::stablehlo {

std::pair<int64_t, int64_t> IntegerRange(ElementType type) {
  const int bits = BitWidth(type) - (IsSigned(type) ? 1 : 0);
  const int64_t max = bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
  return {IsSigned(type) ? -max - 1 : 0, max};
}

Result<Type> QuantizedElement(ElementType storage, Quantization quantization) {
  const Quantization& q = quantization;
  if (!IsIntegral(storage)) return InvalidArgument("A quantized type is stored in {}.", ElementTypeName(storage));
  if (!IsFloat(q.expressed)) return InvalidArgument("A quantized type stands for {}.", ElementTypeName(q.expressed));
  const auto [least, most] = IntegerRange(storage);
  if (q.min < least || q.max > most || q.min >= q.max)
    return InvalidArgument("A quantized type of {} has integers from {} to {}.", ElementTypeName(storage), q.min,
                           q.max);
  if (q.scales.empty() || q.scales.size() != q.zero_points.size() || (q.dimension < 0 && q.scales.size() != 1))
    return InvalidArgument("A quantized type has {} scales and {} zero points.", q.scales.size(), q.zero_points.size());
  for (double scale : q.scales)
    if (!(scale > 0) || !std::isfinite(scale)) return InvalidArgument("A quantized type has the scale {}.", scale);
  for (int64_t zero : q.zero_points)
    if (zero < q.min || zero > q.max)
      return InvalidArgument("A quantized type has the zero point {}, and integers from {} to {}.", zero, q.min, q.max);
  Type out;
  out.kind = Type::Kind::kElement;
  out.element = storage;
  out.quantization = std::make_shared<const Quantization>(std::move(quantization));
  return out;
}

Result<> CheckQuantizedDims(const Type& tensor) {
  if (tensor.quantization == nullptr || tensor.quantization->dimension < 0 || tensor.unranked) return {};
  const auto dimension = static_cast<std::size_t>(tensor.quantization->dimension);
  const std::size_t scales = tensor.quantization->scales.size();
  if (dimension >= tensor.dims.size())
    return InvalidArgument("An array of {} dimensions is quantized along dimension {}.", tensor.dims.size(), dimension);
  const int64_t size = tensor.dims[dimension];
  if (size != kDynamicDim && size != static_cast<int64_t>(scales))
    return InvalidArgument("Dimension {} has {} indices and {} scales.", dimension, size, scales);
  return {};
}

bool SameParameters(const Type& a, const Type& b) {
  const Quantization &p = *a.quantization, &q = *b.quantization;
  return a.element == b.element && p.expressed == q.expressed && p.min == q.min && p.max == q.max &&
         (p.dimension < 0) == (q.dimension < 0) && p.scales == q.scales && p.zero_points == q.zero_points;
}

}  // namespace krafla::stablehlo
