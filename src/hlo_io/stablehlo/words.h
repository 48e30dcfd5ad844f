// SPDX-License-Identifier: Apache-2.0
// The words of StableHLO's enums in the order of their numbers in VHLO (stablehlo/dialect/VhloEnums.td).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace krafla::stablehlo {

inline constexpr std::string_view kDirectionWords[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
inline constexpr std::string_view kComparisonTypeWords[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
inline constexpr std::string_view kApiVersionWords[] = {
    "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};
inline constexpr std::string_view kFftWords[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
inline constexpr std::string_view kPrecisionWords[] = {"DEFAULT", "HIGH", "HIGHEST"};
inline constexpr std::string_view kRngAlgorithmWords[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
inline constexpr std::string_view kRngDistributionWords[] = {"", "UNIFORM", "NORMAL"};
inline constexpr std::string_view kTransposeWords[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
inline constexpr std::string_view kAccuracyModeWords[] = {"DEFAULT", "HIGHEST", "TOLERANCE"};

// The enum that the word of an attribute is of, and the number of that enum's attribute in VHLO's bytecode
// (stablehlo/dialect/VhloBytecode.cpp).
struct EnumWords {
  std::string_view attribute, kind;
  uint8_t code;
  std::span<const std::string_view> words;
};
inline constexpr EnumWords kEnumWords[] = {{"comparison_direction", "comparison_direction", 3, kDirectionWords},
                                           {"compare_type", "comparison_type", 4, kComparisonTypeWords},
                                           {"api_version", "custom_call_api_version", 5, kApiVersionWords},
                                           {"fft_type", "fft_type", 7, kFftWords},
                                           {"precision_config", "precision", 11, kPrecisionWords},
                                           {"rng_algorithm", "rng_algorithm", 12, kRngAlgorithmWords},
                                           {"rng_distribution", "rng_distribution", 13, kRngDistributionWords},
                                           {"transpose_a", "transpose", 16, kTransposeWords},
                                           {"mode", "result_accuracy_mode", 19, kAccuracyModeWords}};
constexpr const EnumWords* EnumOf(std::string_view attribute) {
  for (const EnumWords& one : kEnumWords)
    if (one.attribute == attribute) return &one;
  return nullptr;
}
// The number of the word in the enum of `attribute`; -1 where it has none.
constexpr int EnumNumber(std::string_view attribute, std::string_view word) {
  const EnumWords* of = EnumOf(attribute);
  for (std::size_t n = 0; of != nullptr && n < of->words.size(); ++n)
    if (of->words[n] == word) return static_cast<int>(n);
  return -1;
}

}  // namespace krafla::stablehlo
