// SPDX-License-Identifier: Apache-2.0
// A StableHLO program as both readers leave it: operations, regions, types and attributes, before anything is checked
// against what an operation means. Operations have the names and attributes of VHLO's newest version, whose attributes
// are single values (dimension numbers are spelled out), so that the conversion to the IR sees one form.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "krafla/element_type.h"
#include "krafla/inline_vector.h"
#include "krafla/status.h"

namespace krafla::stablehlo {

// How deep types and attributes, regions and calls may lie within others: what reads them recurses.
inline constexpr int kMaxTypeDepth = 64, kMaxRegionDepth = 128;

inline constexpr int64_t kDynamicDim = std::numeric_limits<int64_t>::min();

struct Attribute;
using AttributeRef = const Attribute*;

// What the integers of a quantised array stand for: (q - zero point) * scale, a number of the type `expressed`
// (StableHLO's specification, "Types": quantized element types).
struct Quantization {
  ElementType expressed = ElementType::kF32;
  int64_t min = 0, max = 0;  // of the integers
  int64_t dimension = -1;    // whose indices have a scale and a zero point each; -1: one of each for the array
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};

struct Type {
  enum class Kind : uint8_t { kNone, kElement, kTensor, kToken, kTuple, kFunction, kOther };
  Kind kind = Kind::kNone;
  ElementType element = ElementType::kInvalid;  // kElement, kTensor; kInvalid: index (64 bits, never computed with)
  bool unranked = false;
  Dims dims;                                         // kTensor; kDynamicDim where not known
  Dims bounds;                                       // of dynamic dimensions, empty or one per dimension
  std::shared_ptr<const Quantization> quantization;  // kElement, kTensor, whose `element` are the integers; or null
  std::vector<const Type*> elements, results;        // a tuple's; a function's inputs and results
  std::string text;                                  // of kOther: its name, for messages
};
using TypeRef = const Type*;

struct Attribute {
  enum class Kind : uint8_t {
    kUnit,
    kBool,
    kInteger,
    kFloat,
    kString,
    kWord,
    kType,
    kArray,
    kDictionary,
    kDense,
    kOther
  };
  Kind kind = Kind::kUnit;
  int64_t integer = 0;     // kInteger, kBool
  double number = 0;       // kFloat
  std::string text;        // kString, symbols too; kWord: an enum's word, "GE"; kOther: the name, for messages
  TypeRef type = nullptr;  // kType, kDense, kInteger, kFloat
  std::vector<AttributeRef> elements;
  std::vector<std::pair<std::string, AttributeRef>> entries;
  // kDense: elements in row-major order, little endian, StorageBytes() each, pred and sub-byte types a byte each; one
  // element where all are the same.
  std::string bytes;
  bool splat = false;

  static Attribute Of(Kind kind, int64_t integer, std::string_view text = {}) {
    Attribute out;
    out.kind = kind;
    out.integer = integer;
    out.text = text;
    return out;
  }
  static Attribute Integer(int64_t value) { return Of(Kind::kInteger, value); }
  static Attribute Flag(bool value) { return Of(Kind::kBool, value ? 1 : 0); }
  static Attribute Text(std::string_view text) { return Of(Kind::kString, 0, text); }
  static Attribute Word(std::string_view word) { return Of(Kind::kWord, 0, word); }
};

// The value of a dictionary's key; null where there is none.
inline AttributeRef Entry(AttributeRef dictionary, std::string_view key) {
  if (dictionary == nullptr || dictionary->kind != Attribute::Kind::kDictionary) return nullptr;
  for (const auto& [name, value] : dictionary->entries)
    if (name == key) return value;
  return nullptr;
}

using ValueId = int32_t;  // an index into Tree::values

struct Op;
// Every region of StableHLO has one block.
struct Region {
  std::vector<ValueId> arguments;
  std::vector<Op> ops;
};

struct Op {
  std::string name;  // "add"; of other dialects "sdy.mesh", "module"
  std::vector<ValueId> operands, results;
  std::vector<std::pair<std::string, AttributeRef>> attributes;
  std::vector<std::pair<std::string, AttributeRef>> discardable;
  std::vector<Region> regions;
  std::string location;  // "model.py:12:3", "jit(f)/add", or empty
  std::string op_name;   // the name that JAX gives it, or empty

  // Null where there is none.
  AttributeRef Find(std::string_view key) const {
    for (const auto& [name_, value] : attributes)
      if (name_ == key) return value;
    return nullptr;
  }
  AttributeRef FindDiscardable(std::string_view key) const {
    for (const auto& [name_, value] : discardable)
      if (name_ == key) return value;
    return nullptr;
  }
  // In either list: which one depends on the form that was read.
  AttributeRef FindAnywhere(std::string_view key) const {
    AttributeRef out = FindDiscardable(key);
    return out != nullptr ? out : Find(key);
  }
};

struct Tree {
  Op module;
  std::vector<TypeRef> values;  // the type of each value
  // What locations call the arguments of regions: "x", "params['w']".
  std::unordered_map<ValueId, std::string> names;
  // What the pointers point into.
  std::deque<Type> types;
  std::deque<Attribute> attributes;

  AttributeRef Keep(Attribute attribute) { return &attributes.emplace_back(std::move(attribute)); }
};

}  // namespace krafla::stablehlo
