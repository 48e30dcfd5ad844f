// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "plan/group_graph.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

int Launches(const ProgramPlan& plan) {
  int n = 0;
  for (const Step& s : plan.steps.steps) n += std::holds_alternative<LaunchStep>(s);
  return n;
}

// The components of index vectors are read where they are computed, not put side by side first.
TEST(PlannerTest, IndexVectorsAreNotStored) {
  auto plan = PlanText(R"(HloModule m
ENTRY main {
  x = f32[50,60] parameter(0)
  i = s32[5000] parameter(1)
  j = s32[5000] parameter(2)
  k = s32[5000] add(j, j)
  i1 = s32[5000,1] reshape(i)
  k1 = s32[5000,1] reshape(k)
  at = s32[5000,2] concatenate(i1, k1), dimensions={1}
  ROOT g = f32[5000] gather(x, at), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Launches(*plan), 1);
  EXPECT_EQ(plan->arena_size, 0);
}

// A device that gives kernels few buffers gets kernels of few: what is inlined counts, and so does what is merged.
TEST(PlannerTest, KernelsStayWithinTheDevicesBuffers) {
  constexpr int kArrays = 12;
  std::string text =
      "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\nENTRY main {\n";
  for (int n = 0; n < kArrays; ++n) text += Format("  x{} = f32[64,32] parameter({})\n", n, n);
  text += "  t1 = f32[64,32] multiply(x0, x1)\n";
  for (int n = 2; n < kArrays; ++n) text += Format("  t{} = f32[64,32] add(t{}, x{})\n", n, n - 1, n);
  text += R"(  zero = f32[] constant(0)
  sums = f32[64] reduce(t11, zero), dimensions={1}, to_apply=add
  n0 = f32[64,32] negate(x0)
  n1 = f32[64,32] multiply(x1, x2)
  n2 = f32[64,32] multiply(x3, x4)
  ROOT r = (f32[64], f32[64,32], f32[64,32], f32[64,32]) tuple(sums, n0, n1, n2)
})";
  auto unlimited = PlanText(text);
  ASSERT_TRUE(unlimited) << unlimited.error().ToString();
  for (int limit : {4, 8}) {
    PlanOptions options;
    options.fusion.buffer_limit = limit;
    auto plan = PlanText(text, options);
    ASSERT_TRUE(plan) << plan.error().ToString();
    for (const KernelPlan& kernel : plan->kernels)
      EXPECT_LE(static_cast<int>(kernel.bindings.size()), limit) << kernel.name;
    EXPECT_GT(Launches(*plan), Launches(*unlimited));
    EXPECT_LE(Launches(*plan), limit == 4 ? 9 : 5);
  }
}

// How many stores each kernel of a plan has.
std::vector<std::size_t> StoresOf(const ProgramPlan& plan) {
  std::vector<std::size_t> out;
  for (const KernelPlan& kernel : plan.kernels)
    if (const auto* loop = std::get_if<LoopKernel>(&kernel.body)) out.push_back(loop->program.stores.size());
  return out;
}

// Operands that lie between each other, or are computed of the same arrays, are one kernel; what is only put one behind
// the other is not, nor what is too narrow to be stored by itself on every device.
TEST(PlannerTest, OperandsOfAConcatenateThatBelongTogether) {
  const auto stores = [](const std::string& type, const std::string& body) {
    auto plan = PlanText("HloModule m\nENTRY main {\n  x = " + type + "[5000] parameter(0)\n  y = " + type +
                         "[5000] parameter(1)\n" + body + "\n}\n");
    EXPECT_TRUE(plan) << plan.error().ToString();
    return plan ? StoresOf(*plan) : std::vector<std::size_t>{};
  };
  const auto between = [&](const std::string& t) {
    return "  a = " + t + "[5000,1] reshape(x)\n  b = " + t + "[5000,1] reshape(y)\n  ROOT c = " + t +
           "[5000,2] concatenate(a, b), dimensions={1}";
  };
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(stores("f32", between("f32")), Counts{2});
  EXPECT_EQ(stores("u8", between("u8")), (Counts{1, 1}));
  EXPECT_EQ(stores("f32",
                   "  a = f32[5000] multiply(x, y)\n  b = f32[5000] subtract(x, y)\n  d = f32[5000] add(x, y)\n"
                   "  ROOT c = f32[15000] concatenate(a, b, d), dimensions={0}"),
            Counts{3});
  EXPECT_EQ(
      stores(
          "f32",
          "  a = f32[5000] negate(x)\n  b = f32[5000] negate(y)\n  ROOT c = f32[10000] concatenate(a, b), dimensions={0}"),
      (Counts{1, 1}));
  EXPECT_EQ(stores("f32", "  ROOT c = f32[10000] concatenate(x, x), dimensions={0}"), (Counts{1, 1}));
}

