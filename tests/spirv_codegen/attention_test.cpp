// SPDX-License-Identifier: Apache-2.0
// Attention by cooperative matrices (attention.tiles): its three parts as the interpreter runs them one after the
// other.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "../attention_masks.h"
#include "../plan/plan_text.h"
#include "test_kernels.h"

namespace krafla::spirv::testing {
namespace {

using ::krafla::testing::kCausal;
using ::krafla::testing::kPosition;
using ::krafla::testing::kWindow;

struct TileForm {
  std::string name;
  int64_t rows = 0, keys = 0, heads = 1, group = 1, depth = 16, columns = 16;
  std::string scores = "x = f32[H,G,T,S] copy(w)";  // x of w; parameters 3 and 4 are pos, s32[], and bias, f32[T,S]
  std::string weights = {};                         // p of x; empty: a softmax
  std::string type = "f16";
  bool exact = false;             // all numbers are such that sums are exact in any order
  bool hides_infinities = false;  // the last quarter of the values holds infinities
  int position = 40;
};

constexpr std::string_view kSoftCapAndBias = R"(
  cap = f32[] constant(2)
  caps = f32[H,G,T,S] broadcast(cap), dimensions={}
  part = f32[H,G,T,S] divide(w, caps)
  bent = f32[H,G,T,S] tanh(part)
  capped = f32[H,G,T,S] multiply(bent, caps)
  biases = f32[H,G,T,S] broadcast(bias), dimensions={2,3}
  x = f32[H,G,T,S] add(capped, biases))";
// Parts of whole numbers, which are rounded. With one division alone the product would compute them for itself.
constexpr std::string_view kThirds = R"(
  m = f32[H,G,T] reduce(x, inf), dimensions={3}, to_apply=max
  mb = f32[H,G,T,S] broadcast(m), dimensions={0,1,2}
  y = f32[H,G,T,S] subtract(x, mb)
  three = f32[] constant(3)
  threes = f32[H,G,T,S] broadcast(three), dimensions={}
  third = f32[H,G,T,S] divide(y, threes)
  bent = f32[H,G,T,S] tanh(third)
  bends = f32[H,G,T,S] floor(bent)
  seven = f32[] constant(7)
  sevens = f32[H,G,T,S] broadcast(seven), dimensions={}
  seventh = f32[H,G,T,S] divide(third, sevens)
  p = f32[H,G,T,S] subtract(seventh, bends))";
// Sums of what is rounded, which no online sum stands for, and one more after them.
constexpr std::string_view kSumsOfRounded = R"(
  m = f32[H,G,T] reduce(x, inf), dimensions={3}, to_apply=max
  mb = f32[H,G,T,S] broadcast(m), dimensions={0,1,2}
  y = f32[H,G,T,S] subtract(x, mb)
  e = f32[H,G,T,S] exponential(y)
  eh = {0}[H,G,T,S] convert(e)
  ef = f32[H,G,T,S] convert(eh)
  s = f32[H,G,T] reduce(ef, zero), dimensions={3}, to_apply=add
  sb = f32[H,G,T,S] broadcast(s), dimensions={0,1,2}
  p = f32[H,G,T,S] divide(ef, sb))";
constexpr std::string_view kSoftmax = R"(
  m = f32[H,G,T] reduce(x, inf), dimensions={3}, to_apply=max
  mb = f32[H,G,T,S] broadcast(m), dimensions={0,1,2}
  y = f32[H,G,T,S] subtract(x, mb)
  e = f32[H,G,T,S] exponential(y)
  s = f32[H,G,T] reduce(e, zero), dimensions={3}, to_apply=add
  sb = f32[H,G,T,S] broadcast(s), dimensions={0,1,2}
  p = f32[H,G,T,S] divide(e, sb))";

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), by);
  return text;
}

