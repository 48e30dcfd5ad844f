// SPDX-License-Identifier: Apache-2.0
// SortKernel: the table kSortVariants.
#include "spirv_codegen/kernels/sort.h"

#include <algorithm>

#include "spirv_codegen/kernels/reduction_values.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

SortRows::SortRows(const plan::SortKernel& sort) : sort_(sort) {
  for (std::size_t d = 0; d < sort.dims.size(); ++d) {
    if (static_cast<int>(d) < sort.dimension) outer_ *= sort.dims[d];
    if (static_cast<int>(d) > sort.dimension) inner_ *= sort.dims[d];
  }
  length_ = sort.dims[static_cast<std::size_t>(sort.dimension)];
  keep_ = sort.keep < 0 ? length_ : std::clamp<int64_t>(sort.keep, 1, std::max<int64_t>(length_, 1));
}

Value SortRows::OperandIndex(Builder& b, Value row, Value place) const {
  const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  if (inner_ == 1) return b.Add(b.Mul(row, u32(length_)), place);
  const Value before = b.UDiv(row, u32(inner_));
  const Value line = b.Sub(row, b.Mul(before, u32(inner_)));
  return b.Add(b.Add(b.Mul(before, u32(inner_ * length_)), line), b.Mul(place, u32(inner_)));
}

Value SortRows::Operand(KernelWriter& w, int operand, Value row, Value place) const {
  const ElementType type = sort_.types[static_cast<std::size_t>(operand)];
  const Kind kind64 = type == ElementType::kF64 ? Kind::kF64 : Kind::kU64;
  const int input = sort_.inputs[static_cast<std::size_t>(operand)];
  return FromStorage(w.b, type, w.buffers.Load(input, StorageBytes(type), OperandIndex(w.b, row, place), 1, kind64));
}

void SortRows::Move(KernelWriter& w, Value row, Value place, Value position) const {
  const Value source = OperandIndex(w.b, row, position), to = OperandIndex(w.b, row, place);
  for (std::size_t i = 0; i < sort_.inputs.size(); ++i) {
    const int bytes = StorageBytes(sort_.types[i]);
    const Value value = sort_.inputs[i] < 0 ? position : w.buffers.Load(sort_.inputs[i], bytes, source, 1);
    w.buffers.Store(sort_.outputs[i], bytes, to, value);
  }
}

std::optional<SortKeys> SortKeys::Of(const plan::SortKernel& sort) {
  SortKeys out;
  out.rules_ = plan::FindKeys(sort.comparator);
  for (std::size_t r = 0; r < out.rules_.size(); ++r) {
    const plan::KeyRule& rule = out.rules_[r];
    out.operands_.push_back(plan::KeyOperands(sort.comparator, rule.node));
    if (out.operands_.back().empty()) return std::nullopt;
    plan::ElementProgram program = sort.comparator;
    program.results = {rule.node};
    out.programs_.push_back(std::move(program));
    const plan::KeyWidth width = plan::WidthOfKey(sort.comparator, rule, sort.types);
    out.widths_.push_back(width);
    if (BitWidth(rule.type) == 64) {
      out.words_.push_back({r, false, 0, 32});
      out.words_.push_back({r, true, 0, 32});
    } else {
      out.words_.push_back({r, false, std::min(width.same_bits, 31), std::min(width.low_bits, 32)});
    }
  }
  if (out.rules_.empty()) return std::nullopt;
  return out;
}

Value SortKeys::Load(KernelWriter& w, const SortRows& rows, const Word& word, Value row, Value place) const {
  Builder& b = w.b;
  const plan::KeyRule& rule = rules_[word.rule];
  const Value top = b.U32(0x80000000u);
  const std::vector<int>& operands = operands_[word.rule];
  Values params(2 * static_cast<std::size_t>(operands.back()) + 1, b.U32(0));
  for (int o : operands) params[2 * static_cast<std::size_t>(o)] = rows.Operand(w, o, row, place);
  const Value v = RunScalarProgram(b, w.buffers, programs_[word.rule], params, /*seen=*/true)[0];
  Value high, low;
  if (v.kind == Kind::kBool) {
    high = b.Select(v, b.U32(1), b.U32(0));
  } else if (KindBits(v.kind) == 64) {
    const Value halves = b.BitcastTo(v, Kind::kU32, 2);
    low = b.Extract(halves, 0), high = b.Extract(halves, 1);
  } else {
    high = b.Bitcast(v, Kind::kU32);
  }
  if (IsFloat(rule.type)) {
    // All bits of negative numbers are flipped; the two zeros become one where floats are compared plainly.
    Value negative = b.Compare(Cmp::kNe, b.And(high, top), b.U32(0));
    if (!rule.total_order) {
      const Value rest = low ? b.Or(low, b.And(high, b.U32(0x7fffffffu))) : b.And(high, b.U32(0x7fffffffu));
      const Value is_zero = b.Compare(Cmp::kEq, rest, b.U32(0));
      high = b.Select(is_zero, b.U32(0), high);
      negative = b.LAnd(negative, b.LNot(is_zero));
    }
    high = b.Select(negative, b.Not(high), b.Or(high, top));
    if (low) low = b.Select(negative, b.Not(low), low);
  } else if (IsSigned(rule.type)) {
    high = low || word.high == 32 ? b.Xor(high, top) : b.Add(high, b.U32(1u << (word.high - 1)));
  }
  Value out = word.is_low_half ? low : high;
  if (rule.descending) out = b.Xor(out, b.U32(word.high == 32 ? ~0u : (1u << word.high) - 1));
  return out;
}

namespace {

struct SortCase {
  const plan::KernelPlan& plan;
  const plan::SortKernel& sort;
  const Target& target;
  std::optional<SortKeys> keys;
};

// In order of preference.
constexpr Variant<SortCase, Result<EmittedProgram>> kSortVariants[] = {
    {"digits",
     [](const SortCase& c) -> Refusal {
       if (!c.keys) return "the comparator compares no keys";
       // Scratch has two words for each element, twice, and must be within the reach of 32 bits.
       const SortRows rows(c.sort);
       if (rows.rows() * rows.length() >= int64_t{1} << 28) return "too many elements";
       return std::nullopt;
     },
     [](const SortCase& c, std::string) { return EmitDigitSort(c.plan, c.sort, *c.keys, c.target); }},
    {"merge", nullptr,
     [](const SortCase& c, std::string refused) {
       return WithReason(EmitMergeSort(c.plan, c.sort, c.target), refused);
     }},
};
static_assert(TakesEverything(kSortVariants));

}  // namespace

Result<EmittedProgram> EmitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const Target& target) {
  KRAFLA_TRY(CheckProgram(sort.comparator, target.profile));
  if (sort.dims.empty()) return Unimplemented("A scalar has no dimension to sort.");
  for (ElementType type : sort.types)
    if (StorageBytes(type) == 8) KRAFLA_TRY(CheckType(type, target.profile));
  return MakeFirst(kSortVariants, SortCase{plan, sort, target, SortKeys::Of(sort)});
}

}  // namespace krafla::spirv
