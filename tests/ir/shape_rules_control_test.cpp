// SPDX-License-Identifier: Apache-2.0
// The rules of tuples, calls, collectives and linear algebra, tested as shape_rules_test.cpp does.
// Expected shapes follow from XLA's documentation of each operation ("Operation Semantics").
#include "shape_rule_case.h"

namespace krafla {
namespace {

TEST(ShapeRules, TuplesAndTokens) {
  Gives({Opcode::kTuple, {"f32[2]", "token[]"}}, "(f32[2], token[])");
  Refuses({Opcode::kTuple, {"f32[2]"}, {}, "(f32[3])"}, "Element 0");
  Refuses({Opcode::kTuple, {"f32[2]"}, {}, "(f32[2], f32[2])"}, "1 operands");
  Gives({Opcode::kGetTupleElement, {"(f32[2], s32[])"}, TupleIndexAttributes{1}}, "s32[]");
  Refuses({Opcode::kGetTupleElement, {"(f32[2], s32[])"}, TupleIndexAttributes{2}}, "outside");
  Refuses({Opcode::kGetTupleElement, {"(f32[2])"}, TupleIndexAttributes{-1}}, "outside");
  Refuses({Opcode::kGetTupleElement, {"f32[2]"}, TupleIndexAttributes{0}}, "works on tuples");
  Gives({Opcode::kAfterAll, {}}, "token[]");
  Refuses({Opcode::kAfterAll, {"token[]", "f32[]"}}, "must be a token");
  Gives({Opcode::kAddDependency, {"f32[2]", "token[]"}}, "f32[2]");
  Refuses({Opcode::kAddDependency, {"f32[2]", "f32[2]"}}, "must be a token");
  Gives({Opcode::kInfeed, {"token[]"}, InfeedAttributes{}, "(f32[2], token[])"}, "(f32[2], token[])");
  Refuses({Opcode::kInfeed, {"token[]"}, InfeedAttributes{}, "f32[2]"}, "data and a token");
  InfeedAttributes out;
  out.outfeed_shape = S("f32[5]");
  Refuses({Opcode::kOutfeed, {"f32[4]", "token[]"}, out}, "outfeed_shape");
  Gives({Opcode::kSend, {"f32[4]", "token[]"}, ChannelAttributes{}}, "(f32[4], u32[], token[])");
  Gives({Opcode::kRecvDone, {"(f32[4], u32[], token[])"}, ChannelAttributes{}}, "(f32[4], token[])");
  Refuses({Opcode::kSendDone, {"(f32[4], f32[4])"}, ChannelAttributes{}}, "at least 3");
}

TEST(ShapeRules, Calls) {
  Gives({Opcode::kCall, {"f32[4]"}, CallAttributes{}, "", {{{"f32[4]"}, "s32[]"}}}, "s32[]");
  Refuses({Opcode::kCall, {"f32[4]", "f32[4]"}, CallAttributes{}, "", {{{"f32[4]"}, "s32[]"}}}, "takes 1 parameters");
  Refuses({Opcode::kCall, {"f32[5]"}, CallAttributes{}, "", {{{"f32[4]"}, "s32[]"}}}, "Parameter 0");
  const SignatureText condition = {{"s32[]"}, "pred[]"}, body = {{"s32[]"}, "s32[]"};
  Gives({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {condition, body}}, "s32[]");
  Refuses({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {body, body}}, "must give pred[]");
  Refuses({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {condition, condition}}, "must give its state");
  Refuses({Opcode::kWhile, {"f32[]"}, WhileAttributes{}, "", {condition, body}}, "must take its state");
  Refuses({Opcode::kWhile, {"s32[]"}, WhileAttributes{}, "", {condition}}, "calls 2");
  Gives({Opcode::kConditional, {"pred[]", "s32[]", "s32[]"}, {}, "", {body, body}}, "s32[]");
  Gives({Opcode::kConditional, {"s32[]", "s32[]"}, {}, "", {body}}, "s32[]");
  Refuses({Opcode::kConditional, {"pred[]", "s32[]"}, {}, "", {body}}, "between 2 branches");
  Refuses({Opcode::kConditional, {"f32[]", "s32[]"}, {}, "", {body}}, "pred[] or s32[]");
  Refuses({Opcode::kConditional, {"pred[]", "s32[]", "s32[]"}, {}, "", {body, condition}}, "must give the same");
  Refuses({Opcode::kConditional, {"pred[]", "s32[]", "f32[]"}, {}, "", {body, body}}, "its argument is");
  CustomCallAttributes call;
  call.output_to_operand_aliasing = {{{}, 1, {}}};
  Refuses({Opcode::kCustomCall, {"f32[2]"}, call, "f32[2]"}, "output_to_operand_aliasing");
  call.output_to_operand_aliasing = {{{}, 0, {}}};
  Gives({Opcode::kCustomCall, {"f32[2]"}, call, "f32[2]"}, "f32[2]");
}

TEST(ShapeRules, Async) {
  const SignatureText f = {{"f32[4]"}, "s32[2]"};
  Gives({Opcode::kAsyncStart, {"f32[4]"}, AsyncAttributes{}, "", {f}}, "((f32[4]), s32[2], u32[])");
  Gives({Opcode::kAsyncStart, {"f32[4]"}, AsyncAttributes{}, "((f32[4]), s32[2])", {f}}, "((f32[4]), s32[2])");
  Refuses({Opcode::kAsyncStart, {"f32[4]"}, AsyncAttributes{}, "(f32[4], s32[2])", {f}}, "async-start gives");
  Gives({Opcode::kAsyncDone, {"((f32[4]), s32[2], u32[])"}, AsyncAttributes{}}, "s32[2]");
  Gives({Opcode::kCopyStart, {"f32[4]"}}, "(f32[4], f32[4], u32[])");
  Gives({Opcode::kCopyDone, {"(f32[4], f32[4], u32[])"}}, "f32[4]");
  Refuses({Opcode::kCopyDone, {"f32[4]"}}, "works on tuples");
}

TEST(ShapeRules, CollectiveShapes) {
  CollectiveAttributes a;
  a.dimension = 0;
  Gives({Opcode::kAllGather, {"f32[4,2]"}, a, "", {}, 4}, "f32[16,2]");
  Gives({Opcode::kAllGatherStart, {"f32[4,2]", "s8[2]"}, a, "", {}, 2}, "((f32[4,2], s8[2]), (f32[8,2], s8[4]))");
  Gives({Opcode::kReduceScatter, {"f32[8]"}, a, "", {kAddF32}, 4}, "f32[2]");
  Refuses({Opcode::kReduceScatter, {"f32[5]"}, a, "", {kAddF32}, 4}, "does not split");
  Gives({Opcode::kAllToAll, {"f32[8]"}, a, "", {}, 4}, "f32[8]");
  Refuses({Opcode::kAllToAll, {"f32[5]"}, a, "", {}, 4}, "does not split");
  a.dimension = 1;
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 4}, "outside");
  a.dimension.reset();
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 4}, "must name one dimension");
  Gives({Opcode::kAllToAll, {"f32[2]", "f32[2]"}, a, "", {}, 2}, "(f32[2], f32[2])");
  Refuses({Opcode::kAllToAll, {"f32[2]", "f32[2]"}, a, "", {}, 4}, "for each of the 4 members");
  Gives({Opcode::kAllReduce, {"f32[2]", "f32[3]"}, a, "", {kAddF32}, 4}, "(f32[2], f32[3])");
  Refuses({Opcode::kAllReduce, {"f32[2]"}, a, "", {kAddS32}, 4}, "must be f32[]");
  Gives({Opcode::kReplicaId, {}}, "u32[]");
  // With a channel, a group of replicas spans the partitions.
  a.channel_id = 1;
  a.dimension = 0;
  Gives({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "f32[24]");
  a.use_global_device_ids = true;
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "must not be empty");
  a.replica_groups = {{0, 3}, {1, 4}, {2, 5}};
  Gives({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "f32[8]");
  a.channel_id.reset();
  Refuses({Opcode::kAllGather, {"f32[4]"}, a, "", {}, 2, 3}, "needs a channel_id");
}

