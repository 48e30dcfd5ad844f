// SPDX-License-Identifier: Apache-2.0
// The devices here, and what compiling a program for one of them gives: where each instruction runs, and why.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  for (const DeviceInfo& device : LocalClient::Devices())
    std::printf("%-10s %s\n", device.selector.c_str(), device.description.c_str());

  XlaBuilder b("program");
  XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {64, 64}), "x");
  Tanh(Dot(x, Transpose(x, {1, 0})));
  XlaComputation program = Must(b.Build());
  std::printf("\n%s", ToHloText(program).c_str());

  LocalClient client = ClientFor(argc, argv);
  LocalExecutable executable = Must(client.Compile(program));
  const BuildReport& report = executable.report();
  std::printf("%s\n%d kernels, %lld bytes of working memory, compiled in %.2f ms and %.2f ms of the driver's\n",
              report.placement.c_str(), report.kernels, static_cast<long long>(report.arena_bytes), report.compile_ms,
              report.pipeline_ms);
  for (const BuildReport::Fallback& f : report.fallbacks)
    std::printf("on the CPU: %s (%s)\n", f.instruction.c_str(), f.reason.c_str());
  Expect(report.kernels > 0, "something to run");

  // An error is a value that says what is wrong.
  auto wrong = client.Compile(XlaComputation());
  Expect(!wrong.has_value(), "a null computation does not compile");
  std::printf("%s\n", wrong.error().ToString().c_str());
}
