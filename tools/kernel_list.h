// SPDX-License-Identifier: Apache-2.0
// What a pipeline needs beside its SPIR-V, as JSON: `krafla opt --stage spirv -o FOLDER` writes it beside the .spv
// files, for whoever compiles them with a vendor's compiler.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "spirv_codegen/emit.h"

namespace krafla::cli {

class KernelList {
  using Json = nlohmann::ordered_json;

 public:
  explicit KernelList(const std::string& device)
      : list_{{"device", device}, {"kernels", Json::array()}, {"on_cpu", Json::array()}} {}

  // `dispatches`: of the program that the kernel belongs to, of which it is number `n`.
  void Add(const spirv::EmittedKernel& kernel, std::string_view file, std::string_view name, std::string_view family,
           const std::vector<spirv::EmittedDispatch>& dispatches, std::size_t n);
  void AddOnCpu(std::string_view name, std::string_view reason);
  // Names of instructions are any bytes; what is not UTF-8 of them is replaced.
  std::string ToString() const { return list_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

 private:
  Json list_;
};

}  // namespace krafla::cli