std::string ModuleOf(const TileForm& form) {
  const std::string text =
      Format(R"(HloModule attention
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = {0}[T,H,G,D] parameter(0)
  k = {0}[S,H,D] parameter(1)
  v = {0}[S,H,C] parameter(2)
  pos = s32[] parameter(3)
  bias = f32[T,S] parameter(4)
  d = f32[H,T,G,S] dot(q, k), lhs_batch_dims={{1}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{2}}
  dt = f32[H,G,T,S] transpose(d), dimensions={{0,2,1,3}}
  scale = f32[] constant({1})
  scales = f32[H,G,T,S] broadcast(scale), dimensions={{}}
  w = f32[H,G,T,S] multiply(dt, scales)
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  {2}
  {3}
  ph = {0}[H,G,T,S] convert(p)
  o = f32[H,G,T,C] dot(ph, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[T,H,G,C] transpose(o), dimensions={{2,0,1,3}}
}})",
             form.type, form.exact ? "2" : "0.25", form.scores,
             form.weights.empty() ? std::string(kSoftmax) : Replaced(form.weights, "{0}", form.type));
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool alone = i > 0 && i + 1 < text.size() && (text[i - 1] == '[' || text[i - 1] == ',') &&
                       (text[i + 1] == ']' || text[i + 1] == ',');
    const int64_t size = text[i] == 'T'   ? form.rows
                         : text[i] == 'S' ? form.keys
                         : text[i] == 'H' ? form.heads
                         : text[i] == 'G' ? form.group
                         : text[i] == 'D' ? form.depth
                         : text[i] == 'C' ? form.columns
                                          : 0;
    if (alone && size > 0) out += Format("{}", size);
    else out += text[i];
  }
  return out;
}

// The attention as one kernel.
plan::KernelPlan PlanOf(const TileForm& form) {
  plan::PlanOptions options;
  options.row_groups.enabled = true;
  options.row_groups.takes_attention = [](const plan::KernelPlan&) { return true; };
  const auto plan = plan::PlanText(ModuleOf(form), options);
  EXPECT_TRUE(plan.has_value()) << form.name << ": " << (plan ? "" : plan.error().ToString());
  if (!plan || plan->kernels.size() != 1) {
    ADD_FAILURE() << form.name << " is not one kernel" << (plan ? "\n" + plan::ToString(*plan) : "");
    return {};
  }
  return plan->kernels[0];
}

// Multiples of 2^-8 up to 2, or whole numbers so small that thirds of f16 are summed exactly.
std::vector<Bytes> MemoryFor(const plan::KernelPlan& plan, const TileForm& form) {
  std::vector<Bytes> out;
  const auto& product = *std::get<plan::AttentionKernel>(plan.body).product;
  for (std::size_t b = 0; b < plan.bindings.size(); ++b) {
    const plan::Binding& binding = plan.bindings[b];
    Bytes& bytes = out.emplace_back(SmallIntegers(binding.storage, binding.element_count, static_cast<uint32_t>(b) + 1,
                                                  form.exact ? -1 : -512, form.exact ? 1 : 512));
    for (int64_t i = 0; i < binding.element_count; ++i) {
      if (binding.storage == ElementType::kS32)
        WriteElement(bytes, binding.storage, i, static_cast<uint32_t>(form.position));
      if (!IsFloat(binding.storage) || form.exact) continue;
      float v = std::bit_cast<float>(static_cast<uint32_t>(ReadElement(bytes, binding.storage, i))) / 256;
      if (form.hides_infinities && static_cast<int>(b) == product.rhs_binding && i >= binding.element_count * 3 / 4)
        v = std::numeric_limits<float>::infinity();
      WriteElement(bytes, binding.storage, i, std::bit_cast<uint32_t>(v));
    }
  }
  return out;
}

std::vector<Bytes> Expected(const plan::KernelPlan& plan, std::vector<Bytes> memory) {
  const auto& attention = std::get<plan::AttentionKernel>(plan.body);
  const std::vector<plan::KernelPlan> parts = plan::PartsOfAttention(plan, attention);
  for (std::size_t b = plan.bindings.size(); b < parts[1].bindings.size(); ++b) {
    const plan::Binding& inner = parts[1].bindings[b];
    memory.emplace_back(static_cast<std::size_t>(inner.element_count * StorageBytes(inner.storage)));
  }
  for (const plan::KernelPlan& part : parts) {
    std::vector<Bytes> of_part(memory.begin(), memory.begin() + std::ssize(part.bindings));
    RunKernel(part, of_part);
    std::ranges::move(of_part, memory.begin());
  }
  memory.resize(plan.bindings.size());
  return memory;
}

