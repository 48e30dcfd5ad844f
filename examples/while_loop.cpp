// SPDX-License-Identifier: Apache-2.0
// A loop on the device: Newton's iteration for a square root, until it no longer changes.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  // The state: the number, the estimate, the estimate before it.
  Shape f = Shape::MakeScalar(F32);
  auto state_shape = ShapeUtil::MakeTupleShape({f, f, f});

  XlaBuilder condition("moves");
  XlaOp s = Parameter(&condition, 0, state_shape, "state");
  Ne(GetTupleElement(s, 1), GetTupleElement(s, 2));

  XlaBuilder body("step");
  s = Parameter(&body, 0, state_shape, "state");
  XlaOp number = GetTupleElement(s, 0), estimate = GetTupleElement(s, 1);
  XlaOp half = ConstantR0<float>(&body, 0.5F);
  Tuple(&body, {number, half * (estimate + number / estimate), estimate});

  XlaBuilder b("newton");
  XlaOp x = Parameter(&b, 0, f, "x");
  XlaOp end = While(condition.Build(), body.Build(), Tuple(&b, {x, x, ConstantR0<float>(&b, 0)}));
  GetTupleElement(end, 1);

  LocalClient client = ClientFor(argc, argv);
  LocalExecutable root = Must(client.Compile(Must(b.Build())));
  for (float value : {2.F, 144.F, 0.25F}) {
    float got = Must(LiteralUtil::Get<float>(Must(root.Run({Must(LiteralUtil::CreateR0<float>(value))})), {}));
    std::printf("sqrt(%g) = %.8g\n", value, got);
    Expect(std::abs(got - std::sqrt(value)) <= 1e-6F * got, "the root");
  }
}
