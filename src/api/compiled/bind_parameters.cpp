// SPDX-License-Identifier: Apache-2.0
#include "api/compiled/bind_parameters.h"

#include <utility>
#include <vector>

namespace krafla {

Result<> BindParameters(Module& module, const std::map<int64_t, std::shared_ptr<const Literal>>& arguments) {
  Computation& entry = *module.entry();
  const std::vector<Instruction*> before(entry.parameters().begin(), entry.parameters().end());
  for (const auto& [number, literal] : arguments) {
    if (number < 0 || number >= std::ssize(before))
      return InvalidArgument("There is no parameter {}: the program has {}.", number, before.size());
    const Shape& shape = before[static_cast<std::size_t>(number)]->shape();
    if (!shape.IsArray() || !Shape::Compatible(literal->shape(), shape))
      return InvalidArgument("{} is {}, and is to be {}.", Describe(*before[static_cast<std::size_t>(number)]),
                             shape.ToString(false), literal->shape().ToString(false));
  }
  const auto is_bound = [&](int64_t number) { return arguments.contains(number); };
  for (const InputOutputAlias& alias : module.input_output_aliases)
    if (alias.must_alias && is_bound(alias.parameter))
      return InvalidArgument("A result must take the place of {}, which cannot be a constant then.",
                             Describe(*before[static_cast<std::size_t>(alias.parameter)]));

  std::vector<Instruction*> stay, bound;
  std::vector<int64_t> moved_to(before.size(), -1);
  for (std::size_t n = 0; n < before.size(); ++n) {
    Instruction* const parameter = before[n];
    if (const auto argument = arguments.find(static_cast<int64_t>(n)); argument != arguments.end()) {
      Instruction* constant = entry.Add(Opcode::kConstant, parameter->shape(), {}, ConstantAttributes{argument->second},
                                        {}, parameter->name());
      Computation::SwapNames(parameter, constant);
      constant->set_metadata(parameter->metadata());
      parameter->ReplaceAllUsesWith(constant);
      bound.push_back(parameter);
      continue;
    }
    moved_to[n] = std::ssize(stay);
    auto attributes = parameter->attr<ParameterAttributes>();
    attributes.number = std::ssize(stay);
    parameter->set_attributes(std::move(attributes));
    stay.push_back(parameter);
  }
  std::erase_if(module.input_output_aliases, [&](const InputOutputAlias& a) { return is_bound(a.parameter); });
  std::erase_if(module.buffer_donors, [&](const BufferDonor& d) { return is_bound(d.parameter); });
  for (InputOutputAlias& a : module.input_output_aliases) a.parameter = moved_to[static_cast<std::size_t>(a.parameter)];
  for (BufferDonor& d : module.buffer_donors) d.parameter = moved_to[static_cast<std::size_t>(d.parameter)];
  if (module.entry_layout_parameters.size() == before.size()) {
    std::vector<Shape> layouts;
    for (std::size_t n = 0; n < before.size(); ++n)
      if (moved_to[n] >= 0) layouts.push_back(std::move(module.entry_layout_parameters[n]));
    module.entry_layout_parameters = std::move(layouts);
  }
  entry.set_parameters(std::move(stay));
  entry.RemoveAll(bound);
  return entry.SortTopologically();
}

}  // namespace krafla
