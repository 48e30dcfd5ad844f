// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/attention.h"

#include <algorithm>
#include <bit>

#include "spirv_codegen/kernels/attention_limits.h"
#include "spirv_codegen/kernels/attention_tiles.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

using plan::AttentionKernel;
using plan::ReduceStage;

AttentionPrograms::AttentionPrograms(const plan::KernelPlan& plan, const AttentionKernel& kernel) {
  for (const ReduceStage& stage : kernel.rows.stages)
    for (const plan::Reduction& r : stage.reductions) score_param += static_cast<int>(r.inputs.size());
  const int scores_buffer = static_cast<int>(plan.bindings.size());
  for (const ReduceStage& stage : kernel.rows.stages) {
    plan::ElementProgram& program = stages.emplace_back(stage.program);
    for (plan::Node& n : program.nodes) {
      if (n.op != plan::NodeOp::kLoad || n.buffer != scores_buffer) continue;
      n.op = plan::NodeOp::kParam;
      n.bits = static_cast<uint64_t>(score_param);
      n.buffer = -1;
      n.index = 0;
    }
  }
  TakeRowsOut(kernel, scores_buffer + 2);
  score = kernel.scores->epilogue.stores.front().node;
  weight = stages.back().stores.front().node;
}

void AttentionPrograms::TakeRowsOut(const AttentionKernel& kernel, int first_buffer) {
  std::vector<int> param_of;  // by buffer from `first_buffer` on
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (kernel.rows.stages[s].scope == ReduceStage::Scope::kRow) {
      std::erase_if(stages[s].stores, [&](const plan::Store& store) {
        if (store.buffer < first_buffer) return false;
        const auto number = static_cast<std::size_t>(store.buffer - first_buffer);
        if (param_of.size() <= number) param_of.resize(number + 1);
        of_rows.push_back({s, store.node});
        param_of[number] = static_cast<int>(of_rows.size());
        return true;
      });
    }
  product = kernel.product->epilogue;
  for (plan::Node& n : product.nodes) {
    if (n.op != plan::NodeOp::kLoad || n.buffer < first_buffer) continue;
    n.op = plan::NodeOp::kParam;
    n.bits = static_cast<uint64_t>(param_of[static_cast<std::size_t>(n.buffer - first_buffer)]);
    n.buffer = -1;
    n.index = 0;
  }
}

namespace {

std::size_t NodeNumber(plan::NodeId id) { return static_cast<std::size_t>(id); }

// Whether a node varies with the score, and whether with results of reductions.
struct Needs {
  bool score = false, results = false;
};
std::vector<Needs> NeedsOf(const plan::ElementProgram& program, int score_param) {
  std::vector<Needs> out;
  for (const plan::Node& n : program.nodes) {
    Needs needs;
    if (n.op == plan::NodeOp::kParam) {
      const bool is_score = n.bits == static_cast<uint64_t>(score_param);
      needs = {is_score, !is_score};
    }
    for (plan::NodeId o : {n.operands[0], n.operands[1], n.operands[2], n.mask}) {
      if (o == plan::kNoNode) continue;
      needs.score = needs.score || out[NodeNumber(o)].score;
      needs.results = needs.results || out[NodeNumber(o)].results;
    }
    out.push_back(needs);
  }
  return out;
}

}  // namespace

std::optional<ExponentialSum> FindExponentialSum(const AttentionKernel& kernel, const AttentionPrograms& programs) {
  const auto is_element = [](const ReduceStage& s) { return s.scope == ReduceStage::Scope::kElement; };
  const auto& stages = kernel.rows.stages;
  std::size_t before = stages.size();
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    if (!is_element(stages[s])) continue;
    if (before == stages.size()) {
      before = s;
      continue;
    }
    // Only of the second stage: what the first one reduces is known after the same sweep.
    const ReduceStage& stage = stages[s];
    if (stage.reductions.size() != 1 || stage.reductions[0].kind != plan::Reduction::Kind::kSum ||
        stage.reductions[0].inputs.size() != 1 || stage.reductions[0].hlo_type != ElementType::kF32)
      return std::nullopt;
    const plan::ElementProgram& p = programs.stages[s];
    const auto node = [&](plan::NodeId id) -> const plan::Node& { return p.nodes[NodeNumber(id)]; };
    const plan::Node& exp = node(p.results[static_cast<std::size_t>(stage.reductions[0].inputs[0])]);
    if (exp.op != plan::NodeOp::kHlo || exp.opcode != Opcode::kExp || exp.type != ElementType::kF32)
      return std::nullopt;
    const plan::Node& difference = node(exp.operands[0]);
    if (difference.op != plan::NodeOp::kHlo || difference.opcode != Opcode::kSubtract ||
        difference.type != ElementType::kF32)
      return std::nullopt;
    const ExponentialSum out{before, s, difference.operands[0], difference.operands[1]};
    const std::vector<Needs> needs = NeedsOf(p, programs.score_param);
    const uint64_t columns = uint64_t{1} << kernel.rows.row_dims.size();
    if (needs[NodeNumber(out.x)].results || needs[NodeNumber(out.h)].score || (node(out.h).depends & columns) != 0)
      return std::nullopt;
    return out;
  }
  return std::nullopt;
}

