// SPDX-License-Identifier: Apache-2.0
// What the tests of dots and convolutions share: small whole numbers, whose sums are exact in every order, and
// epilogues.
#pragma once

#include "kernel_fixture.h"
#include "krafla/shape.h"

namespace krafla {

inline double ReadNumber(ElementType storage, const std::byte* data, int64_t i) {
  const uint64_t v = reference::ReadElement(storage, data, i);
  if (IsSigned(storage))
    return StorageBytes(storage) == 8 ? static_cast<double>(static_cast<int64_t>(v)) : static_cast<int32_t>(v);
  if (IsUnsigned(storage)) return static_cast<double>(v);
  return storage == ElementType::kF64 ? reference::As<double>(v) : reference::As<float>(v);
}
inline void WriteNumber(ElementType storage, std::byte* data, int64_t i, double value) {
  uint64_t bits = IsIntegral(storage)            ? static_cast<uint64_t>(static_cast<int64_t>(value))
                  : storage == ElementType::kF64 ? reference::Bits(value)
                                                 : reference::Bits(static_cast<float>(value));
  reference::WriteElement(storage, data, i, bits);
}
inline AlignedBytes WholeNumbers(ElementType storage, int64_t count, std::mt19937& random) {
  AlignedBytes out(static_cast<std::size_t>(count * StorageBytes(storage)));
  for (int64_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(random() % 7) - (IsUnsigned(storage) ? 0 : 3);
    WriteNumber(storage, out.data(), i, value);
  }
  return out;
}

enum class After { kStore, kBiasRelu, kTransposedStore };

// param 0 over `dims`, rounded to `result`; with a bias along the last dimension and a relu, or stored with the last
// two dimensions exchanged.
inline plan::ElementProgram MakeEpilogue(const Dims& dims, ElementType sum, ElementType result, After after,
                                         std::span<const plan::ProgramBuffer> buffers) {
  plan::ProgramBuilder b(dims);
  for (const plan::ProgramBuffer& p : buffers) b.AddBuffer(p.storage, p.element_count, p.written);
  std::vector<plan::IndexId> iters;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) iters.push_back(b.space().Iter(d));
  Dims stored = dims;
  if (after == After::kTransposedStore) {
    std::swap(iters[iters.size() - 1], iters[iters.size() - 2]);
    std::swap(stored[dims.size() - 1], stored[dims.size() - 2]);
  }
  plan::NodeId v = b.Convert(b.Param(sum, 0, ~uint64_t{0} >> 1), sum, result);
  if (after == After::kBiasRelu) {
    plan::NodeId bias = b.Load(3, result, iters.back());
    v = b.Hlo(Opcode::kAdd, result, {v, bias});
    v = b.Hlo(Opcode::kMaximum, result, {v, b.Convert(b.ConstantInt(ElementType::kS32, 0), ElementType::kS32, result)});
  }
  b.AddStore({.buffer = 2, .index = b.space().Linearize(iters, stored), .node = v, .storage = result});
  return std::move(b).Finish();
}

}  // namespace krafla
