// SPDX-License-Identifier: Apache-2.0
#include "api/compiled/weights.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "krafla/element_type.h"

namespace krafla::compiled {
namespace {

// A call of no operands; its backend_config is the offset in the section.
constexpr std::string_view kWeightTarget = "krafla.weight";

bool IsWeightCall(const Instruction& i) {
  return i.opcode() == Opcode::kCustomCall && i.attr<CustomCallAttributes>().target == kWeightTarget;
}

// Kernels rely on it: they look into tables by such values.
bool HoldValuesOf(ElementType type, std::span<const std::byte> bytes) {
  const bool is_pred = type == ElementType::kPred;
  if (!is_pred && BitWidth(type) >= 8) return true;
  const int bits = is_pred ? 1 : BitWidth(type);
  const int lowest = IsSigned(type) ? -(1 << (bits - 1)) : 0;
  const int highest = lowest + (1 << bits) - 1;
  // Without a branch in the loop, which the compiler turns into vectors.
  int low = 0, high = 0;
  for (const std::byte b : bytes) {
    const int value = IsSigned(type) ? static_cast<int>(static_cast<int8_t>(b)) : static_cast<int>(b);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return low >= lowest && high <= highest;
}

// Puts an instruction of the same shape, which `make` adds, in the place of each for which `is_one` holds.
template <typename IsOne, typename Make>
Result<> ReplaceEach(Module& module, const IsOne& is_one, const Make& make) {
  for (const auto& computation : module.computations()) {
    std::vector<Instruction*> replaced;
    for (const auto& i : computation->instructions())
      if (is_one(*i)) replaced.push_back(i.get());
    for (Instruction* old : replaced) {
      KRAFLA_ASSIGN(Instruction * with, make(*computation, *old));
      old->ReplaceAllUsesWith(with);
    }
    if (replaced.empty()) continue;
    computation->RemoveAll(replaced);
    KRAFLA_TRY(computation->SortTopologically());
  }
  return {};
}

}  // namespace

uint64_t WeightTable::Place(std::string_view name, const std::shared_ptr<const Literal>& literal) {
  const std::span<const std::byte> bytes = literal->bytes();
  const uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  auto at = std::ranges::lower_bound(by_hash_, hash, {}, &std::pair<uint64_t, std::size_t>::first);
  for (; at != by_hash_.end() && at->first == hash; ++at)
    if (std::ranges::equal(weights_[at->second].literal->bytes(), bytes)) return weights_[at->second].offset;
  constexpr uint64_t kAlignment = AlignedBytes::kAlignment;
  const uint64_t offset = (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  by_hash_.insert(at, {hash, weights_.size()});
  weights_.push_back({std::string(name), literal, offset});
  bytes_ = offset + bytes.size();
  return offset;
}

Result<> TakeOutWeights(Module& module, WeightTable& table) {
  return ReplaceEach(
      module,
      [](const Instruction& i) {
        return i.IsConstant() && i.shape().IsArray() && i.shape().byte_size() >= kLeastWeightBytes;
      },
      [&](Computation& computation, const Instruction& constant) -> Result<Instruction*> {
        const uint64_t offset = table.Place(constant.name(), constant.attr<ConstantAttributes>().literal);
        CustomCallAttributes call;
        call.target = kWeightTarget;
        Instruction* out =
            computation.Add(Opcode::kCustomCall, constant.shape(), {}, std::move(call), {}, constant.name());
        InstructionMetadata metadata = constant.metadata();
        metadata.backend_config = Format("\"{}\"", offset);
        out->set_metadata(std::move(metadata));
        return out;
      });
}

Result<> PutInWeights(Module& module, std::string_view section, const std::shared_ptr<const void>& owner) {
  const auto damaged = [&](std::string_view what, const Instruction& i) {
    return DataLoss("The compiled model '{}' is damaged: The weight '{}' {}.", module.name(), i.name(), what);
  };
  const auto literal_at = [&](const Instruction& call) -> Result<Literal> {
    const Shape& shape = call.shape();
    std::string_view text = call.metadata().backend_config;
    if (text.size() >= 2 && text.starts_with('"')) text = text.substr(1, text.size() - 2);
    uint64_t offset = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), offset);
    if (error != std::errc() || end != text.data() + text.size() || !shape.IsArray() || call.operand_count() != 0)
      return damaged("does not say where it lies", call);
    const auto bytes = static_cast<uint64_t>(shape.byte_size());
    if (shape.IsDynamic() || offset % AlignedBytes::kAlignment != 0 || offset > section.size() ||
        bytes > section.size() - offset)
      return damaged(Format("is not within the {} bytes of weights", section.size()), call);
    const auto at = std::as_bytes(std::span(section.substr(offset, bytes)));
    if (!HoldValuesOf(shape.element_type(), at))
      return damaged(Format("holds bytes that are no {}", ElementTypeName(shape.element_type())), call);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(at.data()) % AlignedBytes::kAlignment == 0;
    if (owner != nullptr && is_aligned) return Literal::Borrowed(shape, at, owner);
    return Literal::FromBytes(shape, at);
  };
  return ReplaceEach(
      module, IsWeightCall, [&](Computation& computation, const Instruction& call) -> Result<Instruction*> {
        KRAFLA_ASSIGN(Literal literal, literal_at(call));
        Instruction* out =
            computation.Add(Opcode::kConstant, call.shape(), {},
                            ConstantAttributes{std::make_shared<const Literal>(std::move(literal))}, {}, call.name());
        InstructionMetadata metadata = call.metadata();
        metadata.backend_config.clear();
        out->set_metadata(std::move(metadata));
        return out;
      });
}

}  // namespace krafla::compiled