TEST(PlannerTest, TopKKeepsWhatIsReadAndCarriesPositions) {
  auto plan = PlanText(R"(HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT }
ENTRY main {
  x = f32[4,100] parameter(0)
  i = s32[4,100] iota(), iota_dimension=1
  s = (f32[4,100], s32[4,100]) sort(x, i), dimensions={1}, is_stable=true, to_apply=less
  v = f32[4,100] get-tuple-element(s), index=0
  p = s32[4,100] get-tuple-element(s), index=1
  v5 = f32[4,5] slice(v), slice={[0:4], [0:5]}
  p7 = s32[4,4] slice(p), slice={[0:4], [3:7]}
  ROOT r = (f32[4,5], s32[4,4]) tuple(v5, p7)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Launches(*plan), 3);  // no positions are made
  for (const KernelPlan& kernel : plan->kernels)
    if (const auto* sort = std::get_if<SortKernel>(&kernel.body)) {
      EXPECT_EQ(sort->keep, 7);
      EXPECT_EQ(sort->inputs[1], -1);
    }
}

TEST(PlannerTest, ElementwiseChainIsOneKernel) {
  auto plan = PlanText(R"(HloModule m
ENTRY main {
  x = f32[8,16] parameter(0)
  b = f32[16] parameter(1)
  bb = f32[8,16] broadcast(b), dimensions={1}
  s = f32[8,16] add(x, bb)
  t = f32[8,16] tanh(s)
  ROOT r = f32[8,16] multiply(t, s)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Launches(*plan), 1);
  EXPECT_EQ(plan->arena_size, 0);
}

TEST(PlannerTest, SoftmaxIsOneKernel) {
  auto plan = PlanText(R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[64,128] parameter(0)
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[64,128] broadcast(m), dimensions={0}
  d = f32[64,128] subtract(x, mb)
  e = f32[64,128] exponential(d)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[64,128] broadcast(s), dimensions={0}
  ROOT r = f32[64,128] divide(e, sb)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Launches(*plan), 1);
  ASSERT_EQ(plan->kernels.size(), 1u);
  const auto* reduce = std::get_if<ReduceKernel>(&plan->kernels[0].body);
  ASSERT_NE(reduce, nullptr);
  EXPECT_EQ(reduce->stages.size(), 3u);
}

TEST(PlannerTest, DotTakesBiasAndActivation) {
  auto plan = PlanText(R"(HloModule m
ENTRY main {
  x = f32[4,64] parameter(0)
  w = f32[64,32] parameter(1)
  b = f32[32] parameter(2)
  d = f32[4,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[4,32] broadcast(b), dimensions={1}
  s = f32[4,32] add(d, bb)
  z = f32[] constant(0)
  zb = f32[4,32] broadcast(z), dimensions={}
  ROOT r = f32[4,32] maximum(s, zb)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Launches(*plan), 1);
}

// The two sums could be one kernel, but a device would then wait for an array before it has sent its own.
TEST(PlannerTest, EffectsStayInTheirOrder) {
  auto plan = PlanText(R"(HloModule m, replica_count=2
ENTRY main {
  x = f32[8] parameter(0)
  a = f32[8] add(x, x)
  t = token[] after-all()
  s = (f32[8], u32[], token[]) send(a, t), channel_id=1
  q = token[] send-done(s), channel_id=1
  v = (f32[8], u32[], token[]) recv(t), channel_id=1
  w = (f32[8], token[]) recv-done(v), channel_id=1
  y = f32[8] get-tuple-element(w), index=0
  ROOT r = f32[8] add(x, y)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  std::string order;
  for (const Step& s : plan->steps.steps)
    if (const auto* launch = std::get_if<LaunchStep>(&s)) {
      const KernelPlan& kernel = plan->kernels[static_cast<std::size_t>(launch->kernel)];
      const auto* host = std::get_if<HostKernel>(&kernel.body);
      order += host != nullptr ? Format("{} ", OpcodeName(host->instruction->opcode())) : "kernel ";
    }
  EXPECT_EQ(order, "kernel send send-done recv recv-done kernel ");
}

// Every module of the corpus and of the models plans, with no kernel left to the host but where a family is missing.
TEST(PlannerTest, EverythingPlans) {
  for (const char* variable : {"KRAFLA_MODELS", "KRAFLA_CORPUS"}) {
    const char* root = std::getenv(variable);
    if (root == nullptr) {
      std::printf("%s is not set: its modules are not planned here\n", variable);
      continue;
    }
    std::map<std::string, int> hosts;
    int planned = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".hlo" || entry.path().string().find("/errors/") != std::string::npos) continue;
      auto plan = PlanText(Slurp(entry.path()));
      EXPECT_TRUE(plan) << entry.path() << ": " << plan.error().ToString();
      if (!plan) continue;
      ++planned;
      for (const KernelPlan& k : plan->kernels)
        if (const auto* h = std::get_if<HostKernel>(&k.body))
          ++hosts[std::string(OpcodeName(h->instruction->opcode()))];
    }
    std::printf("%s: %d modules planned; host kernels:", variable, planned);
    for (const auto& [name, count] : hosts) std::printf(" %s %d", name.c_str(), count);
    std::printf("\n");
  }
}

// Each level calls the one below twice: past the budget of copies a level is planned once, however often it is called.
TEST(PlannerTest, CallsPastTheBudgetArePlannedOnce) {
  std::string text = "HloModule m\nff0 { a = f32[4] parameter(0)\n b = f32[4] sine(a)\n ROOT r = f32[4] add(a, b) }\n";
  constexpr int kLevels = 60;
  for (int k = 1; k < kLevels; ++k)
    text += Format(
        "ff{} {{ a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=ff{}\n ROOT r = f32[4] call(b), to_apply=ff{} }}\n",
        k, k - 1, k - 1);
  text += Format("ENTRY e {{ x = f32[4] parameter(0)\n ROOT r = f32[4] call(x), to_apply=ff{} }}\n", kLevels - 1);
  auto plan = PlanText(text);
  if (!plan) FAIL() << plan.error().ToString();
  EXPECT_GT(plan->callees.size(), 2u);
  EXPECT_LE(plan->callees.size(), static_cast<std::size_t>(kLevels));
  // Frames do not overlap: every callee may be on the way while another runs.
  EXPECT_GT(plan->arena_size, 0);
}

// A kernel of several results writes each over what it is made of, where no other one is that value as it was.
TEST(PlannerTest, LoopsUpdateTheirStateInPlace) {
  const auto copies = [](std::string_view body) {
    auto plan = PlanText(Format(R"(HloModule m
turns {{ s = (s32[], f32[9], f32[9]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[], f32[9], f32[9]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[9] get-tuple-element(s), index=1
  y = f32[9] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
{} }}
ENTRY e {{ p = f32[9] parameter(0)
  q = f32[9] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[9], f32[9]) tuple(zero, p, q)
  ROOT w = (s32[], f32[9], f32[9]) while(s), condition=turns, body=step }})",
                                body));
    if (!plan) return -1;
    int n = 0;
    for (const Step& step : plan->steps.steps)
      if (const auto* loop = std::get_if<WhileStep>(&step))
        for (const Step& inner : loop->body->steps) n += std::holds_alternative<CopyStep>(inner);
    return n;
  };
  EXPECT_EQ(copies(R"(x2 = f32[9] multiply(x, x)
  y2 = f32[9] negate(y)
  ROOT t = (s32[], f32[9], f32[9]) tuple(j, x2, y2))"),
            0);
  // Each is made of both.
  EXPECT_EQ(copies(R"(x2 = f32[9] multiply(x, y)
  y2 = f32[9] add(x, y)
  ROOT t = (s32[], f32[9], f32[9]) tuple(j, x2, y2))"),
            0);
  // They change places.
  EXPECT_GT(copies("ROOT t = (s32[], f32[9], f32[9]) tuple(j, y, x)"), 0);
  // Another element is read than the one that is written.
  EXPECT_GT(copies(R"(x2 = f32[9] reverse(y), dimensions={0}
  y2 = f32[9] add(x, y)
  ROOT t = (s32[], f32[9], f32[9]) tuple(j, x2, y2))"),
            0);
}

TEST(GroupGraphTest, FindsPathsAroundAndKeepsOrderAcrossMerges) {
  GroupGraph graph(5);
  graph.AddReader(0, 1);
  graph.AddReader(1, 2);
  graph.AddReader(0, 2);
  graph.AddReader(0, 3);
  EXPECT_TRUE(graph.PathAround(0, 2));   // by way of 1
  EXPECT_FALSE(graph.PathAround(0, 3));  // read directly only
  EXPECT_FALSE(graph.PathAround(3, 0));
  graph.Merge(0, 3);  // 1 and 2 are now placed after it
  graph.AddReader(2, 4);
  EXPECT_TRUE(graph.PathAround(0, 2));
  EXPECT_TRUE(graph.PathAround(0, 4));
  EXPECT_TRUE(graph.PathAround(1, 4));
  EXPECT_FALSE(graph.PathAround(4, 0));
}

}  // namespace
}  // namespace krafla::plan
