// SPDX-License-Identifier: Apache-2.0
// A finished computation: what XlaBuilder::Build gives and what readers of HLO make. Cheap to copy; never changes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krafla/export.h"
#include "krafla/shape.h"
#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

class Module;

struct ProgramShape {
  std::vector<Shape> parameters;
  std::vector<std::string> parameter_names;
  Shape result;
  std::string ToString() const;  // "(x: f32[2], y: f32[]) -> f32[2]"
};

class XlaComputation {
 public:
  XlaComputation() = default;
  // For code inside the library. `module` must have an entry computation, its parameters and a root.
  explicit XlaComputation(std::shared_ptr<const Module> module) : module_(std::move(module)) {}

  bool IsNull() const { return module_ == nullptr; }
  const std::string& name() const;  // "" for a null computation
  // FAILED_PRECONDITION for a null computation.
  Result<ProgramShape> GetProgramShape() const;
  const std::shared_ptr<const Module>& module() const { return module_; }

 private:
  std::shared_ptr<const Module> module_;
};

}  // namespace krafla
KRAFLA_EXPORT_END
