// SPDX-License-Identifier: Apache-2.0
// The words that HLO text uses for the enums of ir/attributes.h; read by the parser and the printer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/attributes.h"

namespace krafla::hlo_text {

template <typename E>
struct WordOf {
  std::string_view word;
  E value;
};

inline constexpr WordOf<ComparisonDirection> kDirections[] = {
    {"EQ", ComparisonDirection::kEq}, {"NE", ComparisonDirection::kNe}, {"GE", ComparisonDirection::kGe},
    {"GT", ComparisonDirection::kGt}, {"LE", ComparisonDirection::kLe}, {"LT", ComparisonDirection::kLt}};
inline constexpr WordOf<ComparisonType> kComparisonTypes[] = {{"FLOAT", ComparisonType::kFloat},
                                                              {"TOTALORDER", ComparisonType::kTotalOrder},
                                                              {"SIGNED", ComparisonType::kSigned},
                                                              {"UNSIGNED", ComparisonType::kUnsigned}};
inline constexpr WordOf<FftType> kFftTypes[] = {
    {"FFT", FftType::kFft}, {"IFFT", FftType::kIfft}, {"RFFT", FftType::kRfft}, {"IRFFT", FftType::kIrfft}};
inline constexpr WordOf<RngDistribution> kDistributions[] = {{"rng_uniform", RngDistribution::kUniform},
                                                             {"rng_normal", RngDistribution::kNormal}};
inline constexpr WordOf<RngAlgorithm> kRngAlgorithms[] = {{"rng_default", RngAlgorithm::kDefault},
                                                          {"rng_three_fry", RngAlgorithm::kThreeFry},
                                                          {"rng_philox", RngAlgorithm::kPhilox}};
inline constexpr WordOf<TriangularTranspose> kTransposes[] = {{"NO_TRANSPOSE", TriangularTranspose::kNoTranspose},
                                                              {"TRANSPOSE", TriangularTranspose::kTranspose},
                                                              {"ADJOINT", TriangularTranspose::kAdjoint}};
inline constexpr WordOf<FusionKind> kFusionKinds[] = {{"kLoop", FusionKind::kLoop},
                                                      {"kInput", FusionKind::kInput},
                                                      {"kOutput", FusionKind::kOutput},
                                                      {"kCustom", FusionKind::kCustom}};
inline constexpr WordOf<Precision> kPrecisions[] = {
    {"default", Precision::kDefault}, {"high", Precision::kHigh}, {"highest", Precision::kHighest}};

template <typename E, std::size_t N>
std::string_view WordFor(const WordOf<E> (&table)[N], E value) {
  for (const auto& row : table)
    if (row.value == value) return row.word;
  return {};
}

// The trip count that a backend_config names, as written (a string or JSON).
std::optional<int64_t> KnownTripCount(std::string_view config);

}  // namespace krafla::hlo_text
