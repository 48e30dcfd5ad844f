// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/element_place.h"

#include <cstring>
#include <utility>

namespace krafla::cpu {

std::optional<ElementPlace> ElementPlace::Make(plan::ElementProgram program, plan::IndexId index) {
  program.nodes.push_back(
      {.op = plan::NodeOp::kIndex, .type = ElementType::kS32, .index = index, .depends = program.space.Depends(index)});
  program.results = {static_cast<plan::NodeId>(program.nodes.size()) - 1};
  const int last = static_cast<int>(program.space.dims().size()) - 1;
  auto compiled = BlockProgram::Compile(program, {.tile = {.column_dim = last}});
  if (!compiled) return std::nullopt;
  ElementPlace out;
  out.program_ = std::move(*compiled);
  return out;
}

int64_t ElementPlace::At(std::byte* memory, std::span<const int64_t> point) const {
  program_.RunTile(memory, point, 1, 1);
  int32_t element = 0;
  std::memcpy(&element, program_.ResultValue(memory, 0).data, sizeof(element));
  return element;
}

}  // namespace krafla::cpu
