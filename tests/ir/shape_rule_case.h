// SPDX-License-Identifier: Apache-2.0
// A case of a shape rule, with shapes as text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/shape_rules.h"

namespace krafla {

using T = ElementType;

// "f32[2,<=3]", "pred[]", "token[]", "(f32[2], s32[])".
class ShapeReader {
 public:
  explicit ShapeReader(std::string_view text) : text_(text) {}
  Shape Read() {
    if (text_[at_] == '(') {
      ++at_;
      std::vector<Shape> elements;
      while (text_[at_] != ')') {
        elements.push_back(Read());
        while (text_[at_] == ',' || text_[at_] == ' ') ++at_;
      }
      ++at_;
      return Shape::MakeTuple(std::move(elements)).value();
    }
    std::size_t open = text_.find('[', at_);
    std::string_view name = text_.substr(at_, open - at_);
    at_ = open + 1;
    Dims dims;
    InlineVector<bool, 8> dynamic;
    while (text_[at_] != ']') {
      bool bounded = text_.substr(at_, 2) == "<=";
      if (bounded) at_ += 2;
      int64_t n = 0;
      while (text_[at_] >= '0' && text_[at_] <= '9') n = n * 10 + (text_[at_++] - '0');
      dims.push_back(n);
      dynamic.push_back(bounded);
      if (text_[at_] == ',') ++at_;
    }
    ++at_;
    if (name == "token") return Shape::MakeToken();
    return Shape::MakeArray(ElementTypeFromName(name).value(), dims, dynamic).value();
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};
inline Shape S(std::string_view text) { return ShapeReader(text).Read(); }

struct SignatureText {
  std::vector<std::string> parameters;
  std::string result;
};

struct ShapeRuleCase {
  Opcode opcode;
  std::vector<std::string> operands;
  Attributes attributes = {};
  std::string declared = "";
  std::vector<SignatureText> called = {};
  int64_t replicas = 1, partitions = 1;
};

inline Result<Shape> Infer(const ShapeRuleCase& c) {
  std::vector<Shape> shapes;
  for (const auto& o : c.operands) shapes.push_back(S(o));
  std::vector<const Shape*> operands;
  for (const Shape& s : shapes) operands.push_back(&s);
  std::vector<ComputationSignature> called;
  for (const SignatureText& s : c.called) {
    ComputationSignature signature;
    for (const auto& p : s.parameters) signature.parameters.push_back(S(p));
    signature.result = S(s.result);
    called.push_back(std::move(signature));
  }
  std::optional<Shape> declared;
  if (!c.declared.empty()) declared = S(c.declared);
  return InferShape({.opcode = c.opcode,
                     .operands = operands,
                     .attributes = c.attributes,
                     .called = called,
                     .declared = declared ? &*declared : nullptr,
                     .replica_count = c.replicas,
                     .num_partitions = c.partitions});
}

inline void Gives(const ShapeRuleCase& c, std::string_view expected, int line = __builtin_LINE()) {
  auto got = Infer(c);
  ASSERT_TRUE(got.has_value()) << "line " << line << ": " << got.error().message();
  EXPECT_EQ(got->ToString(false), expected) << "line " << line;
  EXPECT_TRUE(!got->IsArray() || got->layout().IsRowMajor());
}
// Refused, and the message has `part` in it.
inline void Refuses(const ShapeRuleCase& c, std::string_view part, int line = __builtin_LINE()) {
  auto got = Infer(c);
  ASSERT_FALSE(got.has_value()) << "line " << line << ": gave " << got->ToString(false);
  EXPECT_NE(got.error().message().find(part), std::string::npos) << "line " << line << ": " << got.error().message();
}

inline DimensionsAttributes D(Dims dims) { return {std::move(dims)}; }
inline const SignatureText kAddF32 = {{"f32[]", "f32[]"}, "f32[]"};
inline const SignatureText kAddS32 = {{"s32[]", "s32[]"}, "s32[]"};

}  // namespace krafla
