// SPDX-License-Identifier: Apache-2.0
// Random bits: the same on every device for one key; and numbers of a distribution.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  XlaBuilder b("random");
  XlaOp key = Parameter(&b, 0, ShapeUtil::MakeShape(U64, {2}), "key");
  XlaOp bits = RngBitGenerator(RandomAlgorithm::kThreeFry, key, ShapeUtil::MakeShape(U32, {1024}));
  // 24 bits to a float in [0, 1).
  XlaOp unit = Mul(ConvertElementType(ShiftRightLogical(GetTupleElement(bits, 1), ConstantR0<uint32_t>(&b, 8)), F32),
                   ConstantR0<float>(&b, 1.0F / 16777216));
  XlaOp zero = ConstantR0<float>(&b, 0);
  XlaOp mean = Reduce(unit, zero, Scalars(F32, Add), {0}) / ConstantR0<float>(&b, 1024);
  Tuple(&b, {GetTupleElement(bits, 0), GetTupleElement(bits, 1), mean});
  XlaComputation program = Must(b.Build());

  Literal start = Must(LiteralUtil::CreateR1<uint64_t>({1, 2}));
  Literal here = Must(ClientFor(argc, argv).Execute(program, {start}));
  Literal on_cpu = Must(Must(LocalClient::Create("cpu")).Execute(program, {start}));
  float average = Must(LiteralUtil::Get<float>(here.elements()[2], {}));
  std::printf("next key %s, mean of 1024 numbers %g\n", ToString(here.elements()[0]).c_str(), average);
  Expect(here.elements()[1] == on_cpu.elements()[1], "the same bits on every device");
  Expect(std::abs(average - 0.5F) < 0.05F, "the mean");
}
