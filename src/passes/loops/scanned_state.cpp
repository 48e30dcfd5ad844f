// SPDX-License-Identifier: Apache-2.0
// A loop that takes row i of an array in turn i, updates a part of it, and puts it in place i of another array, as a
// scan over layers does with their caches: every turn copies a row out and a row in. Where the turns are as many as the
// rows, the second array may as well start as the first one: then only the parts are written.
//   ys[i] = update(xs[i], part, at)    is    ys = xs; ys = update(ys, part, (i, at))
#include <algorithm>
#include <vector>

#include "passes/loops/loop.h"
#include "passes/passes.h"

namespace krafla {
namespace {

// What becomes of a row in a turn, from its slice on: updates, and reshapes between [1, ...] and [...].
struct RowUpdate {
  std::size_t source = 0;             // the element that the row is of
  std::vector<Instruction*> updates;  // in order
};

class Rows {
 public:
  Rows(const Loop& loop, std::size_t turn) : loop_(loop), turn_(turn) {}

  // Element `n`, which takes a row each turn.
  std::optional<RowUpdate> Of(std::size_t n) const {
    Instruction* put = loop_.Next(n);
    if (put->opcode() != Opcode::kDynamicUpdateSlice || Loop::ElementOf(*put->operand(0)) != n) return std::nullopt;
    if (put->users().size() != 1 || put->operand(0)->users().size() != 1 || !UsedInBody(n, put->operand(0)) ||
        !IsRowAt(*put, 2, put->operand(1)->shape().dims()) || Loop::ElementOf(*put->operand(2)) != turn_)
      return std::nullopt;
    RowUpdate out;
    const Dims dims = put->shape().dims();
    Instruction* at = put->operand(1);
    // Only what is made of the last update may be read by others.
    for (bool is_last = true;; is_last = false) {
      at = BehindReshapes(at, dims, is_last);
      if (at == nullptr || (!is_last && at->users().size() != 1)) return std::nullopt;
      if (at->opcode() == Opcode::kDynamicUpdateSlice) {
        out.updates.insert(out.updates.begin(), at);
        at = at->operand(0);
        continue;
      }
      // A row may also be made of nothing, as a constant is.
      if (out.updates.empty() || at->opcode() != Opcode::kDynamicSlice) return std::nullopt;
      const std::optional<std::size_t> source = Loop::ElementOf(*at->operand(0));
      if (!source || *source == n || !loop_.IsInvariant(*source) || at->operand(0)->shape() != put->shape() ||
          !IsRowAt(*at, 1, at->attr<DynamicSliceAttributes>().slice_sizes) || Loop::ElementOf(*at->operand(1)) != turn_)
        return std::nullopt;
      out.source = *source;
      return out;
    }
  }

 private:
  // The only one that reads element `n` in the body, where a loop may take its state apart more than once.
  bool UsedInBody(std::size_t n, const Instruction* element) const {
    return std::ranges::all_of(loop_.body().parameters()[0]->users(),
                               [&](const Instruction* i) { return i == element || Loop::ElementOf(*i) != n; });
  }
  // Through reshapes that drop or add the dimension of the rows; null where one of them is read by others too.
  static Instruction* BehindReshapes(Instruction* i, const Dims& dims, bool may_be_read) {
    for (; i->opcode() == Opcode::kReshape; i = i->operand(0)) {
      if (!may_be_read && i->users().size() != 1) return nullptr;
      const auto is_row = [&](const Dims& d) {
        const bool with = d.ssize() == dims.ssize() && d[0] == 1;
        return (with || d.ssize() + 1 == dims.ssize()) &&
               std::ranges::equal(d.span().subspan(with ? 1 : 0), dims.span().subspan(1));
      };
      if (!is_row(i->shape().dims()) || !is_row(i->operand(0)->shape().dims())) return nullptr;
    }
    return i;
  }

  const Loop& loop_;
  std::size_t turn_;
};

// Writes what updates a row into the array itself. Gives the array behind the last update.
Instruction* UpdateArray(const Loop& loop, std::size_t n, const RowUpdate& row) {
  Instruction* const put = loop.Next(n);
  Instruction* const number = put->operand(2);
  Instruction* array = put->operand(0);
  const Dims dims = array->shape().dims();
  for (Instruction* update : row.updates) {
    Rewriter rewrite(*update);
    Instruction* part = update->operand(1);
    std::vector<Instruction*> operands(update->operands().begin() + 2, update->operands().end());
    Dims sizes = part->shape().dims();
    if (sizes.ssize() == dims.ssize()) {
      operands[0] = number;  // its only row is row 0
    } else {
      Dims with{1};
      for (int64_t d : sizes) with.push_back(d);
      part = rewrite.Reshape(part, with.span());
      operands.insert(operands.begin(), number);
    }
    operands.insert(operands.begin(), {array, part});
    array = rewrite.Add(Opcode::kDynamicUpdateSlice, array->shape(), std::move(operands));
  }
  return array;
}

bool KeepRowsInPlace(Loop& loop, int64_t turns, std::size_t turn) {
  bool changed = false;
  const Rows rows(loop, turn);
  for (std::size_t n = 0; n < loop.size(); ++n) {
    const Shape& shape = loop.instruction()->shape().tuple_elements()[n];
    if (!shape.IsArray() || shape.IsDynamic() || shape.rank() < 2 || shape.dim(0) != turns) continue;
    const std::optional<RowUpdate> row = rows.Of(n);
    if (!row || loop.Initial(n) == nullptr) continue;
    Instruction* const put = loop.Next(n);
    Instruction* const last = row->updates.back();
    Instruction* const array = UpdateArray(loop, n, *row);
    // What reads the row reads it in the array.
    Rewriter rewrite(*last);
    Dims sizes = shape.dims();
    sizes[0] = 1;
    std::vector<Instruction*> slice{array};
    slice.insert(slice.end(), put->operands().begin() + 2, put->operands().end());
    Instruction* read = rewrite.Add(Opcode::kDynamicSlice, ArrayShape(shape.element_type(), sizes), std::move(slice),
                                    DynamicSliceAttributes{sizes});
    if (last->shape().rank() != shape.rank()) read = rewrite.Reshape(read, last->shape().dims().span());
    Replace(last, read);
    Replace(put, array);
    Instruction* const state = loop.instruction()->operand(0);
    std::vector<Instruction*> initial(state->operands().begin(), state->operands().end());
    initial[n] = initial[row->source];
    loop.instruction()->ReplaceOperand(0, Rewriter(*loop.instruction()).Tuple(std::move(initial)));
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> ScannedState(Module& module, const PassOptions&) {
  if (module.CountOf(Opcode::kDynamicUpdateSlice) == 0) return false;
  SideEffects effects;
  return RewriteLoops(module, effects, [&](Instruction* i, std::vector<Instruction*>&) -> Result<bool> {
    auto loop = Loop::Of(i);
    const std::optional<int64_t> turns = loop ? TripCount(*i) : std::nullopt;
    const std::optional<std::size_t> turn = turns ? TurnNumber(*i) : std::nullopt;
    if (!turn || !KeepRowsInPlace(*loop, *turns, *turn)) return false;
    KRAFLA_TRY(loop->body().SortTopologically());
    return true;
  });
}

}  // namespace krafla
