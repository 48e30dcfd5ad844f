// SPDX-License-Identifier: Apache-2.0
// The attributes and types of a bytecode file, decoded when first asked for.
#pragma once

#include "hlo_io/stablehlo/op_tree.h"
#include "hlo_io/stablehlo_bytecode/container.h"

namespace krafla::stablehlo {

class Entries {
 public:
  Entries(const Container& container, Tree& tree)
      : container_(container), tree_(tree), types_(container.types.size()), attributes_(container.attributes.size()) {}

  Result<TypeRef> TypeAt(uint64_t index);
  Result<AttributeRef> AttributeAt(uint64_t index);
  // A location as "file:line:column", and the innermost name; both empty where there is none or it cannot be read.
  void Location(uint64_t index, std::string* place, std::string* name, int depth = 0) const;

 private:
  template <typename T>
  struct Slot {
    const T* value = nullptr;
    bool open = false;  // being decoded: an entry must not need itself
  };

  Result<Type> DecodeVhloType(ByteStream& s);
  Result<Type> QuantizedType(ByteStream& s, bool per_axis);
  Result<Type> DecodeBuiltinType(ByteStream& s);
  Result<Type> DecodeStablehloType(ByteStream& s);
  Result<Attribute> DecodeVhlo(ByteStream& s);
  Result<Attribute> DecodeFloat(ByteStream& s);
  Result<Attribute> DecodeInteger(ByteStream& s);
  Attribute DecodeAlias(ByteStream& s);
  Result<Attribute> DecodeFields(ByteStream& s, uint64_t code);
  Result<Attribute> DecodeBuiltin(ByteStream& s);
  Result<Attribute> DecodeDictionary(ByteStream& s);
  // Shardings, as the text that MLIR prints for them.
  Result<Attribute> DecodeSdy(ByteStream& s);
  Result<Attribute> SdyRule(ByteStream& s);
  Result<Attribute> SdySharding(ByteStream& s, uint64_t code);
  Result<std::string> SdyList(ByteStream& s);
  Result<> DecodeTensor(ByteStream& s, Attribute& out);
  Result<std::string> StringAt(uint64_t index) const;
  Result<Type> FunctionType(ByteStream& s);
  Result<std::vector<TypeRef>> TypeList(ByteStream& s);
  Result<std::vector<AttributeRef>> AttributeList(ByteStream& s);
  Result<AttributeRef> NextAttribute(ByteStream& s) { return AttributeAt(s.Varint()); }
  Result<TypeRef> NextType(ByteStream& s) { return TypeAt(s.Varint()); }
  AttributeRef Number(int64_t value);
  AttributeRef Real(uint64_t bits);

  const Container& container_;
  Tree& tree_;
  std::vector<Slot<Type>> types_;
  std::vector<Slot<Attribute>> attributes_;
  int depth_ = 0;
};

}  // namespace krafla::stablehlo
