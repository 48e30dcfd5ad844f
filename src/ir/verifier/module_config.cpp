// SPDX-License-Identifier: Apache-2.0
// What the header of a module says about its entry computation. XLA: hlo_input_output_alias_config.cc Verify,
// hlo_buffer_donor_config.cc Verify, hlo_verifier.cc VerifyEntryComputationLayout.
#include <set>

#include "ir/shape_rules/checks.h"
#include "ir/verifier/checks.h"

namespace krafla::verifier {
namespace {

using shape_rules::Brief;
using Place = std::pair<int64_t, std::vector<int64_t>>;  // parameter (or -1: the result), index

// The shape at `path` in `shape`, or null.
const Shape* Find(const Shape& shape, const Dims& path) {
  const Shape* s = &shape;
  for (int64_t i : path) {
    if (!s->IsTuple() || i < 0 || i >= static_cast<int64_t>(s->tuple_elements().size())) return nullptr;
    s = &s->tuple_elements()[static_cast<std::size_t>(i)];
  }
  return s;
}

Result<const Shape*> FindParameter(const char* what, const Computation& entry, int64_t parameter, const Dims& index) {
  if (parameter < 0 || parameter >= static_cast<int64_t>(entry.parameters().size()))
    return InvalidArgument("{} names parameter {}, the entry computation has {}.", what, parameter,
                           entry.parameters().size());
  const Instruction& p = *entry.parameters()[static_cast<std::size_t>(parameter)];
  const Shape* found = Find(p.shape(), index);
  if (found == nullptr || !found->IsArray())
    return InvalidArgument("{} names {} of parameter {} ({}), which is not an array in {}.", what, Brief(index),
                           parameter, Describe(p), Brief(p.shape()));
  return found;
}

Place PlaceOf(int64_t parameter, const Dims& index) { return {parameter, {index.begin(), index.end()}}; }

}  // namespace

Result<> CheckModuleConfig(const Module& module) {
  const Computation& entry = *module.entry();
  const Instruction& root = *entry.root();
  std::set<Place> outputs, inputs;
  for (const InputOutputAlias& alias : module.input_output_aliases) {
    KRAFLA_ASSIGN(const Shape* input,
                  FindParameter("input_output_alias", entry, alias.parameter, alias.parameter_index));
    const Shape* output = Find(root.shape(), alias.output_index);
    if (output == nullptr || !output->IsArray())
      return InvalidArgument("input_output_alias names output {}, which is not an array in {}, the result of {}.",
                             Brief(alias.output_index), Brief(root.shape()), Describe(root));
    if (input->byte_size() != output->byte_size())
      return InvalidArgument("input_output_alias joins output {} ({}) with parameter {} {} ({}); their sizes differ.",
                             Brief(alias.output_index), Brief(*output), alias.parameter, Brief(alias.parameter_index),
                             Brief(*input));
    if (!outputs.insert(PlaceOf(-1, alias.output_index)).second)
      return InvalidArgument("input_output_alias names output {} twice.", Brief(alias.output_index));
    if (!inputs.insert(PlaceOf(alias.parameter, alias.parameter_index)).second)
      return InvalidArgument("input_output_alias names parameter {} {} twice.", alias.parameter,
                             Brief(alias.parameter_index));
  }
  for (const BufferDonor& donor : module.buffer_donors) {
    KRAFLA_TRY(FindParameter("buffer_donor", entry, donor.parameter, donor.parameter_index));
    if (!inputs.insert(PlaceOf(donor.parameter, donor.parameter_index)).second)
      return InvalidArgument("buffer_donor names parameter {} {}, which is given away already.", donor.parameter,
                             Brief(donor.parameter_index));
  }
  if (!module.entry_layout_result) return {};
  if (module.entry_layout_parameters.size() != entry.parameters().size())
    return InvalidArgument("entry_computation_layout has {} parameters, the entry computation has {}.",
                           module.entry_layout_parameters.size(), entry.parameters().size());
  for (std::size_t n = 0; n < entry.parameters().size(); ++n) {
    const Instruction& p = *entry.parameters()[n];
    if (!Shape::Compatible(module.entry_layout_parameters[n], p.shape()))
      return InvalidArgument("entry_computation_layout has {} for parameter {}, {} is {}.",
                             Brief(module.entry_layout_parameters[n]), n, Describe(p), Brief(p.shape()));
  }
  if (!Shape::Compatible(*module.entry_layout_result, root.shape()))
    return InvalidArgument("entry_computation_layout has the result {}, {} is {}.", Brief(*module.entry_layout_result),
                           Describe(root), Brief(root.shape()));
  return {};
}

}  // namespace krafla::verifier
