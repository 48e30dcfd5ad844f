// SPDX-License-Identifier: Apache-2.0
// Pooling: the largest of each 2 x 2 block, a moving average, and the gradient of the first by select-and-scatter.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  XlaBuilder b("pooling");
  XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {4, 4}), "x");
  XlaOp lowest = ConstantR0<float>(&b, -INFINITY), zero = ConstantR0<float>(&b, 0);
  XlaOp largest = ReduceWindow(x, lowest, Scalars(F32, Max), {2, 2}, {2, 2}, Padding::kValid);
  XlaOp sums = ReduceWindow(x, zero, Scalars(F32, Add), {3, 3}, {1, 1}, Padding::kSame);
  XlaOp counts = ReduceWindow(Broadcast(ConstantR0<float>(&b, 1), {4, 4}), zero, Scalars(F32, Add), {3, 3}, {1, 1},
                              Padding::kSame);
  XlaOp gradient = SelectAndScatter(x, Scalars(F32, Ge), {2, 2}, {2, 2}, Padding::kValid,
                                    Broadcast(ConstantR0<float>(&b, 1), {2, 2}), zero, Scalars(F32, Add));
  Tuple(&b, {largest, Div(sums, counts), gradient});

  std::vector<float> values(16);
  for (std::size_t i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
  LocalClient client = ClientFor(argc, argv);
  Literal result = Must(client.Execute(Must(b.Build()), {Must(LiteralUtil::CreateFromArray<float>(values, {4, 4}))}));
  for (const Literal& part : result.elements()) std::printf("%s\n", ToString(part).c_str());
  Expect(Must(LiteralUtil::Values<float>(result.elements()[0])) == std::vector<float>{5, 7, 13, 15}, "largest");
  Expect(Must(LiteralUtil::Get<float>(result.elements()[1], {0, 0})) == 2.5F, "the mean of a corner");
  Expect(Must(LiteralUtil::Get<float>(result.elements()[2], {1, 1})) == 1, "the gradient goes to the largest");
}
