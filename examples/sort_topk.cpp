// SPDX-License-Identifier: Apache-2.0
// Sorting keys with values beside them, and the largest few with their places.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  XlaBuilder less("by_key");
  XlaOp a = Parameter(&less, 0, Shape::MakeScalar(F32), "a"), c = Parameter(&less, 1, Shape::MakeScalar(F32), "c");
  Parameter(&less, 2, Shape::MakeScalar(S32), "a_value");
  Parameter(&less, 3, Shape::MakeScalar(S32), "c_value");
  XlaComputation by_key = Must(less.Build(LtTotalOrder(a, c)));  // an order that NaN has a place in

  XlaBuilder b("sorting");
  XlaOp keys = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {6}), "keys");
  XlaOp sorted = Sort({keys, Iota(&b, S32, 6)}, by_key, /*dimension=*/0, /*is_stable=*/true);
  Tuple(&b, {GetTupleElement(sorted, 1), GetTupleElement(TopK(keys, 2, /*largest=*/true), 1)});

  LocalClient client = ClientFor(argc, argv);
  Literal result = Must(client.Execute(Must(b.Build()), {Must(LiteralUtil::CreateR1<float>({3, -1, 4, 1, -5, 9}))}));
  std::printf("%s\n", ToString(result).c_str());
  Expect(Must(LiteralUtil::Values<int32_t>(result.elements()[0])) == std::vector<int32_t>{4, 1, 3, 0, 2, 5}, "order");
  Expect(Must(LiteralUtil::Values<int32_t>(result.elements()[1])) == std::vector<int32_t>{5, 2}, "the two largest");
}
