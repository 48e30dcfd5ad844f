// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: one instruction per kernel.
#include <cmath>

#include "plan/families/accepts.h"
#include "plan/families/static_operands.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

bool TakesFft(const Instruction& i) { return HasStaticOperands(i); }

Result<BuiltKernel> KernelBuilder::BuildFft() {
  const Instruction& hero = *group_.heroes[0];
  const auto& attributes = hero.attr<FftAttributes>();
  KRAFLA_TRY(BindOperandsAndResults());
  FftKernel kernel;
  kernel.type = attributes.type;
  kernel.real = RealPart(hero.shape().element_type());
  kernel.lengths = attributes.length;
  for (int64_t d = 0; d + attributes.length.ssize() < hero.shape().rank(); ++d) kernel.batch *= hero.shape().dim(d);
  const auto points = static_cast<double>(hero.shape().element_count());
  out_.kernel.flops = 5 * points * std::log2(points + 1);
  out_.kernel.body = std::move(kernel);
  return std::move(out_);
}

}  // namespace krafla::plan
