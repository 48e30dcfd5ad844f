// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. What a graph takes from around it goes in as part of the tuple that it is called with; what is
// known goes in as it is. A loop that cannot be one of HLO, as its state changes its shape, is unrolled where it is
// short.
#include <algorithm>

#include "onnx/count_turns.h"
#include "onnx/importer.h"

namespace krafla::onnx {
namespace {

constexpr int64_t kUnrolled = 256;

// Values as ops of a builder, and the shapes that they have.
Outputs OpsOf(XlaBuilder* b, const std::vector<Value>& values) {
  Outputs out;
  for (const Value& v : values) out.push_back(Importer::Materialize(b, v));
  return out;
}

// What a graph takes from around it, as ops of the builder outside.
struct Captures {
  std::vector<std::string> names;
  Outputs ops;
};
Captures CapturesOf(Call& c, std::initializer_list<const Graph*> graphs) {
  Captures out;
  for (const Graph* graph : graphs)
    for (std::string& name : Importer::Captured(*graph, c.scope))
      if (std::ranges::find(out.names, name) == out.names.end()) {
        const Value& value = *Importer::FindValue(c.scope, name);
        if (value.shape.IsDynamic())
          Refuse("Its graph takes '{}', which is {}, of a size that depends on the data.", name,
                 value.shape.ToString(false));
        out.ops.push_back(Importer::Materialize(c.b, value));
        out.names.push_back(std::move(name));
      }
  return out;
}
void Bind(Scope& scope, const Captures& captures, XlaOp tuple, std::size_t first) {
  for (std::size_t i = 0; i < captures.names.size(); ++i)
    scope.values[captures.names[i]] = OfOp(GetTupleElement(tuple, static_cast<int64_t>(first + i)));
}

// --- loops ---------------------------------------------------------------------------------------------------------

// A loop as HLO's while. Its tuple: the step, whether it goes on, the state, the results of all steps, then what it
// reads: `sliced` and the captured values.
struct LoopForm {
  const Graph* body = nullptr;
  int64_t steps = -1;           // -1: not known
  bool has_step_input = false;  // Loop: the step and the condition come before the state
  bool makes_a_turn = false;    // at least one, whatever the data says
  bool is_counted = false;      // the condition does not end it before `steps`
  std::vector<Value> state;
  Outputs sliced;  // Scan: along these axes
  Ints sliced_axes, result_axes;
  std::vector<bool> sliced_backwards, result_backwards;
};

bool IsSingle(const Shape& shape) { return !shape.IsDynamic() && shape.element_count() == 1; }

// Whether a graph, or one within it, takes a value of this name.
bool Reads(const Graph& graph, std::string_view name) {
  if (std::ranges::any_of(graph.outputs, [&](const ValueInfo& output) { return output.name == name; })) return true;
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return std::ranges::find(node.inputs, name) != node.inputs.end() ||
           std::ranges::any_of(node.attributes,
                               [&](const Attribute& a) { return a.g != nullptr && Reads(*a.g, name); });
  });
}

class WhileLoop {
 public:
  WhileLoop(Call& c, LoopForm form)
      : c_(c),
        form_(std::move(form)),
        captures_(CapturesOf(c, {form_.body})),
        lead_(form_.has_step_input ? 1 : 0),
        states_(form_.state.size()),
        results_(form_.body->outputs.size() - lead_ - states_),
        sliced_at_(kStateAt + states_ + results_),
        captured_at_(sliced_at_ + form_.sliced.size()) {}

  // The state after the last step, then the results. `limit`: of steps, where the form does not know it.
  Outputs Run(XlaOp limit) {
    const Outputs init = Initial(limit);
    const Shape tuple = TupleOf(init);
    auto test = c_.b->CreateSubBuilder("goes_on");
    const XlaOp q = Parameter(test.get(), 0, tuple, "state");
    And(Lt(Leaf(q, 0), Leaf(q, init.size() - 1)), Leaf(q, 1));
    auto body = c_.b->CreateSubBuilder("turn");
    Turn(body.get(), Parameter(body.get(), 0, tuple, "state"), init.size());
    const XlaOp loop = While(Need(test->Build()), Need(body->Build()), Tuple(c_.b, init));
    Outputs done;
    for (std::size_t i = kStateAt; i < sliced_at_; ++i) done.push_back(Leaf(loop, i));
    return done;
  }

