// SPDX-License-Identifier: Apache-2.0
// select-and-scatter as a reduce-window that finds the linear index of the element each window selects, and a scatter
// of the source to these indices (XLA: select_and_scatter_expander.cc). Both visit what they combine in the order of
// select-and-scatter, so that equals, selections that are no order (a comparison that meets a NaN) and sums of floats
// where windows overlap come out to the bit: row-major, but for the last taps of one dimension (ir/window_order.h),
// which are looked at one after the other when the reduce-window is done with the rest.
#include <array>
#include <memory>
#include <utility>

#include "ir/window_order.h"
#include "passes/expand/expansions.h"
#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

// Takes two pairs (value, index) and gives the selected one. An index below 0 says that there is nothing: the reduction
// starts with it, and padding may be combined as it.
Result<Computation*> AddSelection(Module& module, Computation& select, ElementType type) {
  KRAFLA_TRY(select.SortTopologically());
  Computation* c = module.AddComputation("window_selection");
  const Shape value = Shape::MakeScalar(type), index = Shape::MakeScalar(ElementType::kS32);
  const Shape pred = Shape::MakeScalar(ElementType::kPred);
  Instruction* a = c->Add(Opcode::kParameter, value, {}, ParameterAttributes{0, {}}, {}, "a");
  Instruction* a_at = c->Add(Opcode::kParameter, index, {}, ParameterAttributes{1, {}}, {}, "a_at");
  Instruction* b = c->Add(Opcode::kParameter, value, {}, ParameterAttributes{2, {}}, {}, "b");
  Instruction* b_at = c->Add(Opcode::kParameter, index, {}, ParameterAttributes{3, {}}, {}, "b_at");
  Instruction* zero = c->Add(Opcode::kConstant, index, {},
                             ConstantAttributes{std::make_shared<const Literal>(ScalarZero(ElementType::kS32))});
  auto compare = [&](ComparisonDirection direction, Instruction* x, Instruction* y) {
    CompareAttributes attributes;
    attributes.direction = direction;
    return c->Add(Opcode::kCompare, pred, {x, y}, attributes);
  };
  auto choose = [&](Instruction* which, Instruction* x, Instruction* y) {
    return c->Add(Opcode::kSelect, x->shape(), {which, x, y});
  };
  // Of equals the order decides: by the index and not by who came first, as a kernel may fold a long window in parts.
  Instruction* in_order = compare(ComparisonDirection::kLe, a_at, b_at);
  Instruction *first = choose(in_order, a, b), *first_at = choose(in_order, a_at, b_at);
  Instruction *second = choose(in_order, b, a), *second_at = choose(in_order, b_at, a_at);
  Instruction* stays = InlineInto(*c, select, std::array{first, second});
  stays = c->Add(Opcode::kAnd, pred, {compare(ComparisonDirection::kGe, first_at, zero), stays});
  KRAFLA_ASSIGN(Shape pair, Shape::MakeTuple({value, index}));
  Instruction* selected = choose(stays, first, second);
  Instruction* selected_at = choose(stays, first_at, second_at);
  c->set_root(c->Add(Opcode::kTuple, pair, {selected, selected_at}));
  return c;
}

// No element lies in two windows.
bool Disjoint(const Window& window) {
  for (const WindowDim& w : window)
    if ((w.size - 1) > (w.stride - 1) / w.window_dilation) return false;
  return true;
}

struct Selected {
  Instruction *value, *at;
};

// The index that is selected of what is selected so far and then, one after the other, the last taps along `dim`. Each
// of them is a strided slice for all windows. Null: the selection is more than arithmetic on scalars.
Result<Instruction*> SelectAmongLast(Rewriter& rewrite, const Instruction& i, int64_t dim, Selected so_far,
                                     Selected all) {
  const Window& window = i.attr<WindowAttributes>().window;
  const Shape& windows = i.operand(1)->shape();
  const PadAttributes pad = PaddingOf(window);
  Dims taps, tap(window.size(), 0);
  for (const WindowDim& w : window) taps.push_back(w.size);
  const int64_t last = std::exchange(taps[static_cast<std::size_t>(dim)], 1) - 1;
  const ElementType type = i.operand(0)->shape().element_type();
  KRAFLA_ASSIGN(Instruction * values,
                rewrite.Infer(Opcode::kPad, {all.value, rewrite.Constant(ScalarZero(type))}, pad));
  KRAFLA_ASSIGN(Instruction * places,
                rewrite.Infer(Opcode::kPad, {all.at, rewrite.Constant(ScalarOfInt(ElementType::kS32, -1))}, pad));
  Instruction* zero = rewrite.Splat(ScalarZero(ElementType::kS32), windows.dims());
  do {
    Dims at = tap;
    at[static_cast<std::size_t>(dim)] = last;
    const SliceAttributes cut = TapSlice(window, at, windows.dims());
    const Selected next = {rewrite.Slice(values, cut), rewrite.Slice(places, cut)};
    Instruction* stays = LiftInto(rewrite, *i.called(0), std::array{so_far.value, next.value}, windows.dims());
    if (stays == nullptr) return nullptr;
    stays = rewrite.Binary(Opcode::kAnd, stays, rewrite.Compare(ComparisonDirection::kGe, so_far.at, zero));
    stays = rewrite.Binary(Opcode::kOr, stays, rewrite.Compare(ComparisonDirection::kLt, next.at, zero));
    so_far = {rewrite.Select(stays, so_far.value, next.value), rewrite.Select(stays, so_far.at, next.at)};
  } while (NextIndex(tap, taps));
  return so_far.at;
}

