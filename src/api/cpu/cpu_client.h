// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/client.h"

namespace krafla {

class CpuClient : public Client {
 public:
  // `why_not_vulkan`: of a client that stands in for a Vulkan device. It says so, and compiles nothing `strict`.
  explicit CpuClient(std::string why_not_vulkan = {});
  Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options) override;

 private:
  std::string why_not_vulkan_;
};

}  // namespace krafla
