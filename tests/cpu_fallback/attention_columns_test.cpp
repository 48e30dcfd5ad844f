// SPDX-License-Identifier: Apache-2.0
// Attention of few queries reads the keys that its mask leaves and no others.
#include <gtest/gtest.h>

#ifdef __linux__

#include <sys/mman.h>

#include <cstring>
#include <random>

#include "cpu_fallback/executor/cpu_plan.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

namespace krafla {
namespace {

constexpr int64_t kTokenColumns = 4096, kTokenDepth = 64;

// One query of seven heads over a cache of keys and values; `keep` makes a pred of the column and the position.
std::string OneToken(std::string_view keep) {
  return Format(R"(HloModule token
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = f32[7,64] parameter(0)
  k = f32[4096,64] parameter(1)
  v = f32[4096,64] parameter(2)
  pos = s32[] parameter(3)
  w = f32[7,4096] dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  column = s32[4096] iota(), iota_dimension=0
  positions = s32[4096] broadcast(pos), dimensions={{}}
  past = pred[4096] compare(column, positions), direction=LE
  {}
  keeps = pred[7,4096] broadcast(keep), dimensions={{1}}
  low = f32[] constant(-1e30)
  lows = f32[7,4096] broadcast(low), dimensions={{}}
  x = f32[7,4096] select(keeps, w, lows)
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[7] reduce(x, inf), dimensions={{1}}, to_apply=max
  mb = f32[7,4096] broadcast(m), dimensions={{0}}
  y = f32[7,4096] subtract(x, mb)
  e = f32[7,4096] exponential(y)
  s = f32[7] reduce(e, zero), dimensions={{1}}, to_apply=add
  sb = f32[7,4096] broadcast(s), dimensions={{0}}
  p = f32[7,4096] divide(e, sb)
  ROOT o = f32[7,64] dot(p, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                keep);
}
constexpr std::string_view kTokensUpTo = "keep = pred[4096] copy(past)";
constexpr std::string_view kLastTokens = R"(
  width = s32[] constant(300)
  first = s32[] subtract(pos, width)
  firsts = s32[4096] broadcast(first), dimensions={}
  near = pred[4096] compare(column, firsts), direction=GT
  keep = pred[4096] and(past, near))";

Result<std::unique_ptr<CpuPlan>> CompileToken(std::string_view text, bool as_one_kernel) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_TRY(Verify(*module));
  KRAFLA_TRY(RunPipeline(*module));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  plan::PlanOptions options;
  options.row_groups.enabled = as_one_kernel;
  options.row_groups.takes_attention = [](const plan::KernelPlan&) { return true; };
  KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), options));
  return CpuPlan::Create(std::move(plan), {.threads = 2});
}

// TokenKeys in pages of their own, of which some may be hidden from whoever reads them.
class TokenKeys {
 public:
  static constexpr std::size_t kBytes = kTokenColumns * kTokenDepth * sizeof(float);
  TokenKeys() : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  TokenKeys(const TokenKeys&) = delete;
  TokenKeys& operator=(const TokenKeys&) = delete;
  ~TokenKeys() { munmap(memory_, kBytes); }
  bool exist() const { return memory_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(memory_); }
  void Hide(int64_t begin, int64_t end) const {
    ASSERT_EQ(
        mprotect(data() + begin * kTokenDepth, static_cast<std::size_t>((end - begin) * kTokenDepth) * 4, PROT_NONE),
        0);
  }

 private:
  void* memory_;
};

std::vector<float> TokenNumbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) v = static_cast<float>(random() % 4096) / 1024 - 2;
  return out;
}

// The result at a position, with keys hidden in front of column `begin` and from `end` on.
std::vector<float> RunToken(CpuPlan& plan, int32_t position, int64_t begin, int64_t end) {
  const std::vector<float> q = TokenNumbers(7 * kTokenDepth, 1), k = TokenNumbers(kTokenColumns * kTokenDepth, 2),
                           v = TokenNumbers(kTokenColumns * kTokenDepth, 3);
  const TokenKeys keys;
  EXPECT_TRUE(keys.exist());
  std::memcpy(keys.data(), k.data(), TokenKeys::kBytes);
  keys.Hide(0, begin);
  keys.Hide(end, kTokenColumns);
  std::vector<float> out(7 * kTokenDepth);
  const auto bytes = [](const auto* p) { return reinterpret_cast<const std::byte*>(p); };
  const Result<> status = plan.Run(std::vector{bytes(q.data()), bytes(keys.data()), bytes(v.data()), bytes(&position)},
                                   std::vector{reinterpret_cast<std::byte*>(out.data())});
  EXPECT_TRUE(status) << status.error().ToString();
  return out;
}

TEST(AttentionColumnsTest, HiddenKeysAreNotRead) {
  struct Case {
    std::string_view keep;
    int32_t position;
    int64_t begin, end;  // keys that may be read
  };
  for (const Case& c :
       {Case{kTokensUpTo, 0, 0, 128}, Case{kTokensUpTo, 300, 0, 320}, Case{kTokensUpTo, 700, 0, 1024},
        Case{kTokensUpTo, 2047, 0, 2048}, Case{kTokensUpTo, 2048, 0, 2560}, Case{kLastTokens, 2047, 1536, 2048},
        Case{kLastTokens, 2100, 1536, 2560}, Case{kLastTokens, 4095, 3584, 4096}}) {
    auto one = CompileToken(OneToken(c.keep), true), three = CompileToken(OneToken(c.keep), false);
    ASSERT_TRUE(one) << one.error().ToString();
    ASSERT_TRUE(three) << three.error().ToString();
    ASSERT_EQ((*one)->plan().kernels.size(), 1u);
    const std::vector<float> found = RunToken(**one, c.position, c.begin, c.end),
                             expected = RunToken(**three, c.position, 0, kTokenColumns);
    // The block interpreter sums in the order of its tiles, which depends on how many columns there are.
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << c.position;
  }
}

}  // namespace
}  // namespace krafla

#endif
