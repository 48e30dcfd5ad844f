// SPDX-License-Identifier: Apache-2.0
// Small kernels and inputs for tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "device_harness.h"
#include "plan/element_program.h"

namespace krafla::spirv::testing {

inline plan::KernelPlan LoopPlan(plan::ElementProgram program, std::string name) {
  plan::KernelPlan plan;
  plan.name = std::move(name);
  for (const plan::ProgramBuffer& b : program.buffers) {
    plan.bindings.push_back({b.storage, b.element_count, !b.written, b.written});
  }
  plan.body = plan::LoopKernel{std::move(program)};
  return plan;
}

// Bit patterns of every kind: corners first, then random ones. Floats have no subnormals, which devices may flush.
inline Bytes CornerBytes(ElementType storage, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto size = static_cast<std::size_t>(StorageBytes(storage));
  Bytes out(static_cast<std::size_t>(count) * size);
  static const float kFloats[] = {0.0f,
                                  -0.0f,
                                  1.0f,
                                  -1.0f,
                                  0.5f,
                                  -0.5f,
                                  2.5f,
                                  -2.5f,
                                  1.5f,
                                  3.0f,
                                  0.49999997f,
                                  1e-30f,
                                  1e30f,
                                  -1e30f,
                                  3e9f,
                                  -3e9f,
                                  5e9f,
                                  255.5f,
                                  65504.0f,
                                  65520.0f,
                                  1e-8f,
                                  88.0f,
                                  -88.0f,
                                  std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN(),
                                  8388609.0f,
                                  2147483648.0f,
                                  0.99999994f};
  static const int64_t kInts[] = {0,  1,  -1,        2,         7,         31,        32,  33,   63,
                                  64, -5, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX, 127, -128, 3};
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = (uint64_t{random()} << 32) | random();
    const auto corner = static_cast<std::size_t>(random() % 64);
    if (IsFloat(storage)) {
      float f;
      if (corner < std::size(kFloats)) {
        f = kFloats[corner];
      } else if (corner < 48) {
        f = std::ldexp(static_cast<float>(static_cast<int32_t>(random())), -31 + static_cast<int>(random() % 8));
      } else {
        const auto exponent = static_cast<uint32_t>(1 + random() % 253);
        f = std::bit_cast<float>((static_cast<uint32_t>(random()) & 0x807fffffu) | exponent << 23);
      }
      if (storage == ElementType::kF64) {
        const double d = static_cast<double>(f) * (1.0 + 1e-12);
        std::memcpy(out.data() + static_cast<std::size_t>(i) * 8, &d, 8);
      } else {
        WriteElement(out, storage, i, std::bit_cast<uint32_t>(f));
      }
      continue;
    }
    if (corner < std::size(kInts)) bits = static_cast<uint64_t>(kInts[corner]);
    if (storage == ElementType::kPred) bits &= 1;
    if (BitWidth(storage) < 8) {
      const int up = 64 - BitWidth(storage);
      bits = IsSigned(storage) ? static_cast<uint64_t>(static_cast<int64_t>(bits << up) >> up) : bits << up >> up;
    }
    std::memcpy(out.data() + static_cast<std::size_t>(i) * size, &bits, size);
  }
  return out;
}

// How far two outputs may be apart: equal bits but for NaN payloads and subnormals that a device made zero.
inline bool SameValue(ElementType storage, const Bytes& a, const Bytes& b, int64_t index) {
  const Bits x = ReadElement(a, storage, index), y = ReadElement(b, storage, index);
  if (x == y) return true;
  if (storage == ElementType::kF64) {
    const double dx = std::bit_cast<double>(x), dy = std::bit_cast<double>(y);
    return (std::isnan(dx) && std::isnan(dy));
  }
  if (!IsFloat(storage)) return false;
  const float fx = std::bit_cast<float>(static_cast<uint32_t>(x)), fy = std::bit_cast<float>(static_cast<uint32_t>(y));
  if (std::isnan(fx) && std::isnan(fy)) return true;
  const bool tiny_x = std::fabs(fx) < 0x1p-126f, tiny_y = std::fabs(fy) < 0x1p-126f;
  return tiny_x && tiny_y && (std::signbit(fx) == std::signbit(fy)) && (fx == 0 || fy == 0);
}

