// SPDX-License-Identifier: Apache-2.0
// Decides which instructions are heroes, which are fusible, and which only name a value of another.
#include <algorithm>

#include "plan/families/accepts.h"
#include "plan/fusion/fusion_planner.h"
#include "plan/program_emitter.h"

namespace krafla::plan {

std::optional<FusionPlanner::Kind> FusionPlanner::HeroKind(const Instruction& i) const {
  const Opcode op = i.opcode();
  const int64_t strided = std::max(limits_.elements, kMostStridedElements);
  if (op == Opcode::kReduce) return TakesReduce(i, strided) ? Kind::kReduce : Kind::kHost;
  if (op == Opcode::kReduceWindow) return TakesReduceWindow(i) ? Kind::kReduce : Kind::kHost;
  if (op == Opcode::kDot) return TakesDot(i, strided) ? Kind::kDot : Kind::kHost;
  if (op == Opcode::kConvolution) return TakesConvolution(i) ? Kind::kConvolution : Kind::kHost;
  if (op == Opcode::kSort) return TakesSort(i) ? Kind::kSort : Kind::kHost;
  if (op == Opcode::kScan) return TakesScan(i) ? Kind::kScan : Kind::kHost;
  if (op == Opcode::kScatter) return TakesScatter(i) ? Kind::kScatter : Kind::kHost;
  if (op == Opcode::kRngBitGenerator) return TakesRngBitGenerator(i) ? Kind::kRng : Kind::kHost;
  if (op == Opcode::kFft) return TakesFft(i) ? Kind::kFft : Kind::kHost;
  if (IsOneOf(op, {Opcode::kCholesky, Opcode::kTriangularSolve, Opcode::kCustomCall}))
    return TakesLinalg(i) ? Kind::kLinalg : Kind::kHost;
  if (op == Opcode::kRngGetAndUpdateState) return Kind::kRng;
  if (op == Opcode::kWhile) return Kind::kWhile;
  if (op == Opcode::kConditional) return Kind::kConditional;
  if (op == Opcode::kCall) return IsStaticComputation(*i.called(0)) ? Kind::kCall : Kind::kHost;
  if (op == Opcode::kDynamicUpdateSlice) return IsEmittable(i) && FitsIndex(i) ? Kind::kDynamicUpdate : Kind::kHost;
  if (op == Opcode::kConcatenate && IsManyPieces(i) && !HoldsIndexVectors(i)) return Kind::kConcatenate;
  if (IsEmittable(i) && FitsIndex(i)) return std::nullopt;
  return Kind::kHost;
}

HostWhy FusionPlanner::WhyHost(const Instruction& i) const {
  const auto is_dynamic = [](const Instruction* o) { return o->shape().IsDynamic(); };
  if (is_dynamic(&i) || std::ranges::any_of(i.operands(), is_dynamic)) return HostWhy::kDynamic;
  return FitsIndex(i) ? HostWhy::kNoFamily : HostWhy::kTooLarge;
}

bool FusionPlanner::IsManyPieces(const Instruction& i) const {
  return IsEmittable(i) && FitsIndex(i) &&
         (i.shape().element_count() >= limits_.pieces_elements || i.operand_count() > limits_.select_pieces);
}

bool FusionPlanner::HoldsIndexVectors(const Instruction& i) {
  std::vector<const Instruction*> names = {&i};
  for (std::size_t n = 0; n < names.size(); ++n) {
    for (const Instruction* user : names[n]->users()) {
      if (user->opcode() == Opcode::kCopy) {
        names.push_back(user);
        continue;
      }
      if (user->opcode() != Opcode::kGather || user->operand(0) == names[n] || !IsEmittable(*user)) return false;
      const auto& a = user->attr<GatherAttributes>();
      if (a.index_vector_dim != i.attr<DimensionsAttributes>().dimensions[0]) return false;
      if (user->shape().element_count() > i.shape().element_count()) return false;
    }
  }
  return !i.users().empty();
}

bool FusionPlanner::IsStaticComputation(const Computation& c) {
  return std::ranges::none_of(c.instructions(), [](const auto& i) { return i->shape().IsDynamic(); });
}

bool FusionPlanner::FitsIndex(const Instruction& i) const {
  if (i.shape().element_count() > limits_.elements) return false;
  for (const Instruction* o : i.operands())
    if (o->shape().IsArray() && o->shape().element_count() > limits_.elements) return false;
  return true;
}

bool FusionPlanner::IsStructural(Opcode op) {
  return IsOneOf(op, {Opcode::kParameter, Opcode::kConstant, Opcode::kTuple, Opcode::kGetTupleElement, Opcode::kCopy,
                      Opcode::kReshape, Opcode::kOptimizationBarrier, Opcode::kAddDependency, Opcode::kAfterAll,
                      Opcode::kDomain, Opcode::kReplicaId, Opcode::kPartitionId});
}

void FusionPlanner::Classify() {
  std::size_t bound = 0;
  for (const auto& i : computation_.instructions()) bound = std::max(bound, Index(i.get()) + 1);
  class_.resize(bound, Class::kStructural);
  hero_kind_.resize(bound, Kind::kLoop);
  position_.resize(bound, 0);
  made_.resize(bound, nullptr);
  group_of_.resize(bound, -1);
  int n = 0;
  for (const auto& i : computation_.instructions()) {
    position_[Index(i.get())] = n++;
    made_[Index(i.get())] = i.get();
    if (IsStructural(i->opcode())) continue;
    if (auto kind = HeroKind(*i)) {
      class_[Index(i.get())] = Class::kHero;
      hero_kind_[Index(i.get())] = *kind;
      if (*kind == Kind::kHost && options_.log != nullptr) options_.log->host[i.get()] = WhyHost(*i);
    } else {
      class_[Index(i.get())] = Class::kFusible;
    }
  }
}

}  // namespace krafla::plan
