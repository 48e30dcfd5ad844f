// SPDX-License-Identifier: Apache-2.0
// HLO's element types and their constant facts. Numbered as XLA's PrimitiveType (xla/xla_data.proto).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "krafla/export.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

enum class ElementType : uint8_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kTuple = 13,
  kOpaque = 14,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1FN = 32,
  kF8E8M0FNU = 33,
};
inline constexpr int kElementTypeCount = 34;

// Facts. `bits` is the logical width (pred 8 as XLA stores it, s4 4); `storage_bytes` is what one element takes in a
// Literal and in a buffer: sub-byte types take a byte each (signed ones sign-extended, others zero-extended).
struct ElementTypeInfo {
  std::string_view name;  // "f32", as HLO text prints it
  int bits = 0;
  int storage_bytes = 0;
  bool is_signed_int = false;
  bool is_unsigned_int = false;
  bool is_float = false;  // real floating point, every width
  bool is_complex = false;
};
const ElementTypeInfo& GetElementTypeInfo(ElementType type);

inline std::string_view ElementTypeName(ElementType t) { return GetElementTypeInfo(t).name; }
std::optional<ElementType> ElementTypeFromName(std::string_view name);

inline int BitWidth(ElementType t) { return GetElementTypeInfo(t).bits; }
inline int StorageBytes(ElementType t) { return GetElementTypeInfo(t).storage_bytes; }
inline bool IsSigned(ElementType t) { return GetElementTypeInfo(t).is_signed_int; }
inline bool IsUnsigned(ElementType t) { return GetElementTypeInfo(t).is_unsigned_int; }
inline bool IsIntegral(ElementType t) { return IsSigned(t) || IsUnsigned(t); }  // pred is not integral
inline bool IsFloat(ElementType t) { return GetElementTypeInfo(t).is_float; }
inline bool IsComplex(ElementType t) { return GetElementTypeInfo(t).is_complex; }
// Has elements with a width: everything but tuple, opaque, token, invalid.
inline bool IsArrayType(ElementType t) { return GetElementTypeInfo(t).storage_bytes > 0; }
// f32 for c64, f64 for c128, the type itself otherwise.
inline ElementType RealPart(ElementType t) {
  if (t == ElementType::kC64) return ElementType::kF32;
  if (t == ElementType::kC128) return ElementType::kF64;
  return t;
}

}  // namespace krafla
KRAFLA_EXPORT_END
