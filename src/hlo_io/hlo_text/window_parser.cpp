// SPDX-License-Identifier: Apache-2.0
// The compact notations of windows, convolutions, pads and slices: "3x3", "0_1x0_1", "b01f_01io->b01f", "[0:4:2]".
#include <algorithm>
#include <charconv>

#include "hlo_io/hlo_text/parser.h"

namespace krafla::hlo_text {
namespace {

// Steps through "1_2_3x4_5_6": numbers in groups, '_' within a group, 'x' between groups.
struct Groups {
  std::string_view text;
  std::size_t at = 0;

  bool done() const { return at >= text.size(); }
  bool Int(int64_t* out) {
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), *out);
    if (error != std::errc()) return false;
    at = static_cast<std::size_t>(end - text.data());
    return true;
  }
  bool Take(char c) {
    if (done() || text[at] != c) return false;
    ++at;
    return true;
  }
};

}  // namespace

// "{size=2x3 stride=1x1 pad=0_1x0_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}", every field but size optional.
Result<> Parser::ParseWindow(AttributeSet& out) {
  enum Field { kSize, kStride, kPads, kLhsDilate, kRhsDilate, kReversal, kFields };
  constexpr std::string_view kNames[kFields] = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  std::vector<int64_t> values[kFields];
  std::size_t offsets[kFields] = {};
  bool seen[kFields] = {};
  const std::size_t begin = lex_.token().begin;
  KRAFLA_TRY(lex_.Expect('{', "to open a window"));
  while (!lex_.Accept('}')) {
    lex_.Accept(',');
    int field = 0;
    while (field < kFields && !lex_.IsWord(kNames[field])) ++field;
    if (field == kFields)
      return lex_.Unexpected("size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal in a window");
    if (seen[field]) return lex_.Error(Format("'{}' is given twice in a window.", kNames[field]));
    seen[field] = true;
    lex_.Next();
    KRAFLA_TRY(lex_.Expect('=', "after a field of a window"));
    offsets[field] = lex_.token().begin;
    Groups groups{lex_.RawWord()};
    auto bad = [&] {
      return lex_.Error(offsets[field],
                        Format("'{}' is not a list of the form that {} has ({}).", groups.text.substr(0, 60),
                               kNames[field], field == kPads ? "0_1x0_1" : "2x3"));
    };
    do {
      int64_t value = 0;
      if (!groups.Int(&value)) return bad();
      values[field].push_back(value);
      if (field == kPads) {
        if (!groups.Take('_') || !groups.Int(&value)) return bad();
        values[field].push_back(value);
      }
    } while (groups.Take('x'));
    if (!groups.done()) return bad();
  }
  const std::size_t rank = values[kSize].size();
  out.window.clear();
  for (int field = 0; field < kFields; ++field) {
    if (!seen[field]) continue;
    if (!seen[kSize]) return lex_.Error(begin, "A window needs its size.");
    std::size_t want = field == kPads ? 2 * rank : rank;
    if (values[field].size() != want)
      return lex_.Error(offsets[field], Format("{} of a window of {} dimensions has {} numbers, not {}.", kNames[field],
                                               rank, want, values[field].size()));
  }
  if (rank > static_cast<std::size_t>(Shape::kMaxRank))
    return lex_.Error(begin, Format("A window has at most {} dimensions.", Shape::kMaxRank));
  for (std::size_t i = 0; i < rank; ++i) {
    WindowDim dim;
    dim.size = values[kSize][i];
    if (seen[kStride]) dim.stride = values[kStride][i];
    if (seen[kPads]) dim.padding_low = values[kPads][2 * i], dim.padding_high = values[kPads][2 * i + 1];
    if (seen[kLhsDilate]) dim.base_dilation = values[kLhsDilate][i];
    if (seen[kRhsDilate]) dim.window_dilation = values[kRhsDilate][i];
    if (seen[kReversal]) {
      if (values[kReversal][i] != 0 && values[kReversal][i] != 1)
        return lex_.Error(offsets[kReversal], "rhs_reversal must be 0 or 1 for each dimension.");
      dim.reversal = values[kReversal][i] == 1;
    }
    out.window.push_back(dim);
  }
  return {};
}