inline void ExpectSame(const plan::KernelPlan& plan, const std::vector<Bytes>& got, const std::vector<Bytes>& want,
                       const std::string& where) {
  int shown = 0;
  for (std::size_t b = 0; b < plan.bindings.size(); ++b) {
    const plan::Binding& binding = plan.bindings[b];
    for (int64_t i = 0; i < binding.element_count && shown < 5; ++i) {
      if (SameValue(binding.storage, got[b], want[b], i)) continue;
      ++shown;
      ADD_FAILURE() << where << ": " << plan.name << " binding " << b << " element " << i << " is " << std::hex
                    << ReadElement(got[b], binding.storage, i) << ", not " << ReadElement(want[b], binding.storage, i);
    }
  }
}

inline void ValidateEverywhere(const plan::KernelPlan& plan, const EmitOptions& options = {}) {
  for (const DeviceProfile& profile : Profiles()) {
    auto program = Emit(plan, profile, options);
    if (!program) {
      EXPECT_EQ(program.error().code(), StatusCode::kUnimplemented) << plan.name << ": " << program.error().ToString();
      continue;
    }
    for (const EmittedKernel& k : program->kernels) {
      const std::string errors = Validate(k.words, profile);
      EXPECT_EQ(errors, "") << plan.name << " as " << k.variant << " on " << profile.name << "\n"
                            << (errors.empty() ? "" : Disassemble(k.words));
    }
  }
}

// Runs on the device and compares with what the interpreter has made of `memory`.
inline void ExpectOn(TestDevice& device, const plan::KernelPlan& plan, std::vector<Bytes> memory,
                     const std::vector<Bytes>& want, bool as_gpu, const Tuning* tuning = nullptr) {
  EmitOptions options;
  options.treat_as_gpu = as_gpu;
  options.tuning = tuning;
  auto run = device.Run(plan, memory, options);
  ASSERT_TRUE(run.has_value()) << device.name() << ": " << run.error().ToString();
  ExpectSame(plan, memory, want, device.name() + (as_gpu ? ", as a GPU" : ""));
}

// Emits for every profile, then runs on every device and compares with the interpreter.
inline void CheckKernel(const plan::KernelPlan& plan, std::vector<Bytes> memory) {
  ValidateEverywhere(plan);
  std::vector<Bytes> want = memory;
  RunKernel(plan, want);
  for (const auto& device : Devices()) {
    if (!CanEmit(plan, device->profile())) continue;
    for (bool as_gpu : {false, true}) ExpectOn(*device, plan, memory, want, as_gpu);
  }
}

// Small integers, so that float sums are exact in any order.
inline Bytes SmallIntegers(ElementType type, int64_t count, uint32_t seed, int low = -3, int high = 3) {
  std::mt19937 random(seed);
  Bytes out(static_cast<std::size_t>(count) * static_cast<std::size_t>(StorageBytes(type)));
  for (int64_t i = 0; i < count; ++i) {
    const int v = low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    Bits bits = static_cast<Bits>(static_cast<int64_t>(v));
    if (type == ElementType::kF64) {
      bits = std::bit_cast<Bits>(static_cast<double>(v));
    } else if (IsFloat(type)) {
      bits = std::bit_cast<uint32_t>(static_cast<float>(v));
    } else if (type == ElementType::kPred) {
      bits &= 1;
    }
    WriteElement(out, type, i, bits);
  }
  return out;
}

inline void CheckOnIntegers(const plan::KernelPlan& plan, uint32_t seed = 1) {
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, seed++));
  CheckKernel(plan, memory);
}

// What GPUs get, on every device, with the same integers in all buffers.
inline void CheckAsGpu(const plan::KernelPlan& plan, uint32_t seed, const Tuning* tuning = nullptr) {
  std::vector<Bytes> memory;
  for (const plan::Binding& b : plan.bindings) memory.push_back(SmallIntegers(b.storage, b.element_count, seed));
  std::vector<Bytes> want = memory;
  RunKernel(plan, want);
  for (const auto& device : Devices()) ExpectOn(*device, plan, memory, want, /*as_gpu=*/true, tuning);
}

inline std::vector<Bytes> CornerMemory(const plan::KernelPlan& plan, uint32_t seed = 1) {
  std::vector<Bytes> out;
  for (const plan::Binding& b : plan.bindings) out.push_back(CornerBytes(b.storage, b.element_count, seed++));
  return out;
}

}  // namespace krafla::spirv::testing