constexpr int64_t kMostLastTaps = 1024;  // that are written out

}  // namespace

Result<Instruction*> ExpandSelectAndScatter(Instruction* i, Instruction* counts, Instruction* window_counts) {
  Instruction *x = i->operand(0), *source = i->operand(1), *init = i->operand(2);
  const Shape& shape = x->shape();
  if (!IsStatic(*i) || shape.rank() == 0 || shape.element_count() >= (int64_t{1} << 31)) return nullptr;
  const auto& a = i->attr<WindowAttributes>();
  const int64_t count = shape.element_count(), windows = source->shape().element_count();
  Rewriter rewrite(*i);
  if (count == 0 || windows == 0) return rewrite.Broadcast(init, shape.dims(), {});
  Module& module = *i->parent()->parent();
  Instruction* linear = rewrite.Add(Opcode::kIota, ArrayShape(ElementType::kS32, Dims{count}), {}, IotaAttributes{0});
  Instruction* places = rewrite.Reshape(linear, shape.dims());
  if (counts != nullptr)
    places = rewrite.Select(counts, places, rewrite.Splat(ScalarOfInt(ElementType::kS32, -1), shape.dims()));
  KRAFLA_ASSIGN(Computation * selection, AddSelection(module, *i->called(0), shape.element_type()));
  const std::optional<int64_t> last = DimensionVisitedLast(a.window, shape.dims(), source->shape().dims());
  WindowAttributes first = a;
  if (last) {
    int64_t taps = 1;
    for (std::size_t d = 0; d < a.window.size(); ++d)
      if (static_cast<int64_t>(d) != *last) taps = taps > kMostLastTaps ? taps : taps * a.window[d].size;
    if (taps > kMostLastTaps) return nullptr;
    WindowDim& w = first.window[static_cast<std::size_t>(*last)];
    --w.size;
    w.padding_high -= w.window_dilation;
  }
  KRAFLA_ASSIGN(Instruction * selected, rewrite.Infer(Opcode::kReduceWindow,
                                                      {x, places, rewrite.Constant(ScalarZero(shape.element_type())),
                                                       rewrite.Constant(ScalarOfInt(ElementType::kS32, -1))},
                                                      first, {selection}));
  Instruction* chosen = rewrite.Element(selected, 1);
  if (last) {
    KRAFLA_ASSIGN(chosen, SelectAmongLast(rewrite, *i, *last, {rewrite.Element(selected, 0), chosen}, {x, places}));
    if (chosen == nullptr) return nullptr;
  }
  // Windows that lie in padding have the index -1: out of range, so their updates are skipped.
  if (window_counts != nullptr)
    chosen = rewrite.Select(window_counts, chosen,
                            rewrite.Splat(ScalarOfInt(ElementType::kS32, -1), chosen->shape().dims()));
  ScatterAttributes scatter;
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  scatter.unique_indices = Disjoint(a.window);
  const Dims flat{count};
  Instruction* indices = rewrite.Reshape(chosen, {windows, 1});
  KRAFLA_ASSIGN(
      Instruction * out,
      rewrite.Infer(Opcode::kScatter, {rewrite.Broadcast(init, flat, {}), indices, rewrite.Reshape(source, {windows})},
                    scatter, {i->called(1)}));
  return rewrite.Reshape(out, shape.dims());
}

Result<bool> SelectAndScatterExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kSelectAndScatter,
                    [](Instruction* i) { return ExpandSelectAndScatter(i, nullptr, nullptr); });
}

}  // namespace krafla
