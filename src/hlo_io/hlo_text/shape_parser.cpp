// SPDX-License-Identifier: Apache-2.0
// Shapes: "f32[2,<=3]{1,0:T(8,128)}", "(f32[], token[])".
#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {

std::string Shown(const Shape& shape) {
  std::string text = shape.ToString(false);
  if (text.size() > 200) text = text.substr(0, 200) + "...";
  return text;
}

bool Parser::AtShape() const {
  if (lex_.Is('(')) return true;
  // `tuple` is a name: shapes of tuples are written with parentheses.
  return lex_.token().kind == Tok::kWord && lex_.token().text != "tuple" &&
         ElementTypeFromName(lex_.token().text).has_value();
}

Result<Shape> Parser::ParseShape() { return ParseShapeAt(0); }

Result<Shape> Parser::ParseShapeAt(int depth) {
  if (depth > limits_.max_depth)
    return lex_.Error(Format("Tuple shapes are nested deeper than the limit of {}.", limits_.max_depth));
  const std::size_t begin = lex_.token().begin;
  if (lex_.Accept('(')) {
    std::vector<Shape> elements;
    if (!lex_.Accept(')')) {
      do {
        KRAFLA_ASSIGN(Shape element, ParseShapeAt(depth + 1));
        elements.push_back(std::move(element));
      } while (lex_.Accept(','));
      KRAFLA_TRY(lex_.Expect(')', "to close a tuple shape"));
    }
    auto tuple = Shape::MakeTuple(std::move(elements));
    if (!tuple) return lex_.Error(begin, tuple.error().message());
    return tuple;
  }
  if (lex_.token().kind != Tok::kWord) return lex_.Unexpected("a shape such as f32[2,3]");
  auto type = ElementTypeFromName(lex_.token().text);
  if (!type)
    return lex_.Error(Format("Expected a shape such as f32[2,3], found '{}', which is not an element type.",
                             lex_.token().text.substr(0, 60)));
  lex_.Next();
  KRAFLA_TRY(lex_.Expect('[', "after an element type"));
  Dims dims;
  InlineVector<bool, 8> dynamic;
  bool any_dynamic = false;
  if (!lex_.Is(']')) {
    do {
      bool bounded = lex_.token().kind == Tok::kLessEqual;
      if (bounded) lex_.Next();
      if (lex_.Is('?'))
        return lex_.Error(lex_.token().begin,
                          "A dimension without a bound ('?') is not supported; give a bound as in f32[<=8].",
                          StatusCode::kUnimplemented);
      KRAFLA_ASSIGN(int64_t size, lex_.Int("a dimension"));
      if (dims.ssize() >= Shape::kMaxRank)
        return lex_.Error(Format("A shape has at most {} dimensions.", Shape::kMaxRank));
      dims.push_back(size);
      dynamic.push_back(bounded);
      any_dynamic |= bounded;
    } while (lex_.Accept(','));
  }
  KRAFLA_TRY(lex_.Expect(']', "to close the dimensions"));
  if (!IsArrayType(*type)) {
    if (!dims.empty())
      return lex_.Error(begin, Format("{} has no dimensions, {} were given.", ElementTypeName(*type), dims.size()));
    if (*type == ElementType::kToken) return Shape::MakeToken();
    if (*type == ElementType::kOpaque) return Shape::MakeOpaque();
    return lex_.Error(begin, Format("'{}' is not the element type of a shape.", ElementTypeName(*type)));
  }
  auto shape = Shape::MakeArray(*type, dims, any_dynamic ? std::span<const bool>(dynamic) : std::span<const bool>());
  if (!shape) return lex_.Error(begin, shape.error().message());
  if (lex_.Is('{')) {
    // "-> f32[2] {" may open a computation instead: a layout begins with a number or a colon.
    Token after = lex_.LookAhead();
    bool layout = after.kind == Tok::kNumber || (after.kind == Tok::kPunct && after.punct == ':');
    bool empty = after.kind == Tok::kPunct && after.punct == '}';
    if (layout || empty) KRAFLA_TRY(ParseLayout(*shape));
  }
  return shape;
}

// "{1,0}", "{1,0:T(8,128)(2,1)E(32)S(1)}", "{:S(1)}"; the current token is the brace.
Result<> Parser::ParseLayout(Shape& shape) {
  const std::size_t begin = lex_.token().begin;
  lex_.Next();
  Layout layout;
  if (!lex_.Is('}') && !lex_.Is(':')) {
    do {
      KRAFLA_ASSIGN(int64_t dim, lex_.Int("a dimension of a layout"));
      if (layout.minor_to_major.ssize() >= Shape::kMaxRank)
        return lex_.Error(Format("A layout has at most {} dimensions.", Shape::kMaxRank));
      layout.minor_to_major.push_back(dim);
    } while (lex_.Accept(','));
  }
  if (lex_.Accept(':')) { KRAFLA_ASSIGN(layout.tail, ParseLayoutTail()); }
  KRAFLA_TRY(lex_.Expect('}', "to close a layout"));
  auto set = shape.SetLayout(std::move(layout));
  if (!set) return lex_.Error(begin, set.error().message());
  return {};
}

// "T(8,128)(2,1)E(32)S(1)": groups of parentheses after letters, kept without blanks. The default memory space S(0) and
// element size E(0) say nothing and are left out.
Result<std::string> Parser::ParseLayoutTail() {
  std::string out;
  while (!lex_.Is('}')) {
    std::string part;
    if (lex_.token().kind == Tok::kWord) {
      part = lex_.Next().text;
    } else if (lex_.Is('#') || lex_.Is('*')) {
      part = std::string(1, lex_.Next().punct);
    } else {
      return lex_.Unexpected("tiles, an element size or a memory space, as in T(8,128)E(32)S(1),");
    }
    if (!lex_.Is('(')) return lex_.Unexpected(Format("'(' after '{}' in a layout", part));
    while (lex_.Accept('(')) {
      part += '(';
      while (!lex_.Is(')')) {
        const Token& token = lex_.token();
        bool sign = token.kind == Tok::kPunct && (token.punct == ',' || token.punct == '*' || token.punct == '-' ||
                                                  token.punct == '[' || token.punct == ']');
        if (!sign && token.kind != Tok::kNumber && token.kind != Tok::kWord)
          return lex_.Unexpected("a number or ')' in a layout");
        part += token.text;
        lex_.Next();
      }
      lex_.Next();
      part += ')';
    }
    if (part != "S(0)" && part != "E(0)") out += part;
  }
  return out;
}

}  // namespace krafla::hlo_text