 private:
  static constexpr std::size_t kStateAt = 2;  // behind the step and whether it goes on

  static XlaOp Leaf(XlaOp tuple, std::size_t i) { return GetTupleElement(tuple, static_cast<int64_t>(i)); }
  XlaOp Place(XlaOp step, bool backwards) const {
    return backwards ? Sub(Like(step, static_cast<double>(form_.steps - 1)), step) : step;
  }

  // The body's graph on a turn's values.
  std::vector<Value> Emit(XlaBuilder* inner, const Outputs& state, XlaOp step, const Outputs& read, XlaOp tuple,
                          std::size_t captured_at) {
    Scope scope = Inside(c_, inner);
    Bind(scope, captures_, tuple, captured_at);
    const auto& names = form_.body->inputs;
    if (names.size() != 2 * lead_ + states_ + read.size())
      Reject("The body '{}' has {} inputs.", form_.body->name, names.size());
    std::size_t at = 0;
    if (form_.has_step_input) {
      scope.values[names[at++].name] = OfOp(Convert(step, S64));
      scope.values[names[at++].name] = OfFlag(true);
    }
    for (XlaOp op : state) scope.values[names[at++].name] = OfOp(op);
    for (XlaOp op : read) scope.values[names[at++].name] = OfOp(op);
    return c_.importer.EmitGraph(*form_.body, scope);
  }

  // What a turn reads of the sliced arrays, which lie in `tuple` from `first` on.
  Outputs Read(XlaOp tuple, std::size_t first, XlaOp step) const {
    Outputs read;
    for (std::size_t i = 0; i < form_.sliced.size(); ++i) {
      const XlaOp all = Leaf(tuple, first + i);
      Ints dims = DimsOf(all);
      const int64_t axis = form_.sliced_axes[i];
      Outputs starts(dims.size(), Like(step, 0));
      starts[static_cast<std::size_t>(axis)] = Place(step, form_.sliced_backwards[i]);
      dims[static_cast<std::size_t>(axis)] = 1;
      const XlaOp one = DynamicSlice(all, starts, dims);
      dims.erase(dims.begin() + axis);
      read.push_back(Reshape(one, dims));
    }
    return read;
  }

  // The shapes of what a turn makes, by emitting one aside; and whether the loop asks nothing in between. States that
  // are single numbers get the dimensions that the turn gives them, once.
  std::vector<Shape> ShapesOfTurn(bool& goes_on, bool may_widen = true) {
    Outputs given = OpsOf(c_.b, form_.state);
    given.insert(given.end(), form_.sliced.begin(), form_.sliced.end());
    given.insert(given.end(), captures_.ops.begin(), captures_.ops.end());
    given.push_back(Zero(c_.b, S32));
    auto aside = c_.b->CreateSubBuilder("probe");
    const XlaOp p = Parameter(aside.get(), 0, TupleOf(given), "state");
    const XlaOp step = Leaf(p, given.size() - 1);
    Outputs state;
    for (std::size_t i = 0; i < states_; ++i) state.push_back(Leaf(p, i));
    const std::vector<Value> out =
        Emit(aside.get(), state, step, Read(p, states_, step), p, states_ + form_.sliced.size());
    if (form_.has_step_input) goes_on = IsTrue(out[0]);
    std::vector<Shape> made;
    for (std::size_t i = lead_; i < out.size(); ++i) made.push_back(out[i].shape);
    bool widens = false;
    for (std::size_t i = 0; i < states_; ++i) {
      const Shape before = ShapeOf(given[i]);
      if (Shape::Compatible(made[i], before)) continue;
      if (may_widen && made[i].rank() > before.rank() && IsSingle(made[i]) && IsSingle(before) &&
          made[i].element_type() == before.element_type()) {
        form_.state[i] = OfOp(Reshape(given[i], DimsOf(made[i])));
        widens = true;
        continue;
      }
      const std::string& name = form_.body->inputs[2 * lead_ + i].name;
      if (!form_.makes_a_turn || made[i].IsDynamic() || Reads(*form_.body, name))
        Refuse("The state '{}' of the loop changes from {} to {}.", name, before.ToString(false),
               made[i].ToString(false));
      form_.state[i] = OfOp(Filled(c_.b, made[i].element_type(), DimsOf(made[i]), 0));  // nobody sees it
    }
    return widens ? ShapesOfTurn(goes_on, false) : made;
  }

