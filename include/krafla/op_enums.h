// SPDX-License-Identifier: Apache-2.0
// The choices that operations offer by name.
#pragma once

#include <cstdint>

namespace krafla {

enum class Precision : uint8_t { kDefault, kHigh, kHighest };
enum class ComparisonDirection : uint8_t { kEq, kNe, kGe, kGt, kLe, kLt };
enum class ComparisonType : uint8_t { kDefault, kFloat, kTotalOrder, kSigned, kUnsigned };
enum class FftType : uint8_t { kFft, kIfft, kRfft, kIrfft };
enum class RngDistribution : uint8_t { kUniform, kNormal };
enum class RngAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };
enum class TriangularTranspose : uint8_t { kNoTranspose, kTranspose, kAdjoint };
enum class FusionKind : uint8_t { kLoop, kInput, kOutput, kCustom };

}  // namespace krafla
