// SPDX-License-Identifier: Apache-2.0
// Calls, branches and loops; collectives in a group of one device; what needs a host or other devices is built only.
#include "cases.h"

namespace krafla::testing {
namespace {

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Shape Vector(ElementType type, int64_t size) { return ShapeUtil::MakeShape(type, {size}).value(); }

// x -> x + c
XlaComputation Plus(float c) {
  XlaBuilder b("plus");
  Add(Parameter(&b, 0, Vector(F32, 2), "x"), ConstantR0<float>(&b, c));
  return b.Build().value();
}

// (i, x): while i < 3: i + 1, 2 x
XlaComputation LoopCondition() {
  XlaBuilder b("condition");
  XlaOp state = Parameter(&b, 0, ShapeUtil::MakeTupleShape({Shape::MakeScalar(S32), Vector(F32, 2)}), "state");
  Lt(GetTupleElement(state, 0), ConstantR0<int32_t>(&b, 3));
  return b.Build().value();
}
XlaComputation LoopBody() {
  XlaBuilder b("body");
  XlaOp state = Parameter(&b, 0, ShapeUtil::MakeTupleShape({Shape::MakeScalar(S32), Vector(F32, 2)}), "state");
  XlaOp i = GetTupleElement(state, 0), x = GetTupleElement(state, 1);
  Tuple(&b, {Add(i, ConstantR0<int32_t>(&b, 1)), Add(x, x)});
  return b.Build().value();
}

ReplicaGroup Group(std::vector<int64_t> ids) { return ReplicaGroup{std::move(ids)}; }

}  // namespace

std::vector<OpCase> ControlCases() {
  constexpr auto kBuildOnly = OpCase::kBuildOnly;
  return {
      {"Call", [](Program& p) { Call(&p, Plus(1), {p.F({1, 2})}); }, {2, 3}},
      {"Call twice",
       [](Program& p) {
         XlaComputation f = Plus(1);
         Call(&p, f, {Call(&p, f, {p.F({1, 2})})});
       },
       {3, 4}},
      {"CompositeCall", [](Program& p) { CompositeCall(&p, Plus(1), {p.F({1, 2})}, "my.plus", "{n = 1}", 2); }, {2, 3}},
      {"Fusion", [](Program& p) { Fusion(&p, {p.F({1, 2})}, FusionKind::kLoop, Plus(1)); }, {2, 3}},
      {"While",
       [](Program& p) { While(LoopCondition(), LoopBody(), Tuple(&p, {p.Scalar<int32_t>(0), p.F({1, 2})})); },
       {3, 8, 16}},
      {"Conditional by a pred",
       [](Program& p) {
         XlaOp x = p.F({1, 2});
         Conditional(p.Scalar<bool>(false), x, Plus(1), x, Plus(10));
       },
       {11, 12}},
      {"Conditional by an index",
       [](Program& p) {
         XlaOp x = p.F({1, 2});
         XlaComputation one = Plus(1), two = Plus(2), three = Plus(3);
         const XlaComputation* branches[] = {&one, &two, &three};
         Conditional(p.Scalar<int32_t>(7), branches, {x, x, x});
       },
       {4, 5}},
      {"OptimizationBarrier", [](Program& p) { OptimizationBarrier(p.F({1, 2})); }, {1, 2}},
      {"Domain", [](Program& p) { Domain(p.F({1, 2}), "{replicated}", "{maximal device=0}"); }, {1, 2}},
      {"CustomCall",
       [](Program& p) { CustomCall(&p, "test.target", {p.F({1})}, Vector(F32, 1), "say \"it\"", true); },
       {},
       0,
       kBuildOnly},
      {"CustomCallWithComputation",
       [](Program& p) { CustomCallWithComputation(&p, "test.target", {p.F({1})}, AddF(), Vector(F32, 1)); },
       {},
       0,
       kBuildOnly},
      {"CustomCallWithLayout",
       [](Program& p) {
         Shape shape = ShapeUtil::MakeShapeWithLayout(F32, {1, 2}, {0, 1}).value();
         CustomCallWithLayout(&p, "test.target", {p.F({1, 2}, {1, 2})}, shape, {shape}, "", false, {{{}, {0, {}}}},
                              nullptr, CustomCallApiVersion::API_VERSION_TYPED_FFI);
       },
       {},
       0,
       kBuildOnly},

      {"ReplicaId", [](Program& p) { ReplicaId(&p); }, {0}},
      {"PartitionId", [](Program& p) { PartitionId(&p); }, {0}},
      {"CrossReplicaSum", [](Program& p) { CrossReplicaSum(p.F({1, 2})); }, {1, 2}},
      {"AllReduce", [](Program& p) { AllReduce(p.F({1, 2}), AddF(), {Group({0})}, ChannelHandle{1}); }, {1, 2}},
      {"AllReduce of a tuple", [](Program& p) { AllReduce(Tuple(&p, {p.F({1}), p.F({2, 3})}), AddF()); }, {1, 2, 3}},
      {"AllReduceTuple", [](Program& p) { AllReduceTuple({p.F({1}), p.F({2})}, AddF()); }, {1, 2}},
      {"AllGather", [](Program& p) { AllGather(p.F({1, 2}), 0, 1); }, {1, 2}},
      {"AllGather of two devices",
       [](Program& p) {
         p.builder().SetDeviceCounts(2, 1);
         AllGather(p.F({1, 2}), 0, 2);
       },
       {},
       0,
       kBuildOnly},
      {"AllGather of four devices in two groups",
       [](Program& p) {
         p.builder().SetDeviceCounts(4, 1);
         AllGather(p.F({1, 2}), 0, 2, {Group({0, 2}), Group({1, 3})}, ChannelHandle{1}, {}, true);
       },
       {},
       0,
       kBuildOnly},
      {"AllGatherTuple", [](Program& p) { AllGatherTuple({p.F({1, 2}), p.F({3})}, 0, 1); }, {1, 2, 3}},
      {"ReduceScatter", [](Program& p) { ReduceScatter(p.F({1, 2}), AddF(), 0, 1); }, {1, 2}},
      {"AllToAll", [](Program& p) { AllToAll(p.F({1, 2}), 0, 0, 1); }, {1, 2}},
      {"AllToAll over other dimensions",
       [](Program& p) { AllToAll(p.F({1, 2, 3, 4}, {4, 1}), 0, 1, 2); },
       {},
       0,
       kBuildOnly},
      {"AllToAllTuple", [](Program& p) { AllToAllTuple({p.F({1, 2})}); }, {1, 2}},
      {"RaggedAllToAll",
       [](Program& p) {
         RaggedAllToAll(p.F({1, 2}), p.I({0}), p.I({1}), p.F({8, 9}), p.I({1}), p.I({1}), {Group({0})});
       },
       {8, 1}},
      {"CollectiveBroadcast", [](Program& p) { CollectiveBroadcast(p.F({1, 2}), {Group({0})}); }, {1, 2}},
      {"CollectivePermute", [](Program& p) { CollectivePermute(p.F({1, 2}), Pairs{{0, 0}}); }, {1, 2}},
      {"MultiCollectivePermute",
       [](Program& p) { MultiCollectivePermute({p.F({1}), p.F({2})}, Pairs{{0, 0}}); },
       {1, 2}},
      {"AllReduceStart", [](Program& p) { AllReduceDone(AllReduceStart(p.F({1, 2}), AddF())); }, {1, 2}},
      {"AllGatherStart", [](Program& p) { AllGatherDone(AllGatherStart(p.F({1, 2}), 0, 1)); }, {1, 2}},
      {"CollectivePermuteStart",
       [](Program& p) { CollectivePermuteDone(CollectivePermuteStart(p.F({1, 2}), Pairs{{0, 0}})); },
       {1, 2}},
      {"CopyStart", [](Program& p) { CopyDone(CopyStart(p.F({1, 2}))); }, {1, 2}},
      {"AsyncStart",
       [](Program& p) { AsyncDone(AsyncUpdate(AsyncStart(&p, {p.F({1, 2})}, "side", Plus(1)))); },
       {2, 3}},

      {"CreateToken", [](Program& p) { Tuple(&p, {CreateToken(&p), p.F({1})}); }, {1}},
      {"AfterAll",
       [](Program& p) {
         XlaOp token = AfterAll(&p, {CreateToken(&p), CreateToken(&p)});
         AddDependency(p.F({1, 2}), token);
       },
       {1, 2}},
      {"Infeed", [](Program& p) { Infeed(&p, Vector(F32, 2), "a"); }, {}, 0, kBuildOnly},
      {"InfeedWithToken", [](Program& p) { InfeedWithToken(CreateToken(&p), Vector(F32, 2)); }, {}, 0, kBuildOnly},
      {"Outfeed", [](Program& p) { Outfeed(p.F({1, 2}), Vector(F32, 2), ""); }, {}, 0, kBuildOnly},
      {"OutfeedWithToken",
       [](Program& p) { OutfeedWithToken(p.F({1, 2}), CreateToken(&p), Vector(F32, 2), ""); },
       {},
       0,
       kBuildOnly},
      {"Send", [](Program& p) { Send(p.F({1, 2}), {1, ChannelHandle::DEVICE_TO_DEVICE}); }, {}, 0, kBuildOnly},
      {"SendWithToken",
       [](Program& p) { SendWithToken(p.F({1, 2}), CreateToken(&p), ChannelHandle{1}); },
       {},
       0,
       kBuildOnly},
      {"Recv", [](Program& p) { Recv(&p, Vector(F32, 2), {1, ChannelHandle::DEVICE_TO_DEVICE}); }, {}, 0, kBuildOnly},
      {"RecvWithToken",
       [](Program& p) { RecvWithToken(CreateToken(&p), Vector(F32, 2), ChannelHandle{1}); },
       {},
       0,
       kBuildOnly},
      {"SendToHost",
       [](Program& p) { SendToHost(p.F({1, 2}), CreateToken(&p), Vector(F32, 2), {1, ChannelHandle::DEVICE_TO_HOST}); },
       {},
       0,
       kBuildOnly},
      {"RecvFromHost",
       [](Program& p) { RecvFromHost(CreateToken(&p), Vector(F32, 2), {1, ChannelHandle::HOST_TO_DEVICE}); },
       {},
       0,
       kBuildOnly},
  };
}

}  // namespace krafla::testing
