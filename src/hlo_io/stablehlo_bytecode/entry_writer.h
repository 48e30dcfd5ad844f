// SPDX-License-Identifier: Apache-2.0
// The strings, attributes and types of a bytecode file that is written: each once, numbered as it is first asked for,
// after those that it is made of.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hlo_io/stablehlo/op_tree.h"
#include "hlo_io/stablehlo_bytecode/byte_sink.h"

namespace krafla::stablehlo {

// The dialects in the order in which a file names them.
enum class WrittenDialect : uint8_t { kBuiltin, kVhlo };

class EntryWriter {
 public:
  explicit EntryWriter(const Tree& tree) : tree_(tree) {}

  uint64_t String(std::string_view text);
  Result<uint64_t> Type(const stablehlo::Type& type);
  Result<uint64_t> TypeOfValue(ValueId value) { return Type(*tree_.values[static_cast<std::size_t>(value)]); }
  // Of VHLO. `key`: what the attribute is called, which says which enum a word is of and what fields a dictionary has.
  Result<uint64_t> Attribute(const stablehlo::Attribute& a, std::string_view key);
  // A dictionary of the dialect builtin with values of VHLO, or of builtin's own.
  Result<uint64_t> Dictionary(const std::vector<std::pair<std::string, AttributeRef>>& entries, WrittenDialect values);
  uint64_t BuiltinString(std::string_view text);
  // A location that is a name; unknown where it is empty.
  uint64_t Location(std::string_view name);
  // The program needs VHLO 1.`minor`.
  void Need(int minor) { minor_ = std::max(minor_, minor); }
  int minor() const { return minor_; }

  // The sections.
  std::string Strings() const;
  std::string Entries() const;
  std::string Offsets() const;

 private:
  struct Table {
    std::unordered_map<std::string, uint64_t> numbers;  // by the dialect and the bytes
    std::vector<std::pair<WrittenDialect, std::string>> entries;
  };
  static uint64_t Intern(Table& table, WrittenDialect dialect, std::string bytes);
  Result<> PutTypes(ByteSink& sink, std::span<const TypeRef> types);
  Result<> PutAttributes(ByteSink& sink, std::span<const AttributeRef> list, std::string_view key);
  Result<> PutDictionary(ByteSink& sink, const std::vector<std::pair<std::string, AttributeRef>>& entries,
                         std::string_view key);
  Result<> PutNumber(ByteSink& sink, const stablehlo::Attribute& a);
  Result<> PutTensor(ByteSink& sink, const stablehlo::Attribute& a);
  Result<> PutArrayType(ByteSink& sink, const stablehlo::Type& type);
  Result<uint64_t> BuiltinAttribute(const stablehlo::Attribute& a);
  Result<uint64_t> ElementNumber(ElementType type);

  const Tree& tree_;
  Table attributes_, types_;
  std::unordered_map<std::string, uint64_t> string_numbers_;
  std::vector<std::string> strings_;
  std::unordered_map<const stablehlo::Type*, uint64_t> type_numbers_;
  int minor_ = 0;
};

}  // namespace krafla::stablehlo