  Outputs Initial(XlaOp limit) {
    bool goes_on = true;
    const std::vector<Shape> made = ShapesOfTurn(goes_on);
    if (results_ > 0 && (form_.steps < 0 || (!goes_on && !form_.is_counted)))
      Refuse("How many steps the loop makes depends on the data, and so does the size of its results.");
    Outputs init = {Zero(c_.b, S32), Reshape(Convert(Importer::Materialize(c_.b, OfFlag(true)), PRED), {})};
    if (c_.Has(1) && form_.has_step_input) init[1] = Reshape(c_.In(1), {});
    for (const Value& value : form_.state) init.push_back(Importer::Materialize(c_.b, value));
    for (std::size_t i = 0; i < results_; ++i) {
      Ints dims = DimsOf(made[states_ + i]);
      const auto rank = static_cast<int64_t>(dims.size()) + 1;
      dims.insert(dims.begin() + Axis(form_.result_axes[i], rank), form_.steps);
      init.push_back(BroadcastTo(Zero(c_.b, made[states_ + i].element_type()), dims));
    }
    init.insert(init.end(), form_.sliced.begin(), form_.sliced.end());
    init.insert(init.end(), captures_.ops.begin(), captures_.ops.end());
    init.push_back(limit.IsUninitialized() ? Number(c_.b, S32, static_cast<double>(form_.steps)) : limit);
    return init;
  }

  void Turn(XlaBuilder* body, XlaOp p, std::size_t leaves) {
    Outputs next;
    for (std::size_t i = 0; i < leaves; ++i) next.push_back(Leaf(p, i));
    const Outputs state(next.begin() + kStateAt, next.begin() + static_cast<std::ptrdiff_t>(kStateAt + states_));
    const XlaOp step = next[0];
    const Outputs ops = OpsOf(body, Emit(body, state, step, Read(p, sliced_at_, step), p, captured_at_));
    next[0] = Add(step, Like(step, 1));
    if (form_.has_step_input) next[1] = Reshape(ops[0], {});
    for (std::size_t i = 0; i < states_; ++i) next[kStateAt + i] = ops[lead_ + i];
    for (std::size_t i = 0; i < results_; ++i) {
      XlaOp& all = next[kStateAt + states_ + i];
      Ints dims = DimsOf(all);
      const int64_t axis = Axis(form_.result_axes[i], static_cast<int64_t>(dims.size()));
      dims[static_cast<std::size_t>(axis)] = 1;
      Outputs starts(dims.size(), Like(step, 0));
      starts[static_cast<std::size_t>(axis)] = Place(step, form_.result_backwards[i]);
      all = DynamicUpdateSlice(all, Reshape(ops[lead_ + states_ + i], dims), starts);
    }
    Tuple(body, next);
  }

  Call& c_;
  LoopForm form_;
  const Captures captures_;
  const std::size_t lead_, states_, results_;  // what stands before the state, the states, the results of all steps
  const std::size_t sliced_at_, captured_at_;  // leaves of the tuple
};

std::vector<Value> ValuesOf(const Outputs& ops) {
  std::vector<Value> out;
  for (const XlaOp& op : ops) out.push_back(OfOp(op));
  return out;
}

