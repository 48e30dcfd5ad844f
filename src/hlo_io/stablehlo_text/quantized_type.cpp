// SPDX-License-Identifier: Apache-2.0
// Quantised types as MLIR's dialect `quant` prints them (mlir/Dialect/Quant/IR/QuantBase.td).
#include "base/parse_float.h"
#include "hlo_io/stablehlo/quantization.h"
#include "hlo_io/stablehlo_text/parser.h"

namespace krafla::stablehlo {

// "0.1:-30", "0.1"
Result<> TextParser::ParseScale(Quantization& out) {
  if (lex_.token().kind != MlirTok::kNumber) return lex_.Unexpected("a scale");
  const std::string_view text = lex_.token().text;
  double scale = 0;
  const auto [p, error] = ParseFloat(text.data(), text.data() + text.size(), scale);
  if (error != std::errc() || p != text.data() + text.size()) return lex_.Unexpected("a scale");
  lex_.Next();
  int64_t zero = 0;
  if (lex_.Accept(':')) { KRAFLA_ASSIGN(zero, lex_.Int()); }
  out.scales.push_back(scale);
  out.zero_points.push_back(zero);
  return {};
}

// "<i8<-127:127>:f32:1, {0.1:-30, 0.5:-20}>", at the bracket; without a dimension one scale stands for all.
Result<TypeRef> TextParser::ParseQuantized() {
  const std::size_t begin = lex_.token().begin;
  KRAFLA_TRY(lex_.Expect('<'));
  Quantization out;
  if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("the type of the integers");
  std::string word(lex_.Next().text);
  if (word.starts_with('u') && !word.starts_with("ui")) word.insert(1, "i");
  KRAFLA_ASSIGN(Type storage, ElementOf(word));
  if (!IsIntegral(storage.element)) return lex_.ErrorAt(begin, "The integers of a quantized type are of another type.");
  std::tie(out.min, out.max) = IntegerRange(storage.element);
  if (lex_.Accept('<')) {
    KRAFLA_ASSIGN(out.min, lex_.Int());
    KRAFLA_TRY(lex_.Expect(':'));
    KRAFLA_ASSIGN(out.max, lex_.Int());
    KRAFLA_TRY(lex_.Expect('>'));
  }
  KRAFLA_TRY(lex_.Expect(':'));
  if (lex_.token().kind != MlirTok::kWord) return lex_.Unexpected("the type that the integers stand for");
  KRAFLA_ASSIGN(Type expressed, ElementOf(lex_.token().text));
  lex_.Next();
  out.expressed = expressed.element;
  if (lex_.Accept(':')) {
    if (lex_.Is('{')) return lex_.Error("Scales for blocks of several dimensions cannot be computed with.");
    KRAFLA_ASSIGN(out.dimension, lex_.Int());
    if (out.dimension < 0) return lex_.ErrorAt(begin, "A quantized type has a negative dimension.");
  }
  KRAFLA_TRY(lex_.Expect(','));
  if (out.dimension < 0) {
    KRAFLA_TRY(ParseScale(out));
  } else {
    KRAFLA_TRY(lex_.Expect('{'));
    do KRAFLA_TRY(ParseScale(out));
    while (lex_.Accept(','));
    KRAFLA_TRY(lex_.Expect('}'));
  }
  KRAFLA_TRY(lex_.Expect('>'));
  auto type = QuantizedElement(storage.element, std::move(out));
  if (!type) return lex_.ErrorAt(begin, type.error().message());
  return Keep(std::move(*type));
}

}  // namespace krafla::stablehlo
