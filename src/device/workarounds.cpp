// SPDX-License-Identifier: Apache-2.0
#include "device/workarounds.h"

#include "device/vendors.h"

namespace krafla {

Workarounds WorkaroundsFor(const DeviceProfile& profile) {
  Workarounds out;
  // llvmpipe takes 0 / x for 0 also where x is negative or NaN, and x / 0 for undefined, where it finds the zero by
  // itself: Mesa, src/gallium/auxiliary/gallivm/lp_bld_arit.c, lp_build_div.
  out.zero_quotients_from_bits = profile.driver_id == kDriverLlvmpipe;
  // SwiftShader converts the low 31 bits and the top bit, and adds them: two roundings. SwiftShader,
  // src/Reactor/Reactor.cpp, Float4::Float4(RValue<UInt4>).
  out.u32_to_f32_in_halves = profile.driver_id == kDriverSwiftShader;
  // Vulkan allows an error of 2.5 ULP for OpFDiv, and for Sqrt what 1 / InverseSqrt has: Vulkan specification,
  // "Precision and Operation of SPIR-V Instructions". Drivers that run on the host's cores use its instructions, which
  // round as IEEE 754 says.
  out.corrects_division = !profile.is_cpu;
  // llvmpipe runs both sides of a condition, and a loop until it finds no lane left at the end of a turn, all under a
  // mask of lanes, which it heeds where lanes have addresses of their own only: Mesa,
  // src/gallium/auxiliary/gallivm/lp_bld_nir_soa.c, emit_load_mem and emit_load_global.
  out.loads_without_lanes = profile.driver_id == kDriverLlvmpipe;
  // Memory of a CPU-type device is the process's, which the operating system gives when it is first stored to: a store
  // then kills the process.
  out.overcommits_memory = profile.is_cpu;
  return out;
}

}  // namespace krafla