// Turn after turn, each with its own shapes; the condition has to be known in each.
std::vector<Value> Unroll(Call& c, const Graph& body, int64_t steps, bool goes_on, std::vector<Value> state) {
  const std::size_t states = state.size(), results = body.outputs.size() - 1 - states;
  std::vector<Outputs> parts(results);
  for (int64_t step = 0; step < steps && goes_on; ++step) {
    Scope scope = Inside(c, c.b);
    scope.values[body.inputs[0].name] = OfLiteral(LiteralUtil::CreateR0<int64_t>(step));
    scope.values[body.inputs[1].name] = OfFlag(true);
    for (std::size_t i = 0; i < states; ++i) scope.values[body.inputs[2 + i].name] = state[i];
    const std::vector<Value> out = c.importer.EmitGraph(body, scope);
    if (out[0].literal == nullptr && results > 0)
      Refuse("Whether the loop goes on depends on the data, and so does the length of what it collects.");
    if (out[0].literal == nullptr)
      Refuse("Whether the loop goes on depends on the data, and its state changes its shape.");
    goes_on = IsTrue(out[0]);
    for (std::size_t i = 0; i < states; ++i) state[i] = out[1 + i];
    for (std::size_t i = 0; i < results; ++i) {
      Ints dims = DimsOf(out[1 + states + i].shape);
      dims.insert(dims.begin(), 1);
      parts[i].push_back(Reshape(Importer::Materialize(c.b, out[1 + states + i]), dims));
    }
  }
  for (const Outputs& part : parts) {
    if (part.empty()) Refuse("The loop makes no step, and its results have no shape.");
    state.push_back(OfOp(ConcatInDim(c.b, part, 0)));
  }
  return state;
}

// Single numbers that branches give in arrays of more and of fewer dimensions have the more: PaddlePaddle's exporter
// writes such graphs, and does not mean a rank that depends on the data.
void MeetInRank(XlaOp& yes, XlaOp& no) {
  const Shape a = ShapeOf(yes), b = ShapeOf(no);
  if (!IsSingle(a) || !IsSingle(b) || a.rank() == b.rank()) return;
  XlaOp& smaller = a.rank() < b.rank() ? yes : no;
  smaller = Reshape(smaller, Ints(static_cast<std::size_t>(std::max(a.rank(), b.rank())), 1));
}

// Of run-time size where the two differ in size.
XlaOp ChosenOf(XlaOp condition, XlaOp yes, XlaOp no) {
  MeetInRank(yes, no);
  const Shape a = ShapeOf(yes), b = ShapeOf(no);
  if (a.element_type() != b.element_type() || a.rank() != b.rank())
    Refuse("Its branches give {} and {}, and which of them depends on the data.", a.ToString(false), b.ToString(false));
  Ints most;
  Outputs sizes;
  std::vector<std::pair<int64_t, int64_t>> pad_yes, pad_no;
  for (int64_t d = 0; d < a.rank(); ++d) {
    const bool is_fixed = a.dim(d) == b.dim(d) && !a.IsDynamicDim(d) && !b.IsDynamicDim(d);
    sizes.push_back(is_fixed ? XlaOp() : Select(condition, GetDimensionSize(yes, d), GetDimensionSize(no, d)));
    most.push_back(std::max(a.dim(d), b.dim(d)));
    pad_yes.emplace_back(0, most.back() - a.dim(d));
    pad_no.emplace_back(0, most.back() - b.dim(d));
  }
  const XlaOp zero = Zero(yes.builder(), a.element_type());
  return WithSizes(
      Select(BroadcastTo(condition, most), PadWith(WholeOf(yes), zero, pad_yes), PadWith(WholeOf(no), zero, pad_no)),
      sizes);
}

}  // namespace

const Graph& GraphOf(const Call& c, std::string_view name) {
  const Attribute* found = c.Find(name);
  if (found == nullptr || found->g == nullptr) Reject("The graph '{}' is missing.", name);
  return *found->g;
}
bool IsTrue(const Value& value) {
  if (value.literal == nullptr) return false;
  const auto data = value.literal->data<uint8_t>();
  return !data.empty() && data[0] != 0;
}
Scope Inside(Call& c, XlaBuilder* builder) {
  return Scope{
      .builder = builder, .parent = &c.scope, .values = {}, .opsets = c.scope.opsets, .depth = c.scope.depth + 1};
}

