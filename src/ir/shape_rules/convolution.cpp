// SPDX-License-Identifier: Apache-2.0
// XLA: shape_inference.cc InferConvolveShape.
#include "ir/shape_rules/checks.h"

namespace krafla::shape_rules {
namespace {

// dim_labels of one array: batch, feature and spatial together name each dimension once.
Result<> CheckLabels(const char* what, const Shape& shape, int64_t first, int64_t second, const Dims& spatial) {
  Dims all = spatial;
  all.push_back(first);
  all.push_back(second);
  if (all.ssize() != shape.rank())
    return InvalidArgument("dim_labels gives the {} {} spatial dimensions; {} has {} dimensions.", what, spatial.size(),
                           Brief(shape), shape.rank());
  auto checked = CheckDimensionNumbers("dim_labels", all, shape.rank());
  if (!checked) return InvalidArgument("For the {} {}: {}", what, Brief(shape), checked.error().message());
  return {};
}

}  // namespace

Result<Shape> Convolution(const ShapeRuleInput& in) {
  KRAFLA_ASSIGN(const Shape* x, ArrayOperand(in, 0));
  KRAFLA_ASSIGN(const Shape* kernel, ArrayOperand(in, 1));
  const auto& a = Attr<ConvolutionAttributes>(in);
  KRAFLA_TRY(CheckPrecision(a.precision, 2));
  std::size_t spatial = a.window.size();
  if (a.input_spatial.size() != spatial || a.kernel_spatial.size() != spatial || a.output_spatial.size() != spatial)
    return InvalidArgument("The window has {} dimensions; dim_labels has {}, {} and {} spatial ones.", spatial,
                           a.input_spatial.size(), a.kernel_spatial.size(), a.output_spatial.size());
  KRAFLA_TRY(CheckLabels("input", *x, a.input_batch, a.input_feature, a.input_spatial));
  KRAFLA_TRY(CheckLabels("kernel", *kernel, a.kernel_input_feature, a.kernel_output_feature, a.kernel_spatial));
  Dims output = a.output_spatial;
  output.push_back(a.output_batch);
  output.push_back(a.output_feature);
  KRAFLA_TRY(CheckDimensionNumbers("dim_labels of the output", output, output.ssize()));

  if (a.feature_group_count < 1 || a.batch_group_count < 1)
    return InvalidArgument("feature_group_count ({}) and batch_group_count ({}) must be at least 1.",
                           a.feature_group_count, a.batch_group_count);
  if (a.feature_group_count > 1 && a.batch_group_count > 1)
    return InvalidArgument("feature_group_count ({}) and batch_group_count ({}) cannot both exceed 1.",
                           a.feature_group_count, a.batch_group_count);
  int64_t features = x->dim(a.input_feature), batch = x->dim(a.input_batch);
  int64_t kernel_features = kernel->dim(a.kernel_input_feature), out_features = kernel->dim(a.kernel_output_feature);
  if (features % a.feature_group_count != 0 || features / a.feature_group_count != kernel_features)
    return InvalidArgument("The input has {} features in {} groups; the kernel takes {} a group.", features,
                           a.feature_group_count, kernel_features);
  if (out_features % a.feature_group_count != 0 || out_features % a.batch_group_count != 0)
    return InvalidArgument(
        "The {} output features must be divisible by feature_group_count ({}) and batch_group_count "
        "({}).",
        out_features, a.feature_group_count, a.batch_group_count);
  if (batch % a.batch_group_count != 0)
    return InvalidArgument("The batch of {} must be divisible by batch_group_count ({}).", batch, a.batch_group_count);

  auto rank = static_cast<std::size_t>(x->rank());
  DimList dims{Dims(rank), InlineVector<bool, 8>(rank)};
  auto set = [&](int64_t at, int64_t size, bool dynamic) {
    dims.sizes[static_cast<std::size_t>(at)] = size;
    dims.dynamic[static_cast<std::size_t>(at)] = dynamic;
  };
  set(a.output_batch, batch / a.batch_group_count, x->IsDynamicDim(a.input_batch));
  set(a.output_feature, out_features, kernel->IsDynamicDim(a.kernel_output_feature));
  for (std::size_t i = 0; i < spatial; ++i) {
    if (a.window[i].size != kernel->dim(a.kernel_spatial[i]))
      return InvalidArgument("The window's size in spatial dimension {} is {}, the kernel's {}.", i, a.window[i].size,
                             kernel->dim(a.kernel_spatial[i]));
    KRAFLA_ASSIGN(int64_t size, WindowedSize(x->dim(a.input_spatial[i]), a.window[i], i));
    set(a.output_spatial[i], size, x->IsDynamicDim(a.input_spatial[i]));
  }
  KRAFLA_ASSIGN(ElementType type, ContractionType(in, x->element_type(), kernel->element_type()));
  return dims.Make(type);
}

}  // namespace krafla::shape_rules
