// SPDX-License-Identifier: Apache-2.0
#include "test_calls.h"

#include <algorithm>

#include "api/front_end.h"
#include "krafla/custom_call.h"

namespace krafla::cli {
namespace {

Result<> AddOne(const CustomCallFrame& frame) {
  if (frame.operands.size() != 1 || frame.operands[0]->shape().element_type() != ElementType::kF32 ||
      !Shape::SameDims(frame.operands[0]->shape(), frame.result->shape()) ||
      frame.result->shape().element_type() != ElementType::kF32)
    return InvalidArgument("'{}' takes one array of f32 and gives another of the same size.", frame.target);
  std::ranges::transform(frame.operands[0]->data<float>(), frame.result->data<float>().begin(),
                         [](float v) { return v + 1; });
  return {};
}

Result<> Swap(const CustomCallFrame& frame) {
  if (frame.operands.size() != 2 || frame.result->elements().size() != 2)
    return InvalidArgument("'{}' takes two arrays and gives two.", frame.target);
  for (std::size_t i = 0; i < 2; ++i) {
    KRAFLA_ASSIGN(Literal copy, CopyOf(*frame.operands[1 - i]));
    if (!Shape::Compatible(copy.shape(), frame.result->elements()[i].shape()))
      return InvalidArgument("'{}' gives its operands in reverse order.", frame.target);
    frame.result->elements()[i] = std::move(copy);
  }
  return {};
}

}  // namespace

Result<> RegisterTestCalls() {
  CustomCallRegistry& registry = CustomCallRegistry::Global();
  if (registry.FindFunction("corpus.add_one") != nullptr) return {};
  KRAFLA_TRY(registry.AddFunction("corpus.add_one", AddOne));
  return registry.AddFunction("corpus.swap", Swap);
}

}  // namespace krafla::cli