TEST(ShapeRules, CollectiveGroups) {
  auto with = [](std::vector<std::vector<int64_t>> groups) {
    CollectiveAttributes a;
    a.replica_groups = std::move(groups);
    return a;
  };
  auto reduce = [&](CollectiveAttributes a) {
    return ShapeRuleCase{Opcode::kAllReduce, {"f32[4]"}, a, "", {kAddF32}, 4};
  };
  Gives(reduce(with({{0}, {1, 2, 3}})), "f32[4]");
  Refuses(reduce(with({{0, 0}, {1, 2}})), "twice");
  Refuses(reduce(with({{0, 9}, {1, 2}})), "names replica 9");
  Refuses(reduce(with({{-1, 0, 1, 2}})), "names replica -1");
  Refuses(reduce(with({{0, 1}})), "each of the 4");
  Refuses(reduce(with({{0, 1, 2, 3}, {}})), "empty");
  // A count of 1 means that the text left it out: ids 0 to n-1, then.
  Gives({Opcode::kAllReduce, {"f32[4]"}, with({{2, 0}, {1, 3}}), "", {kAddF32}}, "f32[4]");
  Refuses({Opcode::kAllReduce, {"f32[4]"}, with({{2, 0}, {1, 4}}), "", {kAddF32}}, "names replica 4");
  auto gather = with({{0}, {1, 2, 3}});
  gather.dimension = 0;
  Refuses({Opcode::kAllGather, {"f32[4]"}, gather, "", {}, 4}, "of one size");
  Gives({Opcode::kCollectiveBroadcast, {"f32[4]"}, with({{3, 0}}), "", {}, 4}, "f32[4]");
  CollectiveAttributes p;
  p.source_target_pairs = {{0, 1}, {1, 0}};
  Gives({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "f32[4]");
  Gives({Opcode::kCollectivePermuteStart, {"f32[4]"}, p, "(f32[4], f32[4], u32[], u32[])", {}, 4},
        "(f32[4], f32[4], u32[], u32[])");
  p.source_target_pairs = {{0, 1}, {2, 1}};
  Refuses({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "target, names replica 1 twice");
  p.source_target_pairs = {{0, 1}, {0, 2}};
  Refuses({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "source, names replica 0 twice");
  p.source_target_pairs = {{0, 7}};
  Refuses({Opcode::kCollectivePermute, {"f32[4]"}, p, "", {}, 4}, "replica 7");
}

TEST(ShapeRules, LinearAlgebra) {
  Gives({Opcode::kCholesky, {"f32[2,3,3]"}, CholeskyAttributes{true}}, "f32[2,3,3]");
  Refuses({Opcode::kCholesky, {"f32[2,3]"}, CholeskyAttributes{true}}, "square");
  Refuses({Opcode::kCholesky, {"f32[4]"}, CholeskyAttributes{true}}, "square");
  TriangularSolveAttributes solve;
  solve.left_side = true;
  Gives({Opcode::kTriangularSolve, {"f32[2,2]", "f32[2,5]"}, solve}, "f32[2,5]");
  Refuses({Opcode::kTriangularSolve, {"f32[2,2]", "f32[3,1]"}, solve}, "right-hand sides");
  Gives({Opcode::kFft, {"c64[3,8]"}, FftAttributes{FftType::kFft, {8}}}, "c64[3,8]");
  Gives({Opcode::kFft, {"f32[3,8]"}, FftAttributes{FftType::kRfft, {8}}}, "c64[3,5]");
  Gives({Opcode::kFft, {"c128[3,5]"}, FftAttributes{FftType::kIrfft, {8}}}, "f64[3,8]");
  Refuses({Opcode::kFft, {"f32[8]"}, FftAttributes{FftType::kFft, {8}}}, "complex numbers");
  Refuses({Opcode::kFft, {"c64[2,2,2,2]"}, FftAttributes{FftType::kFft, {2, 2, 2, 2}}}, "one to three");
  Refuses({Opcode::kFft, {"c64[8]"}, FftAttributes{FftType::kFft, {7}}}, "wants 7");
  BatchNormAttributes norm{0.1f, 1};
  Gives({Opcode::kBatchNormTraining, {"f32[2,3]", "f32[3]", "f32[3]"}, norm}, "(f32[2,3], f32[3], f32[3])");
  Refuses({Opcode::kBatchNormTraining, {"f32[2,3]", "f32[2]", "f32[3]"}, norm}, "one value a feature");
  norm.feature_index = 2;
  Refuses({Opcode::kBatchNormTraining, {"f32[2,3]", "f32[3]", "f32[3]"}, norm}, "outside");
  Gives({Opcode::kRngBitGenerator, {"u64[3]"}, RngBitGeneratorAttributes{RngAlgorithm::kPhilox}, "(u64[3], u8[5])"},
        "(u64[3], u8[5])");
  Refuses({Opcode::kRngBitGenerator, {"u64[5]"}, RngBitGeneratorAttributes{RngAlgorithm::kThreeFry}, "(u64[5], u8[5])"},
          "state");
  Refuses({Opcode::kRng, {"f32[4]", "f32[4]"}, RngAttributes{}, "f32[4]"}, "must be f32[]");
}

}  // namespace
}  // namespace krafla
