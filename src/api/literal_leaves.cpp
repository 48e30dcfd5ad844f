// SPDX-License-Identifier: Apache-2.0
#include "api/literal_leaves.h"

#include <utility>

namespace krafla {

void AppendLeaves(const Literal& literal, std::vector<const Literal*>& out) {
  if (!literal.shape().IsTuple()) {
    out.push_back(&literal);
    return;
  }
  for (const Literal& element : literal.elements()) AppendLeaves(element, out);
}

Result<Literal> Assemble(const Shape& shape, std::vector<Literal>& leaves, std::size_t& next) {
  if (!shape.IsTuple()) {
    if (next >= leaves.size()) return Internal("The program gave {} results, more were expected.", leaves.size());
    return std::move(leaves[next++]);
  }
  std::vector<Literal> elements;
  for (const Shape& s : shape.tuple_elements()) {
    KRAFLA_ASSIGN(Literal element, Assemble(s, leaves, next));
    elements.push_back(std::move(element));
  }
  return Literal::MakeTuple(std::move(elements));
}

}  // namespace krafla
