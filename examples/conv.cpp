// SPDX-License-Identifier: Apache-2.0
// Convolutions: an edge filter over an image, and a strided one with dilation and channels last.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  XlaBuilder b("conv");
  // 6 x 6 pixels, dark on the left and bright on the right.
  std::vector<float> image(36);
  for (std::size_t i = 0; i < 36; ++i) image[i] = i % 6 < 3 ? 0.F : 1.F;
  XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {1, 1, 6, 6}), "image");
  XlaOp sobel = ConstantFromArray<float>(&b, {-1, 0, 1, -2, 0, 2, -1, 0, 1}, {1, 1, 3, 3});
  XlaOp edges = Conv(x, sobel, {1, 1}, Padding::kValid);

  ConvolutionDimensionNumbers last;  // batch, height, width, features
  last.input_feature_dimension = 3;
  last.input_spatial_dimensions = {1, 2};
  last.kernel_spatial_dimensions = {0, 1};
  last.kernel_input_feature_dimension = 2;
  last.kernel_output_feature_dimension = 3;
  last.output_feature_dimension = 3;
  last.output_spatial_dimensions = {1, 2};
  XlaOp ones = Broadcast(ConstantR0<float>(&b, 1), {2, 2, 1, 1});
  XlaOp sums = ConvGeneralDilated(Reshape(x, {1, 6, 6, 1}), ones, {2, 2}, {{0, 0}, {0, 0}}, {1, 1}, {2, 2}, last);
  Tuple(&b, {edges, sums});

  LocalClient client = ClientFor(argc, argv);
  Literal pixels = Must(LiteralUtil::CreateFromArray<float>(image, {1, 1, 6, 6}));
  Literal result = Must(client.Execute(Must(b.Build()), {pixels}));
  const Literal& edge_map = result.elements()[0];
  std::printf("%s\n%s\n", ToString(edge_map).c_str(), ToString(result.elements()[1]).c_str());
  Expect(Must(LiteralUtil::Get<float>(edge_map, {0, 0, 0, 0})) == 0, "no edge in the dark");
  Expect(Must(LiteralUtil::Get<float>(edge_map, {0, 0, 0, 1})) == 4, "an edge where it turns bright");
  Expect(Must(LiteralUtil::Get<float>(result.elements()[1], {0, 0, 1, 0})) == 2, "two of four taps are bright");
}
