// SPDX-License-Identifier: Apache-2.0
// Narrow floats that no vector instruction knows: one element at a time by the algorithms of numerics/formats.h.
#include <array>
#include <memory>

#include "cpu_fallback/kernels/block_families.h"
#include "ir/mini_float.h"

namespace krafla::cpu {

namespace {

template <const MiniFloat& kFormat, class In>
void RoundLoop(const BlockArgs& args) {
  const In* a = static_cast<const In*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  for (int64_t i = 0; i < args.n; ++i) out[i] = DecodeMiniFloat(EncodeMiniFloat(a[i], kFormat), kFormat);
}
template <const MiniFloat& kFormat>
void EncodeLoop(const BlockArgs& args) {
  const float* a = static_cast<const float*>(args.in[0]);
  uint32_t* out = static_cast<uint32_t*>(args.out);
  for (int64_t i = 0; i < args.n; ++i) out[i] = EncodeMiniFloat(a[i], kFormat);
}
template <const MiniFloat& kFormat>
void DecodeLoop(const BlockArgs& args) {
  const uint32_t* a = static_cast<const uint32_t*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  for (int64_t i = 0; i < args.n; ++i) out[i] = DecodeMiniFloat(a[i], kFormat);
}
template <const MiniFloat& kFormat>
void WidenBytes(const void* in, void* out, int64_t n) {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (uint32_t code = 0; code < 256; ++code) values[code] = DecodeMiniFloat(code, kFormat);
    return values;
  }();
  const uint8_t* a = static_cast<const uint8_t*>(in);
  float* to = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = table[a[i]];
}
template <const MiniFloat& kFormat>
void NarrowBytes(const void* in, void* out, int64_t n) {
  const float* a = static_cast<const float*>(in);
  uint8_t* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(EncodeMiniFloat(a[i], kFormat));
}

struct FormatLoops {
  BlockFn round_f32, round_f64, encode, decode;
  ConvertFn widen, narrow;  // of formats of a byte
};
template <const MiniFloat& kFormat>
constexpr FormatLoops kLoops = {&RoundLoop<kFormat, float>, &RoundLoop<kFormat, double>, &EncodeLoop<kFormat>,
                                &DecodeLoop<kFormat>,       &WidenBytes<kFormat>,        &NarrowBytes<kFormat>};

const FormatLoops* FindLoops(ElementType type) {
  if (type == ElementType::kF16) return &kLoops<kF16Format>;
  if (type == ElementType::kBF16) return &kLoops<kBF16Format>;
  if (type == ElementType::kF8E5M2) return &kLoops<kF8E5M2Format>;
  if (type == ElementType::kF8E4M3FN) return &kLoops<kF8E4M3FNFormat>;
  if (type == ElementType::kF8E4M3) return &kLoops<kF8E4M3Format>;
  if (type == ElementType::kF8E3M4) return &kLoops<kF8E3M4Format>;
  if (type == ElementType::kF8E4M3B11FNUZ) return &kLoops<kF8E4M3B11FNUZFormat>;
  if (type == ElementType::kF8E5M2FNUZ) return &kLoops<kF8E5M2FNUZFormat>;
  if (type == ElementType::kF8E4M3FNUZ) return &kLoops<kF8E4M3FNUZFormat>;
  if (type == ElementType::kF4E2M1FN) return &kLoops<kF4E2M1FNFormat>;
  if (type == ElementType::kF8E8M0FNU) return &kLoops<kF8E8M0FNUFormat>;
  return nullptr;
}

}  // namespace

BlockFn FindFormatBlock(const BlockKey& key) {
  const FormatLoops* loops = key.uniform == 0 ? FindLoops(key.storage) : nullptr;
  if (loops == nullptr) return nullptr;
  if (key.op == plan::NodeOp::kEncode) return loops->encode;
  if (key.op == plan::NodeOp::kDecode) return loops->decode;
  if (key.op == plan::NodeOp::kRound) return key.operand == ElementType::kF64 ? loops->round_f64 : loops->round_f32;
  return nullptr;
}
ConvertFn FindFormatWiden(ElementType storage) {
  const FormatLoops* loops = FindLoops(storage);
  return loops == nullptr ? nullptr : loops->widen;
}
ConvertFn FindFormatNarrow(ElementType storage) {
  const FormatLoops* loops = FindLoops(storage);
  return loops == nullptr ? nullptr : loops->narrow;
}

}  // namespace krafla::cpu