bool IsOneSubgroup(const Target& target, uint32_t lanes) {
  return lanes > 1 && FixedSubgroupSize(target.profile, lanes) == lanes;
}

namespace {

struct AttentionCase {
  const plan::KernelPlan& plan;
  const AttentionKernel& k;
  const Target& target;
};

Refusal RefusesRows(const AttentionCase& c) {
  const AttentionKernel& k = c.k;
  const AttentionTuning& tuning = c.target.tuning.attention;
  if (tuning.row_lanes == 0) return "no invocation takes a row on this device";
  if (k.scores->m < tuning.least_rows)
    return Format("{} rows share keys and values, fewer than the {} that fill the lanes", k.scores->m,
                  tuning.least_rows);
  if (k.scores->k > tuning.most_depth || k.product->n > tuning.most_depth)
    return Format("rows of {} and {} elements, longer than the {} that an invocation keeps", k.scores->k, k.product->n,
                  tuning.most_depth);
  return std::nullopt;
}

uint32_t GroupLanes(const Target& target) {
  return std::bit_floor(WorkgroupSize(target.profile, target.tuning.attention.group_lanes));
}

Refusal RefusesGroup(const AttentionCase& c) {
  const AttentionKernel& k = c.k;
  const AttentionTuning& tuning = c.target.tuning.attention;
  const uint32_t lanes = GroupLanes(c.target);
  if (lanes == 0) return "no workgroup takes a row on this device";
  if (const int64_t rows = Product(k.scores->batch) * k.scores->m; rows > tuning.most_group_rows)
    return Format("{} rows, more than {}", rows, tuning.most_group_rows);
  // What is computed as it is read may read less, and costs more.
  const int64_t bytes =
      k.scores->n * (k.scores->k * StorageBytes(k.scores->rhs_type) + k.product->n * StorageBytes(k.product->rhs_type));
  if (bytes > tuning.most_group_bytes)
    return Format("{} bytes of keys and values a row, more than {}", bytes, tuning.most_group_bytes);
  const int64_t columns = k.product->n % 4 == 0 ? k.product->n / 4 : k.product->n;
  if (columns == 0 || columns > lanes) return Format("{} columns for {} lanes", k.product->n, lanes);
  if (const int64_t shared = SharedBytesOfAttentionGroup(k, lanes);
      shared > int64_t{c.target.profile.limits.max_shared_memory_bytes})
    return Format("{} bytes for a workgroup to share, more than the device has", shared);
  return std::nullopt;
}

Refusal RefusesTiles(const AttentionCase& c) {
  if (!AttentionPrograms(c.plan, c.k).of_rows.empty()) return "the product reads what rows have made";
  std::string reason;
  if (ChooseAttentionTile(c.k, c.target, reason)) return std::nullopt;
  return reason;
}

std::string ReasonFor(const AttentionCase& c, const std::string& refused) {
  return Format("{} x {} scores of {}{}{}", c.k.scores->m, c.k.scores->n, c.k.scores->k, refused.empty() ? "" : "; ",
                refused);
}

// Of kernels with limits: adds the dispatch that looks whether the values are finite, and its buffer. `lanes`: of its
// workgroups.
Result<> AddFiniteFlags(const AttentionCase& c, uint32_t lanes, bool by_workgroups, std::vector<BufferDesc>& scratch,
                        EmittedProgram& out) {
  if (!c.k.limits) return {};
  scratch.push_back({kFiniteFlags, 4, true});
  out.scratch_bytes.push_back(kFiniteFlags * 4);
  KernelWriter w(c.plan, c.target, scratch);
  KRAFLA_ASSIGN(EmittedDispatch dispatch, EmitFiniteFlags(w, c.k, lanes, by_workgroups));
  dispatch.share = 1.0 / static_cast<double>(std::max<int64_t>(c.k.scores->m, 1));
  AddKernel(out, w, std::move(dispatch), lanes, 0, "attention.finite");
  scratch.back().written = false;
  return {};
}

Result<EmittedProgram> EmitByRows(const AttentionCase& c, std::string refused) {
  const Target& target = c.target;
  EmittedProgram out;
  // What all lanes read is read word by word: a word is spread over the lanes as it is loaded.
  Tuning in_words = target.tuning;
  in_words.memory.words_in_pairs = false;
  std::vector<BufferDesc> scratch;
  const uint32_t lanes = WorkgroupSize(target.profile, target.tuning.attention.row_lanes);
  KRAFLA_TRY(AddFiniteFlags(c, std::min(kFiniteFlags, lanes), /*by_workgroups=*/false, scratch, out));
  KRAFLA_ASSIGN(const AttentionKernel wide, WidenAttention(c.plan, c.k, target, scratch, out));
  KernelWriter w(c.plan, target.profile, in_words, scratch);
  KRAFLA_ASSIGN(EmittedDispatch dispatch, EmitAttentionRows(w, wide, AttentionPrograms(c.plan, c.k), target));
  AddKernel(out, w, std::move(dispatch), lanes, IsOneSubgroup(target, lanes) ? lanes : 0, "attention.rows",
            ReasonFor(c, refused));
  return out;
}

Result<EmittedProgram> EmitByGroups(const AttentionCase& c, std::string refused) {
  EmittedProgram out;
  const uint32_t lanes = GroupLanes(c.target),
                 size = FixedSubgroupSize(c.target.profile, c.target.tuning.attention.group_subgroup);
  const uint32_t subgroup = size != 0 && lanes % size == 0 ? size : 0;
  KernelWriter w(c.plan, c.target);
  KRAFLA_ASSIGN(EmittedDispatch dispatch,
                EmitAttentionGroup(w, c.k, AttentionPrograms(c.plan, c.k), c.target, lanes, subgroup));
  AddKernel(out, w, std::move(dispatch), lanes, subgroup, "attention.group", ReasonFor(c, refused));
  return out;
}

Result<EmittedProgram> EmitByTiles(const AttentionCase& c, std::string refused) {
  const auto tile = ChooseAttentionTile(c.k, c.target, refused);
  KRAFLA_CHECK(tile.has_value());
  EmittedProgram out;
  std::vector<BufferDesc> scratch;
  const uint32_t lanes = std::bit_floor(WorkgroupSize(c.target.profile, c.target.tuning.attention.finite_lanes));
  KRAFLA_TRY(AddFiniteFlags(c, lanes, /*by_workgroups=*/true, scratch, out));
  KernelWriter w(c.plan, c.target, scratch);
  KRAFLA_ASSIGN(EmittedDispatch dispatch, EmitAttentionTiles(w, c.k, AttentionPrograms(c.plan, c.k), c.target, *tile));
  AddKernel(out, w, std::move(dispatch), tile->local(), tile->subgroup, "attention.tiles",
            Format("{} x {} blocks of {} x {} x {} matrices", tile->rows, tile->keys, tile->shape.m, tile->shape.n,
                   tile->shape.k));
  out.kernels.back().uses_cooperative_matrix = true;
  return out;
}

// In order of preference. What none of them takes is three launches.
constexpr Variant<AttentionCase, Result<EmittedProgram>> kAttentionVariants[] = {
    {"rows", RefusesRows, EmitByRows},
    {"group", RefusesGroup, EmitByGroups},
    {"tiles", RefusesTiles, EmitByTiles},
};

}  // namespace

Result<> CanEmitAttention(const plan::KernelPlan& plan, const AttentionKernel& k, const Target& target) {
  if (k.scores->k == 0 || k.scores->n == 0) return Unimplemented("There are no keys.");
  std::string refused;
  for (const auto& variant : kAttentionVariants) {
    const Refusal why = variant.refuses({plan, k, target});
    if (!why) return {};
    refused += Format("{}{}: {}", refused.empty() ? "" : "; ", variant.name, *why);
  }
  return Unimplemented("Attention is no kernel of its own: {}.", refused);
}

Result<EmittedProgram> EmitAttention(const plan::KernelPlan& plan, const AttentionKernel& k, const Target& target) {
  KRAFLA_TRY(CanEmitAttention(plan, k, target));
  return MakeFirst(kAttentionVariants, AttentionCase{plan, k, target});
}

}  // namespace krafla::spirv
