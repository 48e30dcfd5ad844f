// SPDX-License-Identifier: Apache-2.0
// Calls, loops and branches of a program that is being partitioned.
#include <algorithm>
#include <deque>

#include "ir/builder.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {

// A value from around a region is the same for all of its devices: whole.
Result<Value> Walk::InRegion(Value value, const Region* region, Emitter& emitter) {
  if (value.is_tuple)
    return ForElements(std::move(value), [&](Value e) { return InRegion(std::move(e), region, emitter); });
  if (value.region == region) return value;
  KRAFLA_ASSIGN(value, emitter.Whole(std::move(value)));
  value.region = region;
  return value;
}

Result<Value> Walk::Call(const Instruction& i, std::vector<Value> operands, Scope& scope) {
  const Region* region = scope.region;
  for (const Value& v : operands) region = Deepest(region, RegionOf(v));
  // XLA names the body of a manual computation so (xla/service/spmd/shardy/constants.h).
  if (region == scope.region && i.called(0)->name().starts_with("xla.sdy.manual_computation_body")) {
    KRAFLA_ASSIGN(region, RegionOfBody(i, scope.region));
  }
  return Run(*i.called(0), std::move(operands), region, scope.emitter);
}

// What is whole at the start and cut after a turn is cut from the start on: that takes no exchange, and to put it
// together in each turn would.
Result<Value> Walk::StateOf(const Computation& body, Value init, const Region* region, Emitter& emitter) {
  constexpr int kMostTried = 2;  // one within another: each doubles the work
  if (tried_loops_ >= kMostTried) return init;
  std::vector<Value*> starts;
  Leaves(init, starts);
  if (std::ranges::none_of(starts, [](const Value* v) { return v->IsArray() && v->IsWhole(); })) return init;
  ++tried_loops_;
  KRAFLA_ASSIGN(Instruction * state, emitter.Materialize(init));
  Computation* made = module_.AddComputation(body.name());  // called by nothing
  Emitter inner(module_, *made, &channels_);
  KRAFLA_ASSIGN(Value argument, inner.TakeApart(AddParameter(*made, 0, state->shape()), init));
  KRAFLA_ASSIGN(Value out, Run(body, {std::move(argument)}, region, inner));
  made->set_root(made->instructions().front().get());
  --tried_loops_;
  std::vector<Value*> turned;
  Leaves(out, turned);
  for (std::size_t k = 0; k < starts.size() && k < turned.size(); ++k) {
    Value& start = *starts[k];
    const Value& end = *turned[k];
    if (!start.IsArray() || !start.IsWhole() || !end.IsArray() || end.region != region || !end.unreduced.empty())
      continue;
    KRAFLA_ASSIGN(start, emitter.Reshard(std::move(start), end.dims));
  }
  return init;
}

