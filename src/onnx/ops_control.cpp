// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. What a graph takes from around it goes in as part of the tuple that it is called with; what is
// known goes in as it is. A loop that cannot be one of HLO, as its state changes its shape, is unrolled where it is
// short.
#include <algorithm>

#include "onnx/importer.h"

namespace krafla::onnx {
namespace {

constexpr int64_t kUnrolled = 256;

const Graph& GraphOf(const Call& c, std::string_view name) {
  const Attribute* found = c.Find(name);
  if (found == nullptr || found->g == nullptr) Reject("The graph '{}' is missing.", name);
  return *found->g;
}
Scope Inside(Call& c, XlaBuilder* builder) {
  return Scope{
      .builder = builder, .parent = &c.scope, .values = {}, .opsets = c.scope.opsets, .depth = c.scope.depth + 1};
}
Value OfOp(XlaOp op) {
  Value out;
  out.shape = ShapeOf(op);
  out.op = op;
  return out;
}
Value OfLiteral(Result<Literal> literal) {
  Value out;
  out.literal = std::make_shared<Literal>(Need(std::move(literal)));
  out.shape = out.literal->shape();
  return out;
}
Value TrueValue() {
  constexpr std::byte kTrue{1};
  return OfLiteral(Literal::FromBytes(Shape::MakeScalar(PRED), {&kTrue, 1}));
}
bool IsTrue(const Value& value) {
  if (value.literal == nullptr) return false;
  const auto data = value.literal->data<uint8_t>();
  return !data.empty() && data[0] != 0;
}
// Values as ops of a builder, and the shapes that they have.
Outputs OpsOf(XlaBuilder* b, const std::vector<Value>& values) {
  Outputs out;
  for (const Value& v : values) out.push_back(Importer::Materialize(b, v));
  return out;
}
Shape TupleOf(const Outputs& ops) {
  std::vector<Shape> shapes;
  for (XlaOp op : ops) shapes.push_back(ShapeOf(op));
  return Need(Shape::MakeTuple(shapes));
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
        out.ops.push_back(Importer::Materialize(c.b, *Importer::FindValue(c.scope, name)));
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
  bool asks_condition = false;  // the condition may end it
  std::vector<Value> state;
  Outputs sliced;  // Scan: along these axes
  Ints sliced_axes, result_axes;
  std::vector<bool> sliced_backwards, result_backwards;
};

Outputs RunWhile(Call& c, const LoopForm& form, XlaOp limit) {
  XlaBuilder* b = c.b;
  const Captures captures = CapturesOf(c, {form.body});
  const std::size_t states = form.state.size(), lead = form.has_step_input ? 1 : 0;
  const std::size_t results = form.body->outputs.size() - lead - states;
  Outputs state = OpsOf(b, form.state);
  // The shapes of the results come from the body itself, emitted once aside to see them.
  auto emit = [&](XlaBuilder* inner, const Outputs& in, XlaOp step, const Outputs& read, const Captures& bound,
                  XlaOp tuple, std::size_t first) {
    Scope scope = Inside(c, inner);
    Bind(scope, bound, tuple, first);
    std::size_t at = 0;
    const auto& names = form.body->inputs;
    if (names.size() != 2 * lead + states + read.size())
      Reject("The body '{}' has {} inputs.", form.body->name, names.size());
    if (form.has_step_input) {
      scope.values[names[at++].name] = OfOp(Convert(step, S64));
      scope.values[names[at++].name] = TrueValue();
    }
    for (XlaOp op : in) scope.values[names[at++].name] = OfOp(op);
    for (XlaOp op : read) scope.values[names[at++].name] = OfOp(op);
    return c.importer.EmitGraph(*form.body, scope);
  };
  auto read_of = [&](XlaOp step, auto&& element) {
    Outputs read;
    for (std::size_t i = 0; i < form.sliced.size(); ++i) {
      const XlaOp all = element(i);
      Ints dims = DimsOf(all);
      const int64_t axis = form.sliced_axes[i];
      const XlaOp at = form.sliced_backwards[i] ? Sub(Like(step, static_cast<double>(form.steps - 1)), step) : step;
      Outputs starts(dims.size(), Like(step, 0));
      starts[static_cast<std::size_t>(axis)] = at;
      dims[static_cast<std::size_t>(axis)] = 1;
      const XlaOp one = DynamicSlice(all, starts, dims);
      dims.erase(dims.begin() + axis);
      read.push_back(Reshape(one, dims));
    }
    return read;
  };
  // First aside, for the shapes.
  Outputs probe = state;
  probe.insert(probe.end(), form.sliced.begin(), form.sliced.end());
  probe.insert(probe.end(), captures.ops.begin(), captures.ops.end());
  probe.push_back(Zero(b, S32));
  std::vector<Shape> made;
  bool goes_on = true;
  {
    auto aside = b->CreateSubBuilder("probe");
    const XlaOp p = Parameter(aside.get(), 0, TupleOf(probe), "state");
    Outputs in;
    for (std::size_t i = 0; i < states; ++i) in.push_back(GetTupleElement(p, static_cast<int64_t>(i)));
    const XlaOp step = GetTupleElement(p, static_cast<int64_t>(probe.size() - 1));
    const Outputs read =
        read_of(step, [&](std::size_t i) { return GetTupleElement(p, static_cast<int64_t>(states + i)); });
    const std::vector<Value> out = emit(aside.get(), in, step, read, captures, p, states + form.sliced.size());
    if (form.has_step_input) goes_on = IsTrue(out[0]);
    for (std::size_t i = lead; i < out.size(); ++i) made.push_back(out[i].shape);
    for (std::size_t i = 0; i < states; ++i)
      if (!Shape::Compatible(made[i], ShapeOf(state[i])))
        Refuse("The state '{}' of the loop changes from {} to {}.", form.body->inputs[2 * lead + i].name,
               ShapeOf(state[i]).ToString(false), made[i].ToString(false));
  }
  if (results > 0 && (form.steps < 0 || !goes_on))
    Refuse("How many steps the loop makes depends on the data, and so does the size of its results.");
  Outputs init = {Zero(b, S32), Reshape(Convert(Importer::Materialize(b, TrueValue()), PRED), {})};
  if (c.Has(1) && form.has_step_input) init[1] = Reshape(c.In(1), {});
  init.insert(init.end(), state.begin(), state.end());
  for (std::size_t i = 0; i < results; ++i) {
    Ints dims = DimsOf(made[states + i]);
    const auto rank = static_cast<int64_t>(dims.size()) + 1;
    dims.insert(dims.begin() + Axis(form.result_axes[i], rank), form.steps);
    init.push_back(BroadcastTo(Zero(b, made[states + i].element_type()), dims));
  }
  const std::size_t sliced_at = init.size();
  init.insert(init.end(), form.sliced.begin(), form.sliced.end());
  const std::size_t captured_at = init.size();
  init.insert(init.end(), captures.ops.begin(), captures.ops.end());
  init.push_back(limit.IsUninitialized() ? Number(b, S32, static_cast<double>(form.steps)) : limit);
  const Shape tuple = TupleOf(init);
  auto test = b->CreateSubBuilder("goes_on");
  const XlaOp q = Parameter(test.get(), 0, tuple, "state");
  And(Lt(GetTupleElement(q, 0), GetTupleElement(q, static_cast<int64_t>(init.size() - 1))), GetTupleElement(q, 1));
  auto body = b->CreateSubBuilder("turn");
  const XlaOp p = Parameter(body.get(), 0, tuple, "state");
  Outputs in, next;
  for (std::size_t i = 0; i < init.size(); ++i) next.push_back(GetTupleElement(p, static_cast<int64_t>(i)));
  for (std::size_t i = 0; i < states; ++i) in.push_back(next[2 + i]);
  const XlaOp step = next[0];
  const Outputs read = read_of(step, [&](std::size_t i) { return next[sliced_at + i]; });
  const std::vector<Value> out = emit(body.get(), in, step, read, captures, p, captured_at);
  const Outputs ops = OpsOf(body.get(), out);
  next[0] = Add(step, Like(step, 1));
  if (form.has_step_input) next[1] = Reshape(ops[0], {});
  for (std::size_t i = 0; i < states; ++i) next[2 + i] = ops[lead + i];
  for (std::size_t i = 0; i < results; ++i) {
    const XlaOp all = next[2 + states + i];
    Ints dims = DimsOf(all);
    const int64_t axis = Axis(form.result_axes[i], static_cast<int64_t>(dims.size()));
    dims[static_cast<std::size_t>(axis)] = 1;
    Outputs starts(dims.size(), Like(step, 0));
    starts[static_cast<std::size_t>(axis)] =
        form.result_backwards[i] ? Sub(Like(step, static_cast<double>(form.steps - 1)), step) : step;
    next[2 + states + i] = DynamicUpdateSlice(all, Reshape(ops[lead + states + i], dims), starts);
  }
  Tuple(body.get(), next);
  const XlaOp loop = While(Need(test->Build()), Need(body->Build()), Tuple(b, init));
  Outputs done;
  for (std::size_t i = 0; i < states + results; ++i) done.push_back(GetTupleElement(loop, static_cast<int64_t>(2 + i)));
  return done;
}

// Turn after turn, each with its own shapes; the condition has to be known in each.
Outputs Unroll(Call& c, const Graph& body, int64_t steps, bool goes_on, std::vector<Value> state) {
  const std::size_t states = state.size(), results = body.outputs.size() - 1 - states;
  std::vector<Outputs> parts(results);
  for (int64_t step = 0; step < steps && goes_on; ++step) {
    Scope scope = Inside(c, c.b);
    scope.values[body.inputs[0].name] = OfLiteral(LiteralUtil::CreateR0<int64_t>(step));
    scope.values[body.inputs[1].name] = TrueValue();
    for (std::size_t i = 0; i < states; ++i) scope.values[body.inputs[2 + i].name] = state[i];
    const std::vector<Value> out = c.importer.EmitGraph(body, scope);
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
  Outputs out = OpsOf(c.b, state);
  for (const Outputs& part : parts) {
    if (part.empty()) Refuse("The loop makes no step, and its results have no shape.");
    out.push_back(ConcatInDim(c.b, part, 0));
  }
  return out;
}

}  // namespace

Outputs OnIf(Call& c) {
  const Graph &yes = GraphOf(c, "then_branch"), &no = GraphOf(c, "else_branch");
  if (c.IsKnown(0)) {
    Scope scope = Inside(c, c.b);
    return OpsOf(c.b, c.importer.EmitGraph(IsTrue(c.ValueOf(0)) ? yes : no, scope));
  }
  const Captures captures = CapturesOf(c, {&yes, &no});
  Outputs given = captures.ops;
  if (given.empty()) given.push_back(Zero(c.b, S32));  // a branch takes something
  const XlaOp operand = Tuple(c.b, given);
  const Shape tuple = TupleOf(given);
  std::vector<Shape> shapes;
  auto branch = [&](const Graph& graph, const char* name) {
    auto inner = c.b->CreateSubBuilder(name);
    const XlaOp p = Parameter(inner.get(), 0, tuple, "values");
    Scope scope = Inside(c, inner.get());
    Bind(scope, captures, p, 0);
    const Outputs out = OpsOf(inner.get(), c.importer.EmitGraph(graph, scope));
    shapes.push_back(TupleOf(out));
    return Need(inner->Build(Tuple(inner.get(), out)));
  };
  const XlaComputation first = branch(yes, "then"), second = branch(no, "else");
  if (!Shape::Compatible(shapes[0], shapes[1]))
    Refuse("Its branches give {} and {}, and which of them depends on the data.", shapes[0].ToString(false),
           shapes[1].ToString(false));
  const XlaOp both = Conditional(Reshape(c.In(0), {}), operand, first, operand, second);
  Outputs out;
  for (std::size_t i = 0; i < yes.outputs.size(); ++i) out.push_back(GetTupleElement(both, static_cast<int64_t>(i)));
  return out;
}

Outputs OnLoop(Call& c) {
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
  const std::size_t results = form.body->outputs.size() - 1 - form.state.size();
  form.result_axes.assign(results, 0);
  form.result_backwards.assign(results, false);
  const bool all_known = std::ranges::all_of(form.state, [](const Value& v) { return v.literal != nullptr; });
  if (results > 0 && c.Has(0)) c.Known(0, "the number of steps, which is a size of its results");
  if (results > 0 && c.Has(1)) c.Known(1, "the condition");
  const bool short_enough = limit >= 0 && limit <= kUnrolled && known_start;
  if (short_enough && (all_known || limit <= 1 || !starts)) return Unroll(c, *form.body, limit, starts, form.state);
  form.steps = limit >= 0 && limit <= INT32_MAX && known_start && starts ? limit : -1;
  XlaOp steps;
  if (!c.Has(0)) steps = Number(c.b, S32, INT32_MAX);
  else if (form.steps < 0) steps = Reshape(Convert(ClampTo(c.In(0), 0, INT32_MAX), S32), {});
  if (!short_enough) return RunWhile(c, form, steps);
  const std::size_t before = c.importer.unsupported().size();
  try {
    return RunWhile(c, form, steps);
  } catch (const Refusal&) {
    c.importer.ForgetSince(before);
    return Unroll(c, *form.body, limit, starts, form.state);
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
  return RunWhile(c, form, XlaOp());
}

}  // namespace krafla::onnx
