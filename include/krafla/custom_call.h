// SPDX-License-Identifier: Apache-2.0
// Custom calls: what a program registers under a name, so that a module's custom-call instructions find it.
//
//   CustomCallRegistry::Global().AddFunction("my.add_one", [](const CustomCallFrame& frame) -> Result<> {
//     auto in = frame.operands[0]->data<float>();
//     auto out = frame.result->data<float>();
//     for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] + 1;
//     return {};
//   });
//
// A target may have a function, which runs on the host, a kernel, which runs on Vulkan devices, or both: then a Vulkan
// device takes the kernel. A module that calls a target without either does not compile.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/literal.h"
#include "krafla/shape.h"
#include "krafla/status.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

// One call on the host.
struct CustomCallFrame {
  std::string_view target;
  std::string_view config;                   // backend_config, as written in the module
  std::span<const Literal* const> operands;  // one per operand; dense and row-major whatever layouts the module names
  Literal* result;                           // of the call's shape, zeroes, to be filled
};
// May be called from any thread, but never twice at once by one executable. What it returns is what the run returns.
using CustomCallFunction = std::function<Result<>(const CustomCallFrame&)>;

// A compute shader. Its storage buffers are descriptors 0, 1, .. of set 0: one for each array among the operands and
// then the result, tuples flattened depth first, elements dense and row-major, pred and types below 8 bits one byte an
// element. It may read and write up to the next multiple of 16 bytes after an array's end, but must leave what is
// there as it is. It has no push constants.
struct CustomCallKernel {
  std::vector<uint32_t> spirv;
  std::string entry_point = "main";
  // Descriptor i is array bindings[i], counted as above; empty: all of them in order.
  std::vector<int> bindings;
  // Workgroups for a call with these arrays (operands' first, then the result's). Unset: along x, one for every
  // `elements_per_workgroup` elements of the result's first array.
  std::function<std::array<uint32_t, 3>(std::span<const Shape> arrays)> grid;
  int64_t elements_per_workgroup = 64;
};

class CustomCallRegistry {
 public:
  // What Compile looks in unless it is told otherwise.
  static CustomCallRegistry& Global();

  // ALREADY_EXISTS for a target that has one, INVALID_ARGUMENT for an empty name or function, or words that are no
  // SPIR-V with that entry point.
  Result<> AddFunction(std::string target, CustomCallFunction function);
  Result<> AddKernel(std::string target, CustomCallKernel kernel);

  // Null where there is none. What is registered stays as long as the registry.
  const CustomCallFunction* FindFunction(std::string_view target) const;
  const CustomCallKernel* FindKernel(std::string_view target) const;
  std::vector<std::string> Targets() const;  // sorted

 private:
  mutable std::mutex mutex_;
  std::map<std::string, CustomCallFunction, std::less<>> functions_;
  std::map<std::string, CustomCallKernel, std::less<>> kernels_;
};

}  // namespace krafla
KRAFLA_EXPORT_END
