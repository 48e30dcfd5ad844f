// SPDX-License-Identifier: Apache-2.0
// Loads a program in HLO text and runs it: the shortest way to embed krafla.
//   run_hlo [device [file.hlo]]
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  const char* text = R"(HloModule affine
ENTRY main {
  x = f32[2,3] parameter(0)
  w = f32[3,2] parameter(1)
  product = f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = f32[] constant(1)
  ones = f32[2,2] broadcast(one), dimensions={}
  ROOT y = f32[2,2] add(product, ones)
})";
  LocalClient client = ClientFor(argc, argv);
  XlaComputation program = Must(argc > 2 ? LoadHloFile(argv[2]) : LoadHlo(text));
  ProgramShape shape = Must(program.GetProgramShape());
  std::printf("%s\n", shape.ToString().c_str());

  // Arguments that count 0, 1, 2, ... where they are f32, zeros elsewhere.
  std::vector<Literal> arguments;
  for (const Shape& s : shape.parameters) {
    Literal argument = Must(Literal::Create(s));
    if (s.element_type() == F32) {
      float next = 0;
      for (float& v : argument.data<float>()) v = next++;
    }
    arguments.push_back(std::move(argument));
  }
  LocalExecutable executable = Must(client.Compile(program));
  Literal result = Must(executable.Run(arguments));
  std::printf("%s\n%s\n", ToString(result).c_str(), executable.report().placement.c_str());
  if (argc <= 2) Expect(Must(LiteralUtil::Values<float>(result)) == std::vector<float>{11, 14, 29, 41}, "x w + 1");
}
