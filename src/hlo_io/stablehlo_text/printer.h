// SPDX-License-Identifier: Apache-2.0
// The writer of StableHLO text, in pieces: types and attributes (attribute_printer.cpp), what StableHLO has as one
// attribute where VHLO has several (structured_attributes.cpp), operations (printer.cpp).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hlo_io/stablehlo/op_tree.h"

namespace krafla::stablehlo {

std::string PrintType(const Type& type);
// In quotes.
std::string QuoteMlir(std::string_view text);
// "@name".
std::string PrintSymbol(std::string_view name);
// `key` is that of the attribute, which says which enum a word is of. `inherent`: it is an operation's own, of which
// lists of numbers are arrays, not tensors.
std::string PrintMlirAttribute(const Attribute& a, std::string_view key, bool inherent);
std::string PrintDictionaryEntries(const std::vector<std::pair<std::string, AttributeRef>>& entries);

using PrintedAttributes = std::vector<std::pair<std::string, std::string>>;
// The inherent attributes of an operation as StableHLO has them; those that say what is so without them are left out.
PrintedAttributes StructuredAttributes(const Op& op);

class TextPrinter {
 public:
  explicit TextPrinter(const Tree& tree) : tree_(tree) {}
  std::string Print();

 private:
  void Function(const Op& op);
  void Operation(const Op& op, int depth, bool in_function);
  void Body(const Region& region, int depth, bool in_function);
  void ResultNames(const Op& op);
  void Operands(const Op& op);
  void Types(const std::vector<ValueId>& values);
  void Location(const std::string& name);
  void Indent(int depth) { out_.append(static_cast<std::size_t>(depth) * 2, ' '); }
  const Type& TypeOf(ValueId value) const { return *tree_.values[static_cast<std::size_t>(value)]; }
  void Name(ValueId value) { names_[value] = Format("%{}", next_++); }

  const Tree& tree_;
  std::string out_;
  std::unordered_map<ValueId, std::string> names_;
  int64_t next_ = 0;
};

}  // namespace krafla::stablehlo
