// SPDX-License-Identifier: Apache-2.0
#include "krafla/element_type.h"

#include <array>

namespace krafla {
namespace {

constexpr ElementTypeInfo Pred() { return {"pred", 8, 1, false, false, false, false}; }
constexpr ElementTypeInfo S(std::string_view n, int bits) {
  return {n, bits, bits < 8 ? 1 : bits / 8, true, false, false, false};
}
constexpr ElementTypeInfo U(std::string_view n, int bits) {
  return {n, bits, bits < 8 ? 1 : bits / 8, false, true, false, false};
}
constexpr ElementTypeInfo F(std::string_view n, int bits) {
  return {n, bits, bits < 8 ? 1 : bits / 8, false, false, true, false};
}
constexpr ElementTypeInfo C(std::string_view n, int bits) { return {n, bits, bits / 8, false, false, false, true}; }
constexpr ElementTypeInfo None(std::string_view n) { return {n, 0, 0, false, false, false, false}; }

// In the order of the enum.
constexpr std::array<ElementTypeInfo, kElementTypeCount> kInfo = {
    None("invalid"),    Pred(),        S("s8", 8),       S("s16", 16),          S("s32", 32),
    S("s64", 64),       U("u8", 8),    U("u16", 16),     U("u32", 32),          U("u64", 64),
    F("f16", 16),       F("f32", 32),  F("f64", 64),     None("tuple"),         None("opaque"),
    C("c64", 64),       F("bf16", 16), None("token"),    C("c128", 128),        F("f8e5m2", 8),
    F("f8e4m3fn", 8),   S("s4", 4),    U("u4", 4),       F("f8e4m3b11fnuz", 8), F("f8e5m2fnuz", 8),
    F("f8e4m3fnuz", 8), S("s2", 2),    U("u2", 2),       F("f8e4m3", 8),        F("f8e3m4", 8),
    S("s1", 1),         U("u1", 1),    F("f4e2m1fn", 4), F("f8e8m0fnu", 8)};

}  // namespace

const ElementTypeInfo& GetElementTypeInfo(ElementType type) {
  auto index = static_cast<std::size_t>(type);
  return kInfo[index < kInfo.size() ? index : 0];
}

std::optional<ElementType> ElementTypeFromName(std::string_view name) {
  for (std::size_t i = 1; i < kInfo.size(); ++i)
    if (kInfo[i].name == name) return static_cast<ElementType>(i);
  return std::nullopt;
}

}  // namespace krafla
