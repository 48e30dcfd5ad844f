// SPDX-License-Identifier: Apache-2.0
// What the operators of attention share.
#pragma once

#include "onnx/call.h"

namespace krafla::onnx {

// [B, L, H * D] as [B, H, L, D], and back.
XlaOp SplitHeads(XlaOp x, int64_t heads);
XlaOp JoinHeads(XlaOp x);
// [B, K, L, D] for `heads` heads, which share K.
XlaOp RepeatHeads(XlaOp x, int64_t heads);
// cap * tanh(score / cap); the score where the attribute softcap is 0.
XlaOp SoftCapped(Call& c, XlaOp score);
// The first elements of each of x [B, H, L, D] turned by the angles whose cosines and sines are [B, L, half]: pairs
// side by side (`interleaved`) or half of them apart.
XlaOp TurnedBy(XlaOp x, XlaOp cosine, XlaOp sine, bool interleaved);

}  // namespace krafla::onnx
