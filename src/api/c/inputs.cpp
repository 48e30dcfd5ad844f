// SPDX-License-Identifier: Apache-2.0
// Of krafla/krafla.h: what a program takes.
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "api/c/handles.h"
#include "api/input_sizes.h"
#include "krafla/program_inputs.h"

namespace krafla::capi {
namespace {

krafla_text* TextOf(const std::vector<ProgramInput>& inputs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ProgramInput& input : inputs) {
    nlohmann::ordered_json one;
    one["name"] = input.name;
    one["type"] = input.type == ElementType::kInvalid ? "" : ElementTypeName(input.type);
    one["dims"] = SizesAsJson(input);
    list.push_back(std::move(one));
  }
  return new krafla_text{list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

}  // namespace
}  // namespace krafla::capi

using namespace krafla;        // NOLINT: C has no namespaces
using namespace krafla::capi;  // NOLINT

krafla_status* krafla_inputs_of_file(const char* path, krafla_text** json) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(path);
    KRAFLA_NOT_NULL(json);
    KRAFLA_ASSIGN(const auto inputs, ReadProgramInputsFile(path));
    *json = TextOf(inputs);
    return {};
  });
}
krafla_status* krafla_inputs_of_bytes(const void* bytes, size_t size, krafla_text** json) {
  return Guarded([&]() -> Result<> {
    if (size > 0) KRAFLA_NOT_NULL(bytes);
    KRAFLA_NOT_NULL(json);
    KRAFLA_ASSIGN(const auto inputs, ReadProgramInputs({static_cast<const char*>(bytes), size}));
    *json = TextOf(inputs);
    return {};
  });
}