// Weights may be one unit in the last place of an f16 apart, as sums of scores are in another order: the weights of a
// row sum up to one, and values are 2 at the most.
void ExpectNear(const plan::KernelPlan& plan, const std::vector<Bytes>& got, const std::vector<Bytes>& want,
                const std::string& where) {
  int shown = 0;
  for (std::size_t b = 0; b < plan.bindings.size(); ++b)
    for (int64_t i = 0; i < plan.bindings[b].element_count && shown < 5; ++i) {
      const auto number = [&](const std::vector<Bytes>& memory) {
        return std::bit_cast<float>(static_cast<uint32_t>(ReadElement(memory[b], plan.bindings[b].storage, i)));
      };
      if (!IsFloat(plan.bindings[b].storage)) continue;
      const float is = number(got), should = number(want);
      const bool same = is == should || (std::isnan(is) && std::isnan(should));
      if (same || std::fabs(is - should) <= 2 * 0x1p-10f) continue;
      ++shown;
      ADD_FAILURE() << where << ": element " << i << " is " << is << ", not " << should;
    }
}

Tuning TuningOf(std::vector<RowTile> tiles) {
  Tuning out;
  out.attention.group_lanes = 0;
  out.attention.tiles = std::move(tiles);
  out.attention.wanted_tiles = 0;
  return out;
}

void Check(const TileForm& form, const Tuning& tuning) {
  const plan::KernelPlan plan = PlanOf(form);
  if (plan.bindings.empty()) return;
  const std::vector<Bytes> memory = MemoryFor(plan, form);
  std::vector<Bytes> want;
  for (const auto& device : Devices()) {
    if (!device->profile().features.cooperative_matrix) continue;
    if (want.empty()) want = Expected(plan, memory);
    const EmitOptions options{.enable_cooperative_matrix = true, .treat_as_gpu = true, .tuning = &tuning};
    auto emitted = Emit(plan, device->profile(), options);
    ASSERT_TRUE(emitted.has_value()) << form.name << ": " << emitted.error().ToString();
    EXPECT_EQ(emitted->kernels.back().variant, "attention.tiles") << form.name;
    std::vector<Bytes> got = memory;
    auto run = device->Run(plan, got, options);
    ASSERT_TRUE(run.has_value()) << device->name() << ": " << run.error().ToString();
    const std::string where = Format("{} on {} by {}", form.name, device->name(), emitted->kernels.back().reason);
    if (form.exact) ExpectSame(plan, got, want, where);
    else ExpectNear(plan, got, want, where);
  }
}

// A lane a row, and several; subgroups along rows, along columns, and both.
const std::vector<Tuning>& Tunings() {
  static const auto* tunings = new std::vector<Tuning>{
      TuningOf({{16, 16, 1, 1, 0}}),
      TuningOf({{16, 16, 2, 2, 0}}),
      TuningOf({{8, 32, 1, 4, 0}}),
      TuningOf({{32, 16, 4, 1, 0}}),
  };
  return *tunings;
}

