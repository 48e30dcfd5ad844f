// SPDX-License-Identifier: Apache-2.0
// Numbers by which Vulkan names drivers and vendors, of those that krafla treats apart: VkDriverId of vulkan_core.h,
// and the PCI ids that VkPhysicalDeviceProperties.vendorID holds.
#pragma once

#include <cstdint>

namespace krafla {

inline constexpr uint32_t kDriverSwiftShader = 10;  // VK_DRIVER_ID_GOOGLE_SWIFTSHADER
inline constexpr uint32_t kDriverLlvmpipe = 13;     // VK_DRIVER_ID_MESA_LLVMPIPE
inline constexpr uint32_t kDriverHoneykrisp = 26;   // VK_DRIVER_ID_MESA_HONEYKRISP

inline constexpr uint32_t kVendorAmd = 0x1002;
inline constexpr uint32_t kVendorApple = 0x106b;
inline constexpr uint32_t kVendorArm = 0x13b5;
inline constexpr uint32_t kVendorIntel = 0x8086;
inline constexpr uint32_t kVendorNvidia = 0x10de;
inline constexpr uint32_t kVendorQualcomm = 0x5143;

}  // namespace krafla
