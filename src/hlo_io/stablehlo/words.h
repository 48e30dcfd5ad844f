// SPDX-License-Identifier: Apache-2.0
// The words of StableHLO's enums in the order of their numbers in VHLO (stablehlo/dialect/VhloEnums.td).
#pragma once

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

}  // namespace krafla::stablehlo
