// SPDX-License-Identifier: Apache-2.0
#include <krafla/krafla.hpp>

#include <cstdio>

int main() {
  krafla::XlaBuilder b("consumer");
  krafla::XlaOp x = Parameter(&b, 0, krafla::ShapeUtil::MakeShape(krafla::F32, {3}), "x");
  Add(Mul(x, x), krafla::ConstantR0<float>(&b, 1));
  auto program = b.Build();
  if (!program) return std::puts(program.error().ToString().c_str()), 1;
  auto client = krafla::LocalClient::Create("cpu");
  if (!client) return std::puts(client.error().ToString().c_str()), 1;
  auto y = client->Execute(*program, {krafla::LiteralUtil::CreateR1<float>({1, 2, 3}).value()});
  if (!y) return std::puts(y.error().ToString().c_str()), 1;
  std::printf("%s\n", ToString(*y).c_str());
  return krafla::LiteralUtil::Values<float>(*y).value() == std::vector<float>{2, 5, 10} ? 0 : 1;
}