// "b01f_01io->b01f": which letter each dimension of input, kernel and output is.
Result<> Parser::ParseDimLabels(AttributeSet& out) {
  const std::size_t begin = lex_.token().begin;
  std::string_view text = lex_.RawWord();
  std::size_t bar = text.find('_'), arrow = text.find("->");
  if (bar == std::string_view::npos || arrow == std::string_view::npos || arrow < bar)
    return lex_.Error(begin, Format("'{}' does not name dimensions in the form b01f_01io->b01f.", text.substr(0, 60)));
  ConvolutionAttributes& c = out.labels;
  auto read = [&](std::string_view labels, char first, char second, int64_t& first_dim, int64_t& second_dim,
                  Dims& spatial, std::string_view which) -> Result<> {
    const std::size_t at = begin + static_cast<std::size_t>(labels.data() - text.data());
    if (labels.size() < 2 || labels.size() > 12)
      return lex_.Error(at, Format("The {} has {} dimension labels, there can be 2 to 12.", which, labels.size()));
    spatial = Dims(labels.size() - 2, -1);
    first_dim = second_dim = -1;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      char l = labels[i];
      int64_t* slot = nullptr;
      if (l == first) slot = &first_dim;
      else if (l == second) slot = &second_dim;
      else if (IsDigit(l) && static_cast<std::size_t>(l - '0') < spatial.size())
        slot = &spatial[static_cast<std::size_t>(l - '0')];
      if (slot == nullptr)
        return lex_.Error(at + i, Format("'{}' is not a label of the {}: '{}', '{}' or a number below {}.", l, which,
                                         first, second, spatial.size()));
      if (*slot >= 0) return lex_.Error(at + i, Format("Label '{}' is given twice in the {}.", l, which));
      *slot = static_cast<int64_t>(i);
    }
    return {};
  };
  KRAFLA_TRY(read(text.substr(0, bar), 'b', 'f', c.input_batch, c.input_feature, c.input_spatial, "input"));
  KRAFLA_TRY(read(text.substr(bar + 1, arrow - bar - 1), 'i', 'o', c.kernel_input_feature, c.kernel_output_feature,
                  c.kernel_spatial, "kernel"));
  KRAFLA_TRY(read(text.substr(arrow + 2), 'b', 'f', c.output_batch, c.output_feature, c.output_spatial, "output"));
  if (c.input_spatial.size() != c.kernel_spatial.size() || c.input_spatial.size() != c.output_spatial.size())
    return lex_.Error(begin, "Input, kernel and output differ in their number of spatial dimensions.");
  return {};
}

// "0_1x2_3_1": low, high and interior a dimension.
Result<> Parser::ParsePadding(AttributeSet& out) {
  out.padding = {};
  const std::size_t begin = lex_.token().begin;
  // A scalar has no dimensions, so nothing stands behind the '='.
  if (lex_.token().kind != Tok::kNumber || lex_.previous_end() != begin) {
    if (lex_.previous_end() != begin || lex_.token().kind == Tok::kEnd || lex_.Is(',') || lex_.Is('}')) return {};
  }
  Groups groups{lex_.RawWord()};
  auto bad = [&] {
    return lex_.Error(
        begin, Format("'{}' is not a padding such as 0_1x2_3_1 (low_high_interior).", groups.text.substr(0, 60)));
  };
  do {
    int64_t low = 0, high = 0, interior = 0;
    if (!groups.Int(&low) || !groups.Take('_') || !groups.Int(&high)) return bad();
    if (groups.Take('_') && !groups.Int(&interior)) return bad();
    if (interior < 0) return lex_.Error(begin, Format("Interior padding is negative ({}).", interior));
    out.padding.low.push_back(low);
    out.padding.high.push_back(high);
    out.padding.interior.push_back(interior);
  } while (groups.Take('x'));
  if (!groups.done()) return bad();
  return {};
}

// "{[0:4], [1:7:2]}"
Result<> Parser::ParseSlice(AttributeSet& out) {
  out.slice = {};
  KRAFLA_TRY(lex_.Expect('{', "to open slice"));
  if (lex_.Accept('}')) return {};
  do {
    KRAFLA_TRY(lex_.Expect('[', "to open a range such as [0:4]"));
    KRAFLA_ASSIGN(int64_t start, lex_.Int("the start of a range"));
    KRAFLA_TRY(lex_.Expect(':', "after the start of a range"));
    KRAFLA_ASSIGN(int64_t limit, lex_.Int("the limit of a range"));
    int64_t stride = 1;
    if (lex_.Accept(':')) { KRAFLA_ASSIGN(stride, lex_.Int("the stride of a range")); }
    KRAFLA_TRY(lex_.Expect(']', "to close a range"));
    out.slice.starts.push_back(start);
    out.slice.limits.push_back(limit);
    out.slice.strides.push_back(stride);
  } while (lex_.Accept(','));
  return lex_.Expect('}', "to close slice");
}

}  // namespace krafla::hlo_text
