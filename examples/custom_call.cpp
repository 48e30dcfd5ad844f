// SPDX-License-Identifier: Apache-2.0
// An operation of one's own, registered under the name that the program calls: a function for the host and a kernel for
// Vulkan devices (shaders/examples/custom_call.comp).
#include "example.h"
#ifdef EXAMPLE_HAS_KERNEL
#include <cstdint>
#include <iterator>

#include "custom_call_DESCRIPTORS.h"
#endif

using namespace krafla;

int main(int argc, char** argv) {
  // How far each number lies from the last, as no operation of HLO does at once.
  auto registered =
      CustomCallRegistry::Global().AddFunction("example.differences", [](const CustomCallFrame& frame) -> Result<> {
        if (frame.operands.size() != 1 || frame.operands[0]->shape().element_type() != F32)
          return InvalidArgument("{} takes one array of f32.", frame.target);
        auto in = frame.operands[0]->data<float>();
        auto out = frame.result->data<float>();
        for (std::size_t i = 0; i < in.size(); ++i) out[i] = i == 0 ? in[0] : in[i] - in[i - 1];
        return {};
      });
  if (!registered) return std::puts(registered.error().ToString().c_str()), 1;
#ifdef EXAMPLE_HAS_KERNEL
  CustomCallKernel kernel;
  kernel.spirv.assign(std::begin(kcustom_call_DESCRIPTORS), std::end(kcustom_call_DESCRIPTORS));
  registered = CustomCallRegistry::Global().AddKernel("example.differences", std::move(kernel));
  if (!registered) return std::puts(registered.error().ToString().c_str()), 1;
#endif

  XlaBuilder b("custom");
  auto shape = ShapeUtil::MakeShape(F32, {5});
  XlaOp x = Parameter(&b, 0, shape, "x");
  Mul(CustomCall(&b, "example.differences", {Mul(x, x)}, shape), ConstantR0<float>(&b, 2));
  LocalClient client = ClientFor(argc, argv);
  LocalExecutable executable = Must(client.Compile(Must(b.Build())));
  Literal result = Must(executable.Run({Must(LiteralUtil::CreateR1<float>({1, 2, 3, 4, 5}))}));
  std::printf("%s\n%s\n", ToString(result).c_str(), executable.report().placement.c_str());
  Expect(Must(LiteralUtil::Values<float>(result)) == std::vector<float>{2, 6, 10, 14, 18}, "differences of squares");

  // A name that nobody registered is an error when compiling.
  CustomCall(&b, "example.missing", {}, shape);
  auto missing = client.Compile(Must(b.Build()));
  Expect(!missing.has_value(), "an unknown target");
  std::printf("%s\n", missing.error().message().c_str());
}