std::vector<Value> OnIf(Call& c) {
  const Graph &yes = GraphOf(c, "then_branch"), &no = GraphOf(c, "else_branch");
  auto here = [&](const Graph& graph) {
    Scope scope = Inside(c, c.b);
    return c.importer.EmitGraph(graph, scope);
  };
  if (c.IsKnown(0)) return here(IsTrue(c.ValueOf(0)) ? yes : no);
  // Of arrays whose size depends on the data both branches are made, and one of their results is taken.
  for (const Graph* graph : {&yes, &no})
    for (const std::string& name : Importer::Captured(*graph, c.scope)) {
      if (!Importer::FindValue(c.scope, name)->shape.IsDynamic()) continue;
      const XlaOp condition = Reshape(c.In(0), {});
      const Outputs first = OpsOf(c.b, here(yes)), second = OpsOf(c.b, here(no));
      std::vector<Value> out;
      for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i)
        out.push_back(OfOp(ChosenOf(condition, first[i], second[i])));
      return out;
    }
  const Captures captures = CapturesOf(c, {&yes, &no});
  Outputs given = captures.ops;
  if (given.empty()) given.push_back(Zero(c.b, S32));  // a branch takes something
  const XlaOp operand = Tuple(c.b, given);
  const Shape tuple = TupleOf(given);
  std::vector<std::unique_ptr<XlaBuilder>> builders;
  auto branch = [&](const Graph& graph, const char* name) {
    auto inner = c.b->CreateSubBuilder(name);
    const XlaOp p = Parameter(inner.get(), 0, tuple, "values");
    Scope scope = Inside(c, inner.get());
    Bind(scope, captures, p, 0);
    Outputs out;
    try {
      out = OpsOf(inner.get(), c.importer.EmitGraph(graph, scope));
    } catch (const Refusal& refusal) {
      Refuse(
          "{} Which branch is taken depends on the inputs: if on a number such as a sampling rate, `krafla import "
          "--value NAME=NUMBER` makes it a constant, and the other branch is not read.",
          refusal.status.message());
    }
    builders.push_back(std::move(inner));
    return out;
  };
  Outputs then = branch(yes, "then"), otherwise = branch(no, "else");
  for (std::size_t i = 0; i < std::min(then.size(), otherwise.size()); ++i) MeetInRank(then[i], otherwise[i]);
  if (const Shape a = TupleOf(then), b = TupleOf(otherwise); !Shape::Compatible(a, b))
    Refuse("Its branches give {} and {}, and which of them depends on the data.", a.ToString(false), b.ToString(false));
  const XlaComputation first = Need(builders[0]->Build(Tuple(builders[0].get(), then))),
                       second = Need(builders[1]->Build(Tuple(builders[1].get(), otherwise)));
  const XlaOp both = Conditional(Reshape(c.In(0), {}), operand, first, operand, second);
  std::vector<Value> out;
  for (std::size_t i = 0; i < yes.outputs.size(); ++i)
    out.push_back(OfOp(GetTupleElement(both, static_cast<int64_t>(i))));
  return out;
}

