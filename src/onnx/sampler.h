// SPDX-License-Identifier: Apache-2.0
// Images read at places between their elements (sampler.cpp).
#pragma once

#include <string>

#include "onnx/call.h"

namespace krafla::onnx {

// x[n, c, space...] at integer places [N, P], one array a dimension of space, within it; gives [N, C, P].
XlaOp PixelsAt(XlaOp x, const Outputs& places, XlaOp batch);

// Pixels [N, C, P], times a weight of each place, [N, P].
XlaOp Weighted(XlaOp pixels, XlaOp weight);

struct Sampler {
  XlaOp x, batch;  // batch: s32[N, P]
  std::string mode = "linear", padding = "zeros";
  bool align = false;
  bool largest = false;  // of the weighted neighbours, instead of their sum

  // Of [N, P], one array a dimension of space; gives [N, C, P].
  XlaOp At(const Outputs& at) const;
  static XlaOp Reflected(XlaOp at, double low, double high);

 private:
  XlaOp Pixel(Outputs at) const;  // at whole numbers, in floats [N, P]
};

}  // namespace krafla::onnx
