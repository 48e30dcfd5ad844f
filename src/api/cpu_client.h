// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/client.h"

namespace krafla {

class CpuClient : public Client {
 public:
  CpuClient();
  Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options) override;
};

}  // namespace krafla
