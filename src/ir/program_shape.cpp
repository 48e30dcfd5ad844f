// SPDX-License-Identifier: Apache-2.0
#include "ir/program_shape.h"

namespace krafla {

ProgramShape ProgramShapeOf(const Computation& computation, const Shape& result) {
  ProgramShape out;
  for (const Instruction* p : computation.parameters()) {
    out.parameters.push_back(p == nullptr ? Shape() : p->shape());
    out.parameter_names.push_back(p == nullptr ? "" : p->name());
  }
  out.result = result;
  return out;
}

std::string ProgramShape::ToString() const {
  std::string out = "(";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) out += ", ";
    if (i < parameter_names.size() && !parameter_names[i].empty()) out += parameter_names[i] + ": ";
    out += parameters[i].ToString(false);
  }
  return out + ") -> " + result.ToString(false);
}

const std::string& XlaComputation::name() const {
  static const std::string none;
  return module_ == nullptr ? none : module_->entry()->name();
}

Result<ProgramShape> XlaComputation::GetProgramShape() const {
  if (module_ == nullptr)
    return MakeError(StatusCode::kFailedPrecondition, "The computation is null: Build did not make it.");
  return ProgramShapeOf(*module_->entry(), module_->entry()->root()->shape());
}

}  // namespace krafla