std::vector<Value> OnLoop(Call& c) {
  LoopForm form;
  form.body = &GraphOf(c, "body");
  form.has_step_input = true;
  for (std::size_t i = 2; i < c.count(); ++i) form.state.push_back(c.ValueOf(i));
  if (form.body->outputs.size() < 1 + form.state.size() || form.body->inputs.size() != 2 + form.state.size())
    Reject("The body '{}' has {} inputs and {} results for {} states.", form.body->name, form.body->inputs.size(),
           form.body->outputs.size(), form.state.size());
  const bool known_start = !c.Has(1) || c.IsKnown(1), starts = !c.Has(1) || IsTrue(c.ValueOf(1));
  int64_t limit = -1;
  if (c.IsKnown(0)) {
    const Ints one = c.KnownInts(0, "the number of steps");
    if (one.size() != 1) Reject("The number of steps must be one number.");
    limit = std::max<int64_t>(one[0], 0);
  }
  if (known_start && starts && (limit > kUnrolled || !c.Has(0)))
    if (const auto turns = CountTurns(c, *form.body, form.state)) {
      form.is_counted = true;
      limit = limit < 0 ? *turns : std::min(limit, *turns);
    }
  const std::size_t results = form.body->outputs.size() - 1 - form.state.size();
  form.result_axes.assign(results, 0);
  form.result_backwards.assign(results, false);
  const bool all_known = std::ranges::all_of(form.state, [](const Value& v) { return v.literal != nullptr; });
  if (results > 0 && c.Has(0)) c.Known(0, "the number of steps, which is a size of its results");
  if (results > 0 && c.Has(1)) c.Known(1, "the condition");
  const bool short_enough = limit >= 0 && limit <= kUnrolled && known_start;
  const auto unroll = [&] { return Unroll(c, *form.body, limit, starts, form.state); };
  if (short_enough && (limit <= 1 || !starts)) return unroll();
  form.steps = limit >= 0 && limit <= INT32_MAX && known_start && starts ? limit : -1;
  form.makes_a_turn = known_start && starts && (!c.Has(0) || limit > 0);
  XlaOp steps;
  if (form.steps < 0)
    steps = c.Has(0) ? Reshape(Convert(ClampTo(c.In(0), 0, INT32_MAX), S32), {}) : Number(c.b, S32, INT32_MAX);
  const auto loop = [&] { return ValuesOf(WhileLoop(c, form).Run(steps)); };
  if (!short_enough) return loop();
  // Steps of known numbers are computed now, but where the data decides after which of them it ends.
  const std::size_t before = c.importer.unsupported().size();
  try {
    return all_known ? unroll() : loop();
  } catch (const Refusal&) {
    c.importer.ForgetSince(before);
    return all_known ? loop() : unroll();
  }
}

Outputs OnScan(Call& c) {
  if (c.opset < 9) Refuse("Scan of opset 8 is not supported.");
  LoopForm form;
  form.body = &GraphOf(c, "body");
  const int64_t count = c.Int("num_scan_inputs");
  if (count <= 0 || count > static_cast<int64_t>(c.count())) Reject("It has {} scan inputs.", count);
  const auto sliced = static_cast<std::size_t>(count), states = c.count() - sliced;
  if (form.body->outputs.size() < states)
    Reject("The body '{}' has {} results.", form.body->name, form.body->outputs.size());
  const std::size_t results = form.body->outputs.size() - states;
  for (std::size_t i = 0; i < states; ++i) form.state.push_back(c.ValueOf(i));
  const Ints axes = c.List("scan_input_axes").value_or(Ints(sliced, 0)),
             back = c.List("scan_input_directions").value_or(Ints(sliced, 0));
  form.result_axes = c.List("scan_output_axes").value_or(Ints(results, 0));
  const Ints out_back = c.List("scan_output_directions").value_or(Ints(results, 0));
  if (axes.size() != sliced || back.size() != sliced || form.result_axes.size() != results ||
      out_back.size() != results)
    Reject("Its axes or directions are of a wrong number.");
  for (std::size_t i = 0; i < sliced; ++i) {
    form.sliced.push_back(c.In(states + i));
    form.sliced_axes.push_back(Axis(axes[i], RankOf(form.sliced[i])));
    form.sliced_backwards.push_back(back[i] != 0);
    const int64_t steps = ShapeOf(form.sliced[i]).dim(form.sliced_axes[i]);
    if (form.steps >= 0 && form.steps != steps) Reject("Its scan inputs have {} and {} steps.", form.steps, steps);
    form.steps = steps;
  }
  for (int64_t one : out_back) form.result_backwards.push_back(one != 0);
  return WhileLoop(c, form).Run(XlaOp());
}

}  // namespace krafla::onnx