namespace {

// What a loop does with an element of its state that no turn changes, where all that it does is to read slices.
struct SlicesRead {
  std::vector<bool> whole;  // by dimension: all slices have all of it
  int64_t bytes = 0;        // of the largest slice
};

// Adds what `value` is read by, in called computations too, but for `root`. False where that is more than slices.
bool AddSlices(const Instruction& value, const Instruction* root, int depth, SlicesRead& out) {
  constexpr int kMostCalls = 8;
  const Dims& dims = value.shape().dims();
  for (const Instruction* user : value.users()) {
    if (user == root) continue;
    if (user->opcode() == Opcode::kCall && depth < kMostCalls) {
      for (const Instruction* p : user->called(0)->parameters())
        if (user->operand(static_cast<std::size_t>(p->attr<ParameterAttributes>().number)) == &value &&
            (p == user->called(0)->root() || !AddSlices(*p, nullptr, depth + 1, out)))
          return false;
      continue;
    }
    if (user->opcode() != Opcode::kDynamicSlice || user->operand(0) != &value) return false;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (user->shape().dims()[d] != dims[d]) out.whole[d] = false;
    out.bytes = std::max(out.bytes, user->shape().byte_size());
  }
  return true;
}

std::optional<SlicesRead> SlicesOf(const Computation& body, std::size_t element) {
  const Instruction* root = body.root();
  if (root->opcode() != Opcode::kTuple || body.parameters().size() != 1 || element >= root->operand_count())
    return std::nullopt;
  const Instruction* parameter = body.parameters()[0];
  const auto is_element = [&](const Instruction* i) {
    return i->opcode() == Opcode::kGetTupleElement && i->operand(0) == parameter &&
           i->attr<TupleIndexAttributes>().index == static_cast<int64_t>(element);
  };
  if (!is_element(root->operand(element))) return std::nullopt;
  SlicesRead out;
  out.whole.resize(root->operand(element)->shape().dims().size(), true);
  for (const Instruction* state : parameter->users()) {
    if (state->opcode() != Opcode::kGetTupleElement) return std::nullopt;
    if (!is_element(state)) continue;
    for (std::size_t o = 0; o < root->operand_count(); ++o)
      if (o != element && root->operand(o) == state) return std::nullopt;
    if (!AddSlices(*state, root, 0, out)) return std::nullopt;
  }
  return out.bytes > 0 ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

// An array of which each turn reads some rows, cut along these, would be asked for in each turn. Cut along another
// dimension it is moved once. Where there is none, small rows are put together: a question takes longer than they do.
Result<Value> Walk::RowsAtHand(const Computation& body, Value init, Emitter& emitter) {
  constexpr int64_t kSmall = 64 << 10;
  if (!init.is_tuple) return init;
  for (std::size_t k = 0; k < init.elements.size(); ++k) {
    Value& v = init.elements[k];
    if (!v.IsArray() || v.IsWhole() || !v.unreduced.empty()) continue;
    const std::optional<SlicesRead> read = SlicesOf(body, k);
    if (!read || read->whole.size() != v.dims.size()) continue;
    std::vector<Split> dims = v.dims;
    bool moves = true;
    Dims sizes;
    for (std::size_t d = 0; d < dims.size(); ++d) sizes.push_back(v.size(d));
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (!read->whole[d] && !dims[d].whole()) moves = MoveAway(dims, d, sizes, read->whole) && moves;
    if (dims == v.dims || (!moves && read->bytes > kSmall)) continue;
    KRAFLA_ASSIGN(v, emitter.Reshard(std::move(v), dims));
    init.local = nullptr;
  }
  return init;
}

// A computation that a loop or a conditional calls, on its way to what it is on one device.
class Walk::Called {
 public:
  Called(Walk& walk, const Computation& from, const Region* region)
      : walk_(walk),
        from_(from),
        region_(region),
        made_(walk.module_.AddComputation(from.name())),
        emitter_(walk.module_, *made_, &walk.channels_) {}

  Emitter& emitter() { return emitter_; }
  // What it gives for its parameter, which lies as `like` does.
  Result<Value> Emit(const Shape& parameter, const Value& like) {
    KRAFLA_ASSIGN(Value argument, emitter_.TakeApart(AddParameter(*made_, 0, parameter), like));
    std::vector<Value> arguments{std::move(argument)};
    KRAFLA_ASSIGN(Value out, walk_.Run(from_, std::move(arguments), region_, emitter_));
    emitter_.set_origin(from_.root());
    return out;
  }
  // Ends the computation with `out`, and returns it.
  Result<Computation*> Finish(const Value& out) {
    KRAFLA_ASSIGN(Instruction * root, emitter_.Materialize(out));
    made_->set_root(root);
    KRAFLA_TRY(emitter_.FinishSums());
    return made_;
  }

 private:
  Walk& walk_;
  const Computation& from_;
  const Region* region_;
  Computation* made_;
  Emitter emitter_;
};

Result<Value> Walk::While(const Instruction& i, Value init, const Region* region, Emitter& emitter) {
  // The state keeps the sharding that it starts with, sums in parts among it.
  KRAFLA_ASSIGN(init, InRegion(std::move(init), region, emitter));
  KRAFLA_ASSIGN(init, RowsAtHand(*i.called(1), std::move(init), emitter));
  KRAFLA_ASSIGN(init, StateOf(*i.called(1), std::move(init), region, emitter));
  KRAFLA_ASSIGN(Instruction * state, emitter.Materialize(init));
  Computation* parts[2] = {nullptr, nullptr};
  for (std::size_t n = 0; n < 2; ++n) {  // condition, body
    Called part(*this, *i.called(n), region);
    KRAFLA_ASSIGN(Value out, part.Emit(state->shape(), init));
    Emitter& inner = part.emitter();
    if (n == 0) {
      KRAFLA_ASSIGN(out, inner.Whole(std::move(out)));
    } else {
      std::vector<Value*> got, want;
      Leaves(out, got);
      Leaves(init, want);
      if (got.size() != want.size())
        return Internal("The state of a loop has {} leaves before an iteration and {} after it.", want.size(),
                        got.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        KRAFLA_ASSIGN(*got[k], InRegion(std::move(*got[k]), region, inner));
        if (!got[k]->IsArray()) continue;
        KRAFLA_ASSIGN(*got[k], inner.ReshardTo(std::move(*got[k]), want[k]->dims, want[k]->unreduced));
      }
    }
    KRAFLA_ASSIGN(parts[n], part.Finish(out));
  }
  emitter.set_origin(&i);
  Instruction* loop = emitter.Clone(i, state->shape(), {state});
  loop->set_called({parts[0], parts[1]});
  return emitter.TakeApart(loop, init);
}

Result<Value> Walk::Conditional(const Instruction& i, std::vector<Value> operands, const Region* region,
                                Emitter& emitter) {
  KRAFLA_ASSIGN(Value index, emitter.Whole(std::move(operands[0])));
  std::vector<Instruction*> made_operands{index.local};
  std::deque<Called> parts;
  std::vector<Value> given;
  for (std::size_t b = 0; b < i.called().size(); ++b) {
    KRAFLA_ASSIGN(Value operand, InRegion(std::move(operands[b + 1]), region, emitter));
    KRAFLA_ASSIGN(operand, emitter.Settle(std::move(operand)));
    KRAFLA_ASSIGN(Instruction * taken, emitter.Materialize(operand));
    made_operands.push_back(taken);
    Called& part = parts.emplace_back(*this, *i.called(b), region);
    KRAFLA_ASSIGN(Value out, part.Emit(taken->shape(), operand));
    KRAFLA_ASSIGN(out, InRegion(std::move(out), region, part.emitter()));
    KRAFLA_ASSIGN(out, part.emitter().Settle(std::move(out)));
    given.push_back(std::move(out));
  }
  if (given.empty()) return Internal("A conditional has no branches.");
  // Branches give the same: each array as the branch has it that cuts it the most.
  std::vector<std::vector<Value*>> leaves(given.size());
  for (std::size_t b = 0; b < given.size(); ++b) Leaves(given[b], leaves[b]);
  for (std::size_t k = 0; k < leaves[0].size(); ++k) {
    const Value* most = leaves[0][k];
    if (!most->IsArray()) continue;
    for (const auto& of : leaves)
      if (k < of.size() && of[k]->IsArray() && of[k]->blocks() > most->blocks()) most = of[k];
    const std::vector<Split> dims = most->dims;
    for (std::size_t b = 0; b < leaves.size(); ++b) {
      if (k >= leaves[b].size()) return Internal("The branches of a conditional give different numbers of arrays.");
      KRAFLA_ASSIGN(*leaves[b][k], parts[b].emitter().Reshard(std::move(*leaves[b][k]), dims));
    }
  }
  std::vector<Computation*> branches;
  for (std::size_t b = 0; b < given.size(); ++b) {
    KRAFLA_ASSIGN(Computation * made, parts[b].Finish(given[b]));
    branches.push_back(made);
  }
  const Value like = std::move(given[0]);
  emitter.set_origin(&i);
  Instruction* made = emitter.Clone(i, branches[0]->root()->shape(), std::move(made_operands));
  made->set_called(std::move(branches));
  return emitter.TakeApart(made, like);
}

}  // namespace krafla::spmd