const std::vector<TileForm>& Forms() {
  static const auto* forms = new std::vector<TileForm>{
      {.name = "thirds",
       .rows = 40,
       .keys = 48,
       .heads = 2,
       .group = 3,
       .weights = std::string(kThirds),
       .exact = true},
      {.name = "thirds, odd sizes",
       .rows = 21,
       .keys = 27,
       .heads = 3,
       .depth = 13,
       .columns = 9,
       .weights = std::string(kThirds),
       .exact = true},
      {.name = "thirds, uneven sizes",
       .rows = 50,
       .keys = 44,
       .group = 2,
       .depth = 20,
       .columns = 36,
       .weights = std::string(kThirds),
       .exact = true},
      {.name = "plain", .rows = 40, .keys = 48, .heads = 2, .group = 3},
      {.name = "odd sizes", .rows = 13, .keys = 27, .heads = 3, .depth = 9, .columns = 7},
      {.name = "long rows", .rows = 9, .keys = 700, .group = 2, .depth = 8, .columns = 40},
      {.name = "causal", .rows = 64, .keys = 64, .heads = 2, .group = 3, .scores = std::string(kCausal)},
      {.name = "causal, odd sizes",
       .rows = 33,
       .keys = 47,
       .heads = 2,
       .group = 2,
       .depth = 10,
       .scores = std::string(kCausal)},
      {.name = "infinities where causal",
       .rows = 40,
       .keys = 64,
       .heads = 2,
       .depth = 8,
       .scores = std::string(kCausal),
       .hides_infinities = true},
      {.name = "window", .rows = 72, .keys = 72, .group = 2, .depth = 8, .scores = std::string(kWindow)},
      {.name = "up to a position", .rows = 20, .keys = 96, .heads = 2, .scores = std::string(kPosition)},
      {.name = "in front of all positions", .rows = 20, .keys = 96, .scores = std::string(kPosition), .position = -1},
      {.name = "behind all positions", .rows = 20, .keys = 96, .scores = std::string(kPosition), .position = 1000},
      {.name = "soft cap and bias",
       .rows = 24,
       .keys = 40,
       .heads = 2,
       .group = 2,
       .depth = 12,
       .scores = std::string(kSoftCapAndBias)},
      {.name = "sums of what is rounded", .rows = 24, .keys = 200, .heads = 2, .weights = std::string(kSumsOfRounded)},
      {.name = "long rows, whole tiles", .rows = 9, .keys = 704, .group = 2, .depth = 8, .columns = 40},
      {.name = "deep", .rows = 17, .keys = 40, .depth = 256, .columns = 256},
  };
  return *forms;
}

TEST(AttentionTilesTest, AreTheThreeParts) {
  std::size_t number = 0;
  for (const TileForm& form : Forms()) {
    // Rows that are long take most of the memory.
    Check(form, Tunings()[form.depth > 128 ? 0 : number % Tunings().size()]);
    ++number;
  }
}

// The first forms in all tiles.
TEST(AttentionTilesTest, EveryTile) {
  for (const Tuning& tuning : Tunings())
    for (const char* name : {"thirds, uneven sizes", "causal, odd sizes"})
      Check(*std::ranges::find(Forms(), name, &TileForm::name), tuning);
}

TEST(AttentionTilesTest, AsOnGpus) {
  Tuning tuning;
  tuning.attention.group_lanes = 0;
  TileForm form = Forms()[0];
  form.rows = 200, form.keys = 160, form.heads = 5, form.group = 4, form.depth = 64, form.columns = 64;
  Check(form, tuning);
  form.scores = kCausal, form.weights = {}, form.exact = false;
  Check(form, tuning);
}

// On GPUs that have shapes, for every form, and on nothing else.
TEST(AttentionTilesTest, ValidForEveryProfile) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    for (TileForm form : Forms()) {
      if (form.name != "plain" && form.name != "causal, odd sizes" && form.name != "soft cap and bias" &&
          form.name != "deep" && form.name != "sums of what is rounded")
        continue;
      form.type = type;
      form.heads = 40;
      const plan::KernelPlan plan = PlanOf(form);
      if (plan.bindings.empty()) continue;
      ValidateEverywhere(plan);
      for (const DeviceProfile& profile : Profiles()) {
        auto program = Emit(plan, profile, {});
        const bool is_tiles = program && program->kernels.back().variant == "attention.tiles";
        const bool has_type = std::ranges::any_of(profile.cooperative_matrices, [&](const CooperativeMatrixShape& s) {
          return s.a == (form.type == "f16" ? ComponentType::kF16 : ComponentType::kBF16) && s.c == ComponentType::kF32;
        });
        const bool wanted = !profile.is_cpu && form.type != "f32" && has_type && form.depth >= 16 &&
                            form.depth <= TuningFor(profile).attention.most_tile_depth &&
                            (form.type == "f16" || profile.features.bfloat16_cooperative_matrix);
        EXPECT_EQ(is_tiles, wanted) << form.name << " of " << type << " for " << profile.name << ": "
                                    << (program ? program->kernels.back().variant : program.error().ToString());
      }
    }
  }
}

}  // namespace
}  // namespace krafla::spirv::testing
