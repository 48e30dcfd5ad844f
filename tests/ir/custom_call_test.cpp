// SPDX-License-Identifier: Apache-2.0
// The table of custom calls: names and enumerators belong to each other, and messages list what is built in.
#include "ir/custom_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace krafla {
namespace {

const CustomCallTarget kTargets[] = {
#define KRAFLA_CUSTOM_CALL(Enum, name) CustomCallTarget::Enum,
#include "ir/custom_call_targets.def"
};

TEST(CustomCalls, EveryNameIsItsOwn) {
  for (CustomCallTarget target : kTargets)
    EXPECT_EQ(CustomCallTargetOf(CustomCallTargetName(target)), target) << CustomCallTargetName(target);
}

TEST(CustomCalls, NamesOfNoRow) {
  for (std::string_view name : {"", "topk", "TopK ", "Sharding2", "xla.sdy", "lapack_strsm", "mine"})
    EXPECT_EQ(CustomCallTargetOf(name), CustomCallTarget::kUnknown) << name;
  EXPECT_EQ(CustomCallTargetOf("xla.sdy.PropagationBarrier"), CustomCallTarget::kSdyOther);
}

TEST(CustomCalls, BuiltIn) {
  const std::vector<std::string_view> want = {"Sharding",
                                              "SPMDFullToShardShape",
                                              "SPMDShardToFullShape",
                                              "LayoutConstraint",
                                              "annotate_device_placement",
                                              "InspectSharding",
                                              "MoveToHost",
                                              "MoveToDevice",
                                              "xla.sdy.*",
                                              "TopK",
                                              "LuDecomposition",
                                              "Eigh",
                                              "krafla_svd",
                                              "Qr",
                                              "ProductOfElementaryHouseholderReflectors",
                                              "lapack_strsm_ffi",
                                              "lapack_dtrsm_ffi",
                                              "lapack_ctrsm_ffi",
                                              "lapack_ztrsm_ffi",
                                              "PadToStatic",
                                              "SliceToDynamic",
                                              "dce_sink",
                                              "xla.sdy.ShardingGroup",
                                              "control_dep"};
  EXPECT_TRUE(std::ranges::equal(BuiltInCustomCalls(), want));
  for (std::string_view name : want) EXPECT_TRUE(IsBuiltInCustomCall(CustomCallTargetOf(name))) << name;
  EXPECT_TRUE(IsBuiltInCustomCall(CustomCallTargetOf("xla.sdy.GlobalToLocalShape")));
  for (std::string_view name : {"ApproxTopK", "ragged_all_to_all", "mine"})
    EXPECT_FALSE(IsBuiltInCustomCall(CustomCallTargetOf(name))) << name;
}

}  // namespace
}  // namespace krafla
