// SPDX-License-Identifier: Apache-2.0
// One program on four virtual devices: each has a part of the data; together they find the mean, gather all parts and
// pass their own on.
#include "example.h"

using namespace krafla;

int main(int argc, char** argv) {
  constexpr int64_t kDevices = 4;
  XlaBuilder b("mean");
  b.SetDeviceCounts(kDevices, 1);
  XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {2}), "x");
  XlaOp sum = CrossReplicaSum(Reduce(x, ConstantR0<float>(&b, 0), Scalars(F32, Add), {0}));
  XlaOp all = AllGather(x, 0, kDevices);
  XlaOp from_left = CollectivePermute(x, {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
  Tuple(&b, {Div(sum, ConstantR0<float>(&b, 2 * kDevices)), all, from_left, ReplicaId(&b)});

  std::vector<std::vector<Literal>> arguments;
  for (int d = 0; d < kDevices; ++d) {
    float first = static_cast<float>(2 * d);
    arguments.push_back({Must(LiteralUtil::CreateR1<float>({first, first + 1}))});
  }
  LocalDeviceGroup group = Must(LocalDeviceGroup::Create(argc > 1 ? argv[1] : "cpu*4"));
  std::vector<Literal> results = Must(group.Execute(Must(b.Build()), arguments));
  for (std::size_t d = 0; d < results.size(); ++d) {
    std::printf("device %zu: %s\n", d, ToString(results[d]).c_str());
    const std::vector<Literal>& parts = results[d].elements();
    Expect(Must(LiteralUtil::Get<float>(parts[0], {})) == 3.5F, "the mean of 0 to 7");
    Expect(Must(LiteralUtil::Values<float>(parts[1])) == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, "all parts");
    float left = static_cast<float>(2 * ((d + 3) % 4));
    Expect(Must(LiteralUtil::Values<float>(parts[2])) == std::vector<float>{left, left + 1}, "the part to the left");
    Expect(Must(LiteralUtil::Get<uint32_t>(parts[3], {})) == d, "its own number");
  }
}
